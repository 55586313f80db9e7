// The actions of the reader: zoom, move, select, find.

const byId = id => document.getElementById(id);
const [searchBox, streamsBox, threadsBox] = ['search', 'streams', 'threads'].map(byId);
const card = byId('card');
// The shortest visible span, in nanoseconds.
const SPAN_MIN = 20;

let asked = false;
function redraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; draw(); });
}

function look_at(from, to) {
  const limits = [everything[0], everything[1]], most = (limits[1] - limits[0]) * 1.05;
  const span = Math.max(SPAN_MIN, Math.min(most, to - from));
  const centre = (from + to) / 2, slack = span * .5;
  const start = Math.max(limits[0] - slack, Math.min(limits[1] + slack - span, centre - span / 2));
  [state.from, state.to] = [start, start + span];
  redraw();
}

function zoom(factor, time = (state.from + state.to) / 2) {
  look_at(time - (time - state.from) * factor, time + (state.to - time) * factor);
}

function move(share) {
  const by = share * (state.to - state.from);
  look_at(state.from + by, state.to + by);
}

function fit() {
  const [from, to] = threadsBox.checked ? everything : run;
  const edge = (to - from) * .01;
  look_at(from - edge, to + edge);
}

function around(from, to) {
  const edge = Math.max(SPAN_MIN, (to - from) * .6);
  look_at(from - edge, to + edge);
}

function select(i, kind = 'engine') {
  state.selected = i;
  state.kind = kind;
  if (i >= 0) describe(byId('detail'), i);
  else byId('detail').replaceChildren();
  redraw();
}

// Makes an operation visible: shows its row if that is hidden, and moves to its time.
function reveal(i) {
  if (!placeOf(i)) {
    if (op.streamRow[i] > 0) streamsBox.checked = true;
    else if (op.threadRow[i] > 0) threadsBox.checked = true;
    layOut();
  }
  const place = placeOf(i);
  if (!place) return;
  const [begin, end] = spanIn(state.rows[place.n], i);
  if (begin < state.from || end > state.to) {
    const half = (state.to - state.from) / 2, middle = (begin + end) / 2;
    if (end - begin > half * 2) around(begin, end);
    else look_at(middle - half, middle + half);
  }
  const low = place.top + place.height - canvas.clientHeight + 8, high = place.top - AXIS - 8;
  view.scrollTop = Math.max(low, Math.min(high, view.scrollTop));
}

// The row under a point, and the operation there, if there is one within three pixels.
function under(x, y) {
  const at = y + view.scrollTop;
  const n = y < AXIS ? -1 : state.rows.findIndex((row, n) =>
    at >= state.tops[n] && at < state.tops[n] + HEIGHTS[row.kind]);
  if (n < 0 || x < MARGIN) return { row: null, i: -1 };
  const row = state.rows[n], time = timeOf(x), near = 3 * (state.to - state.from) / width();
  let best = -1, distance = near;
  const start = Math.max(0, row.from(time - near) - 1);
  for (let m = start; m < row.ops.length && row.begin[m] <= time + near && m < start + 64; m++) {
    const off = Math.max(row.begin[m] - time, time - row.end[m], 0);
    if (off < distance || (off === 0 && best < 0)) { best = m; distance = off; }
    if (off === 0) break;
  }
  return { row, i: best < 0 ? -1 : row.ops[best], time };
}

function showCard(event) {
  const { row, i, time } = under(event.offsetX, event.offsetY);
  if (state.hover !== i) { state.hover = i; redraw(); }
  const gap = i < 0 && row && row.kind === 'engine' &&
    (gaps.get(row.track) || []).find(gap => gap.from <= time && time < gap.to);
  card.hidden = i < 0 && !gap;
  if (i >= 0) describe(card, i);
  else if (gap) {
    card.replaceChildren(element('h4', `${row.fullName} idle: ${gap.words}`),
                         element('div', words.time(gap.to - gap.from)));
  }
  if (card.hidden) return;
  const right = event.clientX + 18 + card.offsetWidth > innerWidth;
  const low = event.clientY + 18 + card.offsetHeight > innerHeight;
  card.style.left = `${Math.max(4, right ? event.clientX - 14 - card.offsetWidth : event.clientX + 18)}px`;
  card.style.top = `${Math.max(4, low ? event.clientY - 14 - card.offsetHeight : event.clientY + 18)}px`;
}

