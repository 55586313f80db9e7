//! The gaps of each engine, split by cause into parts that sum exactly to the gap.
//!
//! The time in which the enqueuing thread waited for an engine of the host is attributed to that
//! engine. An example is the reader of a file. The rest of a gap is split as follows. A gap before
//! the first operation of the window is fill, and a gap after the last operation is drain. Any
//! other gap lies before an operation. Let q be the time at which the host enqueued that operation.
//! Let r be the end of the last predecessor of that operation by stream, event or legacy stream.
//! The parts of the gap follow each other in this order:
//!
//! 1. until q, the host was late; its calls show what the host did instead;
//! 2. until r, the operation waited for its predecessor;
//! 3. the launch took at most its latency;
//! 4. the hardware was busy with an operation of the other copy direction, or, where all engines
//!    share the processors, with an operation of any other engine;
//! 5. the rest is not attributed.
#![deny(clippy::wildcard_enum_match_arm)]
#![forbid(unsafe_code)]

use crate::base::dag::{Dag, DagNode, HeldBy, by_engine};
use crate::base::ledger::{Engine, Op, OpKind, StreamWork};
use crate::base::span::Union;
use crate::base::units::Nanos;
use crate::trace::critical::{Category, category, engine_name};
use crate::trace::host_engines::{HostEngine, HostWorked};
use crate::trace::metrics::{CopyEngines, DeviceEngine};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;

/// The predecessor that an operation waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Dependency {
    /// An operation on this engine.
    Engine(Engine),
    /// An operation that comes first because of the order between the legacy stream and the
    /// blocking streams.
    Legacy,
    /// A stream-ordered allocation or free.
    Alloc,
    /// A call of the host.
    Call,
    /// An engine of the host.
    Host(HostEngine),
}

/// The reason why an engine was idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Cause {
    /// Before the first operation of the window.
    Fill,
    /// After the last operation of the window.
    Drain,
    /// The host had not enqueued the operation. The enqueuing thread was in a call of this
    /// category, or in the code of the program.
    HostLate(Category),
    /// A predecessor had not ended.
    Dependency(Dependency),
    /// The launch took time.
    Launch,
    /// The hardware was busy with another operation.
    Resource,
    /// No cause is known: the time is not attributed.
    Unknown,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fill => f.pad("fill"),
            Self::Drain => f.pad("drain"),
            Self::HostLate(Category::User) => f.pad("host late"),
            Self::HostLate(category) => f.pad(&format!("host late: {category}")),
            Self::Dependency(Dependency::Engine(engine)) => {
                f.pad(&format!("waiting for {}", engine_name(*engine)))
            }
            Self::Dependency(Dependency::Host(engine)) => f.pad(&format!("waiting for {engine}")),
            Self::Dependency(Dependency::Legacy) => f.pad("legacy barrier"),
            Self::Dependency(Dependency::Alloc) => f.pad("waiting for memory"),
            Self::Dependency(Dependency::Call) => f.pad("waiting for a call"),
            Self::Launch => f.pad("launch latency"),
            Self::Resource => f.pad("hardware taken"),
            Self::Unknown => f.pad("not attributed"),
        }
    }
}

/// A time in which an engine was idle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The engine that was idle.
    pub engine: DeviceEngine,
    /// The interval of the gap in nanoseconds, on the clock of the device.
    pub span: Range<u64>,
    /// The operation that ended the gap; `None` at the end of the window.
    pub op: Option<usize>,
    /// The time of each cause. The parts sum to the gap.
    pub parts: Vec<(Cause, Nanos)>,
}

/// The idle time of an engine by cause.
#[must_use]
pub fn by_cause(gaps: &[Gap], engine: DeviceEngine) -> BTreeMap<Cause, Nanos> {
    let mut sums = BTreeMap::new();
    for (cause, part) in gaps.iter().filter(|gap| gap.engine == engine).flat_map(|gap| &gap.parts) {
        sums.entry(*cause).or_insert(Nanos(0)).0 += part.0;
    }
    sums
}

/// Adds the time `span` to `parts`. The part of `span` in which the host waited for one of its
/// engines counts for that engine. The remaining part of `span` counts for `cause`.
fn add(host: &[HostWorked], span: Range<u64>, cause: Cause, parts: &mut BTreeMap<Cause, u64>) {
    let mut rest = Union::of([span.clone()]);
    for one in host {
        let own = rest.and(&one.waited_for.within(&span));
        rest = rest.minus(&own);
        *parts.entry(Cause::Dependency(Dependency::Host(one.engine))).or_insert(0) +=
            own.length().0;
    }
    *parts.entry(cause).or_insert(0) += rest.length().0;
}

/// The causes whose parts are not empty.
fn parts_of(parts: BTreeMap<Cause, u64>) -> Vec<(Cause, Nanos)> {
    let parts = parts.into_iter().filter(|(_, part)| *part > 0);
    parts.map(|(cause, part)| (cause, Nanos(part))).collect()
}

/// The calls of each host thread, sorted by start, and the engines of the host.
struct ThreadCalls<'a> {
    by_thread: HashMap<u64, Vec<(Range<u64>, Category)>>,
    host: &'a [HostWorked],
}

