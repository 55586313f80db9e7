// The replay of a run with the fixes and edits of the reader. A moment is the start or the end of a call
// or of an operation; an edge states that a moment follows another one after a delay. All text enters the
// page as text, never as markup, because names come from traces.

const byId = id => document.getElementById(id);
const source = JSON.parse(byId('data').textContent);
byId('unpacking').hidden = false;
const run = unpacked(await inflated(byId('columns').textContent.trim(), byId('unpacking')), source.columns);
byId('unpacking').hidden = true;
byId('run').hidden = false;

// The kinds of edges, as `model/coded.rs` numbers them.
const PROGRAM = 1, SYNC = 2, COPY_CALL = 3, STAGED_CALL = 4, ALLOCATION = 5, ENQUEUE = 6, LAUNCH = 8;
const STREAM = 9, STREAM_END = 12, LEGACY = 14, RUN = 15, STAGED = 16;
const WAIT_SYNC = 17, WAIT_COPY = 18, WAIT_UPLOAD = 19, WAIT_ALLOCATION = 21, STAGED_WAITED_FOR = 22;
// The kinds of items.
const OF_SYNC = 0, OF_COPY = 1, OF_ALLOCATION = 3, KERNEL = 5, DOWNLOAD = 8, STAGED_UPLOAD = 9, STAGED_DOWNLOAD = 10;
// Nanoseconds of a call that does nothing, and of code between calls that is no delay of its own.
const CALL_NS = source.callNs, PROGRAM_MAX_NS = source.programNs;

const moments = run.edges.length, edges = run.back.length, items = run.itemStart.length;
const first = new Uint32Array(moments + 1), from = new Uint32Array(edges);
const cut = new Float64Array(edges).fill(-1);
for (let m = 0; m < moments; m++) {
  first[m + 1] = first[m] + run.edges[m];
  for (let e = first[m]; e < first[m + 1]; e++) from[e] = m - run.back[e];
}
run.cutEdge.forEach((edge, n) => { cut[edge] = run.cut[n]; });
const isCall = item => run.itemKind[item] < KERNEL;

// The items of each row in the order of their measured starts, and the place of each item in its row.
const rows = source.rows.map(name => ({ name, items: [] }));
const order = Uint32Array.from({ length: items }, (_, n) => n).sort((a, b) => run.itemBegin[a] - run.itemBegin[b] || a - b);
const place = new Uint32Array(items);
for (const item of order) place[item] = rows[run.itemRow[item]].items.push(item) - 1;
for (const row of rows) row.items = Uint32Array.from(row.items);

// What the reader has chosen.
const fixes = new Set(), noWait = new Set(), pinned = new Set(), moved = new Map();

// The edges of each kind that a fix changes.
const ofKind = Array.from({ length: 32 }, () => 0);
for (let e = 0; e < edges; e++) ofKind[run.kind[e]]++;
for (let kind = 0; kind < ofKind.length; kind++) ofKind[kind] = new Uint32Array(ofKind[kind]);
const filled = new Uint32Array(ofKind.length);
for (let e = 0; e < edges; e++) ofKind[run.kind[e]][filled[run.kind[e]]++] = e;

// The delay of an edge with the chosen fixes; -1 for an edge that does not exist then.
const delays = new Float64Array(edges), times = new Float64Array(moments), before = new Float64Array(moments);
const drop = kind => { for (const e of ofKind[kind]) delays[e] = -1; };
const shorten = (kind, most) => { for (const e of ofKind[kind]) if (delays[e] > most) delays[e] = most; };
const cutAll = kind => { for (const e of ofKind[kind]) if (cut[e] >= 0 && delays[e] > cut[e]) delays[e] = cut[e]; };
const FIXES = {
  PageLock() { shorten(STAGED_CALL, CALL_NS); cutAll(STAGED); drop(WAIT_UPLOAD); },
  NoWaits() { shorten(SYNC, CALL_NS); drop(WAIT_SYNC); },
  NoCopyWaits() { shorten(COPY_CALL, CALL_NS); cutAll(STAGED_WAITED_FOR); drop(WAIT_COPY); },
  NoAllocations() { shorten(ALLOCATION, CALL_NS); drop(WAIT_ALLOCATION); },
  Loaded() { for (let kind = SYNC; kind <= LAUNCH; kind++) cutAll(kind); },
  EarlyHost() { shorten(PROGRAM, PROGRAM_MAX_NS); },
  Graph() {
    for (const e of ofKind[PROGRAM]) if (run.delay[e] <= PROGRAM_MAX_NS) delays[e] = 0;
    shorten(ENQUEUE, 0);
  },
  // From a kernel to a copy.
  CopyStream() { drop(STREAM + 2); },
  NoLegacy() { drop(LEGACY); },
  NoLateRank() { cutAll(RUN); },
};
function applyFixes() {
  delays.set(run.delay);
  for (const name of fixes) FIXES[name]();
}

