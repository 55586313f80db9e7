// The scheduler of a persistent kernel: workers that take tasks until all are done. A worker is a warp, or a block if
// WORKER_THREADS is more than 32; then its first warp takes tasks, and all its threads run them.
//
// A task is a word: its kind in the upper 8 bits, from 1, and a payload below. Three texts stand around this one: the
// structure `Args` of the program's parameters before it, the bodies of its kinds behind it, and `run_task`.
#define LINE 32                                   // words of 128 bytes: words that all workers change have a line each
#define PAYLOAD ((1ull << 56) - 1)

enum Policy : u32 { STATIC, SHARING, STEALING, HYBRID, LEVELS };
enum End : u32 { DRAINED = 1, ABORTED = 2, FULL = 3, LOST = 4, HUNG = 5 };

// The launch, as the host describes it. Places are in words of `state`.
struct Setup {
  u32 policy, workers, initial, seed;
  u32 ring_bits, deque_bits, chunk, watchdog_us;
  u32 deques, ranges, running, ring;              // places
  u32 has_stats, stats, is_graph, levels;         // whether there are statistics, and their place in `tasks`
  u32 successors, order, level;                   // places in `graph`
  u32 feed_bits;                                  // of the rings of a feed in the memory of the host; 0 without one
  u32 nap_ns;                                     // the longest nap of a worker that finds no task
  u32 fields, with_fields;                        // the place of the fields of the nodes in `graph`, and the number of nodes with fields
  u32 traced;                                     // the tasks of each worker that are kept with their times, behind the statistics
  u64 first;                                      // the word of initial task 0, where there is no list
};

// Words of `state` that all workers use.
enum Word : u32 { NEXT = 0, BALANCE = LINE, STOP = 2 * LINE, HEAD = 3 * LINE, TAIL = 4 * LINE, USED = 5 * LINE,
                  ITEMS = 6 * LINE, ARRIVED = 7 * LINE, PHASE = 8 * LINE, REPORT = 9 * LINE, TOTALS = 9 * LINE + 8,
                  ANSWERED = 10 * LINE, LEFT = 11 * LINE, GIVEN = 12 * LINE, SHUT = 12 * LINE + 1 };

// Words of `host`: a word that asks for an end, the report of one (see `leave`), and those of a feed. Behind them are the ring of
// tasks, and that of answers.
enum HostWord : u32 { ASKED = 0, REPORTED = 1, FED = LINE, TAKEN = LINE + 1, CLOSED = LINE + 2, SEEN = 2 * LINE, RINGS = 3 * LINE };

struct Slot { u32 round, unused; u64 task; };

// What a launch gives to all of its workers.
struct Shared {
  const Setup& s;
  u32* state;
  u64* tasks;                                     // the queues of all workers, then their statistics
  const u64* list;                                // the initial tasks, or those of the nodes of a graph
  const u32* graph;
  u32* counters;                                  // for each node, its predecessors that did not run
  u32* host;
};

// What a worker counts, in shared memory, so that bodies have its registers. The first lane changes it.
struct Counts { u32 ran, spawned, stolen, refused, missed, begun; u64 since, busy_ns, task_ns; };

struct Worker {
  const Shared& all;
  u32 id, random, idle_ns;
  u32 credits;                                    // of finished tasks, not yet given back
  u64 kept;                                       // the newest child, which no other worker sees
  bool has_own, was_last;                         // whether its deque may have tasks; whether the common counter has none
  u32 next, last;                                 // initial tasks that this worker took and did not run
  Counts* counts;

  DEV const Setup& s() const { return all.s; }
  DEV u32* word(u32 at) const { return all.state + at; }
  DEV u32* ends(u32 worker) const { return word(s().deques) + 2 * worker; }
  DEV u64* range(u32 worker) const { return (u64*)word(s().ranges) + worker; }
  DEV u64* running(u32 worker) const { return (u64*)word(s().running) + 2 * worker; }
  DEV u64* task_at(u32 worker, u32 at) const {
    const u32 mask = (1u << s().deque_bits) - 1;
    return all.tasks + ((u64)worker << s().deque_bits) + (at & mask);
  }
};

