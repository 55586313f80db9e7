// The drawing of the visible part of the timeline, with at most a few rectangles per pixel and row.

const canvas = document.getElementById('canvas');
const view = document.getElementById('view');
const overview = document.getElementById('overview');
const pen = canvas.getContext('2d');
const AXIS = 26, MARGIN = 132, SPACE = 10, HEAD = 20;
const HEIGHTS = { engine: 44, stream: 26, thread: 20 };
const COLOURS = 12;
const CAUSES = ['busy', 'exposed', 'fill', 'drain', 'waiting', 'host', 'launch', 'other'];

const state = {
  from: run[0], to: run[1],
  rows: [], tops: [], heads: [], height: 0,
  selected: -1, kind: 'engine', hover: -1, range: null,
  hazard: -1, matches: null, matchCount: 0, matchSums: null,
};
let look = null;

function colourOf(i) {
  if (source.byName) return op.label[i] % COLOURS;
  return op.chunk[i] > 0 ? (op.chunk[i] - 1) % COLOURS : COLOURS;
}

// The colours as the browser resolves them, for the current theme.
function readLook() {
  const probe = document.createElement('span');
  document.body.append(probe);
  const colour = name => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  look = { chunks: [], inks: [], pixels: [] };
  for (const name of ['paper', 'panel', 'track', 'line', 'ink', 'soft', 'accent', 'critical', 'hazard', 'select']) {
    look[name] = colour(name);
  }
  for (let n = 0; n <= COLOURS; n++) {
    const c = colour(`k${n}`);
    const [r, g, b] = channels(c);
    look.chunks.push(c);
    look.pixels.push(b << 16 | g << 8 | r);
    look.inks.push(.299 * r + .587 * g + .114 * b > 120 ? '#111' : '#fff');
  }
  const [r, g, b] = channels(look.critical);
  look.criticalPixel = b << 16 | g << 8 | r;
  const idle = colour('idle');
  look.causes = new Map(CAUSES.map(cause => [cause, hatch(cause, idle, colour)]));
  probe.remove();
}

function channels(colour) {
  return colour.match(/[\d.]+/g).map(Number);
}

// The pattern of a cause, the same as in the bars.
function hatch(cause, idle, colour) {
  const own = { waiting: 'waiting', host: 'host', launch: 'launch', exposed: 'exposed' }[cause];
  if (!own && cause !== 'fill' && cause !== 'drain') return idle;
  const tile = document.createElement('canvas');
  tile.width = tile.height = 8;
  const p = tile.getContext('2d');
  p.fillStyle = idle;
  p.fillRect(0, 0, 8, 8);
  p.strokeStyle = own ? colour(own) : look.line;
  p.lineWidth = own ? 2 : 1.2;
  const rising = cause === 'fill' || cause === 'waiting';
  p.beginPath();
  if (cause === 'launch') { p.moveTo(0, 4); p.lineTo(8, 4); }
  else if (cause === 'exposed') { p.moveTo(4, 0); p.lineTo(4, 8); }
  else for (const x of [-8, 0, 8]) {
    p.moveTo(x - 1, rising ? 9 : -1);
    p.lineTo(x + 9, rising ? -1 : 9);
  }
  p.stroke();
  return pen.createPattern(tile, 'repeat');
}

function layOut() {
  const shown = { engine: true, stream: streamsBox.checked, thread: threadsBox.checked };
  state.rows = rows.filter(row => shown[row.kind]);
  state.tops = [];
  state.heads = [];
  let top = AXIS + 4, kind = null, group = '';
  for (const row of state.rows) {
    if (row.group !== group) {
      if (kind !== null) top += SPACE;
      state.heads.push({ text: row.group, top });
      top += HEAD;
    } else if (kind !== null && kind !== row.kind) top += SPACE;
    [kind, group] = [row.kind, row.group];
    state.tops.push(top);
    top += HEIGHTS[row.kind];
  }
  state.height = top + 6;
  const shownHeight = Math.max(80, Math.min(state.height, Math.round(innerHeight * .72)));
  canvas.style.height = `${shownHeight}px`;
  document.getElementById('spacer').style.height = `${Math.max(0, state.height - shownHeight)}px`;
  resize(canvas);
  sheetWidth = canvas.clientWidth;
}

function resize(target) {
  const scale = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(target.clientWidth * scale), Math.round(target.clientHeight * scale)];
  if (target.width !== w || target.height !== h) { target.width = w; target.height = h; }
}