// Without its wait, a call takes no longer than one that has nothing to wait for.
function dropWait(item) {
  const moment = run.itemEnd[item];
  for (let e = first[moment]; e < first[moment + 1]; e++) {
    if (run.kind[e] >= WAIT_SYNC) delays[e] = -1;
    else if (delays[e] > CALL_NS) delays[e] = CALL_NS;
  }
}

function pageLock(item) {
  const moment = run.itemEnd[item], call = run.itemCall[item] - 1;
  for (let e = first[moment]; e < first[moment + 1]; e++)
    if ((run.kind[e] === STAGED || run.kind[e] === STAGED_WAITED_FOR) && cut[e] >= 0 && delays[e] > cut[e]) delays[e] = cut[e];
  if (call >= 0 && run.itemKind[item] === STAGED_UPLOAD) dropWait(call);
}

// Edges that the edits add: for each moment the last of its edges, and for each edge the moment that it
// comes from and the edge before it. Edge 0 is none.
const added = { last: new Uint32Array(moments), from: [0], before: [0] };
function clearAdded() {
  if (added.from.length === 1) return;
  added.last.fill(0);
  added.from.length = added.before.length = 1;
}

// Adds an edge from an operation to a later one. A moment follows earlier ones only.
function follow(earlier, later) {
  if (earlier === undefined || later === undefined || run.itemEnd[earlier] >= run.itemStart[later]) return;
  added.before.push(added.last[run.itemStart[later]]);
  added.last[run.itemStart[later]] = added.from.push(run.itemEnd[earlier]) - 1;
}

// The operation no longer follows its old stream. The next operation of that stream follows the last
// one that stays, and this one unless it only writes memory of the host.
function leave(item, stays) {
  const old = rows[run.itemRow[item]].items, next = old[place[item] + 1], moment = run.itemStart[item];
  for (let e = first[moment]; e < first[moment + 1]; e++)
    if (run.kind[e] >= STREAM && run.kind[e] <= STREAM_END) delays[e] = -1;
  follow(stays, next);
  const isDownload = run.itemKind[item] === DOWNLOAD || run.itemKind[item] === STAGED_DOWNLOAD;
  if (next !== undefined && isDownload) {
    const start = run.itemStart[next];
    for (let e = first[start]; e < first[start + 1]; e++) if (from[e] === run.itemEnd[item]) delays[e] = -1;
  }
}

// In the new stream the operation takes the place that its measured start gives it, or in a ledger its call.
function moveTo(item, row, stays) {
  if (ledger) ledger.leave(item); else leave(item, stays);
  if (row < 0) return;
  const places = run.itemAt ?? run.itemBegin, others = rows[row].items;
  const after = search(others, other => places[other] >= places[item]);
  follow(others[after - 1], item);
  follow(item, others[after]);
}

// The index of the first item of a list for which `is` holds, if it holds for all that follow too.
function search(list, is) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (is(list[middle])) high = middle; else low = middle + 1;
  }
  return low;
}

// The parts of a page of a ledger, which knows the order of the accesses.
const ledger = source.ledger ? makeLedger() : null;

function applyEdits() {
  clearAdded();
  noWait.forEach(dropWait);
  pinned.forEach(pageLock);
  ledger?.apply();
  let list = [...moved.keys()];
  const later = (a, b) => run.itemBegin[a] - run.itemBegin[b] || a - b;
  if (list.some((item, n) => n > 0 && later(list[n - 1], item) > 0)) list = list.sort(later);
  // For each row, the last operation so far that stays; for each target, the last one that moved there.
  const staying = new Map(), together = new Map();
  for (const item of list) {
    const row = moved.get(item), old = run.itemRow[item], previous = rows[old].items[place[item] - 1];
    if (previous !== undefined && !moved.has(previous)) staying.set(old, previous);
    moveTo(item, row, staying.get(old));
    follow(together.get(row), item);
    together.set(row, item);
  }
}