DEV u32 draw(Worker& w) { w.random ^= w.random << 13; w.random ^= w.random >> 17; w.random ^= w.random << 5; return w.random; }
DEV u32 of_first(u32 v) { return __shfl_sync(~0u, v, 0); }
DEV u64 of_first(u64 v) { return __shfl_sync(~0u, v, 0); }

// ---- The end of a run ------------------------------------------------------------------------------------------------
// A task holds a credit from before another worker can see it until after it ran. `BALANCE` counts the credits that were
// given back, less those that were taken for children. It becomes the number of initial tasks exactly once: at the end.
DEV bool stopped(const Worker& w) { return load_acquire(w.word(STOP)) != 0; }

DEV void stop(const Worker& w, u32 end, u32 worker, u64 task) {
  if (swap_if(w.word(STOP), 0, ~0u) != 0) return;
  store_relaxed(w.word(REPORT), worker);
  store_relaxed((u64*)w.word(REPORT + 2), task);
  store_relaxed(w.all.host + REPORTED + 1, worker);
  store_relaxed((u64*)(w.all.host + REPORTED + 3), task);
  store_release_host(w.all.host + REPORTED, end);
  store_release(w.word(STOP), end);
}

DEV void give_back(Worker& w) {
  if (w.credits == 0) return;
  const u32 given = add_acq_rel(w.word(BALANCE), w.credits) + w.credits;
  w.credits = 0;
  // An open feed has a credit of its own. An earlier end stays: a task that it found may give back the last credit.
  if (given == w.s().initial + (w.s().feed_bits ? 1 : 0)) swap_if(w.word(STOP), 0, DRAINED);
}

DEV void take_credits(Worker& w, u32 count) {
  if (count > w.credits) {
    add_relaxed(w.word(BALANCE), w.credits - count);
    w.credits = count;
  }
  w.credits -= count;
}

// ---- The shared ring: tickets on both sides ---------------------------------------------------------------------------
// `USED` and `ITEMS` say whether there is room or a task. A worker that has counted itself in gets a slot by its ticket, and
// waits at most for a worker that is between its own ticket and its own slot.
DEV Slot* slot(const Worker& w, u64 ticket) { return (Slot*)w.word(w.s().ring) + (ticket & ((1ull << w.s().ring_bits) - 1)); }
DEV u32 round_of(const Worker& w, u64 ticket) { return 2 * (u32)(ticket >> w.s().ring_bits); }

// Pushes the tasks of the lanes in `lanes`, all or none.
DEV bool ring_push(Worker& w, u32 lanes, u64 task) {
  const u32 count = __popc(lanes);
  u64 ticket = ~0ull;
  if (lane_id() == 0) {
    const u32 used = add_relaxed(w.word(USED), count);
    if (used + count <= 1u << w.s().ring_bits) ticket = add_relaxed((u64*)w.word(TAIL), (u64)count);
    else add_relaxed(w.word(USED), 0u - count);
  }
  ticket = of_first(ticket);
  if (ticket == ~0ull) return false;
  if (lanes >> lane_id() & 1) {
    ticket += __popc(lanes & ((1u << lane_id()) - 1));
    Slot* to = slot(w, ticket);
    while (load_acquire(&to->round) != round_of(w, ticket)) nap(20);
    to->task = task;
    store_release(&to->round, round_of(w, ticket) + 1);
  }
  __syncwarp();
  if (lane_id() == 0) add_relaxed(w.word(ITEMS), count);
  return true;
}

// One lane.
DEV u64 ring_pop(Worker& w) {
  if ((int)load_relaxed(w.word(ITEMS)) <= 0) return 0;
  if ((int)add_relaxed(w.word(ITEMS), 0u - 1u) <= 0) { add_relaxed(w.word(ITEMS), 1); return 0; }
  const u64 ticket = add_relaxed((u64*)w.word(HEAD), 1ull);
  Slot* from = slot(w, ticket);
  while (load_acquire(&from->round) != round_of(w, ticket) + 1) nap(20);
  const u64 task = from->task;
  store_release(&from->round, round_of(w, ticket) + 2);
  add_relaxed(w.word(USED), 0u - 1u);
  return task;
}