// Read once per layout, because reading it for each operation takes longer than drawing.
let sheetWidth = 1;
const width = () => Math.max(1, sheetWidth - MARGIN);
const xOf = time => MARGIN + (time - state.from) / (state.to - state.from) * width();
const timeOf = x => state.from + (x - MARGIN) / width() * (state.to - state.from);

function draw() {
  if (!look) readLook();
  const w = sheetWidth, h = canvas.clientHeight, scroll = view.scrollTop;
  const scale = window.devicePixelRatio || 1;
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.globalAlpha = 1;
  pen.fillStyle = look.paper;
  pen.fillRect(0, 0, w, h);
  pen.save();
  pen.beginPath();
  pen.rect(0, AXIS, w, h - AXIS);
  pen.clip();
  pen.translate(0, -scroll);
  state.rows.forEach((row, n) => {
    const top = state.tops[n], height = HEIGHTS[row.kind] - 4;
    if (top + height < scroll || top > scroll + h) return;
    drawRow(row, top, height);
  });
  pen.save();
  pen.beginPath();
  pen.rect(MARGIN, 0, w - MARGIN, state.height);
  pen.clip();
  drawEdges();
  pen.restore();
  drawNames(scroll, h);
  pen.restore();
  drawAxis(w, h);
  drawRange(h);
  drawOverview();
}

function drawNames(scroll, h) {
  pen.font = '13px system-ui, "DejaVu Sans", sans-serif';
  pen.textAlign = 'right';
  pen.textBaseline = 'middle';
  state.rows.forEach((row, n) => {
    const top = state.tops[n], height = HEIGHTS[row.kind] - 4;
    if (!row.name || top + height < scroll || top > scroll + h) return;
    pen.fillStyle = row.kind === 'engine' ? look.ink : look.soft;
    pen.fillText(row.name, MARGIN - 10, top + height / 2, MARGIN - 14);
  });
  for (const head of state.heads) {
    if (head.top + HEAD < scroll || head.top > scroll + h) continue;
    pen.textAlign = 'left';
    pen.fillStyle = look.ink;
    pen.font = '600 13px system-ui, "DejaVu Sans", sans-serif';
    pen.fillText(head.text, 10, head.top + HEAD / 2);
  }
}

// The distance of labels on the axis, and the number of parts that ticks without a label cut it into.
function ticks() {
  const wanted = (state.to - state.from) / Math.max(2, width() / 110);
  const power = 10 ** Math.floor(Math.log10(wanted));
  const digit = [1, 2, 5, 10].find(n => n * power >= wanted);
  const step = Math.max(1, digit * power);
  return { step, parts: step === 1 ? 1 : digit === 2 && step >= 4 ? 4 : Math.min(step, digit === 2 ? 2 : 5) };
}

function drawAxis(w, h) {
  const { step, parts } = ticks();
  pen.fillStyle = look.soft;
  for (let n = Math.ceil((state.from - run[0]) / step * parts); n * step / parts <= state.to - run[0]; n++) {
    const x = Math.round(xOf(n * step / parts + run[0]));
    if (x >= MARGIN) pen.fillRect(x, AXIS - (n % parts ? 4 : 7), 1, n % parts ? 4 : 7);
  }
  pen.font = '11.5px system-ui, "DejaVu Sans", sans-serif';
  pen.textAlign = 'center';
  pen.textBaseline = 'middle';
  const largest = Math.floor((state.to - run[0]) / step) * step;
  for (let at = Math.ceil((state.from - run[0]) / step) * step; at <= largest; at += step) {
    const x = Math.round(xOf(at + run[0])) + .5;
    pen.fillStyle = look.line;
    pen.globalAlpha = .4;
    pen.fillRect(x - .5, AXIS - 4, 1, h);
    pen.globalAlpha = 1;
    pen.fillStyle = look.soft;
    const half = 26;
    const first = x <= MARGIN + half;
    pen.textAlign = first ? 'left' : 'center';
    if (x >= MARGIN && x < w - half) pen.fillText(words.ticks(at, step, largest), x + (first ? 3 : 0), AXIS / 2);
  }
  pen.fillStyle = look.line;
  pen.fillRect(0, AXIS - .5, w, 1);
}