// The times of the moments from `since` on, each after the latest of the moments that it follows.
function replay(into, since = 0) {
  const { last, from: addedFrom, before: addedBefore } = added;
  for (let m = since, e = first[since]; m < moments; m++) {
    let time = 0;
    for (const end = first[m + 1]; e < end; e++) {
      const delay = delays[e];
      if (delay >= 0) {
        const ready = into[from[e]] + delay;
        if (ready > time) time = ready;
      }
    }
    for (let edge = last[m]; edge > 0; edge = addedBefore[edge])
      if (into[addedFrom[edge]] > time) time = into[addedFrom[edge]];
    into[m] = time;
  }
}

// The time from the first start to the last end of the operations of the device.
const counted = order.filter(item => run.itemCounts[item]);
const countedStart = counted.map(item => run.itemStart[item]), countedEnd = counted.map(item => run.itemEnd[item]);
function length(of) {
  let begin = Infinity, end = 0;
  for (const moment of countedStart) if (of[moment] < begin) begin = of[moment];
  for (const moment of countedEnd) if (of[moment] > end) end = of[moment];
  return Math.max(0, end - begin);
}

function duration(ns) {
  const units = [[1e9, 's'], [1e6, 'ms'], [1e3, '\u00b5s']];
  const [factor, name] = units.find(([factor]) => Math.abs(ns) >= factor) ?? [1, 'ns'];
  return `${(ns / factor).toPrecision(ns === 0 ? 1 : 4)} ${name}`;
}
const share = (part, whole) => `${(100 * part / Math.max(1, whole)).toFixed(1)} %`;

let view = [0, 1], everything = [0, 1], selected = null, unchanged = 0;

function words() {
  const now = length(times), count = fixes.size + noWait.size + pinned.size + moved.size + (ledger?.deleted.size ?? 0);
  const error = unchanged - source.measured;
  const changed = count === 0 ? 'Nothing is changed yet.'
    : `With ${count} ${count === 1 ? 'change' : 'changes'}: ${duration(now)}, ${share(Math.abs(unchanged - now), unchanged)} ${now <= unchanged ? 'shorter' : 'longer'}${ledger?.inVerdict() ?? ''}.`;
  byId('verdict').textContent = `GPU ${source.device} takes ${duration(source.measured)}. ${changed}`;
  byId('error').textContent = `The replay without a change takes ${duration(unchanged)}, ${share(Math.abs(error), source.measured)} ${error < 0 ? 'less' : 'more'} than measured: this is the error of the model.`
    + (Math.abs(error) > 0.03 * source.measured ? ' It is large, so the times with changes are rough.' : '');
}

function update() {
  applyFixes();
  applyEdits();
  replay(times);
  ledger?.update();
  words();
  ledger?.words();
  draw();
  showSelected();
  showEdits();
}

const canvas = byId('canvas'), LABEL = 170, ROW = 30, STRIP = 12, AXIS = 22;
const FONT = '12px system-ui, "DejaVu Sans", sans-serif';
// A colour as the look of all pages has it. The value of a property itself may name two colours.
const probe = document.body.appendChild(document.createElement('i'));
probe.hidden = true;
const colour = name => { probe.style.color = `var(${name})`; return getComputedStyle(probe).color; };
const COLOURS = ['--soft', '--soft', '--soft', '--soft', '--line', '--k0', '--k2', '--k1', '--k3', '--k1', '--k3'];