// ---- A deque for each worker: the owner uses one end, thieves the other (Chase and Lev; orders of Le et al.) ----------
// Pushes the tasks of the lanes in `lanes`, all or none.
DEV bool deque_push(Worker& w, u32 lanes, u64 task) {
  u32* ends = w.ends(w.id);
  const u32 bottom = load_relaxed(ends + 1), top = load_acquire(ends), count = __popc(lanes);
  if (bottom - top + count > 1u << w.s().deque_bits) return false;
  if (lanes >> lane_id() & 1) store_relaxed(w.task_at(w.id, bottom + __popc(lanes & ((1u << lane_id()) - 1))), task);
  __syncwarp();
  // A fence, because a thief may read what `deque_take` stores afterwards, and a release store would not order that.
  if (lane_id() == 0) { fence_release(); store_relaxed(ends + 1, bottom + count); }
  __syncwarp();
  return true;
}

// One lane.
DEV u64 deque_take(Worker& w) {
  u32* ends = w.ends(w.id);
  const u32 bottom = load_relaxed(ends + 1) - 1;
  if ((int)(bottom - load_relaxed(ends)) < 0) return 0;
  store_relaxed(ends + 1, bottom);
  fence();
  const u32 top = load_relaxed(ends);
  if ((int)(bottom - top) > 0) return load_relaxed(w.task_at(w.id, bottom));
  u64 task = 0;
  if (bottom == top) {
    task = load_relaxed(w.task_at(w.id, bottom));
    if (swap_if(ends, top, top + 1) != top) task = 0;
  }
  store_relaxed(ends + 1, bottom + 1);
  return task;
}

// One lane.
DEV u64 deque_steal(Worker& w, u32 victim) {
  u32* ends = w.ends(victim);
  const u32 top = load_acquire(ends);
  fence();
  const u32 bottom = load_acquire(ends + 1);
  if ((int)(bottom - top) <= 0) return 0;
  const u64 task = load_relaxed(w.task_at(victim, top));
  fence();
  return swap_if(ends, top, top + 1) == top ? task : 0;
}

// ---- Initial tasks ------------------------------------------------------------------------------------------------------
DEV u64 initial(const Worker& w, u32 number) {
  if (w.s().is_graph) return w.all.list[w.all.graph[w.s().order + number]];
  return w.all.list ? w.all.list[number] : w.s().first + number;
}

// The tasks to take at once, of so many that are left: fewer towards the end.
DEV u32 at_once(const Worker& w, u32 left) {
  const u32 share = left / (w.s().workers * 16) + 1;
  return share < w.s().chunk ? share : w.s().chunk;
}

// The initial tasks of each worker that are dealt out under HYBRID: three of four. The counter begins behind them.
DEV u32 dealt(const Setup& s) { return s.initial / 4 * 3 / s.workers; }

// Takes from the common counter. One lane.
DEV void counter_take(Worker& w) {
  const u32 all = w.s().initial, begin = w.s().policy == HYBRID ? dealt(w.s()) * w.s().workers : 0;
  // How many are left is known from the last time: one access is enough.
  const u32 seen = w.last > begin ? w.last : begin;
  if (w.was_last) return;
  const u32 count = at_once(w, all - seen);
  const u32 first = begin + add_relaxed(w.word(NEXT), count);
  if (first >= all) { w.was_last = true; return; }
  w.next = first;
  w.last = all - first < count ? all : first + count;
}

// A range of initial tasks that is left to a worker: the first one below, the end above. An empty one is never changed by
// others, and no two ranges ever have a task in common, so a range that was read is there or has changed.
DEV void range_take(Worker& w) {
  u64* own = w.range(w.id);
  for (u64 is = load_relaxed(own);;) {
    const u32 first = (u32)is, end = (u32)(is >> 32);
    if (first >= end) return;
    const u32 count = at_once(w, (end - first) * w.s().workers);
    const u64 was = swap_if(own, is, (u64)end << 32 | (first + count));
    if (was == is) { w.next = first; w.last = first + count; return; }
    is = was;
  }
}

// Takes the upper half of the range of another worker. One lane.
DEV void range_steal(Worker& w, u32 victim) {
  u64* from = w.range(victim);
  const u64 is = load_relaxed(from);
  const u32 first = (u32)is, end = (u32)(is >> 32);
  if (first >= end) return;
  const u32 begin = end - (end - first + 1) / 2;
  if (swap_if(from, is, (u64)begin << 32 | first) != is) return;
  store_relaxed(w.range(w.id), (u64)end << 32 | (begin + 1));
  w.next = begin;
  w.last = begin + 1;
}