impl<'a> ThreadCalls<'a> {
    fn of(ops: &[Op], dag: &Dag, host: &'a [HostWorked]) -> Self {
        let mut calls: HashMap<u64, Vec<(Range<u64>, Category)>> = HashMap::new();
        for (index, op) in ops.iter().enumerate() {
            let entry = calls.entry(op.thread).or_default();
            entry.extend(dag.call(index).map(|s| (s, category(ops, DagNode::call(index)))));
        }
        for list in calls.values_mut() {
            list.sort_by_key(|(span, _)| (span.start, span.end));
        }
        Self { by_thread: calls, host }
    }

    /// Adds to `parts` the time of each activity of a thread within `span`.
    fn within(&self, thread: u64, span: Range<u64>, parts: &mut BTreeMap<Cause, u64>) {
        let mut at = span.start;
        let outside = Cause::HostLate(Category::User);
        if let Some(calls) = self.by_thread.get(&thread) {
            // The calls of a thread do not overlap, so their ends are sorted too.
            let first = calls.partition_point(|(call, _)| call.end <= span.start);
            for (call, category) in &calls[first..] {
                if call.start >= span.end {
                    break;
                }
                let begin = call.start.max(at);
                let end = call.end.min(span.end).max(begin);
                add(self.host, at..begin, outside, parts);
                *parts.entry(Cause::HostLate(*category)).or_insert(0) += end - begin;
                at = end;
            }
        }
        add(self.host, at..span.end, outside, parts);
    }
}

fn dependency(ops: &[Op], held: &HeldBy) -> Dependency {
    let op = &ops[held.by.op()];
    if held.legacy {
        Dependency::Legacy
    } else if matches!(op.kind, OpKind::Work(StreamWork::Alloc | StreamWork::Free)) {
        Dependency::Alloc
    } else if held.by.is_call() {
        Dependency::Call
    } else {
        Dependency::Engine(op.engine)
    }
}

/// The data from which the causes of gaps are found.
struct Splitter<'a> {
    ops: &'a [Op],
    dag: &'a Dag,
    calls: ThreadCalls<'a>,
    latency: u64,
}

impl Splitter<'_> {
    /// The parts of the gap before `op`. `taken` has the times in which engines that share the
    /// hardware were busy.
    fn split(&self, op: usize, gap: Range<u64>, taken: &Union) -> Vec<(Cause, Nanos)> {
        let mut parts: BTreeMap<Cause, u64> = BTreeMap::new();
        let mut at = gap.start;
        let enqueued = self.dag.enqueued(op).unwrap_or(0).clamp(at, gap.end);
        if enqueued > at {
            self.calls.within(self.ops[op].thread, at..enqueued, &mut parts);
            at = enqueued;
        }
        if let Some(held) = self.dag.held_by(op) {
            let ready = held.until.clamp(at, gap.end);
            let cause = Cause::Dependency(dependency(self.ops, &held));
            *parts.entry(cause).or_insert(0) += ready - at;
            at = ready;
        }
        let launched = at + self.latency.min(gap.end - at);
        *parts.entry(Cause::Launch).or_insert(0) += launched - at;
        let taken = taken.overlap(&(launched..gap.end));
        *parts.entry(Cause::Resource).or_insert(0) += taken;
        *parts.entry(Cause::Unknown).or_insert(0) += gap.end - launched - taken;
        parts_of(parts)
    }

    /// The parts of a gap before the first operation of an engine, or after the last one.
    fn outside(&self, gap: Range<u64>, cause: Cause) -> Vec<(Cause, Nanos)> {
        let mut parts = BTreeMap::new();
        add(self.calls.host, gap, cause, &mut parts);
        parts_of(parts)
    }
}

/// All gaps of the engines that worked within `window`, sorted by engine and time. `latency` is the
/// measured latency of a launch on an idle stream. `host` has the busy times of the engines of the
/// host.
#[must_use]
pub fn gaps(
    ops: &[Op],
    dag: &Dag,
    window: Range<u64>,
    latency: Nanos,
    copy_engines: CopyEngines,
    host: &[HostWorked],
) -> Vec<Gap> {
    let engines = by_engine(ops, dag);
    let splitter =
        Splitter { ops, dag, calls: ThreadCalls::of(ops, dag, host), latency: latency.0 };
    let mut found = Vec::new();
    for (engine, list) in &engines {
        let shares = |role: Engine| match (copy_engines, engine.1, role) {
            (CopyEngines::One, Engine::Upload, Engine::Download)
            | (CopyEngines::One, Engine::Download, Engine::Upload) => true,
            (CopyEngines::Processors, mine, other) => mine != other,
            (CopyEngines::One | CopyEngines::Two, _, _) => false,
        };
        let others = engines.iter().filter(|(name, _)| name.0 == engine.0 && shares(name.1));
        let taken = others.flat_map(|(_, list)| list).filter_map(|op| dag.work(*op));
        let taken = Union::of(taken);
        let mut at = window.start;
        let mut first = true;
        for &op in list {
            let Some(span) = dag.work(op) else { continue };
            if span.end <= window.start || span.start >= window.end {
                continue;
            }
            let gap = at..span.start.max(at);
            if !gap.is_empty() {
                let parts = if first {
                    splitter.outside(gap.clone(), Cause::Fill)
                } else {
                    splitter.split(op, gap.clone(), &taken)
                };
                found.push(Gap { engine: *engine, span: gap, op: Some(op), parts });
            }
            first = false;
            at = at.max(span.end.min(window.end));
        }
        if !first && at < window.end {
            let parts = splitter.outside(at..window.end, Cause::Drain);
            found.push(Gap { engine: *engine, span: at..window.end, op: None, parts });
        }
    }
    found
}