// One strip of a row. Each pixel column is drawn once, and the items that end before the next column
// are skipped, because a row may have a million items.
function drawStrip(context, row, of, top, width, looks) {
  const scale = (width - LABEL) / (view[1] - view[0]), list = row.items;
  let at = search(list, item => of[run.itemEnd[item]] >= view[0]), drawn = LABEL;
  while (at < list.length) {
    const item = list[at], start = of[run.itemStart[item]], end = of[run.itemEnd[item]];
    if (start > view[1]) break;
    const x0 = Math.max(drawn, LABEL + (start - view[0]) * scale);
    const x1 = Math.max(x0 + 1, Math.min(width, LABEL + (end - view[0]) * scale));
    context.fillStyle = looks[run.itemKind[item]];
    context.fillRect(x0, top, x1 - x0, STRIP);
    if (x1 - x0 > 3) { context.fillStyle = looks.paper; context.fillRect(x1 - 1, top, 1, STRIP); }
    drawn = x1;
    const time = view[0] + (drawn - LABEL) / scale;
    at++;
    if (at < list.length && of[run.itemEnd[list[at]]] < time) {
      const ahead = list.subarray(at);
      at += search(ahead, item => of[run.itemEnd[item]] >= time);
    }
  }
  if (selected === null || rows[run.itemRow[selected]] !== row) return;
  const start = Math.max(LABEL, LABEL + (of[run.itemStart[selected]] - view[0]) * scale);
  const end = Math.min(width, LABEL + (of[run.itemEnd[selected]] - view[0]) * scale);
  if (end < LABEL || start > width) return;
  context.strokeStyle = looks.ink;
  context.lineWidth = 2;
  context.strokeRect(start - 1, top - 1, Math.max(3, end - start) + 2, STRIP + 2);
}

function draw() {
  const width = Math.max(320, canvas.parentElement.clientWidth), height = rows.length * ROW + AXIS;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio; canvas.height = height * ratio; canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d');
  context.scale(ratio, ratio);
  const looks = Object.assign(COLOURS.map(colour), { ink: colour('--ink'), paper: colour('--paper'), soft: colour('--soft') });
  context.clearRect(0, 0, width, height);
  context.font = FONT;
  rows.forEach((row, n) => {
    const top = n * ROW;
    context.globalAlpha = .45;
    drawStrip(context, row, before, top + 2, width, looks);
    context.globalAlpha = 1;
    drawStrip(context, row, times, top + 3 + STRIP, width, looks);
    context.fillStyle = looks.paper; context.fillRect(0, top, LABEL - 4, ROW);
    context.fillStyle = looks.ink; context.fillText(row.name, 4, top + 18, LABEL - 10);
  });
  context.fillStyle = looks.soft;
  const step = 10 ** Math.floor(Math.log10((view[1] - view[0]) / 4));
  for (let tick = Math.ceil(view[0] / step) * step; tick <= view[1]; tick += step * (((view[1] - view[0]) / step) > 20 ? 5 : 2)) {
    const x = LABEL + (tick - view[0]) * (width - LABEL) / (view[1] - view[0]);
    context.fillRect(x, 0, .5, height - AXIS);
    context.fillText(duration(tick), x + 3, height - 7);
  }
  byId('range').textContent = `${duration(view[0])} to ${duration(view[1])}`;
}

const chunkOf = item => run.itemChunk?.[item] > 0 ? ` of chunk ${run.itemChunk[item] - 1}` : '';
const labelOf = item => `${source.labels[run.itemLabel[item]] || 'unnamed'}${chunkOf(item)}`;
const nameOf = item => `${labelOf(item)} at ${duration(run.itemBegin[item])}`;
function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// The items with the label, the kind and the row of an item.
function alike(item) {
  return rows[run.itemRow[item]].items.filter(other =>
    run.itemLabel[other] === run.itemLabel[item] && run.itemKind[other] === run.itemKind[item]);
}

function action(text, item, change) {
  const one = element('button', { type: 'button', textContent: text });
  one.addEventListener('click', () => { change([item]); update(); });
  const others = alike(item);
  if (others.length < 2) return [one];
  const all = element('button', { type: 'button', textContent: `the same for all ${others.length} of its row` });
  all.addEventListener('click', () => { change(others); update(); });
  return [one, all];
}