let drag = null;
function press(event) {
  if (event.button > 1 || event.offsetX < MARGIN) return;
  drag = { x: event.offsetX, moves: event.shiftKey || event.button === 1, far: false,
           from: state.from, to: state.to };
  if (event.pointerId !== undefined && event.isTrusted) canvas.setPointerCapture(event.pointerId);
}

function hold(event) {
  if (!drag) return showCard(event);
  drag.far = drag.far || Math.abs(event.offsetX - drag.x) > 4;
  if (!drag.far) return;
  card.hidden = true;
  if (drag.moves) {
    const by = (drag.x - event.offsetX) / width() * (drag.to - drag.from);
    look_at(drag.from + by, drag.to + by);
  } else {
    const ends = [drag.x, Math.max(MARGIN, event.offsetX)].map(timeOf);
    state.range = [Math.min(...ends), Math.max(...ends)];
    redraw();
  }
}

function release(event) {
  if (!drag) return;
  const { far, moves } = drag;
  drag = null;
  if (far && !moves && state.range) showStatistics(byId('statistics'), state.range);
  if (!far) {
    clear();
    const { row, i } = under(event.offsetX, event.offsetY);
    select(i, row ? row.kind : 'engine');
  }
}

function clear() {
  card.hidden = true;
  state.hover = -1;
  state.range = null;
  state.hazard = -1;
  byId('statistics').hidden = true;
  select(-1);
}

function wheel(event) {
  // Over the names, the wheel scrolls the page.
  if (event.offsetX < MARGIN || event.ctrlKey) return;
  event.preventDefault();
  const pixels = event.deltaMode === 1 ? 16 : 1;
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    move((event.deltaX || event.deltaY) * pixels / width());
  } else {
    zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * pixels / 300))), timeOf(event.offsetX));
  }
  // Something else lies under the pointer now. The card comes back when the pointer moves.
  card.hidden = true;
  state.hover = -1;
}

// Selects the operation before or after the selected one in its row, or the first visible one if
// none is selected.
function step(by) {
  const place = state.selected >= 0 && placeOf(state.selected);
  if (!place) return enter(state.rows.findIndex(row => row.ops.length > 0));
  const row = state.rows[place.n];
  const n = row.ops.indexOf(state.selected) + by;
  if (n >= 0 && n < row.ops.length) { select(row.ops[n], row.kind); reveal(row.ops[n]); }
}

function enter(n, time = state.from) {
  const row = state.rows[n];
  if (!row || row.ops.length === 0) return;
  const i = row.ops[Math.min(row.ops.length - 1, row.from(time))];
  select(i, row.kind);
  reveal(i);
}

// Selects the operation at the same time in the row above or below.
function climb(by) {
  const place = state.selected >= 0 && placeOf(state.selected);
  if (!place) return step(0);
  const [begin, end] = spanIn(state.rows[place.n], state.selected);
  let n = place.n + by;
  while (state.rows[n] && state.rows[n].ops.length === 0) n += by;
  enter(n, (begin + end) / 2);
}

function zoomToSelected() {
  if (state.range) return look_at(...state.range);
  const place = state.selected >= 0 && placeOf(state.selected);
  if (place) around(...spanIn(state.rows[place.n], state.selected));
}

function toggleHelp() {
  const keys = byId('keys');
  keys.hidden = !keys.hidden;
  byId('help').setAttribute('aria-expanded', String(!keys.hidden));
}