function drawRow(row, top, height) {
  const w = sheetWidth;
  pen.fillStyle = look.track;
  pen.fillRect(MARGIN, top, w - MARGIN, height);
  if (row.kind === 'engine') drawGaps(row, top, height);
  const perPixel = (state.to - state.from) / width();
  // `undefined` without a search, `null` if nothing in the row matches.
  const sums = state.matchSums ? state.matchSums.get(row) : undefined;
  const count = row.ops.length;
  strip.begin();
  let n = row.from(state.from);
  while (n < count && row.begin[n] < state.to) {
    // Find the largest group from here that is no wider than a pixel.
    let level = 0;
    while (level < row.levels.length && n % (2 << level) === 0 &&
           row.levels[level].end[n >> (level + 1)] - row.begin[n] <= perPixel) level++;
    const next = Math.min(count, n + (1 << level));
    const group = level > 0 ? row.levels[level - 1] : null;
    const shown = group ? group.top[n >> level] : n;
    const end = group ? group.end[n >> level] : row.end[n];
    const x = Math.max(MARGIN, xOf(row.begin[n])), right = Math.min(w, xOf(end));
    const faded = sums !== undefined && (sums === null || sums[next] === sums[n]);
    const critical = row.critical !== null && row.critical[next] > row.critical[n];
    const colour = colourOf(row.ops[shown]);
    if (right - x < 1.5) {
      strip.add(Math.floor(x), group ? group.busy[n >> level] : row.busy(n), colour, faded, critical);
    } else {
      pen.globalAlpha = faded ? .16 : 1;
      pen.fillStyle = look.chunks[colour];
      pen.fillRect(x, top, right - x > 4 ? right - x - .6 : right - x, height);
      if (critical) drawCritical(x, top, right - x, height);
      if (right - x > 20) drawClipped(xOf(row.begin[n]) < MARGIN, xOf(end) > w, x, right, top, height, colour);
      if (!group && right - x > 15) drawLabel(row, row.ops[n], x, top, right - x, height, colour);
    }
    n = next;
  }
  strip.finish(top, height);
  pen.globalAlpha = 1;
  outline(row, state.hover, top, height, look.soft, 1.5);
  outline(row, state.selected, top, height, look.accent, 3);
}

// The operations that are narrower than a pixel. A column shows the longest operation in it, the paler
// the less of the column's time operations ran. The columns of a row are the pixels of a strip of
// height 1, which is then stretched, because a rectangle for each would take most of the time of a
// frame.
const strip = {
  sheet: document.createElement('canvas'), pen: null, image: null, pixels: null,
  longest: null, busy: null, used: false, marked: false,
  begin() {
    const w = Math.max(1, sheetWidth);
    if (!this.image || this.image.width !== w) {
      [this.sheet.width, this.sheet.height] = [w, 2];
      this.pen = this.sheet.getContext('2d');
      this.image = this.pen.createImageData(w, 2);
      this.pixels = new Uint32Array(this.image.data.buffer);
      this.longest = new Float64Array(w);
      this.busy = new Float64Array(w);
    }
    this.pixels.fill(0);
    this.longest.fill(-1);
    this.busy.fill(0);
    this.used = this.marked = false;
  },
  add(at, time, colour, faded, critical) {
    const w = this.image.width;
    if (at < 0 || at >= w) return;
    this.used = true;
    this.busy[at] += time;
    if (time > this.longest[at] || (!faded && this.pixels[at] >>> 24 < 255)) {
      this.longest[at] = time;
      this.pixels[at] = ((faded ? FADED : 255) << 24 | look.pixels[colour]) >>> 0;
    }
    if (critical) {
      this.marked = true;
      this.pixels[w + at] = (255 << 24 | look.criticalPixel) >>> 0;
    }
  },
  finish(top, height) {
    if (!this.used) return;
    const w = this.image.width, pixel = (state.to - state.from) / width();
    for (let at = 0; at < w; at++) {
      if (this.pixels[at] >>> 24 < 255) continue;
      const opaque = PALE + (255 - PALE) * Math.min(1, this.busy[at] / pixel);
      this.pixels[at] = (opaque << 24 | this.pixels[at] & 0xffffff) >>> 0;
    }
    this.pen.putImageData(this.image, 0, 0);
    pen.globalAlpha = 1;
    pen.imageSmoothingEnabled = false;
    pen.drawImage(this.sheet, 0, 0, w, 1, 0, top, w, height);
    if (!this.marked) return;
    pen.drawImage(this.sheet, 0, 1, w, 1, 0, top, w, 2);
    pen.drawImage(this.sheet, 0, 1, w, 1, 0, top + height - 2, w, 2);
  },
};
const FADED = 41, PALE = 110;

