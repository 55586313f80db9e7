// Runs after the page's own script and uses the page as a reader would, with the events that a
// browser sends. The result of each check, with what it found if it failed, goes to the console.
timelineReady.then(() => {
const checks = [];
function check(name, run) {
  let found;
  try { found = run(); } catch (error) { found = `threw ${error.stack}`; }
  checks.push(found === true ? `ok ${name}` : `FAILED ${name}: ${JSON.stringify(found)}`);
}

const { state, rows, draw, count } = window.timeline;
const sheet = document.getElementById('canvas');
const span = () => state.to - state.from;
const by = id => document.getElementById(id);
function press(key, target = sheet) {
  target.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
}
function point(type, x, y, more = {}) {
  const at = sheet.getBoundingClientRect();
  sheet.dispatchEvent(new PointerEvent(type,
    { clientX: at.left + x, clientY: at.top + y, bubbles: true, cancelable: true, ...more }));
}
function roll(deltaY, x, more = {}) {
  const at = sheet.getBoundingClientRect();
  sheet.dispatchEvent(new WheelEvent('wheel',
    { deltaY, clientX: at.left + x, clientY: at.top + 60, bubbles: true, cancelable: true, ...more }));
}
// The pixels of the canvas, read from a copy, because reading the canvas itself would change how the
// browser draws it.
const copy = document.createElement('canvas');
const reader = copy.getContext('2d', { willReadFrequently: true });
function picture() {
  draw();
  [copy.width, copy.height] = [sheet.width, sheet.height];
  reader.drawImage(sheet, 0, 0);
  return reader.getImageData(0, 0, sheet.width, sheet.height).data;
}
// The rounded colours of the canvas, with the number of pixels of each.
function colours() {
  const data = picture();
  const found = new Map();
  for (let at = 0; at < data.length; at += 16) {
    const colour = `${data[at] >> 4},${data[at + 1] >> 4},${data[at + 2] >> 4}`;
    found.set(colour, (found.get(colour) || 0) + 1);
  }
  return found;
}
// The middle of an operation's rectangle in the current scroll position.
function middle(row, n) {
  const at = state.rows.indexOf(row), wide = sheet.clientWidth - 132;
  const x = time => 132 + (time - state.from) / span() * wide;
  return [(x(row.begin[n]) + x(row.end[n])) / 2, state.tops[at] + 10 - by('view').scrollTop];
}
function type(text) {
  by('search').value = text;
  by('search').dispatchEvent(new Event('input', { bubbles: true }));
}

check('the page has operations and engine rows', () =>
  count > 100 && state.rows.length >= 3 && state.rows.every(row => row.kind === 'engine') || [count, state.rows.length]);
check('the canvas is drawn in many colours', () => colours().size > 12 || [...colours()]);
check('the whole run is shown at first', () =>
  rows.filter(row => row.kind === 'engine').every(row =>
    state.from <= row.begin[0] && row.end[row.ops.length - 1] <= state.to));

// The start and the end of the run: the start of the idle time before the first operation, and the end of the idle time
// after the last operation.
const ends = [...document.querySelectorAll('.losses a[href^="#t="]')].map(link => link.hash.slice(3).split(',').map(Number));
const began = Math.min(...ends.map(([from]) => from)), ended = Math.max(...ends.map(([, to]) => to));
// The texts that one drawing of the canvas writes, each with its position.
function texts() {
  const pen = CanvasRenderingContext2D.prototype, own = pen.fillText, written = [];
  pen.fillText = function (text, x, y) {
    if (this.canvas === sheet) written.push({ text, x, y });
    return own.apply(this, arguments);
  };
  draw();
  pen.fillText = own;
  return written;
}
check('the view of the whole run includes the time before its first operation and after its last one', () => {
  const engines = rows.filter(row => row.kind === 'engine');
  const first = Math.min(...engines.map(row => row.begin[0])), last = Math.max(...engines.map(row => row.end[row.ops.length - 1]));
  press('f');
  // The run of the large page begins long before its first operation, and ends long after its last one.
  const apart = count < 1e4 ? began <= first && last <= ended : first - began > span() / 20 && ended - last > span() / 20;
  return apart && state.from <= began && ended <= state.to && span() < (ended - began) * 1.05 ||
    [began, first, last, ended, state.from, state.to];
});
check('the axis begins with the run', () => {
  press('f');
  press('a');
  const zeros = texts().filter(({ text, y }) => y < 26 && /^0(\.0+)? /.test(text));
  const x = 132 + (began - state.from) / span() * (sheet.clientWidth - 132);
  press('f');
  return zeros.length === 1 && Math.abs(zeros[0].x - x) < 2 || [zeros, x];
});

check('W zooms in, S out, about the middle', () => {
  const before = span(), centre = (state.from + state.to) / 2;
  press('w');
  const inside = span() < before * .8, same = Math.abs((state.from + state.to) / 2 - centre) < before / 1e6;
  press('s');
  return inside && same && Math.abs(span() / before - 1) < .06 || [before, span(), centre];
});
check('D moves to later times, A back', () => {
  press('w');
  const before = state.from;
  press('d');
  const later = state.from > before;
  press('a');
  return later && Math.abs(state.from - before) < span() / 1e6 || [before, state.from];
});
check('the wheel zooms where the pointer is', () => {
  press('f');
  const x = 132 + (sheet.clientWidth - 132) / 4, time = state.from + span() / 4, before = span();
  for (let n = 0; n < 5; n++) roll(-200, x);
  const now = state.from + span() / 4;
  return span() < before / 10 && Math.abs(now - time) < before / 500 || [before, span(), time, now];
});
check('shift and the wheel move', () => {
  const before = state.from, wide = span();
  roll(100, 400, { shiftKey: true });
  return state.from > before && Math.abs(span() / wide - 1) < 1e-9 || [before, state.from];
});
check('f shows the whole run again', () => {
  press('f');
  return rows.filter(row => row.kind === 'engine').every(row => state.from <= row.begin[0] && row.end[row.ops.length - 1] <= state.to);
});
check('zooming in and out has a limit', () => {
  for (let n = 0; n < 200; n++) press('w');
  const least = span();
  for (let n = 0; n < 400; n++) press('s');
  const most = span();
  press('f');
  return least >= 10 && most <= span() * 3 || [least, most];
});

const compute = rows.find(row => row.kind === 'engine' && row.fullName.endsWith('compute'));
const place = Math.min(20, compute.ops.length >> 1);
function goTo(n) {
  press('Escape', document.body);
  location.hash = '';
  const each = (compute.end[n] - compute.begin[n]) * 20;
  while (span() > each) window.timeline.zoom(.5, (compute.begin[n] + compute.end[n]) / 2);
}
check('the pointer over an operation shows its card', () => {
  goTo(place);
  point('pointermove', ...middle(compute, place));
  const text = by('card').textContent;
  return !by('card').hidden && text.includes(`#${compute.ops[place]} `) && text.includes('ran') && text.includes('from its call to its start') || text;
});
check('the wheel hides the card of the operation under the pointer', () => {
  goTo(place);
  const [x, y] = middle(compute, place);
  point('pointermove', x, y);
  const shown = !by('card').hidden && state.hover === compute.ops[place];
  roll(-200, x);
  const left = [by('card').hidden, state.hover];
  press('f');
  return shown && left[0] && left[1] === -1 || [shown, left];
});
check('a click selects the operation and shows which operations it follows', () => {
  goTo(place);
  point('pointerdown', ...middle(compute, place));
  point('pointerup', ...middle(compute, place));
  const text = by('detail').textContent;
  return state.selected === compute.ops[place] && text.includes('follows') || [state.selected, compute.ops[place], text];
});
check('arrows lead to the selected operation', () => {
  const accent = colours();
  state.selected = -1;
  const bare = colours();
  state.selected = compute.ops[place];
  let differ = 0;
  for (const [colour, n] of accent) differ += Math.abs(n - (bare.get(colour) || 0));
  return differ > 40 || differ;
});
check('the right arrow key goes to the next operation, the left arrow key back', () => {
  press('ArrowRight');
  const next = state.selected;
  press('ArrowLeft');
  return next === compute.ops[place + 1] && state.selected === compute.ops[place] || [next, state.selected];
});
check('the down arrow key goes to the row below, the up arrow key back', () => {
  press('ArrowDown');
  const lower = state.rows[state.rows.indexOf(compute) + 1].ops.includes(state.selected);
  press('ArrowUp');
  return lower && compute.ops.includes(state.selected) || [lower, state.selected];
});
check('Escape ends the selection and hides the card', () => {
  point('pointermove', ...middle(compute, place));
  const shown = !by('card').hidden;
  press('Escape');
  return shown && state.selected === -1 && by('detail').childNodes.length === 0 && by('card').hidden;
});
check('the card shows the number of an operation in the order of its stream', () => {
  goTo(place);
  point('pointermove', ...middle(compute, place));
  const text = by('card').textContent;
  press('Escape');
  return /operation [\d,]+ of stream \d+, in the order of the calls/.test(text) || text;
});
check('a bar that the window cuts has marks at its ends', () => {
  goTo(place);
  const [begin, end] = [compute.begin[place], compute.end[place]];
  const marks = () => {
    const data = picture(), scale = sheet.width / sheet.clientWidth;
    const [, y] = middle(compute, place);
    const at = (x, down) => [...data.slice(4 * (Math.round((y + down) * scale) * sheet.width + Math.round(x * scale)), 4 * (Math.round((y + down) * scale) * sheet.width + Math.round(x * scale)) + 3)].join();
    // A pixel inside the mark, and a pixel above the mark, at each end.
    return [at(138, 8), at(138, 17), at(sheet.clientWidth - 6, 8), at(sheet.clientWidth - 6, 17)];
  };
  window.timeline.zoom((end - begin) / span() / 2, (begin + end) / 2);
  const [left, above, right, over] = marks();
  press('Escape');
  press('f', document.body);
  return left !== above && right !== over || [left, above, right, over];
});
check('the timeline is visible without scrolling', () =>
  sheet.getBoundingClientRect().top + 150 < innerHeight || [sheet.getBoundingClientRect().top, innerHeight]);
check('a drag selects a time and adds up the operations in it', () => {
  press('f');
  point('pointerdown', 200, 60);
  point('pointermove', 500, 70);
  point('pointerup', 500, 70);
  const cells = [...by('statistics').querySelectorAll('tbody tr')].map(row => row.cells[0].textContent);
  return state.range !== null && !by('statistics').hidden && cells.join() === 'upload,compute,download' || [state.range, cells];
});
check('a selection of the whole run adds up to the rows', () => {
  press('f');
  point('pointerdown', 133, 60);
  point('pointermove', sheet.clientWidth - 1, 70);
  point('pointerup', sheet.clientWidth - 1, 70);
  const counted = [...by('statistics').querySelectorAll('tbody tr')].map(row => Number(row.cells[1].textContent.replace(/,/g, '')));
  const wanted = ['upload', 'compute', 'download'].map(name =>
    rows.filter(row => row.kind === 'engine' && row.fullName === name).reduce((sum, row) => sum + row.ops.length, 0));
  press('Escape');
  return counted.join() === wanted.join() || [counted, wanted];
});
check('/ leads to the search, which counts its matches', () => {
  press('/');
  const focused = document.activeElement === by('search');
  type('chunk 7');
  return focused && /^[1-9]\d* operations?$/.test(by('found').textContent) && state.matchCount < 60 || [focused, by('found').textContent];
});
check('Enter goes from match to match', () => {
  press('Enter', by('search'));
  const first = state.selected;
  press('Enter', by('search'));
  const second = state.selected;
  return state.matches[first] === 1 && state.matches[second] === 1 && first !== second || [first, second];
});
check('Enter after a paste goes to a match of the new text', () => {
  const match = text => { type(text); return state.matches.slice(); };
  const [pasted, before] = [match('chunk 9'), match('chunk 3')];
  by('search').value = 'chunk 9';
  press('Enter', by('search'));
  const found = state.selected;
  type('chunk 7');
  return pasted[found] === 1 && before[found] === 0 || found;
});
check('the page zooms to a match', () => {
  press('Escape', document.body);
  press('f', document.body);
  press('Enter', by('search'));
  const row = state.rows.find(row => row.ops.includes(state.selected));
  const n = row.ops.indexOf(state.selected), wide = (row.end[n] - row.begin[n]) / span() * (sheet.clientWidth - 132);
  return wide >= 12 && state.from <= row.begin[n] && row.end[n] <= state.to || [wide, state.from, state.to];
});
check('operations that do not match fade', () => {
  press('f', document.body);
  const some = colours();
  type('');
  const all = colours();
  let differ = 0;
  for (const [colour, n] of all) differ += Math.abs(n - (some.get(colour) || 0));
  return differ > 500 || differ;
});
check('letters in the search field are text, not commands', () => {
  const before = span();
  press('w', by('search'));
  sheet.focus();
  return span() === before;
});
check('streams and host threads can be shown and hidden', () => {
  // An earlier match may have shown a hidden row.
  const set = (box, on) => { if (by(box).checked !== on) by(box).click(); };
  const kinds = (streams, threads) => {
    set('streams', streams);
    set('threads', threads);
    return [...new Set(state.rows.map(row => row.kind))].join();
  };
  const seen = [kinds(true, true), kinds(true, false), kinds(false, true), kinds(false, false)];
  const wanted = ['engine,stream,thread', 'engine,stream', 'engine,thread', 'engine'];
  return seen.join(';') === wanted.join(';') || seen;
});
check('a match in a hidden row shows this row', () => {
  const seen = new Set(rows.filter(row => row.kind === 'engine').flatMap(row => [...row.ops]));
  const hidden = rows.filter(row => row.kind !== 'engine').flatMap(row => [...row.ops]).find(i => !seen.has(i));
  type(window.timeline.label(hidden));
  for (let n = 0; n < state.matchCount && state.selected !== hidden; n++) press('Enter', by('search'));
  const shown = state.rows.some(row => row.kind !== 'engine' && row.ops.includes(hidden));
  type('');
  press('Escape', document.body);
  for (const box of ['streams', 'threads']) if (by(box).checked) by(box).click();
  return shown && state.rows.every(row => row.kind === 'engine') || [hidden, shown, state.rows.length];
});
const inked = name => {
  const probe = document.createElement('span');
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const [r, g, b] = getComputedStyle(probe).color.match(/\d+/g).map(Number);
  probe.remove();
  return colours().get(`${r >> 4},${g >> 4},${b >> 4}`) || 0;
};
function follow(link) {
  location.hash = link;
  dispatchEvent(new HashChangeEvent('hashchange'));
}
check('a finding shows its two operations and the missing edge between them', () => {
  press('f', document.body);
  const link = document.querySelector('.hazards a');
  follow(link.hash);
  const [first, second] = link.textContent.match(/\d+/g).map(Number);
  const seen = [first, second].every(i => state.rows.some(row => {
    const n = row.ops.indexOf(i);
    return n >= 0 && row.begin[n] >= state.from && row.end[n] <= state.to;
  }));
  const with_it = inked('hazard');
  follow('');
  press('Escape', document.body);
  press('f', document.body);
  return seen && state.hazard === -1 && with_it > 5 || [first, second, seen, with_it];
});
check('a loss leads to its time, a bar names the limiting engine', () => {
  const link = document.querySelector('.losses a[href^="#t="]');
  const [from, to] = link.hash.slice(3).split(',').map(Number);
  follow(link.hash);
  const shown = state.range !== null && state.from <= from && to <= state.to;
  follow('');
  press('Escape', document.body);
  press('f', document.body);
  // There is no bar if the limit is the calls of the host, or if there is no single limit.
  const verdict = by('verdict').textContent;
  const bars = /limited by (?!the calls)/.test(verdict) ? 1 : 0;
  return shown && document.querySelectorAll('.limit').length === bars || [from, to, verdict];
});
check('? shows the keys', () => {
  press('?');
  const shown = !by('keys').hidden;
  press('?');
  return shown && by('keys').hidden;
});
check('the button changes the theme, and the canvas with it', () => {
  const light = matchMedia('(prefers-color-scheme: dark)').matches ? 1 : 0;
  const paper = () => getComputedStyle(document.body).backgroundColor;
  const brightness = () => picture()[4 * ((sheet.height - 2) * sheet.width + 2)];
  const first = [paper(), brightness()];
  by('theme').click();
  const second = [paper(), brightness()];
  by('theme').click();
  draw();
  return first[0] !== second[0] && Math.abs(first[1] - second[1]) > 100 || [light, first, second];
});
check('every control has a name and can be reached', () => {
  const unnamed = [...document.querySelectorAll('button, input, canvas[tabindex]')].filter(e =>
    !(e.textContent.trim() || e.getAttribute('aria-label') || e.closest('label')) || e.tabIndex < 0);
  return unnamed.length === 0 || unnamed.map(e => e.id);
});

// 60 frames that zoom into the run and move through it. Only the time of the script is measured.
// Another program may use the processor during a frame, so the time of each frame is the best of three passes.
by('streams').click();
const frames = new Array(60).fill(Infinity);
for (let pass = 0; pass < 3; pass++) {
  press('f');
  for (let n = 0; n < 60; n++) {
    if (n < 25) window.timeline.zoom(.8); else if (n < 45) window.timeline.move(.13); else window.timeline.zoom(1.35);
    const start = performance.now();
    draw();
    frames[n] = Math.min(frames[n], performance.now() - start);
  }
}
by('streams').click();
press('f');
draw();
frames.sort((a, b) => a - b);
check('60 frames take less than 50 ms each', () => frames[59] < 50 || frames);
check('the page reported no error', () => window.trouble.length === 0 || window.trouble);
for (const line of checks) console.log(`check: ${line}`);
console.log(`check: frames: median ${frames[30].toFixed(2)} ms, longest ${frames[59].toFixed(2)} ms`);
console.log('check: all done');
});
