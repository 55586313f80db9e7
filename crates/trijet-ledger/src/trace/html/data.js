// The data of the page: unpacked columns, and rows with the levels that zooming needs.

const source = JSON.parse(document.getElementById('data').textContent);
const unpacking = document.getElementById('unpacking');
unpacking.hidden = false;

const op = unpacked(await inflated(document.getElementById('columns').textContent.trim(), unpacking), source.columns);
const COUNT = source.count;
for (const name of ['chunk', 'slack', 'position', 'stream', 'site']) op[name] ??= new Uint8Array(COUNT);
[op.labels, op.kinds, op.sites] = [source.labels, source.kinds, source.sites.length > 0 ? source.sites : ['']];
const TIMED = 1, CALLED = 2, UNDECLARED = 4, CRITICAL = 8, CRITICAL_CALL = 16;

// How many operations an item stands for, how long they ran, and the number of the first of them.
const standsFor = i => op.stands ? op.stands[i] : 1;
const busyOf = i => op.busy ? op.busy[i] : op.took[i];
const numberOf = i => op.number ? op.number[i] : i;

// The operations before or after each operation, as lists in one array: that of operation i is from
// `start[i]` to `start[i + 1]`.
function adjacency(keys, others) {
  const start = new Uint32Array(COUNT + 1), list = new Uint32Array(keys.length);
  for (const key of keys) start[key + 1]++;
  for (let i = 0; i < COUNT; i++) start[i + 1] += start[i];
  const next = start.slice();
  keys.forEach((key, n) => { list[next[key]++] = others[n]; });
  return i => list.subarray(start[i], start[i + 1]);
}
const before = adjacency(op.to, op.from);
const after = adjacency(op.from, op.to);

// A row: operations that do not overlap, sorted by begin. Level 0 has the operations. An entry of a
// higher level stands for two entries of the level below, with their last end, their longest
// operation, and the sum of their durations.
class Row {
  constructor(about, track, members) {
    this.kind = about.kind;
    this.group = about.group;
    this.name = about.first ? about.name : '';
    this.fullName = about.name;
    this.track = track;
    const call = this.kind === 'thread';
    const [begin, took] = call ? [op.call, op.calling] : [op.begin, op.took];
    const later = (a, b) => begin[a] - begin[b] || begin[a] + took[a] - begin[b] - took[b] || a - b;
    if (!members.every((i, n) => n === 0 || later(members[n - 1], i) <= 0)) members.sort(later);
    this.ops = members;
    this.begin = new Float64Array(members.length);
    this.end = new Float64Array(members.length);
    for (let n = 0; n < members.length; n++) {
      this.begin[n] = begin[members[n]];
      this.end[n] = begin[members[n]] + took[members[n]];
    }
    this.levels = [];
    let below = { end: this.end, top: null, busy: null };
    while (below.end.length > 1) {
      const size = Math.ceil(below.end.length / 2);
      const level = { end: new Float64Array(size), top: new Uint32Array(size), busy: new Float32Array(size) };
      for (let n = 0; n < size; n++) {
        const a = 2 * n, b = Math.min(a + 1, below.end.length - 1);
        const [x, y] = below.top ? [below.top[a], below.top[b]] : [a, b];
        level.end[n] = below.end[b];
        level.busy[n] = below.busy ? below.busy[a] + (b > a ? below.busy[b] : 0)
                                   : this.busy(a) + (b > a ? this.busy(b) : 0);
        level.top[n] = this.end[y] - this.begin[y] > this.end[x] - this.begin[x] ? y : x;
      }
      this.levels.push(level);
      below = level;
    }
    this.critical = this.count(i => op.flags[i] & (call ? CRITICAL_CALL : CRITICAL));
  }

  // How long the operations at a place ran.
  busy(n) {
    return op.busy && this.kind !== 'thread' ? op.busy[this.ops[n]] : this.end[n] - this.begin[n];
  }

  // For each place, the number of operations before it that have a property. So the number in any
  // span is a difference. `null` if no operation has it.
  count(has) {
    const sums = new Uint32Array(this.ops.length + 1);
    for (let n = 0; n < this.ops.length; n++) sums[n + 1] = sums[n] + (has(this.ops[n]) ? 1 : 0);
    return sums[this.ops.length] > 0 ? sums : null;
  }

  // The first operation that ends after a time.
  from(time) {
    let low = 0, high = this.ops.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.end[middle] > time) high = middle; else low = middle + 1;
    }
    return low;
  }
}

function buildRows() {
  const columns = [op.engineRow, op.streamRow, op.threadRow];
  const sizes = new Uint32Array(source.rows.length + 1);
  for (const column of columns) for (let i = 0; i < COUNT; i++) sizes[column[i]]++;
  const members = source.rows.map((_, n) => new Uint32Array(sizes[n + 1]));
  const filled = new Uint32Array(source.rows.length + 1);
  for (const column of columns) {
    for (let i = 0; i < COUNT; i++) if (column[i] > 0) members[column[i] - 1][filled[column[i]]++] = i;
  }
  let track = -1;
  return source.rows.map((about, n) => {
    if (about.first) track++;
    return new Row(about, track, members[n]);
  });
}
const rows = buildRows();

// The gaps of each track, sorted by time.
const gaps = new Map();
op.gapTrack.forEach((of, n) => {
  const [look, words] = source.causes[op.gapCause[n]];
  if (!gaps.has(of)) gaps.set(of, []);
  gaps.get(of).push({ from: op.gapFrom[n], to: op.gapFrom[n] + op.gapTook[n], look, words });
});
for (const list of gaps.values()) list.sort((a, b) => a.from - b.from);

function extent(wanted) {
  let from = Infinity, to = -Infinity;
  for (const row of rows) {
    if (!wanted(row) || row.ops.length === 0) continue;
    from = Math.min(from, row.begin[0]);
    to = Math.max(to, row.end[row.ops.length - 1]);
  }
  return from <= to ? [from, Math.max(to, from + 1)] : null;
}
// The time of all operations and calls, and the time of the operations.
const everything = extent(() => true) || [0, 1];
const run = extent(row => row.kind !== 'thread') || everything.slice();
// The run begins and ends with idle times: nothing has happened yet, or the last results are written.
op.gapTrack.forEach((_, n) => {
  for (const span of [run, everything]) {
    span[0] = Math.min(span[0], op.gapFrom[n]);
    span[1] = Math.max(span[1], op.gapFrom[n] + op.gapTook[n]);
  }
});