// Marks the ends of a rectangle that lie outside of the window: a notched edge.
function drawClipped(left, right, x, end, top, height, colour) {
  if (!left && !right) return;
  pen.fillStyle = look.inks[colour];
  for (const [clipped, at, inwards] of [[left, x, 1], [right, end, -1]]) {
    if (!clipped) continue;
    pen.beginPath();
    pen.moveTo(at + inwards * 2, top + height / 2);
    pen.lineTo(at + inwards * 9, top + height / 2 - 5);
    pen.lineTo(at + inwards * 9, top + height / 2 + 5);
    pen.fill();
  }
}

function drawCritical(x, top, wide, height) {
  pen.fillStyle = look.critical;
  if (wide < 6) {
    pen.fillRect(x, top, wide, 2);
    pen.fillRect(x, top + height - 2, wide, 2);
    return;
  }
  pen.strokeStyle = look.critical;
  pen.lineWidth = 2;
  pen.strokeRect(x + 1, top + 1, wide - 2.6, height - 2);
}

// The width of a digit, about. Measuring each text would take longer than drawing it.
const DIGIT = 6.6;
function drawLabel(row, i, x, top, wide, height, colour) {
  const number = op.chunk[i] > 0 ? String(op.chunk[i] - 1) : '';
  const label = standsFor(i) > 1 ? `${standsFor(i)} merged` : op.labels[op.label[i]];
  const full = row.kind === 'engine' ? number : `${label}${number && ` ${number}`}`;
  const room = (wide - 6) / DIGIT;
  const long = `${label}${number && ` ${number}`}`;
  const text = long.length <= room ? long : full.length <= room ? full : number.length <= room ? number : '';
  if (!text || height < 12) return;
  pen.font = '11.5px system-ui, "DejaVu Sans", sans-serif';
  pen.textAlign = 'left';
  pen.textBaseline = 'middle';
  pen.fillStyle = look.inks[colour];
  pen.fillText(text, x + (xOf(row.kind === 'thread' ? op.call[i] : op.begin[i]) < MARGIN ? 13 : 4), top + height / 2 + .5);
}

function outline(row, i, top, height, colour, line) {
  if (i < 0 || rowNumber(row.kind, i) !== rows.indexOf(row)) return;
  const [begin, end] = spanIn(row, i);
  const x = Math.max(MARGIN, xOf(begin)), wide = Math.max(2, xOf(end) - x);
  if (x > sheetWidth || xOf(end) < MARGIN) return;
  pen.strokeStyle = look.paper;
  pen.lineWidth = line + 2;
  pen.strokeRect(x - .5, top - .5, wide, height + 1);
  pen.strokeStyle = colour;
  pen.lineWidth = line;
  pen.strokeRect(x - .5, top - .5, wide, height + 1);
}

function drawGaps(row, top, height) {
  const list = row.name && gaps.get(row.track);
  if (!list) return;
  let low = 0, high = list.length;
  const seek = time => {
    high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle].to > time) high = middle; else low = middle + 1;
    }
  };
  seek(state.from);
  while (low < list.length && list[low].from < state.to) {
    const gap = list[low];
    const x = Math.max(MARGIN, xOf(gap.from)), end = Math.min(sheetWidth, xOf(gap.to));
    low++;
    // A gap narrower than a pixel is not visible; go on after that pixel.
    if (end - x < 1) {
      seek(Math.max(gap.to, timeOf(x + 1)));
      continue;
    }
    pen.fillStyle = look.causes.get(gap.look);
    pen.fillRect(x, top, end - x, height);
  }
}

// The row of a kind that shows an operation, or -1.
function rowNumber(kind, i) {
  return { engine: op.engineRow, stream: op.streamRow, thread: op.threadRow }[kind][i] - 1;
}

function spanIn(row, i) {
  return row.kind === 'thread' ? [op.call[i], op.call[i] + op.calling[i]]
                               : [op.begin[i], op.begin[i] + op.took[i]];
}

// The place of an operation on the screen: in the row of its engine if there is one. The selected
// operation is in the row in which it was selected.
function placeOf(i) {
  const first = i === state.selected ? state.kind : 'engine';
  for (const kind of [first, 'engine', 'stream', 'thread']) {
    const number = rowNumber(kind, i);
    const n = number < 0 ? -1 : state.rows.indexOf(rows[number]);
    if (n < 0) continue;
    const [begin, end] = spanIn(rows[number], i);
    const height = HEIGHTS[kind] - 4;
    return { n, x: xOf(begin), end: xOf(end), top: state.tops[n], middle: state.tops[n] + height / 2, height };
  }
  return null;
}

