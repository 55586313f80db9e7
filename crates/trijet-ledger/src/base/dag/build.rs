//! The construction of the graph: one pass over the entries of a ledger, and then a sort of the
//! edges by the node to which they lead.
#![forbid(unsafe_code)]

use super::graph::{Dag, DagNode, Kernels, Moment};
use super::nodes::Nodes;
use crate::base::edges::{self, Caller, Edge, Laws, Past, Point, Role, Streams, may_wait};
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::{
    Engine, HostStep, LedgerNote, Op, OpKind, SignalStep, Signalled, StreamClass, StreamMark,
    Times, WaitOutcome, Waited,
};
use crate::base::times::TimeSource;
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap};

/// The direct predecessors of a node, each with its edge to the node.
type Predecessors = SmallVec<[(DagNode, Edge); 4]>;

/// A call that has begun and may wait.
struct BegunCall {
    call: edges::Begun<Nodes>,
    /// The first node in the tail of the call's stream when the call began. If it is still the
    /// first node when the call returns, no other operation came to the stream meanwhile.
    last: Option<(DagNode, Edge)>,
}

struct DagBuilder<'a> {
    ops: &'a [Op],
    times: TimeSource,
    moments: Vec<Moment>,
    /// The edges: a node, one of its predecessors, and the reason for the edge.
    edges: Vec<(DagNode, DagNode, Edge)>,
    /// For each entry, by its index: whether the work node of the entry comes before its call node.
    /// Otherwise the call node comes first.
    work_first: Vec<bool>,
    streams: Streams<Nodes>,
    /// For each lane, the numbers and the nodes of its operations. A wait looks up the work of an
    /// event here if the event was recorded before the ledger began.
    numbered: HashMap<LaneId, Vec<(u64, DagNode)>>,
    /// For each thread, by its number, its last call.
    threads: HashMap<u64, DagNode>,
    /// For each thread, by its number: the call that the thread is in, if that call may wait.
    begun: HashMap<u64, BegunCall>,
    /// For each event, by the driver's handle, the work that the event stands for.
    records: HashMap<u64, Nodes>,
    contradictions: Vec<u64>,
}

