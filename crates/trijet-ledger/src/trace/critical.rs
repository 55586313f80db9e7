//! The critical path: it begins at the last end of a run and leads back, from each node to the
//! predecessor that ended last.
//!
//! Each step of the path belongs to one node of the graph, or lies before a node. So the lengths of
//! the steps sum exactly to the length of the window. The slack of an operation is the time by
//! which the operation could end later without delaying the end of the run. `what_if` computes the
//! end of the run with faster or slower operations.
#![deny(clippy::wildcard_enum_match_arm)]
#![forbid(unsafe_code)]

use crate::base::dag::{Dag, DagNode};
use crate::base::ledger::{Engine, HostStep, Op, OpKind, Place, SignalStep, StreamWork};
use crate::base::span::Union;
use crate::base::units::Nanos;
use crate::trace::host_engines::{HostEngine, HostWorked};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// The activity that took the time of a step of the critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Category {
    /// Work of an engine.
    Engine(Engine),
    /// Work of an engine of the host.
    Host(HostEngine),
    /// A call that enqueues an operation.
    Enqueue,
    /// A call that waits for the device.
    Sync,
    /// A call that allocates or frees.
    Alloc,
    /// A copy or a fill that the host waits for.
    Copy,
    /// Loading a kernel.
    Load,
    /// The code of the program, between calls of the host.
    User,
    /// The time from the moment at which an operation was ready to its start, up to the latency of
    /// a launch.
    Launch,
    /// The part of the time from ready to start that exceeds the latency of a launch. Its cause is
    /// unknown.
    Unknown,
    /// The time from the start of the window to the first node of the path.
    Start,
    /// The time from the end of the last node of the path to the end of the window.
    Tail,
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Engine(engine) => engine_name(*engine),
            Self::Host(engine) => engine.name(),
            Self::Enqueue => "enqueueing",
            Self::Sync => "waiting on the host",
            Self::Alloc => "allocating",
            Self::Copy => "copying on the host",
            Self::Load => "loading kernels",
            Self::User => "host code",
            Self::Launch => "launch latency",
            Self::Unknown => "not attributed",
            Self::Start => "before the first operation",
            Self::Tail => "after the last operation",
        })
    }
}

/// The name of an engine.
#[must_use]
pub fn engine_name(engine: Engine) -> &'static str {
    match engine {
        Engine::Upload => "upload",
        Engine::Compute => "compute",
        Engine::Download => "download",
        Engine::Peer => "peer",
        Engine::Host => "host function",
        Engine::None => "none",
        Engine::Communication => "communication",
    }
}

/// The category of the time of a node.
#[must_use]
pub fn category(ops: &[Op], node: DagNode) -> Category {
    let op = &ops[node.op()];
    if !node.is_call() {
        return Category::Engine(op.engine);
    }
    let pageable = || op.accesses.iter().any(|access| access.place == Place::Pageable);
    match op.kind {
        OpKind::Host(HostStep::Sync { .. }) => Category::Sync,
        OpKind::Work(StreamWork::Alloc | StreamWork::Free)
        | OpKind::Memory(_)
        | OpKind::Host(HostStep::Release) => Category::Alloc,
        OpKind::Host(HostStep::Load) => Category::Load,
        OpKind::Work(StreamWork::CopyNow | StreamWork::FillNow) => Category::Copy,
        OpKind::Work(StreamWork::Copy | StreamWork::Batch(_)) if pageable() => Category::Copy,
        OpKind::Host(HostStep::Access) | OpKind::Signal(SignalStep::Use { .. }) => Category::User,
        OpKind::Work(StreamWork::Copy | StreamWork::Batch(_) | StreamWork::Fill)
        | OpKind::Work(StreamWork::Kernel | StreamWork::HostFn)
        | OpKind::Mark(_)
        | OpKind::Host(HostStep::Lent | HostStep::Begin | HostStep::Failed | HostStep::Open)
        | OpKind::Host(HostStep::Refused | HostStep::Fault { .. })
        | OpKind::Signal(SignalStep::Handle { .. })
        | OpKind::Note(_) => Category::Enqueue,
    }
}