// ---- What bodies may call -----------------------------------------------------------------------------------------------
// Makes a child of each lane that has `mine`. All lanes of the worker's first warp call it together. Returns false, in all
// lanes, if the queues have no room: then no child was made, and the body does their work itself. One child stays with
// this worker until the body has returned, so a body that goes on for long makes its children at its end.
DEV bool spawn(Worker& w, bool mine, u32 kind, u64 payload) {
  u32 lanes = __ballot_sync(~0u, mine);
  if (lanes == 0) return true;
  const u32 count = __popc(lanes);
  if (w.s().policy == LEVELS) { if (lane_id() == 0) w.counts->refused += count; return false; }
  u64 task = (u64)kind << 56 | (payload & PAYLOAD);
  const u32 newest = 31 - __clz(lanes);
  const u64 keep = __shfl_sync(~0u, task, newest);
  // The one that was kept takes the place of the newest.
  if (w.kept) { if (lane_id() == newest) task = w.kept; } else lanes &= ~(1u << newest);
  if (lane_id() == 0) take_credits(w, count);
  const u32 policy = w.s().policy;
  bool pushed = lanes == 0 || (policy == SHARING && ring_push(w, lanes, task));
  if (!pushed && deque_push(w, lanes, task)) pushed = w.has_own = true;
  if (!pushed && policy > SHARING) pushed = ring_push(w, lanes, task);
  if (lane_id() == 0) {
    if (pushed) w.counts->spawned += count; else { w.credits += count; w.counts->refused += count; }
  }
  if (pushed) { w.kept = keep; return true; }
  return false;
}

// As `spawn`, for bodies that cannot do without: no room ends the run, and the error says so.
DEV void must_spawn(Worker& w, bool mine, u32 kind, u64 payload) {
  if (!spawn(w, mine, kind, payload) && lane_id() == 0) stop(w, FULL, w.id, (u64)kind << 56 | (payload & PAYLOAD));
}

// Field `at` of a node, by the payload of its task. A node has 8 fields; 0 for a task without fields.
DEV u64 field(const Worker& w, u64 payload, u32 at) {
  if (payload >= w.s().with_fields || at >= 8) return 0;
  return ((const u64*)(w.all.graph + w.s().fields))[payload * 8 + at];
}

DEV void ask_host(Worker& w) {
  if (w.id * WORKER_THREADS < blockDim.x && load_acquire_host(w.all.host + ASKED) != 0) stop(w, ABORTED, w.id, 0);
}

// Gives a value to the host that feeds the run. One lane of the worker calls it. It waits while the host has not taken earlier
// answers, which it does whenever it feeds or asks for them. The worker that feeds tells the others how many the host has taken, as
// thousands of workers that ask the host would keep the link busy.
DEV void answer(Worker& w, u64 value) {
  if (w.s().feed_bits == 0) return;               // there is no host to take it
  const u32 bits = w.s().feed_bits, ticket = (u32)add_relaxed((u64*)w.word(ANSWERED), 1ull);
  while (ticket - load_acquire(w.word(GIVEN)) >= 1u << bits) {
    if (stopped(w)) return;
    if (load_relaxed(w.word(SHUT)) && ticket - load_acquire_host(w.all.host + TAKEN) < 1u << bits) break;
    nap(1000);
  }
  u32* to = w.all.host + RINGS + (2u << bits) + 4 * (ticket & ((1u << bits) - 1));
  store_relaxed((u64*)(to + 2), value);
  store_release_host(to, (ticket >> bits) + 1);
}

