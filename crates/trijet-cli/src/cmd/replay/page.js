'use strict';
// The address space of allocators over the rows of a trace. All text enters the page as text, never
// as markup, because names and titles come from files.

const byId = id => document.getElementById(id);
const source = JSON.parse(byId('data').textContent), card = byId('card'), root = document.documentElement;
const COLOURS = 16, LISTED = 20, CHUNK = 1024;
// The parts of a canvas in pixels: flags, addresses (the rest), a space, the strip of curves, row numbers.
const FLAGS = 14, SPACE = 8, STRIP = 48, AXIS = 20;
const rowCount = Math.max(1, source.rows || 0);
// A bit more than the rows, so that a mark at either end is visible.
const everything = [-rowCount * .01, rowCount * 1.01];
const panels = [];
let visible = everything, look = null, stripTop = 1, drag = null, asked = false;

function bytes(n) {
  if (n < 1024) return `${Math.round(n)} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let at = 0;
  // 1000 MiB would have four digits, so it is 0.977 GiB.
  for (n /= 1024; n >= 999.5 && at < units.length - 1; at++) n /= 1024;
  return `${n.toPrecision(3)} ${units[at]}`;
}
const number = n => Math.round(n || 0).toLocaleString('en');
const count = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;
const refusal = ({ wanted, free, largest }) =>
  `${bytes(wanted)} refused: ${bytes(free)} free, largest piece ${bytes(largest)}`;

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children.map(child => child instanceof Node ? child : String(child)));
  return made;
}

// The first index in 0..length whose value is at least `wanted`.
function search(length, value, wanted) {
  let low = 0, high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (value(middle) < wanted) low = middle + 1; else high = middle;
  }
  return low;
}

// Address intervals in order. `at` is the place of an interval on the y axis, where all gaps are short.
function stack(intervals) {
  const spans = [];
  for (const [start, end] of intervals.sort((a, b) => a[0] - b[0])) {
    const last = spans[spans.length - 1];
    if (last && start <= last.end) last.end = Math.max(last.end, end);
    else spans.push({ start, end, at: 0 });
  }
  const total = spans.reduce((sum, span) => sum + span.end - span.start, 0) || 1;
  const gap = total * Math.min(.012, .12 / Math.max(1, spans.length - 1));
  let height = 0;
  for (const span of spans) {
    span.at = height && height + gap;
    height = span.at + span.end - span.start;
  }
  return { spans, gap, total: Math.max(1, height) };
}
const spanOf = ({ spans }, address) => spans[search(spans.length, n => spans[n].start, address + 1) - 1];

function prepare(allocator, toneOf) {
  const blocks = allocator.blocks.slice().sort((a, b) => a[2] - b[2]);
  const ranges = allocator.ranges.map(range => [range.start, range.start + range.bytes]);
  let stacked = stack(ranges);
  // A block outside all ranges is an error of the trace, and is shown all the same.
  const outside = blocks.filter(block => !(block[0] + block[1] <= spanOf(stacked, block[0])?.end));
  if (outside.length > 0) stacked = stack(ranges.concat(outside.map(block => [block[0], block[0] + block[1]])));
  const place = address => {
    const span = spanOf(stacked, address);
    return span.at + address - span.start;
  };
  const rowEnd = row => row === null || row < 0 ? rowCount : row;
  const column = value => new Float64Array(blocks.map(value)), end = column(block => rowEnd(block[3]));
  // The last row of each chunk of blocks, to skip chunks that ended before the visible rows.
  const latest = Array.from({ length: Math.ceil(blocks.length / CHUNK) }, (_, n) =>
    end.subarray(n * CHUNK, (n + 1) * CHUNK).reduce((a, b) => Math.max(a, b)));
  return {
    ...stacked, allocator, blocks, end, latest, range: [0, stacked.total], curve: allocator.curve,
    low: column(block => place(block[0])), size: column(block => block[1]), begin: column(block => block[2]),
    tone: column(block => toneOf(block[4])), failures: allocator.failures.slice().sort((a, b) => a.row - b.row),
    held: allocator.ranges.map(range => (
      { low: place(range.start), size: range.bytes, begin: range.from_row, end: rowEnd(range.to_row) })),
  };
}

// Calls `action` with each block that lives at some row of a span, both ends included.
function eachBlock({ low, begin, end, latest }, from, to, action) {
  for (let chunk = 0; chunk < latest.length && begin[chunk * CHUNK] <= to; chunk++) {
    if (latest[chunk] < from) continue;
    const stop = Math.min(low.length, (chunk + 1) * CHUNK);
    for (let i = chunk * CHUNK; i < stop; i++) if (end[i] >= from && begin[i] <= to) action(i);
  }
}

// ---- Drawing

// The colours as the browser resolves them, for the current theme.
function readLook() {
  const probe = document.body.appendChild(element('span'));
  const colour = name => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  // The colour of a pixel, or a darker one.
  const pixel = (name, share = 1) => {
    const [r, g, b] = colour(name).match(/[\d.]+/g).map(channel => channel * share);
    return (255 << 24 | b << 16 | g << 8 | r) >>> 0;
  };
  const tones = share => Array.from({ length: COLOURS }, (_, n) => pixel(`k${n}`, share));
  const pixels = { paper: pixel('paper'), held: pixel('held'), segment: pixel('segment') };
  look = { tones: tones(1), edges: tones(.62), pixels };
  for (const name of ['paper', 'line', 'ink', 'soft', 'accent', 'hazard', 'held']) look[name] = colour(name);
  probe.remove();
}

// Measured once per change of size, because reading it for each event takes longer than drawing.
function layOut() {
  for (const panel of panels) {
    const { canvas } = panel, scale = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight, bottom = height - SPACE - STRIP - AXIS, left = width < 600 ? 58 : 74;
    const picture = new ImageData(...[width - left, bottom - FLAGS].map(n => Math.max(1, Math.round(n * scale))));
    Object.assign(panel, { width, height, scale, bottom, left, picture });
    [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
  }
}

const rowsPerPixel = panel => (visible[1] - visible[0]) / (panel.width - panel.left);
const bytesPerPixel = panel => (panel.range[1] - panel.range[0]) / (panel.bottom - FLAGS);
const xOf = (panel, row) => panel.left + (row - visible[0]) / rowsPerPixel(panel);
const rowOf = (panel, x) => visible[0] + (x - panel.left) * rowsPerPixel(panel);
const yOf = (panel, at) => panel.bottom - (at - panel.range[0]) / bytesPerPixel(panel);
const atOf = (panel, y) => panel.range[0] + (panel.bottom - y) * bytesPerPixel(panel);

function redraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; draw(); });
}

function draw() {
  if (!look) readLook();
  for (const panel of panels) {
    const { pen, width, height, left, bottom, scale } = panel;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.font = '11px system-ui, "Segoe UI", "DejaVu Sans", sans-serif';
    pen.textBaseline = 'middle';
    pen.lineWidth = 1;
    pen.fillStyle = look.paper;
    pen.fillRect(0, 0, width, height);
    drawMemory(panel);
    drawCurves(panel);
    drawSpans(panel);
    drawSpans(panel);
    drawFailures(panel);
    pen.strokeStyle = look.line;
    pen.strokeRect(left + .5, FLAGS + .5, width - left - 1, bottom - FLAGS - 1);
    pen.strokeRect(left + .5, bottom + SPACE + .5, width - left - 1, STRIP - 1);
    drawRows(panel);
  }
}

// Held memory and blocks, as pixels of an image, which is much faster than a call for each rectangle. What
// is smaller than a pixel is a pixel, because a small block can be what splits the free memory.
function drawMemory(panel) {
  const { pen, scale, picture, low, size, begin, end, tone } = panel, { width, height } = picture;
  const [from, to] = visible, [bottom, top] = panel.range;
  const perRow = scale / rowsPerPixel(panel), perByte = scale / bytesPerPixel(panel);
  const pixels = new Uint32Array(picture.data.buffer).fill(look.pixels.paper);
  const fill = (left, right, top, bottom, colour) => {
    for (let y = top; y < bottom; y++) pixels.fill(colour, y * width + left, y * width + right);
  };
  const paint = (begin, end, low, size, colour, edge) => {
    if (end < from || begin > to || low > top || low + size < bottom) return;
    const x0 = Math.round((begin - from) * perRow), x1 = Math.max(x0 + 1, Math.round((end - from) * perRow));
    const y1 = height - Math.round((low - bottom) * perByte);
    const y0 = Math.min(y1 - 1, height - Math.round((low + size - bottom) * perByte));
    // Not the rounded height, so that blocks of one size look alike.
    const rim = x1 - x0 > 5 && size * perByte >= 5 * scale ? 1 : 0;
    const inside = (n, limit) => Math.max(0, Math.min(limit, n));
    if (rim) fill(inside(x0, width), inside(x1, width), inside(y0, height), inside(y1, height), edge);
    fill(inside(x0 + rim, width), inside(x1 - rim, width), inside(y0 + rim, height), inside(y1 - rim, height), colour);
  };
  for (const range of panel.held) paint(range.begin, range.end, range.low, range.size, look.pixels.held, look.pixels.segment);
  eachBlock(panel, from, to, i => paint(begin[i], end[i], low[i], size[i], look.tones[tone[i]], look.edges[tone[i]]));
  pen.putImageData(picture, Math.round(panel.left * scale), Math.round(FLAGS * scale));
}

// The sizes of the address intervals, and a line in each gap between them.
function drawSpans(panel) {
  const { pen, spans, gap, left, width, bottom } = panel;
  let room = Infinity, shown = 0;
  pen.textAlign = 'right';
  for (const { start, end, at } of spans) {
    const top = at + end - start, middle = Math.round(yOf(panel, at - gap / 2));
    shown += Math.max(0, Math.min(panel.range[1], top) - Math.max(panel.range[0], at));
    if (at > 0 && middle > FLAGS && middle < bottom && gap / bytesPerPixel(panel) >= 2) {
      pen.fillStyle = look.line;
      pen.fillRect(left - 6, middle, width - left + 6, 1);
    }
    const low = Math.min(bottom, yOf(panel, at)), high = Math.max(FLAGS, yOf(panel, top)), centre = (low + high) / 2;
    if (low - high < 8 || centre > room) continue;
    pen.fillStyle = look.soft;
    pen.fillText(bytes(end - start), left - 8, centre);
    room = centre - 13;
  }
  const [from, to] = visible.map(row => number(Math.max(0, Math.min(rowCount, row)))), { limit } = panel.allocator;
  const limited = limit ? `limit ${bytes(limit)}; ` : '';
  panel.caption.textContent = `${limited}shown: rows ${from} to ${to}, ${bytes(shown)} of addresses`;
}

// The curves are steps: an allocator holds what it holds until its next call.
function drawCurves(panel) {
  const { pen, curve, left, width, bottom } = panel, limit = panel.allocator.limit || Infinity;
  const foot = bottom + SPACE + STRIP, yAt = value => Math.round(foot - value / stripTop * (STRIP - 4));
  const first = Math.max(0, search(curve.length, n => curve[n][0], visible[0]) - 1);
  for (const [column, fill] of [[1, look.held], [2, look.accent]]) {
    pen.fillStyle = fill;
    for (let n = first; n < curve.length && curve[n][0] < visible[1]; n++) {
      const [from, to] = [curve[n], curve[n + 1] || [rowCount]].map(point => Math.max(left, Math.round(xOf(panel, point[0]))));
      pen.fillRect(from, yAt(curve[n][column]), Math.max(1, to - from), foot - yAt(curve[n][column]));
    }
  }
  if (limit > stripTop) return;
  pen.fillStyle = look.ink;
  for (let x = left; x < width; x += 10) pen.fillRect(x, yAt(limit), 6, 1);
}

function drawFailures(panel) {
  const { pen, left, width, height } = panel;
  let line = -1, flag = -100;
  pen.fillStyle = look.hazard;
  for (const failure of panel.failures) {
    const x = Math.round(xOf(panel, failure.row));
    if (x < left || x >= width || x === line) continue;
    pen.fillRect(line = x, 0, 1, height - AXIS);
    if (x - flag < 11) continue;
    flag = x;
    // At the right edge the flag points to the left, where there is room.
    pen.fill(new Path2D(`M${x} 1 L${x + 10 > width ? x - 9 : x + 10} 6 L${x} 11`));
  }
}

function drawRows(panel) {
  const { pen, left, width, height, bottom } = panel, foot = height - AXIS;
  pen.fillStyle = look.soft;
  pen.fillText(bytes(stripTop), left - 8, bottom + SPACE + 7);
  pen.fillText('row', left - 8, foot + AXIS / 2 + 1);
  pen.textAlign = 'center';
  const least = Math.max(1, 90 * rowsPerPixel(panel)), power = 10 ** Math.floor(Math.log10(least));
  const step = power * [1, 2, 5, 10].find(n => n * power >= least * (1 - 1e-9));
  for (let row = Math.max(0, Math.ceil(visible[0] / step) * step); row <= Math.min(rowCount, visible[1]); row += step) {
    const x = xOf(panel, row), text = number(row), half = pen.measureText(text).width / 2;
    pen.fillRect(Math.round(x), foot, 1, 4);
    pen.fillText(text, Math.max(left + half, Math.min(width - half, x)), foot + AXIS / 2 + 1);
  }
}

// ---- What is under the pointer

// The block at a row and place, within a pixel, or the free piece there, which reaches to the next blocks.
function memoryAt(panel, row, at) {
  const { low, size, begin, end } = panel, aside = rowsPerPixel(panel), reach = bytesPerPixel(panel);
  const range = panel.held.find(({ begin, end, low, size }) => begin <= row && row < end && low <= at && at < low + size);
  let [under, over] = range ? [range.low, range.low + range.size] : [0, 0], block = -1;
  eachBlock(panel, row - aside, row + aside, i => {
    const top = low[i] + size[i], lives = begin[i] <= row && row < end[i], hit = low[i] <= at && at < top;
    if (lives && hit || block < 0 && low[i] - reach <= at && at < top + reach) block = i;
    else if (lives && top <= at) under = Math.max(under, top);
    else if (lives && !hit) over = Math.min(over, low[i]);
  });
  return { block, range, free: over - under };
}

// The heading and the lines of the card for a point of a panel.
function describe(panel, x, y) {
  if (x < panel.left || y >= panel.bottom) return [];
  // Below its flag, a refused allocation must be hit well, for the sake of the blocks beside it.
  const off = failure => Math.abs(xOf(panel, failure.row) - x), reach = y < FLAGS ? 8 : 3;
  const failure = panel.failures.filter(failure => off(failure) <= reach).sort((a, b) => off(a) - off(b))[0];
  if (failure) {
    const split = failure.free >= failure.wanted && failure.largest < failure.wanted;
    return [refusal(failure), `row ${number(failure.row)}`, split ? 'Enough is free, but no piece is large enough.' : ''];
  }
  if (y < FLAGS) return [];
  const row = rowOf(panel, x), { block, range, free } = memoryAt(panel, row, atOf(panel, y));
  if (block >= 0) {
    const [start, size, first, last, stream, id] = panel.blocks[block];
    return [`block ${id}`, `${bytes(size)} (${count(size, 'byte')})`, `stream ${stream}`, `start 0x${start.toString(16)}`,
            `rows ${number(first)} to ${last < 0 ? 'the end' : number(last)}`];
  }
  return range ? [`free piece of ${bytes(free)}`, `in a held range of ${bytes(range.size)}`, `row ${number(row)}`] : [];
}

function showCard(panel, event) {
  hideCard();
  const [x, y] = [event.offsetX, event.offsetY], [heading, ...lines] = describe(panel, x, y);
  for (const { cursor } of panels) {
    cursor.hidden = x < panel.left;
    cursor.style.left = `${x}px`;
  }
  if (!heading) return;
  card.replaceChildren(element('h4', {}, heading), ...lines.map(line => element('div', {}, line)));
  card.hidden = false;
  const beside = (at, size, limit) => Math.max(4, at + 18 + size > limit ? at - 14 - size : at + 18);
  card.style.left = `${beside(event.clientX, card.offsetWidth, innerWidth)}px`;
  card.style.top = `${beside(event.clientY, card.offsetHeight, innerHeight)}px`;
}

function hideCard() {
  card.hidden = true;
  for (const panel of panels) panel.cursor.hidden = true;
}

// ---- The actions of the reader

// Moves a span into limits, and makes it no longer than they are and no shorter than `least`.
function within([from, to], limits, least) {
  const most = limits[1] - limits[0], span = Math.max(Math.min(least, most), Math.min(most, to - from));
  const start = Math.max(limits[0], Math.min(limits[1] - span, (from + to - span) / 2));
  return [start, start + span];
}
const scaled = ([from, to], factor, centre) => [centre - (centre - from) * factor, centre + (to - centre) * factor];
const moved = ([from, to], share) => [from, to].map(end => end + share * (to - from));

function lookAt(rows, panel, addresses) {
  visible = within(rows, everything, 4);
  if (panel) panel.range = within(addresses, [0, panel.total], 256);
  hideCard();
  redraw();
}
const zoom = factor => lookAt(scaled(visible, factor, (visible[0] + visible[1]) / 2));

function fit() {
  for (const panel of panels) panel.range = [0, panel.total];
  lookAt(everything);
}

function wheel(panel, event) {
  // Over the sizes at the left, the wheel scrolls the page.
  if (event.offsetX < panel.left || event.ctrlKey) return;
  event.preventDefault();
  const pixels = event.deltaMode === 1 ? 16 : 1, aside = Math.abs(event.deltaX) > Math.abs(event.deltaY);
  // With shift, some browsers turn the wheel into a horizontal one.
  const turn = pixels * (event.shiftKey && aside ? event.deltaX : event.deltaY);
  const factor = Math.exp(Math.max(-1, Math.min(1, turn / 300)));
  if (event.shiftKey) lookAt(visible, panel, scaled(panel.range, factor, atOf(panel, event.offsetY)));
  else if (aside) lookAt(moved(visible, event.deltaX * pixels / panel.width));
  else lookAt(scaled(visible, factor, rowOf(panel, event.offsetX)));
}

function press(panel, event) {
  if (event.button > 1) return;
  drag = { x: event.offsetX, y: event.offsetY, rows: visible, range: panel.range };
  panel.canvas.setPointerCapture(event.pointerId);
  showCard(panel, event);
}

function hold(panel, event) {
  if (!drag) return showCard(panel, event);
  const [right, down] = [event.offsetX - drag.x, event.offsetY - drag.y];
  const [rows, addresses] = [-right / (panel.width - panel.left), down / (panel.bottom - FLAGS)];
  lookAt(moved(drag.rows, rows), panel, moved(drag.range, addresses));
}

function key(event) {
  const panel = panels.find(panel => panel.figure === document.activeElement);
  const climb = share => () => lookAt(visible, panel, moved(panel.range, share));
  const actions = {
    ArrowLeft: () => lookAt(moved(visible, -.2)), ArrowRight: () => lookAt(moved(visible, .2)),
    '+': () => zoom(.7), '=': () => zoom(.7), '-': () => zoom(1 / .7), Escape: fit,
  };
  // Without a zoom there is nowhere to move, and the keys scroll the page.
  if (panel && panel.range[1] - panel.range[0] < panel.total) [actions.ArrowUp, actions.ArrowDown] = [climb(.2), climb(-.2)];
  const busy = event.ctrlKey || event.metaKey || event.altKey || document.activeElement === byId('summary');
  if (busy || !actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
}

// ---- The page

function summarize({ title, rows, allocators }) {
  document.title = `${title}: memory over time`;
  byId('title').textContent = `${title}: memory over ${count(rows, 'row')}`;
  const said = allocators.map(({ name, failed }) => `${name} refused ${failed ? count(failed, 'allocation') : 'none'}`);
  byId('verdict').textContent = allocators.length === 0 ? 'The trace has no allocator.'
    : allocators.some(one => one.failed > 0) ? `${said.join('; ')}.` : 'No allocation was refused.';
  const names = ['allocator', 'most held', 'most live', 'of live', 'refused', 'driver calls', 'waits'];
  const lines = allocators.map(one => element('tr', {}, element('th', { scope: 'row', title: one.name }, one.name),
    ...[bytes(one.held_peak), bytes(one.live_peak),
      one.trace_peak > 0 ? (one.held_peak / one.trace_peak).toFixed(3) : '–',
      number(one.failed), number(one.driver_calls), number(one.waits)].map((text, n) => {
      const cell = element('td', { className: n === 3 && one.failed > 0 ? 'bad' : '' }, text);
      // A narrow page has the name of the column beside each cell.
      cell.dataset.name = names[n + 1];
      return cell;
    })));
  byId('summary').append(element('table', {},
    element('thead', {}, element('tr', {}, ...names.map(name => element('th', { scope: 'col' }, name)))),
    element('tbody', {}, ...lines)));
  byId('summary').hidden = byId('space').hidden = allocators.length === 0;
}

function addPanel(panel) {
  const { allocator, failures } = panel, canvas = element('canvas', { role: 'img' });
  canvas.ariaLabel = `${allocator.name}: addresses over ${count(rowCount, 'row')}. ` +
    `It holds at most ${bytes(allocator.held_peak)}. At most ${bytes(allocator.live_peak)} are live. ` +
    `${count(panel.blocks.length, 'block')}. ${count(allocator.failed, 'refused allocation')}.` +
    (failures.length > 0 ? ` The first: row ${number(failures[0].row)}, ${refusal(failures[0])}.` : '');
  const cursor = element('div', { className: 'cursor', hidden: true });
  const caption = element('span'), pen = canvas.getContext('2d', { alpha: false });
  const figure = element('figure', { tabIndex: 0 }, element('figcaption', {}, element('h3', {}, allocator.name), caption),
    element('div', { className: 'drawing' }, canvas, cursor));
  panels.push(Object.assign(panel, { canvas, cursor, caption, figure, pen }));
  const on = (name, action, options) => canvas.addEventListener(name, event => action(panel, event), options);
  on('pointerdown', press);
  on('pointermove', hold);
  for (const name of ['pointerup', 'pointercancel']) on(name, () => { drag = null; });
  on('pointerleave', hideCard);
  on('wheel', wheel, { passive: false });
  on('dblclick', fit);
  byId('panels').append(figure);
}

function listFailures({ allocator, failures }) {
  const all = Math.max(allocator.failed, failures.length), shown = failures.slice(0, LISTED);
  if (all === 0) return;
  const items = shown.map(failure => element('li', {}, `row ${number(failure.row)}: ${refusal(failure)}`));
  if (all > shown.length) items.push(element('li', { className: 'more' }, `and ${number(all - shown.length)} more`));
  byId('failures').append(element('h3', {}, allocator.name), element('ul', {}, ...items));
  byId('refused').hidden = false;
}

function legend(streams) {
  const entry = (name, text) => {
    const key = element('span', { className: 'key' });
    key.style.background = `var(--${name})`;
    return element('span', {}, key, text);
  };
  const list = streams.slice(0, 2 * COLOURS).map((stream, n) => entry(`k${n % COLOURS}`, `stream ${stream}`));
  if (streams.length > list.length) list.push(element('span', {}, `and ${number(streams.length - list.length)} more`));
  if (streams.length > COLOURS) list.push(element('span', {}, `the colours repeat after ${COLOURS} streams`));
  byId('legend').append(...list, entry('held', 'held, but free'), entry('hazard', 'refused'));
}

const prefersDark = matchMedia('(prefers-color-scheme: dark)');
const isDark = () => root.dataset.theme ? root.dataset.theme === 'dark' : prefersDark.matches;
function setTheme(name) {
  if (name) root.dataset.theme = name; else delete root.dataset.theme;
  byId('theme').textContent = isDark() ? 'light' : 'dark';
  look = null;
  draw();
}

function listen() {
  const actions = { in: () => zoom(.5), out: () => zoom(2), fit, theme: () => setTheme(isDark() ? 'light' : 'dark') };
  for (const id in actions) byId(id).addEventListener('click', actions[id]);
  document.addEventListener('keydown', key);
  prefersDark.addEventListener('change', () => setTheme(root.dataset.theme));
  addEventListener('resize', () => { layOut(); redraw(); });
  // Paper is white, and a canvas does not follow the styles of print.
  let theme;
  addEventListener('beforeprint', () => { theme = root.dataset.theme; hideCard(); setTheme('light'); });
  addEventListener('afterprint', () => setTheme(theme));
}

function start({ allocators }) {
  summarize(source);
  // Sorted over all allocators, so that a stream has one colour in every panel.
  const streams = [...new Set(allocators.flatMap(one => one.blocks.map(block => block[4])))]
    .sort((a, b) => String(a).localeCompare(String(b), 'en', { numeric: true }));
  const tones = new Map(streams.map((stream, n) => [stream, n % COLOURS]));
  for (const allocator of allocators) addPanel(prepare(allocator, stream => tones.get(stream)));
  // One scale for all strips, so that they compare. A limit far above the curves would flatten them.
  stripTop = Math.max(1, ...allocators.map(one => one.held_peak));
  stripTop = Math.max(stripTop, ...allocators.map(one => one.limit).filter(limit => limit < 2.5 * stripTop));
  legend(streams);
  panels.forEach(listFailures);
  byId('theme').hidden = false;
  listen();
  layOut();
  setTheme();
}
start(source);