/// A step of the critical path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CriticalStep {
    /// The operation that the step belongs to. A step that lies before a node has the operation of
    /// that node. `None` for [`Category::Start`] and [`Category::Tail`].
    pub op: Option<usize>,
    /// The activity that took the time of the step.
    pub category: Category,
    /// The interval of the step in nanoseconds, on the clock of the device.
    pub span: Range<u64>,
}

/// The critical path of a window.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CriticalPath {
    /// The steps, from the first to the last. Each step begins where the previous one ends.
    pub steps: Vec<CriticalStep>,
    /// The lengths of the steps by category. The lengths sum to the length of the window.
    pub by_category: BTreeMap<Category, Nanos>,
}

impl CriticalPath {
    /// The nodes of the path, from the first to the last: work of engines and calls of the host.
    /// The time between two nodes belongs to neither.
    #[must_use]
    pub fn nodes(&self) -> Vec<DagNode> {
        let node = |step: &CriticalStep| match step.category {
            Category::Engine(_) => step.op.map(DagNode::work),
            Category::Enqueue
            | Category::Sync
            | Category::Alloc
            | Category::Copy
            | Category::Load => step.op.map(DagNode::call),
            Category::Host(_)
            | Category::User
            | Category::Launch
            | Category::Unknown
            | Category::Start
            | Category::Tail => None,
        };
        let mut nodes: Vec<DagNode> = self.steps.iter().filter_map(node).collect();
        nodes.dedup();
        nodes
    }

    /// The edges of the path, each from one node to the next, for arrows.
    #[must_use]
    pub fn edges(&self) -> Vec<(DagNode, DagNode)> {
        self.nodes().windows(2).map(|pair| (pair[0], pair[1])).collect()
    }

    /// Splits the steps in which the host was in no call. If the enqueuing thread waited for an
    /// engine of the host during a part of a step, that part becomes a step of the engine.
    pub(crate) fn give_to(&mut self, host: &[HostWorked]) {
        if host.is_empty() {
            return;
        }
        let steps = std::mem::take(&mut self.steps);
        self.by_category.clear();
        for CriticalStep { op, category, span } in steps {
            let outside = match category {
                Category::User | Category::Start | Category::Tail => true,
                Category::Engine(_)
                | Category::Host(_)
                | Category::Enqueue
                | Category::Sync
                | Category::Alloc
                | Category::Copy
                | Category::Load
                | Category::Launch
                | Category::Unknown => false,
            };
            if !outside {
                self.add(op, category, span);
                continue;
            }
            let mut rest = Union::of([span.clone()]);
            let mut parts = Vec::new();
            for one in host {
                let own = rest.and(&one.waited_for.within(&span));
                rest = rest.minus(&own);
                let own = own.intervals().iter().cloned();
                parts.extend(own.map(|span| (Category::Host(one.engine), span)));
            }
            parts.extend(rest.intervals().iter().cloned().map(|span| (category, span)));
            parts.sort_by_key(|(_, span)| span.start);
            parts.into_iter().for_each(|(category, span)| self.add(op, category, span));
        }
    }

    fn add(&mut self, op: Option<usize>, category: Category, span: Range<u64>) {
        if span.is_empty() {
            return;
        }
        let length = span.end - span.start;
        self.by_category.entry(category).or_insert(Nanos(0)).0 += length;
        self.steps.push(CriticalStep { op, category, span });
    }
}

/// The work that ended last within the window.
fn last_work(ops: &[Op], dag: &Dag, window: &Range<u64>) -> Option<DagNode> {
    let inside = |op: &usize| {
        dag.work(*op).is_some_and(|span| span.end > window.start && span.end <= window.end)
    };
    let last = (0..ops.len()).filter(inside).max_by_key(|op| dag.work(*op).map(|span| span.end));
    last.map(DagNode::work)
}

