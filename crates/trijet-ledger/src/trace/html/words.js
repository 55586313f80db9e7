// The texts of the timeline: quantities with units, and the facts of an operation. All text enters
// the page as text, never as markup.

const words = {
  time(ns) {
    const size = Math.abs(ns);
    if (size < 1e3) return `${Math.round(ns)} ns`;
    if (size < 1e6) return `${(ns / 1e3).toFixed(2)} µs`;
    if (size < 1e9) return `${(ns / 1e6).toFixed(2)} ms`;
    return `${(ns / 1e9).toFixed(3)} s`;
  },
  // A time on the axis, in the unit of the largest one and with enough digits to differ from its neighbours.
  ticks(ns, step, largest) {
    const [unit, name] = largest >= 1e9 ? [1e9, 's'] : largest >= 1e6 ? [1e6, 'ms'] : largest >= 1e3 ? [1e3, 'µs'] : [1, 'ns'];
    const digits = Math.max(0, Math.min(9, Math.ceil(Math.log10(unit / step) - 1e-9)));
    return `${(ns / unit).toFixed(digits)} ${name}`;
  },
  bytes(n) {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let at = 0;
    while (n >= 1024 && at < units.length - 1) { n /= 1024; at++; }
    return `${Number.isInteger(n) ? n : n.toFixed(2)} ${units[at]}`;
  },
  rate(bytes, ns) {
    return `${(bytes / ns).toFixed(bytes / ns < 1 ? 3 : 1)} GB/s`;
  },
  count(n, one, many) {
    return `${n.toLocaleString('en')} ${n === 1 ? one : many}`;
  },
};

function title(i) {
  const chunk = op.chunk[i] > 0 ? `, chunk ${op.chunk[i] - 1}` : '';
  if (standsFor(i) > 1) return `${words.count(standsFor(i), 'operation', 'operations')}, the longest: ${op.labels[op.label[i]]}`;
  return `#${numberOf(i)} ${op.labels[op.label[i]]}${chunk}`;
}

function facts(i) {
  const list = [['kind', op.kinds[op.kind[i]]]];
  const [timed, called] = [op.flags[i] & TIMED, op.flags[i] & CALLED];
  if (timed) {
    list.push([source.ofCalls ? 'enqueued' : 'ran', `${words.time(op.took[i])}, from ${words.time(op.begin[i] - run[0])}`]);
    if (standsFor(i) > 1) list.push(['busy', `${words.time(busyOf(i))} of that, all operations together`]);
  }
  if (op.bytes[i] > 0) {
    const rate = timed && !source.ofCalls && op.took[i] > 0 ? `, ${words.rate(op.bytes[i], op.took[i])}` : '';
    list.push(['bytes', words.bytes(op.bytes[i]) + rate]);
  }
  if (timed && called && !source.ofCalls) {
    const late = op.begin[i] - op.call[i];
    list.push(['waited', late >= 0 ? `${words.time(late)} from its call to its start`
                                   : `its call is ${words.time(-late)} after its start: the clocks differ`]);
  } else if (called && !timed) {
    const what = op.kinds[op.kind[i]] === 'named range' ? 'open' : 'call';
    list.push([what, `${words.time(op.calling[i])}, from ${words.time(op.call[i] - run[0])}`]);
  }
  if (op.position[i] > 0) list.push(['place', `operation ${op.position[i].toLocaleString('en')} of stream ${op.stream[i]}, in the order of the calls`]);
  if (op.sites[op.site[i]]) list.push(['source', op.sites[op.site[i]]]);
  const earlier = before(i);
  if (earlier.length > 0) {
    const shown = Array.from(earlier.subarray(0, 4), title).join('; ');
    list.push(['follows', earlier.length > 4 ? `${shown}; and ${earlier.length - 4} more` : shown]);
  }
  if (op.slack[i] > 0) list.push(['slack', `could have ended ${words.time(op.slack[i] - 1)} later`]);
  if (op.flags[i] & CRITICAL) list.push(['critical', 'it is on the critical path']);
  else if (op.flags[i] & CRITICAL_CALL) list.push(['critical', 'its call is on the critical path']);
  if (op.flags[i] & UNDECLARED) list.push(['accesses', 'not declared']);
  return list;
}

function element(name, text, ...children) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  made.append(...children);
  return made;
}

function describe(target, i) {
  const list = element('dl', '');
  for (const [name, value] of facts(i)) list.append(element('div', '', element('dt', name), element('dd', value)));
  target.replaceChildren(element('h4', title(i)), list);
}

// The work of each engine in a span of time: the number of its operations, the length of their
// union, and the share of their bytes that falls into the span.
function statistics([from, to]) {
  const tracks = new Map();
  for (const row of rows.filter(row => row.kind === 'engine')) {
    if (!tracks.has(row.track)) {
      tracks.set(row.track, { name: row.group ? `${row.group}: ${row.fullName}` : row.fullName, rows: [] });
    }
    tracks.get(row.track).rows.push(row);
  }
  return [...tracks.values()].map(track => ({ name: track.name, ...summed(track.rows, from, to) }));
}

// The operations of one engine within a time. Its rows are merged in order of begin.
function summed(list, from, to) {
  const next = list.map(row => row.from(from));
  const sum = { count: 0, bytes: 0, busy: 0 };
  let at = from;
  for (;;) {
    let first = -1;
    for (let r = 0; r < list.length; r++) {
      const begin = list[r].begin[next[r]];
      if (begin < to && (first < 0 || begin < list[first].begin[next[first]])) first = r;
    }
    if (first < 0) return sum;
    const row = list[first], n = next[first]++, i = row.ops[n];
    const begin = Math.max(from, row.begin[n]), end = Math.min(to, row.end[n]);
    const share = (end - begin) / Math.max(1, row.end[n] - row.begin[n]);
    sum.count += standsFor(i);
    sum.bytes += op.bytes[i] * share;
    // Items that stand for several lie in rows without overlap, and know how long those ran.
    sum.busy += standsFor(i) > 1 ? busyOf(i) * share : Math.max(0, end - Math.max(at, begin));
    at = Math.max(at, end);
  }
}

function showStatistics(target, range) {
  const [from, to] = range;
  const head = element('tr', '');
  for (const name of ['engine', 'operations', 'busy', 'of the time', 'bytes', 'GB/s']) {
    head.append(element('th', name));
  }
  const body = element('tbody', '');
  for (const sum of statistics(range)) {
    const cells = [sum.name, sum.count.toLocaleString('en'), words.time(sum.busy),
      `${(100 * sum.busy / (to - from)).toFixed(1)} %`,
      sum.bytes > 0 ? words.bytes(Math.round(sum.bytes)) : '–',
      sum.bytes > 0 ? words.rate(sum.bytes, to - from) : '–'];
    body.append(element('tr', '', ...cells.map(cell => element('td', cell))));
  }
  const caption = `selected: ${words.time(to - from)}, from ${words.time(from - run[0])}`;
  target.replaceChildren(element('table', '', element('caption', caption), element('thead', '', head), body));
  target.hidden = false;
}