function drawEdges() {
  source.hazards.forEach(([first, second], n) => {
    if (first !== null) arrow(numbered(first), numbered(second), look.hazard, [6, 4], n === state.hazard ? 3 : 1.5);
  });
  if (state.selected < 0) return;
  // An operation may have thousands of edges.
  for (const i of before(state.selected).subarray(0, 200)) arrow(i, state.selected, look.ink, [], 2);
  for (const i of after(state.selected).subarray(0, 200)) arrow(state.selected, i, look.accent, [], 1.5);
}

function arrow(from, to, colour, dash, line) {
  const [a, b] = [placeOf(from), placeOf(to)];
  if (!a || !b) return;
  const [x, y, u, v] = [a.end, a.middle, b.x, b.middle];
  if (Math.max(x, u) < MARGIN - 200 || Math.min(x, u) > sheetWidth + 200) return;
  const bend = Math.max(14, Math.min(60, Math.abs(u - x) / 2 + Math.abs(v - y) / 4));
  for (const [style, wide] of [[look.paper, line + 2.5], [colour, line]]) {
    pen.strokeStyle = style;
    pen.lineWidth = wide;
    pen.setLineDash(style === colour ? dash : []);
    pen.beginPath();
    pen.moveTo(x, y);
    pen.bezierCurveTo(x + bend, y, u - bend, v, u - 5, v);
    pen.stroke();
  }
  pen.setLineDash([]);
  pen.fillStyle = colour;
  pen.beginPath();
  pen.moveTo(u + 1, v);
  pen.lineTo(u - 8, v - 4.5);
  pen.lineTo(u - 8, v + 4.5);
  pen.fill();
}

function drawRange(h) {
  if (!state.range) return;
  const [from, to] = state.range.map(xOf);
  const x = Math.max(MARGIN, from), end = Math.min(sheetWidth, to);
  if (end <= x) return;
  pen.fillStyle = look.select;
  pen.fillRect(x, AXIS, end - x, h - AXIS);
  pen.fillStyle = look.accent;
  pen.fillRect(x, 0, 1, h);
  pen.fillRect(end - 1, 0, 1, h);
}

// The overview: the whole run, small, with a frame around the visible part. The rows are drawn once
// per size and theme.
let small = null;
function drawOverview() {
  resize(overview);
  const scale = window.devicePixelRatio || 1;
  const w = overview.clientWidth - MARGIN, h = overview.clientHeight;
  if (!small || small.width !== overview.width || small.look !== look) {
    small = document.createElement('canvas');
    small.look = look;
    [small.width, small.height] = [overview.width, overview.height];
    drawSmall(small.getContext('2d'), scale, w, h);
  }
  const p = overview.getContext('2d');
  p.setTransform(1, 0, 0, 1, 0, 0);
  p.clearRect(0, 0, overview.width, overview.height);
  p.drawImage(small, 0, 0);
  p.setTransform(scale, 0, 0, scale, 0, 0);
  const at = time => MARGIN + (time - everything[0]) / (everything[1] - everything[0]) * w;
  const from = Math.max(MARGIN, at(state.from)), to = Math.min(MARGIN + w, at(state.to));
  p.fillStyle = look.select;
  p.fillRect(from, 0, Math.max(2, to - from), h);
  p.strokeStyle = look.accent;
  p.lineWidth = 1.5;
  p.strokeRect(from + .75, .75, Math.max(2, to - from - 1.5), h - 1.5);
}

function drawSmall(p, scale, w, h) {
  p.setTransform(scale, 0, 0, scale, 0, 0);
  p.fillStyle = look.panel;
  p.fillRect(MARGIN, 0, w, h);
  const engines = rows.filter(row => row.kind === 'engine');
  const shown = engines.length > 0 ? engines : rows.slice(0, 6);
  const each = (h - 6) / Math.max(1, shown.length), pixel = (everything[1] - everything[0]) / w;
  shown.forEach((row, place) => {
    let n = 0;
    while (n < row.ops.length) {
      p.fillStyle = look.chunks[colourOf(row.ops[n])];
      const x = MARGIN + (row.begin[n] - everything[0]) / pixel;
      p.fillRect(x, 3 + place * each, Math.max(.7, (row.end[n] - row.begin[n]) / pixel), each - 1);
      n = Math.max(n + 1, row.from(row.begin[n] + pixel / 2));
    }
  });
}
