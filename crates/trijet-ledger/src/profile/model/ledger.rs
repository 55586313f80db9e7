//! The graph of a run from a ledger: the laws of its streams, events and threads, with the measured
//! times.
//!
//! It has the rules of delays of the graph from a trace (`build`). The reasons for the order are
//! known here, because the ledger has every record and every wait.
#![forbid(unsafe_code)]

use super::build::{LATENCY_MAX_NS, RETURN_MAX_NS};
use super::edges::{CALL_NS, CallOf, EdgeKind, Moments, RunEdge, WaitOf, index};
use super::run::{CopyRate, Placed, RunModel, length};
use crate::base::dag::{Dag, DagNode, Edge};
use crate::base::ledger::{Engine, HostStep, Op, OpKind, Place, StreamWork};
use crate::trace::activity::CopyDirection;
use std::collections::HashMap;
use std::ops::Range;

/// The moments of a ledger's entries.
#[derive(Debug)]
pub(in crate::profile) struct LedgerMoments {
    /// For each entry, the moment of the start of its call, or 0.
    pub(in crate::profile) call: Vec<u32>,
    /// For each entry, the moment of the start of its work, or 0.
    pub(in crate::profile) work: Vec<u32>,
    /// The earliest time of the run in nanoseconds.
    pub(in crate::profile) start: u64,
}

/// The direction of a copy between host and device.
pub(in crate::profile) fn direction(op: &Op) -> Option<CopyDirection> {
    let is_copy = matches!(
        op.kind,
        OpKind::Work(StreamWork::Copy | StreamWork::CopyNow | StreamWork::Batch(_))
    );
    match op.engine {
        Engine::Upload if is_copy => Some(CopyDirection::Upload),
        Engine::Download if is_copy => Some(CopyDirection::Download),
        _ => None,
    }
}

/// Whether the operation copies from or to pageable memory.
pub(in crate::profile) fn is_staged(op: &Op) -> bool {
    let pageable = || op.accesses.iter().any(|access| access.place == Place::Pageable);
    direction(op).is_some() && pageable()
}

/// The wait of the call of an entry, if the call waits.
fn wait_of(op: &Op) -> WaitOf {
    match (op.kind, direction(op)) {
        (OpKind::Work(StreamWork::CopyNow | StreamWork::FillNow), _) => WaitOf::Copy,
        (OpKind::Work(_), Some(direction)) => WaitOf::Staged(direction),
        (OpKind::Memory(_), _) => WaitOf::Allocation,
        _ => WaitOf::Sync,
    }
}

fn call_of(op: &Op) -> CallOf {
    match op.kind {
        OpKind::Host(HostStep::Sync { .. }) => CallOf::Sync,
        OpKind::Work(StreamWork::CopyNow | StreamWork::FillNow) => CallOf::Copy,
        OpKind::Work(StreamWork::Alloc | StreamWork::Free) | OpKind::Memory(_) => {
            CallOf::Allocation
        }
        OpKind::Work(_) if is_staged(op) => CallOf::Staged,
        OpKind::Work(_) | OpKind::Mark(_) => CallOf::Enqueue,
        _ => CallOf::Other,
    }
}

struct LedgerBuilder<'a> {
    ops: &'a [Op],
    dag: &'a Dag,
    moments: LedgerMoments,
    edges: Vec<(u32, RunEdge)>,
    /// The median time from the end of a call to the start of its operation, among operations whose
    /// stream was idle.
    latency: u64,
}