const KEYS = {
  w: () => zoom(.7), s: () => zoom(1 / .7), a: () => move(-.2), d: () => move(.2),
  '+': () => zoom(.7), '-': () => zoom(1 / .7),
  f: fit, '?': toggleHelp, '/': () => searchBox.focus(), Escape: clear,
};
const KEYS_OF_CANVAS = {
  ArrowLeft: () => step(-1), ArrowRight: () => step(1),
  ArrowUp: () => climb(-1), ArrowDown: () => climb(1), Enter: zoomToSelected,
};

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === searchBox) return searchKey(event);
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const plain = event.target === document.body || event.target === canvas;
  const action = KEYS[name] || (plain ? KEYS_OF_CANVAS[name] : undefined);
  if (!action) return;
  event.preventDefault();
  action();
}

// The number of items that a search looks at before the page can answer the reader again.
const SLICE = 3e5;
let searching = 0;
// The text of the last search, whether it goes on, and where to go when it is over.
let sought = '', isSearching = false, wanted = null;

// Finds operations by name, kind, source line, or `chunk N`. A large trace is searched in slices.
function search(text) {
  const needle = text.trim().toLowerCase();
  const mine = ++searching;
  [sought, isSearching, wanted] = [text, false, null];
  if (!needle) {
    state.matches = state.matchSums = null;
    state.matchCount = 0;
    byId('found').textContent = '';
    return redraw();
  }
  const chunk = needle.match(/^chunk\s+(\d+)$/);
  const hit = table => Uint8Array.from(table, word => word.toLowerCase().includes(needle) ? 1 : 0);
  const [labels, kinds, sites] = [op.labels, op.kinds, op.sites].map(hit);
  const found = new Uint8Array(COUNT), sums = new Map();
  let at = 0, count = 0, row = 0;
  isSearching = true;
  const slice = () => {
    if (mine !== searching) return;
    const end = Math.min(COUNT, at + SLICE);
    for (; at < end; at++) {
      const is = chunk ? op.chunk[at] === Number(chunk[1]) + 1
                       : labels[op.label[at]] || kinds[op.kind[at]] || sites[op.site[at]];
      if (is && op.flags[at] & (TIMED | CALLED)) { found[at] = 1; count += standsFor(at); }
    }
    for (let left = SLICE; at === COUNT && left > 0 && row < rows.length; row++) {
      sums.set(rows[row], rows[row].count(i => found[i]));
      left -= rows[row].ops.length;
    }
    if (at < COUNT || row < rows.length) {
      byId('found').textContent = 'searching';
      setTimeout(slice);
      return;
    }
    [state.matches, state.matchSums, state.matchCount] = [found, sums, count];
    byId('found').textContent = words.count(count, 'operation', 'operations');
    isSearching = false;
    if (wanted) nextMatch(wanted.back);
    wanted = null;
    redraw();
  };
  slice();
}

function nextMatch(back) {
  if (!state.matchCount) return;
  let i = state.selected;
  do { i = (i + (back ? COUNT - 1 : 1) + (i < 0 && back ? 1 : 0)) % COUNT; } while (!state.matches[i]);
  select(i);
  reveal(i);
  const place = placeOf(i);
  const [begin, end] = place ? spanIn(state.rows[place.n], i) : [0, 0];
  // A hit that is a few pixels wide would not be seen.
  const isNarrow = (end - begin) / (state.to - state.from) * width() < 12;
  if (place && isNarrow) look_at(begin - 12 * (end - begin), end + 12 * (end - begin));
}

function searchKey(event) {
  if (event.key === 'Enter') {
    if (searchBox.value !== sought) search(searchBox.value);
    if (isSearching) wanted = { back: event.shiftKey };
    else nextMatch(event.shiftKey);
  }
  if (event.key === 'Escape') { searchBox.value = ''; search(''); canvas.focus(); }
}

// The item with a number of the trace.
function numbered(number) {
  return op.number ? op.number.indexOf(number) : number;
}

