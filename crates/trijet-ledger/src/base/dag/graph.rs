//! The graph of a run, and its queries.
#![forbid(unsafe_code)]

use crate::base::edges::Edge;
use crate::base::id::DeviceId;
use crate::base::ledger::{Engine, Op, Times};
use crate::base::units::Nanos;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Whether a device runs one kernel and one host function at a time, or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kernels {
    /// One kernel and one host function at a time. In the cost model, each kernel fills the device.
    OneAtATime,
    /// As many kernels and host functions as fit. If two kernels were ready at the same time, it is
    /// not known which of them started first.
    Several,
}

/// A node of the graph: the call or the work of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DagNode(u32);

impl DagNode {
    /// The call of the entry at index `op`.
    ///
    /// # Panics
    /// If `op` is 2^31 or more.
    #[must_use]
    pub fn call(op: usize) -> Self {
        Self(u32::try_from(2 * op).expect("fewer than 2^31 entries"))
    }

    /// The work of the entry at index `op`.
    ///
    /// # Panics
    /// If `op` is 2^31 or more.
    #[must_use]
    pub fn work(op: usize) -> Self {
        Self(u32::try_from(2 * op + 1).expect("fewer than 2^31 entries"))
    }

    /// The index of the entry.
    #[must_use]
    pub fn op(self) -> usize {
        self.index() / 2
    }