function showSelected() {
  byId('selected').hidden = selected === null;
  if (selected === null) return;
  const item = selected, kind = run.itemKind[item];
  const [start, end] = [run.itemStart[item], run.itemEnd[item]];
  byId('name').textContent = `${labelOf(item)}, ${source.rows[run.itemRow[item]]}`;
  byId('times').textContent = `measured: at ${duration(run.itemBegin[item])} for ${duration(run.itemTook[item])}; `
    + `with the changes: at ${duration(times[start])} for ${duration(times[end] - times[start])}`;
  const actions = ledger?.actions(item) ?? [];
  if (kind === OF_SYNC || !ledger && (kind === OF_COPY || kind === OF_ALLOCATION))
    actions.push(...action(kind === OF_ALLOCATION ? 'delete this call' : 'delete this wait', item, list => list.forEach(one => noWait.add(one))));
  if ((kind === STAGED_UPLOAD || kind === STAGED_DOWNLOAD) && (ledger?.isLockable(item) ?? true))
    actions.push(...action('page-lock this memory', item, list => (ledger?.ofBuffers(list) ?? list).forEach(one => pinned.add(one))));
  if (!isCall(item) && (ledger?.isMovable(item) ?? true)) {
    const choose = element('select', { ariaLabel: 'stream' }, element('option', { value: -1, textContent: 'a new stream' }));
    source.rows.forEach((name, row) => {
      if (name.startsWith('GPU') && row !== run.itemRow[item] && (ledger?.canMoveTo(item, row) ?? true)) choose.append(element('option', { value: row, textContent: name }));
    });
    const move = one => moved.set(one, Number(choose.value));
    const fits = one => !ledger || ledger.isMovable(one) && (choose.value < 0 || ledger.canMoveTo(one, Number(choose.value)));
    actions.push(choose, ...action('move to that stream', item, list => list.filter(fits).forEach(move)));
  }
  byId('actions').replaceChildren(...actions);
}

const EDITS_MAX = 12;
function showEdits() {
  const list = [];
  const entry = (text, undo) => {
    const button = element('button', { type: 'button', textContent: 'undo' });
    button.addEventListener('click', () => { undo(); update(); });
    list.push(element('li', {}, button, text));
  };
  const group = (set, text, name = nameOf) => {
    let shown = 0;
    for (const item of set.keys()) {
      if (shown++ === EDITS_MAX) break;
      entry(`${text(item)}: ${name(item)}`, () => set.delete(item));
    }
    if (set.size > EDITS_MAX)
      entry(`and ${set.size - EDITS_MAX} more`, () => [...set.keys()].slice(EDITS_MAX).forEach(item => set.delete(item)));
  };
  if (ledger) group(ledger.deleted, wait => `deleted the wait for ${ledger.awaited(wait)}`, wait => nameOf(run.waitItem[wait]));
  group(noWait, () => 'deleted');
  group(pinned, () => 'page-locked');
  group(moved, item => `moved to ${moved.get(item) < 0 ? 'a new stream' : source.rows[moved.get(item)]}`);
  if (list.length > 1) {
    list.unshift(element('li'));
    const button = element('button', { type: 'button', textContent: 'undo all edits' });
    button.addEventListener('click', () => { for (const set of [noWait, pinned, moved, ledger?.deleted]) set?.clear(); update(); });
    list[0].append(button);
  }
  byId('edits').replaceChildren(...list);
  byId('hint').hidden = list.length > 0;
}

for (const [name, text, replayed] of source.fixes) {
  const gain = source.replayed - replayed;
  if (gain === 0) continue;
  const box = element('input', { type: 'checkbox' });
  box.dataset.fix = name;
  box.addEventListener('change', () => { if (box.checked) fixes.add(name); else fixes.delete(name); update(); });
  byId('fixes').append(element('label', {}, box, element('span', { textContent: text }),
    element('span', { className: 'gain', textContent: `alone ${duration(gain)}, ${share(gain, source.replayed)}` })));
}
if (!byId('fixes').children.length) byId('fixes').textContent = 'No fix of the whole run changes its time.';

