// The parts of a page that only ledgers have: waits of streams, the conflicts of the changed run, and the
// waits that order them again. This part stands before `page.js`, and its functions use the names there.

function makeLedger() {
  const facts = source.ledger, EVENT = 23, WORK = 0, LEGACY = 2, PAIRS_SHOWN = 12;
  const deleted = new Set();
  let judge = facts.notJudged ? null : makeJudge(run, facts), reason = facts.notJudged ?? '';
  const none = { first: [], second: [], block: [], from: [], to: [] };
  // The conflicts of the unchanged run, and of the changed run; the numbers of those that are new.
  let own = none, ownKeys = new Set(), found = none, fresh = [], judged = false, mendedTime = 0, updateAll = () => {};
  // Whether the next update has the same conflicts, because no change was made.
  let keeps = false;
  const count = judge ? run.oStep.length : 0;
  const skipped = new Uint8Array(count), laneOf = new Int32Array(count), locked = new Uint8Array(judge ? run.blockBegin.length : 0);
  const mendedTimes = new Float64Array(run.edges.length);
  // For each row, the stream of the order that it shows.
  const laneOfRow = new Map(judge ? facts.lanes.map(([, , , row], lane) => [row - 1, lane]) : []);
  const entryOf = item => run.itemEntry[item] - 1;

  // The waits of an operation: of its stream, since the operation before it.
  function waitsOf(item) {
    let wait = search(run.waitItem, of => of >= item);
    const list = [];
    for (; wait < run.waitItem.length && run.waitItem[wait] === item; wait++) list.push(wait);
    return list;
  }
  const awaited = wait => run.waitOn[wait] > 0 ? source.rows[run.waitOn[wait] - 1] : 'an earlier stream';

  // Drops the edges of the deleted waits.
  function apply() {
    for (const wait of deleted) {
      const moment = run.waitMoment[wait];
      for (let e = first[moment]; e < first[moment + 1]; e++) if (run.kind[e] === EVENT) delays[e] = -1;
    }
  }

  // An operation leaves its stream: what follows it there follows what it followed there.
  function leave(item) {
    const start = run.itemStart[item], next = run.itemNext[item], before = [];
    for (let e = first[start]; e < first[start + 1]; e++) {
      if (run.kind[e] < STREAM || run.kind[e] > STREAM_END || delays[e] < 0) continue;
      before.push(from[e]);
      delays[e] = -1;
    }
    for (let edge = added.last[start]; edge > 0; edge = added.before[edge]) before.push(added.from[edge]);
    added.last[start] = 0;
    if (next === 0) return;
    for (let e = first[next]; e < first[next + 1]; e++)
      if (from[e] === run.itemEnd[item] && run.kind[e] >= STREAM && run.kind[e] <= STREAM_END) delays[e] = -1;
    for (const moment of before) followMoment(moment, next);
  }
  function followMoment(earlier, later) {
    if (earlier >= later) return;
    added.before.push(added.last[later]);
    added.last[later] = added.from.push(earlier) - 1;
  }

  // The fixes of the whole run whose conflicts are not judged.
  const UNJUDGED = { NoCopyWaits: 'copies that no longer wait', CopyStream: 'copies in another stream', NoLegacy: 'another default stream' };
  // The changes of the order, or the reason why they are not judged.
  function change() {
    skipped.fill(0);
    locked.fill(0);
    laneOf.set(run.oLane);
    let device = 0;
    for (const fix of fixes) if (UNJUDGED[fix]) return UNJUDGED[fix];
    for (const wait of deleted) skipped[run.waitEntry[wait] - 1] = 1;
    const items = fixes.has('NoWaits') ? allOf(kind => kind === OF_SYNC) : noWait;
    for (const item of items) {
      if (run.itemKind[item] !== OF_SYNC) return 'copies that no longer wait';
      if (entryOf(item) >= 0) skipped[entryOf(item)] = 1;
    }
    const copies = fixes.has('PageLock') ? allOf(kind => kind === STAGED_UPLOAD || kind === STAGED_DOWNLOAD) : pinned;
    for (const item of copies) {
      const block = run.oPageable[entryOf(item)];
      if (!(block > 0)) return 'copies of several pageable buffers';
      locked[block - 1] = 1;
    }
    for (const [item, row] of moved) {
      const entry = entryOf(item), lane = row < 0 ? facts.lanes.length : laneOfRow.get(row);
      if (entry < 0 || lane === undefined) return 'an operation that moved';
      laneOf[entry] = laneOf[entry - run.oBegun[entry]] = lane;
      device = facts.lanes[run.oLane[entry]][1];
    }
    return { skipped, laneOf, locked, device };
  }
  const allOf = is => Array.from({ length: items }, (_, item) => item).filter(item => is(run.itemKind[item]));
  const key = (of, n) => `${of.first[n]} ${of.second[n]} ${of.block[n]}`;
  const isChanged = () => deleted.size + noWait.size + pinned.size + moved.size > 0 || ['NoWaits', 'PageLock', 'NoCopyWaits', 'CopyStream', 'NoLegacy'].some(fix => fixes.has(fix));

  // Judges the run with the present changes, and replays it with the waits that its new conflicts need.
  function update() {
    const isKept = judged && keeps;
    judged = keeps = false;
    fresh = [];
    if (!judge) return;
    const now = change();
    if (typeof now === 'string') {
      reason = now;
      return;
    }
    if (!isKept) found = isChanged() ? judge(now) : own;
    if (found.overlaps) {
      reason = 'a call that waits while other work comes to its stream';
      return;
    }
    judged = true;
    for (let n = 0; found !== own && n < found.first.length; n++)
      if (ownKeys.size === 0 || !ownKeys.has(key(found, n))) fresh.push(n);
    if (fresh.length === 0) return;
    const mark = added.from.length, later = [];
    for (const n of fresh) {
      const earlier = run.oEnd[found.first[n]], moment = run.oStart[found.second[n]];
      if (earlier === 0 || moment === 0 || earlier >= moment) continue;
      later.push(moment);
      followMoment(earlier, moment);
    }
    // Before the first of these waits, nothing changes.
    const since = later.reduce((least, moment) => Math.min(least, moment), moments);
    mendedTimes.set(times.subarray(0, since));
    replay(mendedTimes, since);
    mendedTime = length(mendedTimes);
    if (byId('mend').checked) times.set(mendedTimes);
    for (let n = later.length - 1; n >= 0; n--) added.last[later[n]] = added.before[mark + n];
    added.from.length = added.before.length = mark;
  }

  const nameOfEntry = entry => {
    const chunk = run.oChunk[entry] > 0 ? ` of chunk ${run.oChunk[entry] - 1}` : '';
    return `${source.labels[run.oLabel[entry]]}${chunk}`;
  };
  const inStream = entry => run.oStep[entry] <= 1;
  const streamOf = entry => {
    if (!inStream(entry)) return 'the host';
    const lane = laneOf[entry];
    return lane < facts.lanes.length ? source.rows[facts.lanes[lane][3] - 1] : 'the new stream';
  };
  function bytesOf(n) {
    const at = run.blockBegin[found.block[n]], to = found.to[n];
    return `${facts.blocks[found.block[n]]}, bytes ${run.cellBegin[found.from[n]] - at} to ${run.cellBegin[to] + run.cellBytes[to] - at}`;
  }
  // The wait that orders a pair again.
  function mending(n) {
    const earlier = found.first[n], later = found.second[n];
    if (inStream(earlier) && inStream(later)) return `${streamOf(later)} waits for an event that ${streamOf(earlier)} records after the first`;
    if (inStream(earlier)) return `the host waits for ${streamOf(earlier)} after the first`;
    return 'the thread of the first hands over to the thread of the second';
  }
  const numberOf = (count, one, many) => count === 1 ? `1 ${one}` : `${count} ${many}`;
  function words() {
    const isNew = fresh.length > 0;
    const before = ownKeys.size > 0 ? ` The unchanged run has ${numberOf(ownKeys.size, 'conflict', 'conflicts')} of its own.` : '';
    let verdict = `The changes leave ${numberOf(fresh.length, 'pair', 'pairs')} of accesses without an order.`;
    if (!judged) verdict = `Not judged: ${reason}.`;
    else if (!isNew) verdict = isChanged() ? 'Every pair of accesses that had an order keeps one.' : ownKeys.size > 0 ? '' : 'The run has no conflict.';
    byId('conflicts').textContent = `${verdict}${judged ? before : ''}`.trim();
    byId('conflicts').className = judged && isNew ? 'bad' : '';
    byId('mended').hidden = !isNew;
    byId('mend-words').textContent = `Add the waits that they need: then the run takes ${duration(mendedTime)}, ${share(Math.abs(unchanged - mendedTime), unchanged)} ${mendedTime <= unchanged ? 'shorter' : 'longer'} than without the changes. For memory that Trijet orders, it adds such waits itself.`;
    byId('unseen').textContent = facts.undeclared > 0 ? `${numberOf(facts.undeclared, 'operation declares', 'operations declare')} no accesses, so nothing is known about their memory.` : '';
    showPairs(judged && found ? (isNew ? fresh : found.first.map((_, n) => n)) : []);
  }
  // The conflicts in the sentence about the time.
  const inVerdict = () => !judged || fresh.length === 0 ? '' : byId('mend').checked ? `, with the waits that ${numberOf(fresh.length, 'conflict needs', 'conflicts need')}` : `, but with ${numberOf(fresh.length, 'conflict', 'conflicts')}`;
  function showPairs(list) {
    const row = n => element('tr', {},
      ...[`${nameOfEntry(found.first[n])} (${streamOf(found.first[n])})`, `${nameOfEntry(found.second[n])} (${streamOf(found.second[n])})`, bytesOf(n), mending(n)]
        .map(text => element('td', { textContent: text })));
    const head = element('tr', {}, ...['first', 'second', 'memory', 'the wait that orders them'].map(text => element('th', { scope: 'col', textContent: text })));
    const rest = list.length - PAIRS_SHOWN, more = rest > 0 ? [element('tr', {}, element('td', { colSpan: 4, textContent: `and ${rest} more` }))] : [];
    byId('pairs').replaceChildren(element('thead', {}, head), element('tbody', {}, ...list.slice(0, PAIRS_SHOWN).map(row), ...more));
    byId('pairs').hidden = list.length === 0;
  }

  // The buttons for the waits of an operation.
  function actions(item) {
    return waitsOf(item).filter(wait => !deleted.has(wait)).flatMap(wait => {
      const one = element('button', { type: 'button', textContent: `delete the wait for ${awaited(wait)}` });
      one.addEventListener('click', () => { deleted.add(wait); updateAll(); });
      const like = Array.from(alike(item)).flatMap(waitsOf).filter(other => run.waitOn[other] === run.waitOn[wait]);
      if (like.length < 2) return [one];
      const every = element('button', { type: 'button', textContent: `all ${like.length} such waits` });
      every.addEventListener('click', () => { for (const other of like) deleted.add(other); updateAll(); });
      return [one, every];
    });
  }

  // Whether an operation may move, and whether it may move to the stream of a row.
  const isMovable = item => {
    const entry = entryOf(item);
    return entry >= 0 && run.oStep[entry] === WORK && facts.lanes[run.oLane[entry]][0] !== LEGACY;
  };
  function canMoveTo(item, row) {
    const lane = laneOfRow.get(row), entry = entryOf(item);
    return lane !== undefined && facts.lanes[lane][1] === facts.lanes[run.oLane[entry]][1] && facts.lanes[lane][2] <= entry;
  }
  // The copies that use the pageable memory of these copies.
  function ofBuffers(list) {
    const blocks = new Set(list.map(item => run.oPageable[entryOf(item)]));
    return allOf(kind => kind === STAGED_UPLOAD || kind === STAGED_DOWNLOAD).filter(item => blocks.has(run.oPageable[entryOf(item)]));
  }
  const isLockable = item => !judge || run.oPageable[entryOf(item)] > 0;

  function begin(all) {
    updateAll = all;
    byId('mend').addEventListener('change', () => { keeps = true; all(); });
    if (!judge) return;
    own = judge(change());
    ownKeys = new Set(own.first.map((_, n) => key(own, n)));
    // The checker has judged the unchanged run. The page never contradicts it.
    if (facts.conflicts !== null && facts.conflicts !== ownKeys.size) {
      judge = null;
      reason = 'the page does not find the conflicts that the checker found in the unchanged run';
    }
  }
  return { apply, leave, update, words, inVerdict, actions, isMovable, canMoveTo, isLockable, begin, deleted, awaited, waitsOf,
    ofBuffers: list => judge ? ofBuffers(list) : list, fresh: () => fresh, found: () => found, isJudged: () => judged, mended: () => mendedTime };
}