impl RunModel {
    /// The model of a ledger, and its moments. `None` without operations with known times, or if
    /// there are more moments than numbers.
    pub(in crate::profile) fn of_ledger(ops: &[Op], dag: &Dag) -> Option<(Self, LedgerMoments)> {
        u32::try_from(ops.len().checked_mul(5)?).ok()?;
        let mut moments =
            LedgerMoments { call: vec![0; ops.len()], work: vec![0; ops.len()], start: u64::MAX };
        let mut count = 1;
        for &node in dag.order() {
            let (list, is_timed, begin) = match node.is_call() {
                true => (&mut moments.call, dag.call(node.op()).is_some(), called(dag, node).start),
                false => (&mut moments.work, dag.work(node.op()).is_some(), dag.span(node).start),
            };
            list[node.op()] = count;
            count += 1 + u32::from(is_timed);
            moments.start = moments.start.min(begin);
        }
        let latency = latency(dag);
        let mut builder = LedgerBuilder { ops, dag, moments, edges: Vec::new(), latency };
        for &node in dag.order() {
            if node.is_call() { builder.call(node) } else { builder.work(node) }
        }
        let LedgerBuilder { moments, edges, .. } = builder;
        let mut operations = Vec::new();
        for (at, op) in ops.iter().enumerate() {
            if let Some(time) = dag.work(at).filter(|_| op.engine != Engine::None) {
                operations.push(Placed { device: op.device.0, time, begin: moments.work[at] });
            }
        }
        operations.sort_by_key(|one| (one.time.start, one.time.end));
        operations.first()?;
        let model = Self {
            moments: Moments::of(index(count), &edges)?.by_time(),
            operations,
            loading: HashMap::new(),
            waiting: HashMap::new(),
            rates: [CopyDirection::Upload, CopyDirection::Download]
                .map(|wanted| fastest(ops, dag, wanted)),
        };
        Some((model, moments))
    }
}

impl RunModel {
    /// The time in nanoseconds of the operations of a device without the wait of a stream for an
    /// event, by the moment of the wait.
    pub(in crate::profile) fn without_wait(&self, device: u32, wait: u32) -> u64 {
        let times = self.moments.times(|moment, edge| {
            let is_dropped = moment == wait && edge.kind == EdgeKind::Event;
            (!is_dropped).then_some(edge.delay)
        });
        let of_device = self.operations.iter().filter(|one| one.device == device);
        length(of_device.map(|one| [times[index(one.begin)], times[index(one.begin + 1)]]))
    }
}

/// The rate of the copies of a direction from and to page-locked memory.
fn fastest(ops: &[Op], dag: &Dag, wanted: CopyDirection) -> Option<CopyRate> {
    let copies = ops.iter().enumerate().filter(|(_, op)| direction(op) == Some(wanted));
    let pinned = copies.filter(|(_, op)| !is_staged(op));
    let timed = pinned.filter_map(|(at, op)| Some((op.bytes, dag.work(at)?)));
    CopyRate::fastest_of(timed.map(|(bytes, time)| (bytes, time.end - time.start)))
}

/// The measured interval of the call of an entry.
pub(in crate::profile) fn call_time(dag: &Dag, at: usize) -> Option<Range<u64>> {
    // A damaged ledger may have a call that ends before it starts.
    dag.call(at).map(|time| time.start.min(time.end)..time.end)
}

/// The measured interval of a call. A call without measured times takes none.
fn called(dag: &Dag, node: DagNode) -> Range<u64> {
    let end = dag.span(node).end;
    call_time(dag, node.op()).unwrap_or(end..end)
}

fn latency(dag: &Dag) -> u64 {
    let mut launches = Vec::new();
    for &node in dag.order() {
        let own = (DagNode::call(node.op()), Edge::Call);
        if !node.is_call()
            && dag.work(node.op()).is_some()
            && dag.last_before(node, |_| true) == Some(own)
        {
            launches.push(dag.span(node).start.saturating_sub(dag.span(own.0).end));
        }
    }
    launches.sort_unstable();
    launches.get(launches.len() / 2).map_or(0, |median| (*median).min(LATENCY_MAX_NS))
}

