// The data of the page: unpacked columns, and rows with the levels that zooming needs.

const source = JSON.parse(document.getElementById('data').textContent);

// Unpacks a column: base64 of variable-length differences. Numbers are below 2^53; a shift would
// cut them to 32 bits, so they are multiplied.
function unpacked(text) {
  const bytes = atob(text);
  const values = [];
  let value = 0, at = 0;
  while (at < bytes.length) {
    let rest = 0, factor = 1, byte;
    do {
      byte = bytes.charCodeAt(at++);
      rest += (byte & 127) * factor;
      factor *= 128;
    } while (byte > 127);
    value += rest % 2 ? -(rest + 1) / 2 : rest / 2;
    values.push(value);
  }
  return Float64Array.from(values);
}

const op = {};
for (const [name, column] of Object.entries(source.columns)) {
  op[name] = typeof column === 'string' ? unpacked(column) : column;
}
const COUNT = source.count;
const TIMED = 1, CALLED = 2, UNDECLARED = 4, CRITICAL = 8, CRITICAL_CALL = 16;

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
    this.name = about.first ? about.name : '';
    this.fullName = about.name;
    this.track = track;
    const call = this.kind === 'thread';
    const [begin, took] = call ? [op.call, op.calling] : [op.begin, op.took];
    members.sort((a, b) => begin[a] - begin[b] || begin[a] + took[a] - begin[b] - took[b] || a - b);
    this.ops = Uint32Array.from(members);
    this.begin = Float64Array.from(members, i => begin[i]);
    this.end = Float64Array.from(members, i => begin[i] + took[i]);
    this.levels = [];
    let below = { end: this.end, busy: Float64Array.from(members, i => took[i]),
                  top: Uint32Array.from(members, (_, n) => n) };
    below.most = below.busy;
    while (below.end.length > 1) {
      const size = Math.ceil(below.end.length / 2);
      const level = { end: new Float64Array(size), busy: new Float64Array(size),
                      most: new Float64Array(size), top: new Uint32Array(size) };
      for (let n = 0; n < size; n++) {
        const a = 2 * n, b = Math.min(a + 1, below.end.length - 1);
        const longer = below.most[b] > below.most[a] ? b : a;
        level.end[n] = below.end[b];
        level.busy[n] = below.busy[a] + (b > a ? below.busy[b] : 0);
        level.most[n] = below.most[longer];
        level.top[n] = below.top[longer];
      }
      this.levels.push(level);
      below = level;
    }
    this.critical = this.count(i => op.flags[i] & (call ? CRITICAL_CALL : CRITICAL));
  }

  // For each place, the number of operations before it that have a property. So the number in any
  // span is a difference.
  count(has) {
    const sums = new Uint32Array(this.ops.length + 1);
    for (let n = 0; n < this.ops.length; n++) sums[n + 1] = sums[n] + (has(this.ops[n]) ? 1 : 0);
    return sums;
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
  const members = source.rows.map(() => []);
  const columns = [op.engineRow, op.streamRow, op.threadRow];
  for (let i = 0; i < COUNT; i++) {
    for (const column of columns) if (column[i] > 0) members[column[i] - 1].push(i);
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
{
  const [track, from, took, cause] = ['track', 'from', 'took', 'cause'].map(name => unpacked(source.gaps[name]));
  track.forEach((of, n) => {
    const [look, words] = source.gaps.causes[cause[n]];
    if (!gaps.has(of)) gaps.set(of, []);
    gaps.get(of).push({ from: from[n], to: from[n] + took[n], look, words });
  });
}
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
const run = extent(row => row.kind !== 'thread') || everything;