// Follows a link to a time (`#t=from,to`), an operation (`#op=n`) or a hazard (`#hazard=n`).
function follow() {
  const link = location.hash;
  const time = link.match(/^#t=(\d+),(\d+)$/), hazard = link.match(/^#hazard=(\d+)$/), one = link.match(/^#op=(\d+)$/);
  if (time) {
    state.range = [Number(time[1]), Number(time[2])];
    around(...state.range);
    showStatistics(byId('statistics'), state.range);
  } else if (hazard && source.hazards[hazard[1]]) {
    state.hazard = Number(hazard[1]);
    const pair = source.hazards[hazard[1]].filter(i => i !== null).map(numbered);
    select(pair[pair.length - 1]);
    pair.forEach(reveal);
    const at = pair.map(i => op.flags[i] & TIMED ? [op.begin[i], op.begin[i] + op.took[i]]
                                                 : [op.call[i], op.call[i] + op.calling[i]]);
    around(Math.min(...at.map(span => span[0])), Math.max(...at.map(span => span[1])));
  } else if (one && op.flags[numbered(Number(one[1]))] !== undefined) {
    clear();
    select(numbered(Number(one[1])));
    reveal(state.selected);
    zoomToSelected();
  } else return;
  byId('h-timeline').scrollIntoView();
}

function themeChanged() {
  look = null;
  redraw();
}

const prefersDark = matchMedia('(prefers-color-scheme: dark)');
function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : prefersDark.matches;
}
function nameTheme() { byId('theme').textContent = isDark() ? 'light' : 'dark'; }

function legend() {
  const entry = (made, text) => element('span', '', made, document.createTextNode(text));
  const mark = name => { const made = element('span', ''); made.className = name; return made; };
  const list = [document.createTextNode(source.byName ? 'a colour per name' : 'a colour and a number per chunk')];
  if (op.flags.some(flags => flags & (CRITICAL | CRITICAL_CALL))) list.push(entry(mark('line'), 'critical path'));
  const causes = new Map(source.causes.map(([look, text]) => [text, look]));
  for (const [text, look] of causes) list.push(entry(mark(`key c-${look}`), `idle: ${text}`));
  if (source.hazards.length > 0) list.push(entry(mark('line dashed'), 'missing order'));
  byId('legend').append(...list.map(item => element('span', '', item)));
}

function listen() {
  canvas.addEventListener('pointerdown', press);
  canvas.addEventListener('pointermove', hold);
  canvas.addEventListener('pointerup', release);
  canvas.addEventListener('pointercancel', () => { drag = null; });
  canvas.addEventListener('pointerleave', () => { card.hidden = true; state.hover = -1; redraw(); });
  canvas.addEventListener('wheel', wheel, { passive: false });
  canvas.addEventListener('dblclick', zoomToSelected);
  view.addEventListener('scroll', redraw);
  overview.addEventListener('pointerdown', event => {
    const share = (event.offsetX - MARGIN) / Math.max(1, overview.clientWidth - MARGIN);
    const time = everything[0] + share * (everything[1] - everything[0]), half = (state.to - state.from) / 2;
    look_at(time - half, time + half);
  });
  document.addEventListener('keydown', key);
  searchBox.addEventListener('input', () => search(searchBox.value));
  for (const box of [streamsBox, threadsBox]) {
    box.addEventListener('change', () => { layOut(); redraw(); });
  }
  byId('in').addEventListener('click', () => zoom(.5));
  byId('out').addEventListener('click', () => zoom(2));
  byId('fit').addEventListener('click', fit);
  byId('help').addEventListener('click', toggleHelp);
  byId('theme').addEventListener('click', () => {
    document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
    nameTheme();
    themeChanged();
  });
  prefersDark.addEventListener('change', () => { nameTheme(); themeChanged(); });
  addEventListener('resize', () => { layOut(); redraw(); });
  addEventListener('hashchange', follow);
}

function start() {
  unpacking.hidden = true;
  byId('theme').hidden = false;
  nameTheme();
  if (rows.length === 0) {
    byId('h-timeline').after(element('p', 'No operation has times.'));
    return;
  }
  byId('timeline').hidden = false;
  // Without engine rows, show the rows of streams and threads.
  if (!rows.some(row => row.kind === 'engine')) streamsBox.checked = threadsBox.checked = true;
  legend();
  listen();
  layOut();
  fit();
  draw();
  follow();
}
start();
// The interface for scripts that measure or test a page.
window.timeline = { state, rows, draw, fit, zoom, move, numbered, count: COUNT, label: i => op.labels[op.label[i]] };