// Takes the tasks of the host to the common queue, until the host closes the feed. The first warp of one worker does this.
DEV void feed(Worker& w) {
  u32* host = w.all.host;
  const u32 mask = (1u << w.s().feed_bits) - 1;
  for (u32 seen = 0, given = 0;;) {
    // How many tasks were fed, and how many answers were taken, with one access of the memory of the host.
    u64 news = 0;
    if (lane_id() == 0) news = load_acquire_host((u64*)(host + FED));
    news = of_first(news);
    const u32 fed = (u32)news;
    if ((u32)(news >> 32) != given) {
      given = (u32)(news >> 32);
      if (lane_id() == 0) store_release(w.word(GIVEN), given);
    }
    if (fed == seen) {
      u32 closed = 0;
      if (lane_id() == 0) { closed = load_acquire_host(host + CLOSED); ask_host(w); }
      if (of_first((u32)stopped(w))) return;
      // The last tasks were fed before the feed was closed.
      if (of_first(closed) && of_first(lane_id() == 0 ? load_acquire_host(host + FED) : 0u) == seen) break;
      nap(200);
      continue;
    }
    const u32 count = fed - seen < 32 ? fed - seen : 32, lanes = count == 32 ? ~0u : (1u << count) - 1;
    // A load that no cache of the device serves.
    u64 task = 0;
    if (lane_id() < count) task = *(volatile u64*)(host + RINGS + 2 * ((seen + lane_id()) & mask));
    if (lane_id() == 0) take_credits(w, count);
    while (!ring_push(w, lanes, task)) {
      if (of_first((u32)stopped(w))) return;
      // The ring is full of tasks whose workers may wait for the host to take their answers.
      if (lane_id() == 0) store_release(w.word(GIVEN), load_acquire_host(host + TAKEN));
      nap(200);
    }
    seen += count;
    if (lane_id() == 0) store_release_host(host + SEEN, seen);
  }
  if (lane_id() == 0) store_release(w.word(SHUT), 1);
  w.credits++;                                    // that of the feed
}

// ---- The loop -------------------------------------------------------------------------------------------------------------
DEV u64 look_around(Worker& w) {
  const u32 groups = (w.s().workers + 31) / 32;
  const u32 drawn = of_first(draw(w));
  const u32 first = drawn % groups * 32, victim = first + lane_id();
  u32 has = 0;
  if (victim < w.s().workers && victim != w.id) {
    const u64 ends = load_relaxed((u64*)w.ends(victim)), range = load_relaxed(w.range(victim));
    has = ((int)((u32)(ends >> 32) - (u32)ends) > 0 ? 1 : 0) | ((u32)range < (u32)(range >> 32) ? 2 : 0);
  }
  const u32 some = __ballot_sync(~0u, has != 0);
  if (some == 0) { if (lane_id() == 0) w.counts->missed++; return 0; }
  // Begin at a lane that is drawn, so that thieves spread.
  const u32 turned = __funnelshift_r(some, some, drawn >> 27);
  const u32 lane = (__ffs(turned) - 1 + (drawn >> 27)) & 31;
  const u32 kind = __shfl_sync(~0u, has, lane);
  u64 task = 0;
  if (lane_id() == 0) {
    if (kind & 1) task = deque_steal(w, first + lane);
    if (task == 0 && kind & 2) range_steal(w, first + lane);
  }
  task = of_first(task);
  w.next = of_first(w.next); w.last = of_first(w.last);
  if (lane_id() == 0) { if (task != 0 || w.next < w.last) w.counts->stolen++; else w.counts->missed++; }
  return task;
}

// A task of this worker's own, or of the common counter.
DEV u64 own_task(Worker& w) {
  const u32 policy = w.s().policy;
  u64 task = w.kept;
  if (task) { w.kept = 0; return task; }
  if (w.has_own) {
    if (lane_id() == 0) task = deque_take(w);
    task = of_first(task);
    if (task) return task;
    w.has_own = false;
  }
  if (w.next >= w.last) {
    if (lane_id() == 0) {
      if (policy == STEALING) range_take(w);
      else if (policy == SHARING || policy == HYBRID) counter_take(w);
    }
    w.next = of_first(w.next); w.last = of_first(w.last);
  }
  if (w.next >= w.last) return 0;
  task = initial(w, w.next);
  // A static part is every so many tasks; all others are ranges.
  w.next += policy == STATIC ? w.s().workers : 1;
  return task;
}

