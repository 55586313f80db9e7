// The order of a ledger's accesses, judged again after a change. The rules are those of the checker for
// the entries that `check/coded` has; `check/coded/judge.rs` has them in Rust, and a test compares both
// with the checker.
//
// A clock has a number for each stream and thread: everything up to that number is complete. A touch is a
// use of a cell of memory: twice the number of its entry and one, plus one for a use during the call.

function makeJudge(run, facts) {
  const WORK = 0, IN_STREAM_ALLOCATION = 1, RECORD = 2, WAIT = 3, SYNC_EVENT = 4, SYNC_STREAM = 5, SYNC_DEVICE = 6;
  const CALL = 7, BEGIN = 8, OPEN = 9, FAILED = 10, SETTLED = 11;
  const DURING_CALL = 0, IN_STREAM = 1, WHEN_READ = 3;
  const APPEARS = 1, ALLOCATES = 2, FREES = 3, OBTAINS = 4, RETURNS = 5, ANNOUNCES = 6;
  const NON_BLOCKING = 0, LEGACY = 2, FEW = 16;
  const { oStep, oThread, oAbout, oHow, oPageable, uBlock, uCell, uCells, uHow } = run;
  const { threads } = facts, L = facts.lanes.length + 1, C = L + threads;
  const entries = oStep.length, cells = run.cellBytes.length, blocks = run.blockBegin.length;
  const firstUse = new Uint32Array(entries + 1);
  for (let n = 0; n < entries; n++) firstUse[n + 1] = firstUse[n] + run.oUses[n];
  // The last lane is a stream that only moved operations use.
  const laneClass = Uint8Array.from([...facts.lanes.map(([kind]) => kind), NON_BLOCKING]);
  const laneDevice = Int32Array.from([...facts.lanes.map(([, device]) => device), 0]);
  let readsMax = 1;
  for (let use = 0; use < uCells.length; use++) readsMax += uCells[use];
  const ints = count => new Int32Array(count);
  const tails = ints(L * C), numbers = ints(L), callerThread = ints(L), callerVersion = ints(L);
  const known = ints(threads * C), calls = ints(threads), version = ints(threads), callVersion = ints(threads);
  const begunLane = ints(threads), begunNumber = ints(threads), begunBefore = ints(threads * C), begunHeld = ints(threads * C);
  const events = ints(facts.events * C), recorded = new Uint8Array(facts.events);
  const barriers = ints(facts.devices * C), launches = ints(facts.graphs * C), settled = ints(C);
  const workNumber = ints(entries), callNumber = ints(entries), workLane = ints(entries);
  const write = ints(cells), reads = ints(cells), born = ints(blocks);
  const nodeTouch = ints(readsMax), nodeNext = ints(readsMax);
  const owned = threads > 1;
  const exclusive = ints(owned ? cells : 0), shared = ints(owned ? cells : 0);
  const sharedUse = ints(owned ? readsMax : 0), sharedNext = ints(owned ? readsMax : 0);
  const usedVersion = ints(threads), usedSnapshot = ints(threads);
  const own = ints(C), scratch = ints(C);
  const all = [tails, numbers, callerVersion, known, calls, version, callVersion, events, recorded, barriers,
    launches, settled, workNumber, callNumber, write, reads, exclusive, shared, usedSnapshot];
  let laneOf, snapshots, nodes, sharedNodes, found, work, call, isStaged, hasOwn, overlaps, met, begun;

  // Raises the numbers of a clock to those of another one.
  function join(into, at, from, other) {
    for (let n = 0; n < C; n++) if (into[at + n] < from[other + n]) into[at + n] = from[other + n];
  }
  function copy(into, at, from, other) {
    for (let n = 0; n < C; n++) into[at + n] = from[other + n];
  }
  function learn(thread, from, at) {
    join(known, thread * C, from, at);
    version[thread]++;
  }
  function countCall(thread) {
    calls[thread]++;
    callVersion[thread] = ++version[thread];
    known[thread * C + L + thread] = calls[thread];
    return calls[thread];
  }
  function joinStreams(into, at, device, onlyBlocking) {
    for (let lane = 0; lane < L; lane++)
      if (laneDevice[lane] === device && (!onlyBlocking || laneClass[lane] !== NON_BLOCKING)) join(into, at, tails, lane * C);
  }
  // Adds to a clock what a wait for the stream finds complete.
  function joinHeld(into, at, lane) {
    join(into, at, tails, lane * C);
    if (laneClass[lane] === LEGACY) joinStreams(into, at, laneDevice[lane], true);
  }
  function followCaller(lane, thread) {
    if (callerThread[lane] === thread && callerVersion[lane] === version[thread]) return;
    callerThread[lane] = thread;
    callerVersion[lane] = version[thread];
    join(tails, lane * C, known, thread * C);
  }
  function holdBack(lane) {
    if (laneClass[lane] === LEGACY) join(barriers, laneDevice[lane] * C, tails, lane * C);
  }
  function countWork(lane) {
    numbers[lane]++;
    tails[lane * C + lane] = numbers[lane];
    return numbers[lane];
  }

  function enqueue(entry, thread, lane, returns) {
    const isWork = oStep[entry] === WORK, graph = oAbout[entry] - 1;
    const isBegun = begunLane[thread] === lane && isWork;
    begunLane[thread] = -1;
    isStaged = returns === 1;
    if (isStaged) {
      if (isBegun) learn(thread, begunHeld, thread * C);
      else {
        scratch.fill(0);
        joinHeld(scratch, 0, lane);
        learn(thread, scratch, 0);
      }
    }
    if (isStaged || oHow[entry] & 16) call = countCall(thread);
    if (isBegun) {
      copy(own, 0, begunBefore, thread * C);
      hasOwn = true;
      if (graph >= 0) join(own, 0, launches, graph * C);
      join(tails, lane * C, own, 0);
      if (begunNumber[thread] !== numbers[lane]) overlaps = true;
      work = countWork(lane);
      copy(scratch, 0, own, 0);
      scratch[lane] = work;
      if (graph >= 0) copy(launches, graph * C, scratch, 0);
      holdBack(lane);
      if (returns === 2) learn(thread, scratch, 0);
      return;
    }
    if (isWork && laneClass[lane] === LEGACY) joinHeld(tails, lane * C, lane);
    if (isWork && laneClass[lane] !== NON_BLOCKING) join(tails, lane * C, barriers, laneDevice[lane] * C);
    if (graph >= 0) join(tails, lane * C, launches, graph * C);
    followCaller(lane, thread);
    work = countWork(lane);
    if (graph >= 0) copy(launches, graph * C, tails, lane * C);
    if (isWork) holdBack(lane);
    if (returns === 2) learn(thread, tails, lane * C);
  }

  function step(entry, thread, lane, isLocked) {
    const about = oAbout[entry];
    switch (oStep[entry]) {
      case WORK: case IN_STREAM_ALLOCATION:
        enqueue(entry, thread, lane, isLocked ? oHow[entry] >> 2 & 3 : oHow[entry] & 3);
        break;
      case RECORD:
        if (laneClass[lane] === LEGACY) joinHeld(tails, lane * C, lane);
        followCaller(lane, thread);
        copy(events, about * C, tails, lane * C);
        recorded[about] = 1;
        break;
      case WAIT:
        if (!recorded[about]) break;
        if (laneClass[lane] === LEGACY) joinHeld(tails, lane * C, lane);
        join(tails, lane * C, events, about * C);
        followCaller(lane, thread);
        holdBack(lane);
        break;
      case SYNC_EVENT:
        if (recorded[about]) learn(thread, events, about * C);
        break;
      case SYNC_STREAM:
        joinHeld(known, thread * C, lane);
        version[thread]++;
        break;
      case SYNC_DEVICE:
        joinStreams(known, thread * C, about, false);
        version[thread]++;
        break;
      case CALL:
        call = countCall(thread);
        break;
      case BEGIN:
        begunHeld.fill(0, thread * C, thread * C + C);
        joinHeld(begunHeld, thread * C, lane);
        copy(begunBefore, thread * C, begunHeld, thread * C);
        if (laneClass[lane] !== NON_BLOCKING) join(begunBefore, thread * C, barriers, laneDevice[lane] * C);
        join(begunBefore, thread * C, known, thread * C);
        begunLane[thread] = lane;
        begunNumber[thread] = numbers[lane];
        break;
      case OPEN:
        join(tails, lane * C, known, thread * C);
        break;
      case FAILED:
        begunLane[thread] = -1;
        break;
      case SETTLED:
        if (recorded[about]) join(settled, 0, events, about * C);
        break;
      default:
        recorded[about] = 0;
    }
  }

  // The uses of memory by other threads that come before a use of the thread.
  function followEarlierUses(thread, use) {
    if (!(uHow[use] & 128)) return;
    const writes = uHow[use] & 32;
    const follow = snapshot => {
      const other = snapshots.thread[snapshot];
      if (other !== thread && known[thread * C + L + other] < snapshots.at[snapshot]) learn(thread, snapshots.clocks, snapshot * C);
    };
    for (let cell = uCell[use], end = cell + uCells[use]; cell < end; cell++) {
      if (exclusive[cell] > 0) follow(exclusive[cell] - 1);
      if (writes) for (let node = shared[cell]; node > 0; node = sharedNext[node]) follow(sharedUse[node]);
    }
  }
  function snapshotOf(thread) {
    if (usedSnapshot[thread] > 0 && usedVersion[thread] === version[thread]) return usedSnapshot[thread] - 1;
    const at = callVersion[thread] === version[thread] && calls[thread] > 0 ? calls[thread] : countCall(thread);
    const number = snapshots.at.length;
    if ((number + 1) * C > snapshots.clocks.length) {
      const larger = ints(2 * snapshots.clocks.length + C);
      larger.set(snapshots.clocks);
      snapshots.clocks = larger;
    }
    copy(snapshots.clocks, number * C, known, thread * C);
    snapshots.at.push(at);
    snapshots.thread.push(thread);
    usedVersion[thread] = version[thread];
    usedSnapshot[thread] = number + 1;
    return number;
  }
  function noteUse(thread, use, snapshot) {
    const how = uHow[use], writes = how & 32, effect = how >> 2 & 7;
    for (let cell = uCell[use], end = cell + uCells[use]; cell < end; cell++) {
      if (effect === OBTAINS) exclusive[cell] = shared[cell] = 0;
      if (writes) {
        exclusive[cell] = snapshot + 1;
        shared[cell] = 0;
        continue;
      }
      if (exclusive[cell] === snapshot + 1) continue;
      let node = shared[cell];
      while (node > 0 && snapshots.thread[sharedUse[node]] !== thread) node = sharedNext[node];
      if (node === 0) {
        node = ++sharedNodes;
        sharedNext[node] = shared[cell];
        shared[cell] = node;
      }
      sharedUse[node] = snapshot;
    }
  }

  // The component of the clocks that a touch is in, and its number there.
  const component = touch => touch - 1 & 1 ? L + oThread[touch - 1 >> 1] : workLane[touch - 1 >> 1];
  const numberOf = touch => touch - 1 & 1 ? callNumber[touch - 1 >> 1] : workNumber[touch - 1 >> 1];

  // Whether the point of a clock, which begins at `base`, follows a touch.
  function follows(touch, clock, base, inThisRun) {
    const at = component(touch), number = numberOf(touch);
    return clock[base + at] >= number || inThisRun > 0 && settled[at] >= number;
  }

  // A heap gives its memory to a block. Uses that are known to be complete are forgotten.
  function isOpen(touch) {
    const at = component(touch), number = numberOf(touch);
    if (settled[at] >= number) return false;
    for (let thread = 0; thread < threads; thread++) if (known[thread * C + at] >= number) return false;
    return true;
  }
  function obtain(entry, use) {
    for (let cell = uCell[use], end = cell + uCells[use]; cell < end; cell++) {
      if (write[cell] > 0 && !isOpen(write[cell])) write[cell] = 0;
      let node = reads[cell], before = 0;
      for (; node > 0; node = nodeNext[node]) {
        if (isOpen(nodeTouch[node])) before = node;
        else if (before > 0) nodeNext[before] = nodeNext[node];
        else reads[cell] = nodeNext[node];
      }
    }
    born[uBlock[use]] = entry;
  }

  // Adds a pair without an order. The cells of a pair of entries and a block are one pair.
  function conflict(touch, entry, block, cell) {
    const first = touch - 1 >> 1, count = found.first.length;
    let at = count;
    // An entry has few conflicts in most cases. A free may have thousands.
    if (count - begun < FEW) {
      at = begun;
      while (at < count && (found.first[at] !== first || found.block[at] !== block)) at++;
    } else {
      if (met.size === 0) for (let n = begun; n < count; n++) met.set(found.first[n] * blocks + found.block[n], n);
      at = met.get(first * blocks + block) ?? count;
    }
    if (at === count) {
      if (met.size > 0) met.set(first * blocks + block, count);
      found.first.push(first);
      found.second.push(entry);
      found.block.push(block);
      found.from.push(cell);
      found.to.push(cell);
    }
    if (found.from[at] > cell) found.from[at] = cell;
    if (found.to[at] < cell) found.to[at] = cell;
  }
  function check(entry, thread, lane, use) {
    const how = uHow[use], effect = how >> 2 & 7, moment = how & 3, writes = how & 32, inThisRun = how & 64;
    if (effect === OBTAINS) return obtain(entry, use);
    if (effect === RETURNS || effect === ANNOUNCES) return;
    const inStream = moment === IN_STREAM ? work > 0 : moment === WHEN_READ && !isStaged;
    const clock = !inStream ? known : hasOwn ? own : tails, base = !inStream ? thread * C : hasOwn ? 0 : lane * C;
    const block = uBlock[use], since = born[block];
    for (let cell = uCell[use], end = cell + uCells[use]; cell < end; cell++) {
      const touch = write[cell];
      if (touch > 0 && touch - 1 >> 1 !== entry && (writes || touch - 1 >> 1 >= since) && !follows(touch, clock, base, inThisRun)) conflict(touch, entry, block, cell);
      if (!writes) continue;
      for (let node = reads[cell]; node > 0; node = nodeNext[node]) {
        const read = nodeTouch[node];
        if (read - 1 >> 1 !== entry && !follows(read, clock, base, inThisRun)) conflict(read, entry, block, cell);
      }
    }
  }
  function enter(entry, use) {
    const how = uHow[use], effect = how >> 2 & 7, moment = how & 3;
    if (effect === APPEARS || effect === ALLOCATES) born[uBlock[use]] = entry;
    if (effect === APPEARS || effect >= FREES) return;
    const touch = 2 * entry + 1 + (moment === DURING_CALL || moment === WHEN_READ && isStaged ? 1 : 0);
    for (let cell = uCell[use], end = cell + uCells[use]; cell < end; cell++) {
      if (how & 32 || effect === ALLOCATES) {
        write[cell] = touch;
        reads[cell] = 0;
        continue;
      }
      const at = component(touch);
      let node = reads[cell];
      while (node > 0 && component(nodeTouch[node]) !== at) node = nodeNext[node];
      if (node === 0) {
        node = ++nodes;
        nodeNext[node] = reads[cell];
        reads[cell] = node;
      }
      nodeTouch[node] = touch;
    }
  }

  // The pairs of accesses without an order: the two entries, the block, and its first and last cell. A change has
  // the entries that are left out, the stream of each entry, the page-locked blocks, and the device
  // of the new stream.
  return change => {
    for (const list of all) list.fill(0);
    begunLane.fill(-1);
    callerThread.fill(-1);
    born.fill(0);
    laneOf = change.laneOf;
    laneDevice[L - 1] = change.device;
    snapshots = { thread: [], at: [], clocks: ints(owned ? 64 * C : 0) };
    found = { first: [], second: [], block: [], from: [], to: [] };
    nodes = sharedNodes = 0;
    overlaps = false;
    met = new Map();
    for (let entry = 0; entry < entries; entry++) {
      if (change.skipped[entry]) continue;
      const isLocked = oPageable[entry] > 0 && change.locked[oPageable[entry] - 1] > 0;
      if (isLocked && oStep[entry] === BEGIN && oHow[entry] & 32) continue;
      const thread = oThread[entry], lane = laneOf[entry], first = firstUse[entry], end = firstUse[entry + 1];
      work = call = 0;
      isStaged = hasOwn = false;
      if (met.size > 0) met = new Map();
      begun = found.first.length;
      if (owned) for (let use = first; use < end; use++) followEarlierUses(thread, use);
      step(entry, thread, lane, isLocked);
      workNumber[entry] = work;
      callNumber[entry] = call;
      workLane[entry] = lane;
      if (owned && oStep[entry] !== BEGIN) {
        let snapshot = -1;
        for (let use = first; use < end; use++) {
          if (!(uHow[use] & 128)) continue;
          if (snapshot < 0) snapshot = snapshotOf(thread);
          noteUse(thread, use, snapshot);
        }
      }
      for (let use = first; use < end; use++) check(entry, thread, lane, use);
      for (let use = first; use < end; use++) enter(entry, use);
    }
    found.overlaps = overlaps;
    return found;
  };
}