    /// Whether the node is a call of the host.
    #[must_use]
    pub fn is_call(self) -> bool {
        self.0.is_multiple_of(2)
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The times of a node, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moment {
    /// The measured start of the node, even if a predecessor ended later.
    pub(super) called: u64,
    /// The measured start of the node, or the end of its last predecessor if that end is later.
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Whether the graph has the node.
    pub(super) exists: bool,
    /// Whether the times of the node were measured. Otherwise the node ends as soon as it is ready.
    pub(super) timed: bool,
}

/// The graph of a run.
#[derive(Debug)]
pub struct Dag {
    pub(super) moments: Vec<Moment>,
    /// For each node, the index of its first predecessor in `before`.
    pub(super) starts: Vec<u32>,
    /// The predecessors of all nodes, sorted by the node that follows them.
    pub(super) before: Vec<(DagNode, Edge)>,
    /// All nodes, each after its predecessors.
    pub(super) order: Vec<DagNode>,
    /// For each edge that was left out, the number of nanoseconds by which the clocks contradict
    /// it.
    pub(super) contradictions: Vec<u64>,
}

impl Dag {
    /// All nodes, each after its predecessors.
    #[must_use]
    pub fn order(&self) -> &[DagNode] {
        &self.order
    }

    /// The number of edges that were left out because the clocks contradict them.
    #[must_use]
    pub fn contradictions(&self) -> usize {
        self.contradictions.len()
    }

    /// The number of edges that the clocks contradict by more than `error`, the known error between
    /// the clocks of the host and of the devices.
    #[must_use]
    pub fn contradictions_beyond(&self, error: Nanos) -> usize {
        self.contradictions.iter().filter(|by| **by > error.0).count()
    }

    /// The number of edges, to estimate the cost of a walk.
    #[must_use]
    pub fn edges(&self) -> usize {
        self.before.len()
    }

    /// The direct predecessors of a node, each with its edge to the node.
    #[must_use]
    pub fn before(&self, node: DagNode) -> &[(DagNode, Edge)] {
        let at = node.index();
        &self.before[self.starts[at] as usize..self.starts[at + 1] as usize]
    }

    /// The interval of a node, in nanoseconds. The interval begins at the measured start of the
    /// node, or at the end of its last predecessor if that end is later.
    #[must_use]
    pub fn span(&self, node: DagNode) -> Range<u64> {
        let moment = self.moments[node.index()];
        moment.begin..moment.end
    }

    /// The time at which the last predecessor of a node was done. For a node without predecessors,
    /// the start of the node.
    #[must_use]
    pub fn ready(&self, node: DagNode) -> u64 {
        let ends = self.before(node).iter().map(|(earlier, _)| self.span(*earlier).end);
        ends.max().unwrap_or(self.span(node).start)
    }

    /// The interval in which an operation of the device ran, if the interval was measured.
    #[must_use]
    pub fn work(&self, op: usize) -> Option<Range<u64>> {
        let node = DagNode::work(op);
        let moment = self.moments[node.index()];
        (moment.exists && moment.timed).then_some(moment.begin..moment.end)
    }

    /// Copies of the entries of the graph, in which the operations of devices have the times of the
    /// graph. A timeline draws these copies, so it shows the same times as the figures.
    ///
    /// # Panics
    /// If there are fewer entries than in the graph.
    #[must_use]
    pub fn settle(&self, ops: &[Op]) -> Vec<Op> {
        let mut settled = ops.to_vec();
        self.settle_in_place(&mut settled);
        settled
    }

    /// Sets the operations of devices in `ops` to the times of the graph, as
    /// [`settle`](Self::settle) does in copies. Returns the previous times of each entry.
    #[doc(hidden)]
    pub fn settle_in_place(&self, ops: &mut [Op]) -> Vec<Option<Times>> {
        assert!(2 * ops.len() >= self.moments.len(), "these are the entries of another graph");
        let settled = ops.iter_mut().enumerate().map(|(index, op)| {
            let before = op.times;
            if let Some(span) = self.work(index) {
                op.times = Some(Times { begin: Nanos(span.start), end: Nanos(span.end) });
            }
            before
        });
        settled.collect()
    }

    /// The interval in which the host was in the call of an operation, if the interval was
    /// measured.
    #[must_use]
    pub fn call(&self, op: usize) -> Option<Range<u64>> {
        let moment = self.moments[DagNode::call(op).index()];
        (moment.exists && moment.timed).then_some(moment.called..moment.end)
    }

    /// The time at which an operation was enqueued: the end of its call, or the start of a call
    /// that waited for the operation itself.
    #[must_use]
    pub fn enqueued(&self, op: usize) -> Option<u64> {
        let call = self.call(op)?;
        let own = self.before(DagNode::work(op)).contains(&(DagNode::call(op), Edge::Call));
        Some(if own { call.end } else { call.start })
    }

    /// The predecessor of a node that was done last, among the edges that `wanted` accepts. At
    /// equal times, work of the device is preferred to a call.
    #[must_use]
    pub fn last_before(
        &self,
        node: DagNode,
        wanted: impl Fn(Edge) -> bool,
    ) -> Option<(DagNode, Edge)> {
        let candidates = self.before(node).iter().copied().filter(|(_, edge)| wanted(*edge));
        candidates.max_by_key(|(node, _)| (self.span(*node).end, !node.is_call()))
    }

    /// The predecessor that an operation of the device waited for last. The call and the engine of
    /// the operation do not count. Records and waits take no time, so the result is the work or the
    /// call before a record or a wait.
    #[must_use]
    pub fn held_by(&self, op: usize) -> Option<HeldBy> {
        let stream = |edge| matches!(edge, Edge::Lane | Edge::Event | Edge::Legacy | Edge::Graph);
        let (mut node, mut edge) = self.last_before(DagNode::work(op), stream)?;
        let until = self.span(node).end;
        let mut legacy = edge == Edge::Legacy;
        while !node.is_call() && !self.moments[node.index()].timed {
            let Some(next) = self.last_before(node, |_| true) else { break };
            (node, edge) = next;
            legacy |= edge == Edge::Legacy;
        }
        Some(HeldBy { until, by: node, legacy })
    }

    /// A path of edges from the work of `earlier` to the work of `later`. Each edge comes with the
    /// node at which it starts. `None` if no law orders the two operations. The search does not
    /// follow edges of engines, and skips nodes that ended before `earlier` did.
    #[must_use]
    pub fn path(&self, earlier: usize, later: usize) -> Option<Vec<(DagNode, Edge)>> {
        let (from, to) = (DagNode::work(later), DagNode::work(earlier));
        let floor = self.span(to).end;
        let mut came: HashMap<DagNode, (DagNode, Edge)> = HashMap::new();
        let mut open = vec![from];
        while let Some(node) = open.pop() {
            if node == to {
                let mut path = Vec::new();
                let mut at = to;
                while let Some(&(next, edge)) = came.get(&at) {
                    path.push((at, edge));
                    at = next;
                }
                return Some(path);
            }
            for &(earlier, edge) in self.before(node) {
                let is_new = earlier != from && !came.contains_key(&earlier);
                if edge != Edge::Engine && is_new && self.span(earlier).end >= floor {
                    came.insert(earlier, (node, edge));
                    open.push(earlier);
                }
            }
        }
        None
    }
}

/// The reason why an operation could not start earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldBy {
    /// The time in nanoseconds until which the operation waited.
    pub until: u64,
    /// The work or the call that the operation waited for last.
    pub by: DagNode,
    /// Whether the operation waited because of a barrier of the legacy stream.
    pub legacy: bool,
}

/// The operations with a measured interval, for each engine of each device, sorted by their starts.
#[must_use]
pub fn by_engine(ops: &[Op], dag: &Dag) -> Vec<((DeviceId, Engine), Vec<usize>)> {
    let mut engines: BTreeMap<(DeviceId, Engine), Vec<usize>> = BTreeMap::new();
    for (index, op) in ops.iter().enumerate() {
        if op.engine != Engine::None && dag.work(index).is_some() {
            engines.entry((op.device, op.engine)).or_default().push(index);
        }
    }
    for list in engines.values_mut() {
        list.sort_by_key(|op| dag.work(*op).map(|span| (span.start, span.end)));
    }
    engines.into_iter().collect()
}