// Ends the run if nothing runs any more although tasks are left, or if a task runs for too long.
struct Watch { u64 since, task; u32 worker, begun; };
DEV void watch(Worker& w, Watch& seen) {
  if (w.s().watchdog_us == 0 || now_ns() - seen.since < (u64)w.s().watchdog_us * 1000) return;
  u32 worker = ~0u;
  for (u32 at = lane_id(); at < w.s().workers && worker == ~0u; at += 32)
    if (load_relaxed(w.running(at)) != 0) worker = at;
  const u32 busy = __ballot_sync(~0u, worker != ~0u);
  if (busy == 0) {
    // With a feed, the host may have more tasks.
    if (lane_id() == 0 && w.s().feed_bits == 0 && !stopped(w)) stop(w, LOST, w.id, 0);
    return;
  }
  worker = __shfl_sync(~0u, worker, __ffs(busy) - 1);
  const u64 task = load_relaxed(w.running(worker));
  const u32 begun = (u32)load_relaxed(w.running(worker) + 1);
  if (seen.worker == worker && seen.task == task && seen.begun == begun && lane_id() == 0) stop(w, HUNG, worker, task);
  seen.since = now_ns(); seen.worker = worker; seen.task = task; seen.begun = begun;
}

// A task, or 0 at the end of the run. The first warp of the worker calls it.
DEV u64 find(Worker& w) {
  u64 task = own_task(w);
  if (task == 0 && w.s().policy >= SHARING) {
    if (lane_id() == 0) { give_back(w); store_relaxed(w.running(w.id), 0ull); }
    Watch seen = { now_ns(), 0, ~0u, 0 };
    w.idle_ns = 32;
    for (u32 polls = 1; task == 0; ++polls) {
      if (w.s().policy != SHARING) task = look_around(w);
      if (task == 0 && w.next < w.last) { task = initial(w, w.next++); break; }
      if (task == 0) {
        if (lane_id() == 0) task = ring_pop(w);
        task = of_first(task);
      }
      if (task != 0) break;
      if (of_first((u32)stopped(w))) return 0;
      if (polls % 64 == 0) { watch(w, seen); if (lane_id() == 0) ask_host(w); }
      nap(w.idle_ns);
      if (w.idle_ns < w.s().nap_ns) w.idle_ns *= 2;
    }
  }
  return task;
}

template <class Args> DEV void run_task(Worker& w, const Args& args, u64 task);

// Runs the nodes that wait for this one only.
DEV void release(Worker& w, u32 node) {
  const u32* ends = w.all.graph + node;
  const u32 end = ends[1];
  for (u32 first = ends[0]; first < end; first += 32) {
    const u32 edge = first + lane_id();
    u64 task = 0;
    if (edge < end) {
      const u32 next = w.all.graph[w.s().successors + edge];
      if (add_acq_rel(w.all.counters + next, 0u - 1u) == 1) task = w.all.list[next];
    }
    must_spawn(w, task != 0, (u32)(task >> 56), task);
  }
}

// Adds the time of a task, and keeps it in the place of the oldest one that is kept. One lane.
DEV void keep_times(Worker& w, u64 task) {
  const Setup& s = w.s();
  const u64 begin = w.counts->task_ns, end = now_ns();
  w.counts->busy_ns += end - begin;
  if (s.traced == 0) return;
  const u64 place = (u64)w.id * s.traced + w.counts->ran % s.traced;
  u64* to = w.all.tasks + s.stats + 8 * (u64)s.workers + 3 * place;
  to[0] = task; to[1] = begin; to[2] = end;
}

// A task from its begin to its end, by all threads of the worker. `first` is true in the worker's first warp.
template <class Args> DEV void perform(Worker& w, const Args& args, u64 task, bool first) {
  if (first && lane_id() == 0) {
    w.counts->begun++;
    store_relaxed(w.running(w.id) + 1, (u64)w.counts->begun);
    store_relaxed(w.running(w.id), task);
    if (w.s().has_stats) w.counts->task_ns = now_ns();
  }
  run_task(w, args, task);
  if (WORKER_THREADS > 32) __syncthreads(); else __syncwarp();
  if (first) {
    if (w.s().is_graph && w.s().policy != LEVELS) release(w, (u32)task);
    if (lane_id() == 0) {
      if (w.s().has_stats) keep_times(w, task);
      w.credits++;
      if (++w.counts->ran % 16 == 0) ask_host(w);
    }
  }
}

