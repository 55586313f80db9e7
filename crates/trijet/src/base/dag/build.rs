//! Reading a ledger into the graph: one pass over the records, then the edges sorted to their ends.
#![forbid(unsafe_code)]

use super::graph::{Dag, Edge, Kernels, Moment, Node};
use crate::base::clocks::Clocks;
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::{
    Engine, Op, OpKind, Outcome, Place, Signalled, StreamClass, Times, Waited,
};
use std::collections::{BTreeMap, HashMap};

/// A stream, as far as the ledger was read.
#[derive(Debug, Default)]
struct Lane {
    tail: Option<Node>,
    /// Its numbered operations, for events recorded before the ledger began.
    numbered: Vec<(u64, Node)>,
    /// The barrier of the legacy stream that its operations already follow.
    barrier: Option<Node>,
    /// It is in the lists of its device.
    waits_for_join: bool,
    waits_for_legacy: bool,
}

/// A device, as far as the ledger was read. A join stands for everything before it, so that each
/// operation is joined once.
#[derive(Debug, Default)]
struct Joined {
    /// Streams with work since the last wait of the host for the device.
    streams: Vec<LaneId>,
    join: Option<Node>,
    /// Blocking streams with work since the legacy stream last waited for them.
    blocking: Vec<LaneId>,
    legacy_join: Option<Node>,
    /// What later work of blocking streams waits for.
    barrier: Option<Node>,
}

struct Builder<'a> {
    ops: &'a [Op],
    clocks: Clocks,
    moments: Vec<Moment>,
    /// What precedes what, and why.
    edges: Vec<(Node, Node, Edge)>,
    /// The node whose call waits for its own work: the work comes first.
    work_first: Vec<bool>,
    lanes: HashMap<LaneId, Lane>,
    devices: BTreeMap<DeviceId, Joined>,
    threads: HashMap<u64, Node>,
    records: HashMap<u64, Node>,
    contradictions: usize,
}

/// The operation that an engine did before, where it does one at a time; and since when the engine
/// was free for it.
fn engines(ops: &[Op], kernels: Kernels) -> Vec<Option<(usize, u64)>> {
    let mut queues: BTreeMap<(DeviceId, Engine), Vec<(u64, usize)>> = BTreeMap::new();
    for (index, op) in ops.iter().enumerate() {
        let one_at_a_time = match op.engine {
            Engine::Upload | Engine::Download => true,
            Engine::Compute | Engine::Host => kernels == Kernels::OneAtATime,
            Engine::Peer | Engine::None => false,
        };
        if let (true, Some(times)) = (one_at_a_time, op.times) {
            queues.entry((op.device, op.engine)).or_default().push((times.end.0, index));
        }
    }
    let mut before = vec![None; ops.len()];
    for queue in queues.values_mut() {
        queue.sort_unstable();
        for pair in queue.windows(2) {
            before[pair[1].1] = Some((pair[0].1, pair[0].0));
        }
    }
    before
}

/// Whether the call of an operation may wait for the operation (laws A17 and A18).
fn may_wait(op: &Op) -> bool {
    let pageable = || op.accesses.iter().any(|access| access.place == Place::Pageable);
    match op.kind {
        OpKind::CopyNow | OpKind::FillNow => true,
        OpKind::Copy | OpKind::Batch(_) => pageable(),
        _ => false,
    }
}

