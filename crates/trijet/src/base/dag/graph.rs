//! The graph of a run, and what can be asked of it.
#![forbid(unsafe_code)]

use crate::base::edges::Edge;
use crate::base::id::DeviceId;
use crate::base::ledger::{Engine, Op, Times};
use crate::base::units::Nanos;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// How many kernels, and how many host functions, a device runs at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kernels {
    /// One: the model's kernels fill the device.
    OneAtATime,
    /// As many as fit: of two that were ready, nobody knows which one ran.
    Several,
}

/// A side of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node(u32);

impl Node {
    /// The call of the host.
    ///
    /// # Panics
    /// With more than 2^31 records.
    #[must_use]
    pub fn call(op: usize) -> Self {
        Self(u32::try_from(2 * op).expect("fewer than 2^31 records"))
    }

    /// What the device did.
    ///
    /// # Panics
    /// With more than 2^31 records.
    #[must_use]
    pub fn work(op: usize) -> Self {
        Self(u32::try_from(2 * op + 1).expect("fewer than 2^31 records"))
    }

    /// The record.
    #[must_use]
    pub fn op(self) -> usize {
        self.index() / 2
    }

    /// Whether it is a call of the host.
    #[must_use]
    pub fn is_call(self) -> bool {
        self.0.is_multiple_of(2)
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// When a node was.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moment {
    /// As measured.
    pub(super) called: u64,
    /// Once everything that precedes it was done.
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) exists: bool,
    /// It has a duration of its own; otherwise it is over as soon as it is ready.
    pub(super) timed: bool,
}

/// The graph of a run.
#[derive(Debug)]
pub struct Dag {
    pub(super) moments: Vec<Moment>,
    /// Where the predecessors of a node begin in `before`.
    pub(super) starts: Vec<u32>,
    pub(super) before: Vec<(Node, Edge)>,
    /// All nodes, each after its predecessors.
    pub(super) order: Vec<Node>,
    pub(super) contradictions: usize,
}

impl Dag {
    /// All nodes, each after its predecessors.
    #[must_use]
    pub fn order(&self) -> &[Node] {
        &self.order
    }

    /// Edges that the clocks contradict and that were left out.
    #[must_use]
    pub fn contradictions(&self) -> usize {
        self.contradictions
    }

    /// The edges of the graph, for judging the cost of a walk.
    #[must_use]
    pub fn edges(&self) -> usize {
        self.before.len()
    }

    /// What comes directly before a node.
    #[must_use]
    pub fn before(&self, node: Node) -> &[(Node, Edge)] {
        let at = node.index();
        &self.before[self.starts[at] as usize..self.starts[at + 1] as usize]
    }

    /// From when to when a node was, once everything before it was done.
    #[must_use]
    pub fn span(&self, node: Node) -> Range<u64> {
        let moment = self.moments[node.index()];
        moment.begin..moment.end
    }

    /// When the last predecessor of a node was done; its own begin when it has none.
    #[must_use]
    pub fn ready(&self, node: Node) -> u64 {
        let ends = self.before(node).iter().map(|(earlier, _)| self.span(*earlier).end);
        ends.max().unwrap_or(self.span(node).start)
    }

    /// When an operation of the device ran, if that was measured.
    #[must_use]
    pub fn work(&self, op: usize) -> Option<Range<u64>> {
        let node = Node::work(op);
        let moment = self.moments[node.index()];
        (moment.exists && moment.timed).then_some(moment.begin..moment.end)
    }

    /// The records of which this is the graph, each operation of a device with the times at which
    /// it ran: what a timeline draws, so that it shows what the figures are computed from.
    ///
    /// # Panics
    /// When the records are fewer than those of the graph.
    #[must_use]
    pub fn settle(&self, ops: &[Op]) -> Vec<Op> {
        assert!(2 * ops.len() >= self.moments.len(), "the records of another graph");
        let settled = ops.iter().enumerate().map(|(index, op)| {
            let times =
                self.work(index).map(|s| Times { begin: Nanos(s.start), end: Nanos(s.end) });
            Op { times: times.or(op.times), ..op.clone() }
        });
        settled.collect()
    }

    /// When the host was in the call of an operation, if that was measured.
    #[must_use]
    pub fn call(&self, op: usize) -> Option<Range<u64>> {
        let moment = self.moments[Node::call(op).index()];
        (moment.exists && moment.timed).then_some(moment.called..moment.end)
    }

    /// When the host let an operation go: the end of its call, or the begin of one that waited for
    /// the operation itself.
    #[must_use]
    pub fn enqueued(&self, op: usize) -> Option<u64> {
        let call = self.call(op)?;
        let own = self.before(Node::work(op)).contains(&(Node::call(op), Edge::Call));
        Some(if own { call.end } else { call.start })
    }

    /// Among the predecessors by `wanted` edges, the one that was done last. Of several the device's
    /// comes before the host's.
    #[must_use]
    pub fn last_before(&self, node: Node, wanted: impl Fn(Edge) -> bool) -> Option<(Node, Edge)> {
        let candidates = self.before(node).iter().copied().filter(|(_, edge)| wanted(*edge));
        candidates.max_by_key(|(node, _)| (self.span(*node).end, !node.is_call()))
    }

    /// What an operation of the device waited for last by the laws, not counting its own call: the
    /// moment, the operation that took time until then, and the edges on the way. Records and waits
    /// take no time, so what they stood for is named instead.
    #[must_use]
    pub fn held_by(&self, op: usize) -> Option<Held> {
        let stream = |edge| matches!(edge, Edge::Lane | Edge::Event | Edge::Legacy);
        let (mut node, mut edge) = self.last_before(Node::work(op), stream)?;
        let until = self.span(node).end;
        let mut legacy = edge == Edge::Legacy;
        while !node.is_call() && !self.moments[node.index()].timed {
            let Some(next) = self.last_before(node, |_| true) else { break };
            (node, edge) = next;
            legacy |= edge == Edge::Legacy;
        }
        Some(Held { until, by: node, legacy })
    }

    /// The edges by which `earlier` comes before `later`, in this order, each with the node that it
    /// leaves; `None` when nothing orders them. Looks only at what ended after `earlier` did.
    #[must_use]
    pub fn path(&self, earlier: usize, later: usize) -> Option<Vec<(Node, Edge)>> {
        let (from, to) = (Node::work(later), Node::work(earlier));
        let floor = self.span(to).end;
        let mut came: HashMap<Node, (Node, Edge)> = HashMap::new();
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

/// What held an operation back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Until when.
    pub until: u64,
    /// The work or the call that was done last.
    pub by: Node,
    /// A barrier of the legacy stream is on the way.
    pub legacy: bool,
}

/// The operations of each engine of each device that ran, by begin.
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