/// For each operation, by its index: the previous operation of its engine, and the time in
/// nanoseconds at which that operation ended. `None` for the first operation of an engine, and for
/// an engine that runs several operations at a time.
fn engines(ops: &[Op], kernels: Kernels) -> Vec<Option<(usize, u64)>> {
    let mut queues: BTreeMap<(DeviceId, Engine), Vec<(u64, usize)>> = BTreeMap::new();
    for (index, op) in ops.iter().enumerate() {
        let one_at_a_time = match op.engine {
            Engine::Upload | Engine::Download => true,
            Engine::Compute | Engine::Host => kernels == Kernels::OneAtATime,
            Engine::Peer | Engine::None | Engine::Communication => false,
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

impl DagBuilder<'_> {
    fn end(&self, node: DagNode) -> u64 {
        self.moments[node.index()].end
    }

    /// Sets the times of a node and adds its edges from the nodes in `before`. `times` are the
    /// measured times. A node without measured times takes no time.
    fn place(&mut self, node: DagNode, times: Option<Times>, before: &[(DagNode, Edge)]) {
        let mut ready = None;
        for &(earlier, edge) in before {
            let end = self.end(earlier);
            if let Some(times) = times.filter(|times| end > times.end.0) {
                self.contradictions.push(end - times.end.0);
                continue;
            }
            ready = ready.max(Some(end));
            // An edge from the legacy stream to itself is the order of one stream, and no barrier.
            let lane = |node: DagNode| self.ops[node.op()].position.lane;
            let is_own = edge == Edge::Legacy && lane(node) == lane(earlier);
            self.edges.push((node, earlier, if is_own { Edge::Lane } else { edge }));
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

    /// Adds the call of an entry. The call follows the previous call of its thread, and the node
    /// `waited`, if the call waited for a node.
    fn call(&mut self, index: usize, waited: Option<DagNode>) {
        let op = &self.ops[index];
        let node = DagNode::call(index);
        let mut before = Vec::with_capacity(2);
        before.extend(self.threads.get(&op.thread).map(|earlier| (*earlier, Edge::Thread)));
        before.extend(waited.map(|work| (work, Edge::Waited)));
        self.place(node, op.call, &before);
        self.threads.insert(op.thread, node);
    }

    /// The number of the stream that has the lane of the entry. Adds a stream if no stream has the
    /// lane.
    fn lane(&mut self, op: &Op) -> usize {
        self.streams.find(op.position.lane).unwrap_or_else(|| {
            let number = self.streams.len();
            self.streams.enter(number, op);
            number
        })
    }

    /// The work that an event stands for: the work of its record or, if the ledger begins after the
    /// record, the last operation up to the position `on`.
    fn recorded(&self, event: u64, on: Position) -> Option<Nodes> {
        let by_number = || {
            let numbered = self.numbered.get(&on.lane)?;
            let end = numbered.partition_point(|(seq, _)| *seq <= on.seq);
            Some(Nodes::one(numbered[end.checked_sub(1)?].1, Some(on.lane)))
        };
        self.records.get(&event).cloned().or_else(by_number)
    }

    /// The point of the call at which the operation was released to the device. In most cases this
    /// is the end of the call. If the call was still running when the work ended, the call had
    /// released the work before the call returned. In this case the point is the start of the call.
    /// If the start of the work was measured, the end of the call is compared with that start, and
    /// not with the end of the work.
    fn released(&self, op: &Op) -> Point {
        let held = |times: Times| {
            if self.times.begins_with_the_work() { times.begin } else { times.end }
        };
        match (op.call, op.times) {
            (Some(call), Some(times)) if call.end > held(times) => Point::Begin,
            _ => Point::End,
        }
    }

    /// Reads the start of a call that may wait. The operation of the call follows everything that
    /// its stream holds at that moment (law A17).
    fn begin(&mut self, index: usize) {
        let op = &self.ops[index];
        let lane = self.lane(op);
        let known = self.threads.get(&op.thread).copied();
        let known = known.map_or_else(Nodes::default, |call| Nodes::one(call, None));
        let last = self.streams.tail(lane).iter().next();
        let by = Caller { thread: 0, version: 0, known: &known };
        let call = self.streams.begin_call(lane, op, &by);
        self.begun.insert(op.thread, BegunCall { call, last });
    }

    /// The nodes that an operation follows, except for its own call. The second value is whether
    /// the operation follows everything that its stream holds.
    fn follows(&mut self, lane: usize, op: &Op, role: Role) -> (Nodes, bool) {
        let begun = if op.kind.is_work() { self.begun.remove(&op.thread) } else { None };
        if let Some(BegunCall { call, last }) = begun.filter(|begun| begun.call.lane == lane) {
            let is_last = self.streams.tail(lane).iter().next() == last;
            return (self.streams.return_call(call, op), is_last);
        }
        let mut waited = None;
        if let OpKind::Mark(StreamMark::Wait { event, on, .. }) = op.kind {
            waited = self.recorded(event, on);
        }
        self.streams.begin_entry(lane, op, role, waited.as_ref());
        (self.streams.tail(lane).clone(), true)
    }

    /// Adds an operation of a stream, and the call that enqueued it.
    fn work(&mut self, index: usize, role: Role, engine: Option<(usize, u64)>) {
        let op = &self.ops[index];
        let node = DagNode::work(index);
        let lane = self.lane(op);
        let (mut passed, is_last) = self.follows(lane, op, role);
        let inside = self.released(op) == Point::Begin;
        self.work_first[index] = inside;
        if inside {
            let earlier = self.threads.get(&op.thread).copied();
            let earlier = earlier.map(|call| Nodes::one(call, None));
            earlier.into_iter().for_each(|call| passed.follow(&call, Edge::Call));
        } else {
            // If the operation is a staged copy, its call waited for everything that the stream
            // holds (law A17).
            let held = passed.iter().map(|(node, _)| node).filter(|node| !node.is_call());
            let last_held = held.max_by_key(|node| (self.end(*node), *node));
            let done = |node: &DagNode| op.call.is_some_and(|call| self.end(*node) <= call.end.0);
            let staged = last_held.filter(|last| may_wait(op) && done(last));
            self.call(index, staged);
            passed.follow(&Nodes::one(DagNode::call(index), None), Edge::Call);
        }
        let mut times = op.times;
        if let (Some(times), Some(call)) = (&mut times, op.call) {
            times.begin = times.begin.max(call.begin).min(times.end);
        }
        if let Some((earlier, free)) = engine
            && let Some(times) = &mut times
            && (!self.times.begins_with_the_work() || free <= times.begin.0)
        {
            times.begin.0 = times.begin.0.max(free).min(times.end.0);
            self.edges.push((node, DagNode::work(earlier), Edge::Engine));
        }
        let before: Predecessors = passed.iter().collect();
        self.place(node, times, &before);
        self.append(index, lane, role, is_last);
        if inside {
            // If the call ended before the work did, the call waited for at most a part of the
            // work.
            let all = matches!((op.call, op.times), (Some(call), Some(t)) if call.end > t.end);
            self.call(index, (all && may_wait(op)).then_some(node));
        }
    }

    /// Adds the node of an operation to the tail of its stream.
    fn append(&mut self, index: usize, lane: usize, role: Role, is_last: bool) {
        let (op, node) = (&self.ops[index], DagNode::work(index));
        if is_last {
            *self.streams.tail_mut(lane) = Nodes::one(node, Some(op.position.lane));
            self.streams.end_entry(lane, op, role);
        } else {
            // Entries that came to the stream while the call waited have no order with the
            // operation.
            let passed = Nodes::one(node, None);
            self.streams.tail_mut(lane).follow(&passed, Edge::Lane);
            self.streams.end_call(lane, op, &passed);
        }
        if op.kind.is_work() {
            let numbered = self.numbered.entry(op.position.lane).or_default();
            numbered.push((op.position.seq, node));
        }
        if let OpKind::Mark(StreamMark::Record { event, .. }) = op.kind {
            self.records.insert(event, self.streams.tail(lane).clone());
        }
    }

    /// Adds a wait of the host. The work node of the entry follows everything that the host waited
    /// for, and the call follows that node.
    fn sync(&mut self, index: usize, what: Waited, outcome: WaitOutcome) {
        let op = &self.ops[index];
        if outcome != WaitOutcome::Complete {
            return self.call(index, None);
        }
        let node = DagNode::work(index);
        let mut passed = Nodes::default();
        let by = Nodes::one(node, None);
        match what {
            Waited::Event(event) | Waited::Recorded(event) => {
                if let Some(record) = self.recorded(event, op.position) {
                    passed.follow(&record, Edge::Event);
                }
            }
            Waited::Stream => {
                let lane = self.lane(op);
                self.streams.wait_for_stream(lane, &mut passed);
                if self.streams.class(lane) == StreamClass::Legacy {
                    self.streams.stand_for_legacy(op.device, &by);
                }
            }
            Waited::Device => {
                self.streams.wait_for_device(op.device, &mut passed);
                self.streams.stand_for_device(op.device, &by);
            }
        }
        let before: Predecessors = passed.iter().collect();
        self.place(node, None, &before);
        self.work_first[index] = true;
        self.call(index, Some(node));
    }

    fn read(&mut self, index: usize, engine: Option<(usize, u64)>) {
        let op = &self.ops[index];
        self.streams.note_block(op);
        if let Some(role) = Role::of(&op.kind, self.streams.laws()) {
            return self.work(index, role, engine);
        }
        match op.kind {
            OpKind::Host(HostStep::Sync { what, outcome }) => self.sync(index, what, outcome),
            OpKind::Note(LedgerNote::Gone { event }) => drop(self.records.remove(&event)),
            OpKind::Host(HostStep::Begin) => self.begin(index),
            OpKind::Host(HostStep::Failed) => {
                self.begun.remove(&op.thread);
                self.call(index, None);
            }
            OpKind::Host(HostStep::Open) => {
                let number = self.streams.close(op.position.lane);
                let number = number.unwrap_or(self.streams.len());
                self.call(index, None);
                self.streams.open(number, op, &Nodes::default());
            }
            // Some of these entries are no calls of a thread. A host function made the others.
            OpKind::Host(HostStep::Lent)
            | OpKind::Signal(
                SignalStep::Handle { .. }
                | SignalStep::Use { inside: Some(_), .. }
                | SignalStep::Use { what: Signalled::Gone, .. },
            )
            | OpKind::Note(LedgerNote::Ran | LedgerNote::Settled { .. })
            | OpKind::Note(LedgerNote::Name { .. } | LedgerNote::ThreadGone) => {}
            OpKind::Memory(_)
            | OpKind::Host(HostStep::Access | HostStep::Fault { .. })
            | OpKind::Host(HostStep::Load | HostStep::Release | HostStep::Refused)
            | OpKind::Signal(SignalStep::Use { .. }) => self.call(index, None),
            OpKind::Work(_) | OpKind::Mark(_) => {}
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
        let all = (0..moments.len() / 2).flat_map(|op| [DagNode::call(op), DagNode::work(op)]);
        let mut order: Vec<DagNode> = all.filter(|node| moments[node.index()].exists).collect();
        // Every edge leads to a node that ends at the same time or later. If both nodes end at the
        // same time, the edge leads to a later entry, or from the first node of an entry to its
        // second node.
        order.sort_unstable_by_key(|node| {
            let second = node.is_call() == work_first[node.op()];
            (moments[node.index()].end, node.op(), second)
        });
        let before = edges.into_iter().map(|(_, earlier, edge)| (earlier, edge)).collect();
        Dag { moments, starts, before, order, contradictions }
    }
}

impl Dag {
    /// The graph of `ops`, which are in the order of the ledger. The times of an operation are from
    /// the moment at which it was ready to its end ([`TimeSource::EventPairs`]).
    #[must_use]
    pub fn new(ops: &[Op], kernels: Kernels) -> Self {
        Self::with_times(ops, kernels, TimeSource::EventPairs)
    }

    /// The graph of `ops`, whose times come from the source `times`.
    ///
    /// ```
    /// use trijet::trace::dag::{Dag, Kernels};
    /// use trijet::trace::TimeSource;
    /// let dag = Dag::with_times(&[], Kernels::Several, TimeSource::Activity);
    /// assert!(dag.order().is_empty());
    /// ```
    #[must_use]
    pub fn with_times(ops: &[Op], kernels: Kernels, times: TimeSource) -> Self {
        build(ops, kernels, times)
    }
}

fn build(ops: &[Op], kernels: Kernels, times: TimeSource) -> Dag {
    let engines = engines(ops, kernels);
    let mut builder = DagBuilder {
        ops,
        times,
        moments: vec![Moment::default(); 2 * ops.len()],
        edges: Vec::with_capacity(4 * ops.len()),
        work_first: vec![false; ops.len()],
        streams: Streams::new(Laws::Measured),
        numbered: HashMap::new(),
        threads: HashMap::new(),
        begun: HashMap::new(),
        records: HashMap::new(),
        contradictions: Vec::new(),
    };
    for (index, engine) in engines.into_iter().enumerate() {
        builder.read(index, engine);
    }
    builder.finish()
}