impl Builder<'_> {
    fn end(&self, node: Node) -> u64 {
        self.moments[node.index()].end
    }

    /// Fixes the moment of a node: `times` as measured, or none for what takes no time.
    fn place(&mut self, node: Node, times: Option<Times>, before: &[(Node, Edge)]) {
        let mut ready = None;
        for &(earlier, edge) in before {
            let end = self.end(earlier);
            if times.is_some_and(|times| end > times.end.0) {
                self.contradictions += 1;
                continue;
            }
            ready = ready.max(Some(end));
            self.edges.push((node, earlier, edge));
        }
        let timed = times.is_some();
        let moment = match times {
            Some(Times { begin, end }) => {
                let (called, begin) = (begin.0, begin.0.max(ready.unwrap_or(0)).min(end.0));
                Moment { called, begin, end: end.0, exists: true, timed }
            }
            None => {
                let at = ready.unwrap_or(0);
                Moment { called: at, begin: at, end: at, exists: true, timed }
            }
        };
        self.moments[node.index()] = moment;
    }

    /// The call of a record, after the thread's call before it and after `waited`.
    fn call(&mut self, index: usize, waited: Option<Node>) {
        let op = &self.ops[index];
        let node = Node::call(index);
        let mut before = Vec::with_capacity(2);
        before.extend(self.threads.get(&op.thread).map(|earlier| (*earlier, Edge::Thread)));
        before.extend(waited.map(|work| (work, Edge::Waited)));
        self.place(node, op.call, &before);
        self.threads.insert(op.thread, node);
    }

    fn lane(&mut self, id: LaneId) -> &mut Lane {
        self.lanes.entry(id).or_default()
    }

    fn tails(&self, lanes: &[LaneId], edge: Edge, into: &mut Vec<(Node, Edge)>) {
        let tails = lanes.iter().filter_map(|id| self.lanes.get(id)?.tail);
        into.extend(tails.map(|tail| (tail, edge)));
    }

    /// What the blocking streams held when the legacy stream, or a wait for it, came to them; from
    /// now on `node` stands for it.
    fn join_blocking(&mut self, op: &Op, node: Node, edge: Edge, into: &mut Vec<(Node, Edge)>) {
        let joined = self.devices.entry(op.device).or_default();
        let blocking = std::mem::take(&mut joined.blocking);
        into.extend(joined.legacy_join.replace(node).map(|join| (join, edge)));
        self.tails(&blocking, edge, into);
        for id in blocking {
            self.lane(id).waits_for_legacy = false;
        }
    }

    /// Enters work into its stream, and notes who has to join it.
    fn append(&mut self, op: &Op, node: Node) {
        let Position { lane: id, seq } = op.position;
        let lane = self.lanes.entry(id).or_default();
        lane.tail = Some(node);
        if op.kind.is_work() {
            lane.numbered.push((seq, node));
        }
        let joined = self.devices.entry(op.device).or_default();
        if !std::mem::replace(&mut lane.waits_for_join, true) {
            joined.streams.push(id);
        }
        let blocking = matches!(op.stream, StreamClass::Blocking | StreamClass::PerThread);
        if blocking && !std::mem::replace(&mut lane.waits_for_legacy, true) {
            joined.blocking.push(id);
        }
        if op.stream == StreamClass::Legacy {
            joined.barrier = Some(node);
        }
    }

    /// What an event stands for: its record, or the position where it was recorded.
    fn recorded(&self, event: u64, on: Position) -> Option<Node> {
        let by_number = || {
            let numbered = &self.lanes.get(&on.lane)?.numbered;
            let end = numbered.partition_point(|(seq, _)| *seq <= on.seq);
            Some(numbered[end.checked_sub(1)?].1)
        };
        self.records.get(&event).copied().or_else(by_number)
    }

    /// The laws' predecessors of work in a stream.
    fn stream_order(&mut self, op: &Op, node: Node) -> Vec<(Node, Edge)> {
        let mut before = Vec::with_capacity(4);
        let barrier = self.devices.get(&op.device).and_then(|joined| joined.barrier);
        let lane = self.lane(op.position.lane);
        before.extend(lane.tail.map(|tail| (tail, Edge::Lane)));
        match op.stream {
            StreamClass::Blocking | StreamClass::PerThread if barrier != lane.barrier => {
                lane.barrier = barrier;
                before.extend(barrier.map(|barrier| (barrier, Edge::Legacy)));
            }
            StreamClass::Legacy => self.join_blocking(op, node, Edge::Legacy, &mut before),
            _ => {}
        }
        if let OpKind::Wait { event, on, .. } = op.kind {
            before.extend(self.recorded(event, on).map(|record| (record, Edge::Event)));
        }
        before
    }

    /// Work in a stream, with the call that enqueued it.
    fn work(&mut self, index: usize, engine: Option<(usize, u64)>) {
        let op = &self.ops[index];
        let node = Node::work(index);
        let mut before = self.stream_order(op, node);
        let held = before.iter().map(|(node, _)| *node);
        let last_held = held.max_by_key(|node| (self.end(*node), *node));
        // A call that was still running when its work ended, or began where that is known, did not
        // release it by returning.
        let held = |t: Times| match self.clocks {
            Clocks::ReadyToEnd => t.end,
            Clocks::StartToEnd => t.begin,
        };
        let inside = matches!((op.call, op.times), (Some(call), Some(t)) if call.end > held(t));
        self.work_first[index] = inside;
        if inside {
            before.extend(self.threads.get(&op.thread).map(|earlier| (*earlier, Edge::Call)));
        } else {
            // A copy that stages has waited for all that its stream held (law A17).
            let done = |node: &Node| op.call.is_some_and(|call| self.end(*node) <= call.end.0);
            let staged = last_held.filter(|last| may_wait(op) && done(last));
            self.call(index, staged);
            before.push((Node::call(index), Edge::Call));
        }
        let mut times = op.times;
        if let (Some(times), Some(call)) = (&mut times, op.call) {
            times.begin = times.begin.max(call.begin).min(times.end);
        }
        if let Some((earlier, free)) = engine
            && let Some(times) = &mut times
            && (self.clocks == Clocks::ReadyToEnd || free <= times.begin.0)
        {
            times.begin.0 = times.begin.0.max(free).min(times.end.0);
            self.edges.push((node, Node::work(earlier), Edge::Engine));
        }
        self.place(node, times, &before);
        self.append(op, node);
        if let OpKind::Record { event, .. } = op.kind {
            self.records.insert(event, node);
        }
        if inside {
            // It may have waited for a part of the work only.
            let all = matches!((op.call, op.times), (Some(call), Some(t)) if call.end > t.end);
            self.call(index, (all && may_wait(op)).then_some(node));
        }
    }

    /// A wait of the host: what it waited for is joined first.
    fn sync(&mut self, index: usize, what: Waited, outcome: Outcome) {
        let op = &self.ops[index];
        if outcome != Outcome::Complete {
            return self.call(index, None);
        }
        let node = Node::work(index);
        let mut before = Vec::new();
        match what {
            Waited::Event(event) | Waited::Recorded(event) => {
                before.extend(self.recorded(event, op.position).map(|r| (r, Edge::Event)));
            }
            Waited::Stream => {
                let tail = self.lane(op.position.lane).tail;
                before.extend(tail.map(|tail| (tail, Edge::Lane)));
                if op.stream == StreamClass::Legacy {
                    self.join_blocking(op, node, Edge::Legacy, &mut before);
                }
            }
            Waited::Device => {
                let joined = self.devices.entry(op.device).or_default();
                let streams = std::mem::take(&mut joined.streams);
                before.extend(joined.join.replace(node).map(|join| (join, Edge::Lane)));
                self.tails(&streams, Edge::Lane, &mut before);
                for id in streams {
                    self.lane(id).waits_for_join = false;
                }
            }
        }
        self.place(node, None, &before);
        self.work_first[index] = true;
        self.call(index, Some(node));
    }

    fn read(&mut self, index: usize, engine: Option<(usize, u64)>) {
        match self.ops[index].kind {
            OpKind::Sync { what, outcome } => self.sync(index, what, outcome),
            OpKind::Gone { event } => drop(self.records.remove(&event)),
            // A host function is no call of the thread that runs it.
            OpKind::Signal { inside: Some(_), .. }
            | OpKind::Signal { what: Signalled::Gone, .. }
            | OpKind::Begin
            | OpKind::Ran
            | OpKind::Settled { .. }
            | OpKind::Name { .. }
            | OpKind::ThreadGone
            | OpKind::Lent
            | OpKind::Handle { .. } => {}
            OpKind::Open => {
                // The stream before left nothing pending: nothing of it precedes this one, which may
                // be of another device or class.
                let id = self.ops[index].position.lane;
                for joined in self.devices.values_mut() {
                    joined.streams.retain(|stream| *stream != id);
                    joined.blocking.retain(|stream| *stream != id);
                }
                let lane = self.lane(id);
                *lane = Lane { numbered: std::mem::take(&mut lane.numbered), ..Lane::default() };
                self.call(index, None);
            }
            _ if self.ops[index].kind.is_in_stream() => self.work(index, engine),
            _ => self.call(index, None),
        }
    }

    fn finish(self) -> Dag {
        let Self { moments, mut edges, work_first, contradictions, .. } = self;
        edges.sort_by_key(|(node, ..)| *node);
        let mut starts = vec![0_u32; moments.len() + 1];
        for (node, ..) in &edges {
            starts[node.index() + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let all = (0..moments.len() / 2).flat_map(|op| [Node::call(op), Node::work(op)]);
        let mut order: Vec<Node> = all.filter(|node| moments[node.index()].exists).collect();
        // Every edge leads to a later end, or at the same moment to a later record, or within a
        // record in the order of its two sides.
        order.sort_unstable_by_key(|node| {
            let second = node.is_call() == work_first[node.op()];
            (moments[node.index()].end, node.op(), second)
        });
        let before = edges.into_iter().map(|(_, earlier, edge)| (earlier, edge)).collect();
        Dag { moments, starts, before, order, contradictions }
    }
}

impl Dag {
    /// The graph of `ops`, in the order of the ledger, with times from ready to end.
    #[must_use]
    pub fn new(ops: &[Op], kernels: Kernels) -> Self {
        Self::with_clocks(ops, kernels, Clocks::ReadyToEnd)
    }

    /// The same with times that mean something else.
    ///
    /// ```
    /// use trijet::base::dag::{Dag, Kernels};
    /// use trijet::trace::file::TimeSource;
    /// let dag = Dag::with_clocks(&[], Kernels::Several, TimeSource::Activity.clocks());
    /// assert!(dag.order().is_empty());
    /// ```
    #[must_use]
    pub fn with_clocks(ops: &[Op], kernels: Kernels, clocks: Clocks) -> Self {
        build(ops, kernels, clocks)
    }
}

fn build(ops: &[Op], kernels: Kernels, clocks: Clocks) -> Dag {
    let engines = engines(ops, kernels);
    let mut builder = Builder {
        ops,
        clocks,
        moments: vec![Moment::default(); 2 * ops.len()],
        edges: Vec::with_capacity(4 * ops.len()),
        work_first: vec![false; ops.len()],
        lanes: HashMap::new(),
        devices: BTreeMap::new(),
        threads: HashMap::new(),
        records: HashMap::new(),
        contradictions: 0,
    };
    for (index, engine) in engines.into_iter().enumerate() {
        builder.read(index, engine);
    }
    builder.finish()
}