/// The critical path within `window`. Of the time from ready to start of an operation, at most
/// `latency` counts as the launch.
#[must_use]
pub fn critical_path(ops: &[Op], dag: &Dag, window: Range<u64>, latency: Nanos) -> CriticalPath {
    let mut path = CriticalPath::default();
    let mut cursor = window.end;
    let mut at = last_work(ops, dag, &window);
    if at.is_none() {
        path.add(None, Category::Start, window.clone());
        cursor = window.start;
    }
    while let Some(node) = at.filter(|_| cursor > window.start) {
        let span = dag.span(node);
        let (begin, end) = (span.start.max(window.start), span.end.max(window.start));
        if path.steps.is_empty() {
            path.add(None, Category::Tail, end..cursor);
        }
        cursor = cursor.min(end);
        path.add(Some(node.op()), category(ops, node), begin.min(cursor)..cursor);
        cursor = begin.min(cursor);
        let before = dag.last_before(node, |_| true).map(|(node, _)| node);
        let Some(earlier) = before else {
            path.add(None, Category::Start, window.start..cursor);
            break;
        };
        let ready = dag.span(earlier).end.clamp(window.start, cursor);
        if node.is_call() {
            path.add(Some(node.op()), Category::User, ready..cursor);
        } else {
            let launched = cursor - latency.0.min(cursor - ready);
            // The walk goes back in time, so the later step is added first.
            path.add(Some(node.op()), Category::Launch, launched..cursor);
            path.add(Some(node.op()), Category::Unknown, ready..launched);
        }
        cursor = ready;
        at = Some(earlier);
    }
    path.steps.reverse();
    path
}

/// For each operation, by its index, its slack: the time by which the operation could end later
/// without delaying the last end. `None` for an operation without times. The time from ready to
/// start stays the same.
#[must_use]
pub fn slack(ops: &[Op], dag: &Dag) -> Vec<Option<Nanos>> {
    let last = (0..ops.len()).filter_map(|op| dag.work(op)).map(|span| span.end).max();
    let Some(last) = last else { return vec![None; ops.len()] };
    // The latest possible end of each node, in nanoseconds. The index of a node is twice the index
    // of its operation, plus one for the work.
    let mut latest = vec![u64::MAX; 2 * ops.len()];
    let index = |node: DagNode| 2 * node.op() + usize::from(!node.is_call());
    for &node in dag.order().iter().rev() {
        let span = dag.span(node);
        // Calls of the host may end after the last work of the device.
        let own = latest[index(node)].min(last.max(span.end));
        latest[index(node)] = own;
        let since_ready = span.end - dag.ready(node).min(span.end);
        for &(earlier, _) in dag.before(node) {
            let latest = &mut latest[index(earlier)];
            *latest = (*latest).min(own - since_ready.min(own));
        }
    }
    (0..ops.len())
        .map(|op| {
            let end = dag.work(op)?.end;
            Some(Nanos(latest[index(DagNode::work(op))].saturating_sub(end)))
        })
        .collect()
}

/// The end of the last work if the nodes of each category took `scale` times as long, in
/// nanoseconds on the clock of the device. Operations keep their order on each engine. The time
/// from ready to start stays the same. So a scale of 1 gives the measured end.
#[must_use]
pub fn what_if(ops: &[Op], dag: &Dag, scale: impl Fn(Category) -> f64) -> u64 {
    let mut ends = vec![0_u64; 2 * ops.len()];
    let index = |node: DagNode| 2 * node.op() + usize::from(!node.is_call());
    let mut last = 0;
    for &node in dag.order() {
        let span = dag.span(node);
        let before = dag.before(node).iter().map(|(earlier, _)| ends[index(*earlier)]).max();
        let lag = span.start - dag.ready(node).min(span.start);
        let begin = before.unwrap_or(span.start) + lag;
        let factor = scale(category(ops, node));
        let length = (span.end - span.start) as f64 * 1e-9 * factor;
        let length =
            if factor == 1.0 { Nanos(span.end - span.start) } else { Nanos::from_seconds(length) };
        ends[index(node)] = begin + length.0;
        if dag.work(node.op()).is_some() && !node.is_call() {
            last = last.max(begin + length.0);
        }
    }
    last
}