function zoom(factor, at = (view[0] + view[1]) / 2) {
  const span = Math.max(1000, Math.min(everything[1] - everything[0], (view[1] - view[0]) * factor));
  const left = at - (at - view[0]) * span / (view[1] - view[0]);
  view = [left, left + span];
  move(0);
}
function move(by) {
  const span = view[1] - view[0];
  const left = Math.max(everything[0], Math.min(everything[1] - span, view[0] + by));
  view = [left, left + span];
  draw();
}
const timeAt = x => view[0] + (x - LABEL) * (view[1] - view[0]) / Math.max(1, canvas.clientWidth - LABEL);
canvas.addEventListener('wheel', event => {
  event.preventDefault();
  zoom(event.deltaY > 0 ? 1.25 : .8, timeAt(event.offsetX));
}, { passive: false });
let drag = null;
canvas.addEventListener('pointerdown', event => { drag = { x: event.offsetX, far: false }; canvas.setPointerCapture(event.pointerId); });
canvas.addEventListener('pointermove', event => {
  if (!drag) return;
  const by = event.offsetX - drag.x;
  if (!drag.far && Math.abs(by) < 4) return;
  drag = { x: event.offsetX, far: true };
  move(-by * (view[1] - view[0]) / Math.max(1, canvas.clientWidth - LABEL));
});
canvas.addEventListener('pointerup', event => {
  const click = drag && !drag.far;
  drag = null;
  if (click) select(event.offsetX, event.offsetY);
});
function select(x, y) {
  const row = rows[Math.floor(y / ROW)];
  if (!row || x < LABEL) return;
  const of = y % ROW < STRIP + 2 ? before : times, at = timeAt(x), near = timeAt(x + 3) - at;
  const next = search(row.items, item => of[run.itemEnd[item]] >= at);
  const away = item => item === undefined ? Infinity : Math.max(of[run.itemStart[item]] - at, at - of[run.itemEnd[item]], 0);
  const [item] = [row.items[next], row.items[next - 1]].sort((a, b) => away(a) - away(b));
  selected = away(item) <= near ? item : null;
  draw();
  showSelected();
}
// Selects the item beside the selected one in its row, or the nearest one of the row above or below.
function selectBeside(by) {
  if (selected === null) return selectNear(0, (view[0] + view[1]) / 2);
  const list = rows[run.itemRow[selected]].items, next = list[place[selected] + by];
  if (next !== undefined) show(next);
}
function selectAbove(by) {
  if (selected === null) return selectNear(0, (view[0] + view[1]) / 2);
  let row = run.itemRow[selected] + by;
  while (rows[row]?.items.length === 0) row += by;
  if (rows[row]) selectNear(row, times[run.itemStart[selected]]);
}
function selectNear(row, time) {
  const list = rows[row].items;
  if (list.length > 0) show(list[Math.min(list.length - 1, search(list, item => times[run.itemEnd[item]] >= time))]);
}
// Selects an item and moves the view to it, if it is outside.
function show(item) {
  selected = item;
  const span = view[1] - view[0], start = times[run.itemStart[item]];
  if (start < view[0] || start > view[1]) move(start - span / 2 - view[0]); else draw();
  showSelected();
}
canvas.addEventListener('keydown', event => {
  const keys = { '+': () => zoom(.8), '=': () => zoom(.8), '-': () => zoom(1.25), Escape: () => { view = everything; draw(); },
    ArrowLeft: () => move(-(view[1] - view[0]) / 10), ArrowRight: () => move((view[1] - view[0]) / 10),
    ArrowUp: () => selectAbove(-1), ArrowDown: () => selectAbove(1), ',': () => selectBeside(-1), '.': () => selectBeside(1) };
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
});
byId('in').addEventListener('click', () => zoom(.5));
byId('out').addEventListener('click', () => zoom(2));
byId('fit').addEventListener('click', () => { view = everything; draw(); });
window.addEventListener('resize', () => draw());

const theme = byId('theme');
theme.hidden = false;
const isDark = () => (document.documentElement.dataset.theme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark';
const name = () => { theme.textContent = isDark() ? 'light' : 'dark'; };
theme.addEventListener('click', () => { document.documentElement.dataset.theme = isDark() ? 'light' : 'dark'; name(); draw(); });
name();

applyFixes();
replay(before);
unchanged = length(before);
let last = 0;
for (const time of before) if (time > last) last = time;
everything = view = [0, Math.max(1, last)];
ledger?.begin(update);
const ring = source.ring && showRing(source.ring);
update();
ring?.update();
// For the checks of the page.
return { fixes, noWait, pinned, moved, update, length: () => length(times), unchanged, source, run, rows, ledger, ring, select: item => { selected = item; draw(); showSelected(); } };