// All blocks reach the barrier, or the run ends. All threads call it.
DEV bool barrier(Worker& w, u32 phase) {
  __syncthreads();
  if (threadIdx.x == 0) {
    if (add_acq_rel(w.word(ARRIVED), 1) == gridDim.x * phase - 1) store_release(w.word(PHASE), phase);
    while (load_acquire(w.word(PHASE)) < phase && !stopped(w)) nap(20);
  }
  return !__syncthreads_or(threadIdx.x == 0 && stopped(w));
}

template <class Args> DEV void take_turns(Worker& w, const Args& args, bool first) {
  __shared__ u64 given;
  for (;;) {
    u64 task = 0;
    if (first) {
      task = find(w);
      if (task != 0 && of_first((u32)stopped(w))) task = 0;
    }
    if (WORKER_THREADS > 32) {
      if (threadIdx.x == 0) given = task;
      __syncthreads();
      task = given;
      __syncthreads();
    }
    if (task == 0) return;
    perform(w, args, task, first);
  }
}

template <class Args> DEV void take_levels(Worker& w, const Args& args, bool first) {
  const u32* level = w.all.graph + w.s().level;
  for (u32 at = 0; at < w.s().levels; ++at) {
    for (u32 node = level[at] + w.id; node < level[at + 1]; node += w.s().workers)
      perform(w, args, initial(w, node), first);
    if (!barrier(w, at + 1)) return;
  }
}

// The last worker to leave tells the host how the run ended, in the words from `REPORTED` on: the end, the worker and the task of the
// report, the credits, and the sums of all counts.
DEV void leave(Worker& w) {
  u64* totals = (u64*)w.word(TOTALS);
  const Counts& c = *w.counts;
  const u32 counts[5] = { c.ran, c.spawned, c.stolen, c.refused, c.missed };
  for (u32 at = 0; at < 5; ++at) if (counts[at]) add_relaxed(totals + at, (u64)counts[at]);
  if (w.s().has_stats) {
    u64* own = w.all.tasks + w.s().stats + 8 * (u64)w.id;
    for (u32 at = 0; at < 5; ++at) own[at] = counts[at];
    own[5] = c.since; own[6] = now_ns(); own[7] = c.busy_ns;
  }
  if (add_acq_rel(w.word(LEFT), 1) != w.s().workers - 1) return;
  u32* host = w.all.host + REPORTED;
  const u32 end = load_relaxed(w.word(STOP));
  store_relaxed(host + 1, load_relaxed(w.word(REPORT)));
  store_relaxed(host + 2, load_relaxed(w.word(BALANCE)));
  store_relaxed((u64*)(host + 3), load_relaxed((u64*)w.word(REPORT + 2)));
  for (u32 at = 0; at < 5; ++at) store_relaxed((u64*)(host + 5) + at, load_relaxed(totals + at));
  store_release_host(host, end);
}

template <class Args> DEV void work(const Args& args, const Shared& all) {
  __shared__ Counts counts[WORKER_THREADS > 32 ? 1 : WARPS];
  const Setup& s = all.s;
  const u32 id = (blockIdx.x * blockDim.x + threadIdx.x) / WORKER_THREADS;
  const bool first = threadIdx.x % WORKER_THREADS < 32;
  Worker w = { all, id, (id + 1) * 2654435761u ^ s.seed, 32 };
  w.counts = counts + threadIdx.x / WORKER_THREADS;
  if (w.random == 0) w.random = 1;
  if (first && lane_id() == 0) { *w.counts = Counts(); if (s.has_stats) w.counts->since = now_ns(); }
  __syncwarp();
  // Without tasks there is no credit whose return would be the end.
  if (s.initial > 0 || s.feed_bits > 0) {
    // The part of the initial tasks that is this worker's own.
    const u32 part = s.initial / s.workers, more = s.initial % s.workers;
    const u32 begin = part * id + (id < more ? id : more), end = begin + part + (id < more ? 1 : 0);
    if (s.policy == STATIC) { w.next = id; w.last = s.initial; }
    if (s.policy == STEALING && first && lane_id() == 0) store_relaxed(w.range(id), (u64)end << 32 | begin);
    if (s.policy == HYBRID) { w.next = dealt(s) * id; w.last = w.next + dealt(s); }
    if (s.feed_bits && id == 0 && first) feed(w);
    if (s.policy == LEVELS) take_levels(w, args, first); else take_turns(w, args, first);
  }
  if (first && lane_id() == 0) { give_back(w); leave(w); }
}