impl LedgerBuilder<'_> {
    fn add(&mut self, from: u32, to: u32, delay: u64, kind: EdgeKind) {
        self.edges.push((to, RunEdge { from, delay, kind }));
    }

    fn begin(&self, node: DagNode) -> u32 {
        let list = if node.is_call() { &self.moments.call } else { &self.moments.work };
        list[node.op()]
    }

    fn end(&self, node: DagNode) -> u32 {
        let is_timed = match node.is_call() {
            true => self.dag.call(node.op()).is_some(),
            false => self.dag.work(node.op()).is_some(),
        };
        self.begin(node) + u32::from(is_timed)
    }

    /// Adds the edges to a call: from the call before it on its thread, and from the work that it
    /// waits for.
    fn call(&mut self, node: DagNode) {
        let op = &self.ops[node.op()];
        let (time, begin, end) = (called(self.dag, node), self.begin(node), self.end(node));
        let before = self.dag.before(node);
        let mut is_first = true;
        for (earlier, _) in before.iter().filter(|(_, edge)| *edge != Edge::Waited) {
            let delay = time.start.saturating_sub(self.dag.span(*earlier).end);
            self.add(self.end(*earlier), begin, delay, EdgeKind::Program);
            is_first = false;
        }
        if is_first {
            self.add(0, begin, time.start - self.moments.start, EdgeKind::Start);
        }
        let waited: Vec<DagNode> = before
            .iter()
            .filter(|(_, edge)| *edge == Edge::Waited)
            .map(|(node, _)| *node)
            .collect();
        let latest = waited.iter().map(|work| self.dag.span(*work).end).max();
        let of = wait_of(op);
        // A call that copies or allocates works on the host after the wait.
        let explained = match of {
            _ if latest.is_none_or(|latest| latest <= time.start) => CALL_NS,
            WaitOf::Sync => RETURN_MAX_NS,
            _ => u64::MAX,
        };
        for work in waited {
            let tail = time.end.saturating_sub(self.dag.span(work).end).min(explained);
            self.add(self.end(work), end, tail, EdgeKind::Awaited(of));
        }
        if end > begin {
            let length = time.end - time.start;
            let has_waited = latest.is_some_and(|latest| latest > time.start);
            let own = if has_waited { length.min(CALL_NS) } else { length };
            self.add(begin, end, own, EdgeKind::Call(call_of(op)));
        }
    }

    /// Adds the edges to the work of an entry: from everything that it follows.
    fn work(&mut self, node: DagNode) {
        let op = &self.ops[node.op()];
        let (span, begin, end) = (self.dag.span(node), self.begin(node), self.end(node));
        let lag = (span.start - self.dag.ready(node).min(span.start)).min(LATENCY_MAX_NS);
        let own = DagNode::call(node.op());
        for &(earlier, edge) in self.dag.before(node) {
            let free = self.dag.span(earlier).end;
            let (from, delay, kind) = match edge {
                Edge::Call if earlier == own => {
                    let usual = self.latency.min(span.start.saturating_sub(free));
                    let delay = if end > begin { lag.max(usual) } else { lag };
                    (self.end(earlier), delay, EdgeKind::Launch)
                }
                // The call was still running when the work ended.
                Edge::Call if self.moments.call[node.op()] > 0 => {
                    let since = span.start.saturating_sub(called(self.dag, own).start);
                    (self.begin(own), since.min(LATENCY_MAX_NS), EdgeKind::Launch)
                }
                Edge::Call | Edge::Thread | Edge::Waited => {
                    (self.end(earlier), lag, EdgeKind::Launch)
                }
                Edge::Lane => {
                    (self.end(earlier), lag, EdgeKind::Stream { is_copy: [false, false] })
                }
                Edge::Event => (self.end(earlier), lag, EdgeKind::Event),
                Edge::Legacy => (self.end(earlier), lag, EdgeKind::Legacy),
                Edge::Graph | Edge::Engine => (self.end(earlier), lag, EdgeKind::Between),
            };
            self.add(from, begin, delay, kind);
        }
        if self.dag.before(node).is_empty() {
            self.add(0, begin, span.start - self.moments.start, EdgeKind::Start);
        }
        if end > begin {
            let kind = match direction(op).filter(|_| is_staged(op)) {
                Some(direction) => {
                    let is_waited_for = op.kind == OpKind::Work(StreamWork::CopyNow);
                    EdgeKind::StagedCopy { direction, bytes: op.bytes, is_waited_for }
                }
                None => EdgeKind::Run,
            };
            self.add(begin, end, span.end - span.start, kind);
        }
    }
}
