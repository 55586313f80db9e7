//! Why an engine was idle: every gap, split by cause into parts that sum to it exactly.
//!
//! For the gap from t0 to t1 before an operation that the host let go at q and that was ready at r
//! (the last of its predecessors by stream, event or barrier was done), in this order: fill and drain
//! are the gaps at the window's ends; then the host was late until q, by what its thread was doing;
//! then it waited until r; then launching took up to its latency; then the hardware was taken;
//! the rest is unknown.
#![forbid(unsafe_code)]

use crate::base::dag::{Dag, Held, Node, by_engine};
use crate::base::ledger::{Engine, Op, OpKind};
use crate::base::span::Union;
use crate::base::units::Nanos;
use crate::trace::critical::{Category, category, engine_name};
use crate::trace::metrics::{CopyEngines, DeviceEngine};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;

/// What an operation waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dependency {
    /// An operation of this engine.
    Engine(Engine),
    /// A barrier of the legacy stream.
    Legacy,
    /// A stream-ordered allocation or free.
    Alloc,
    /// A call of the host, behind an event or a stream.
    Call,
}

/// Why an engine was idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// Before the first operation of the window.
    Fill,
    /// After the last one.
    Drain,
    /// The host had not enqueued yet: its thread was in a call of this category, or in its own code.
    HostLate(Category),
    /// Something that had to come before was not done.
    Dependency(Dependency),
    /// Launching.
    Launch,
    /// The hardware was taken by somebody else.
    Resource,
    /// None of these.
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
            Self::Dependency(Dependency::Legacy) => f.pad("legacy barrier"),
            Self::Dependency(Dependency::Alloc) => f.pad("waiting for memory"),
            Self::Dependency(Dependency::Call) => f.pad("waiting for a call"),
            Self::Launch => f.pad("launch latency"),
            Self::Resource => f.pad("hardware taken"),
            Self::Unknown => f.pad("unknown"),
        }
    }
}

/// A gap of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The engine.
    pub engine: DeviceEngine,
    /// When it was idle.
    pub span: Range<u64>,
    /// The operation that ended the gap; none at the end of the window.
    pub op: Option<usize>,
    /// Each cause with its part; the parts sum to the gap.
    pub parts: Vec<(Cause, Nanos)>,
}

/// The parts of all gaps of an engine, by cause.
#[must_use]
pub fn by_cause(gaps: &[Gap], engine: DeviceEngine) -> BTreeMap<Cause, Nanos> {
    let mut sums = BTreeMap::new();
    for (cause, part) in gaps.iter().filter(|gap| gap.engine == engine).flat_map(|gap| &gap.parts) {
        sums.entry(*cause).or_insert(Nanos(0)).0 += part.0;
    }
    sums
}

/// The calls of each host thread, by begin.
struct Calls(HashMap<u64, Vec<(Range<u64>, Category)>>);

impl Calls {
    fn of(ops: &[Op], dag: &Dag) -> Self {
        let mut calls: HashMap<u64, Vec<(Range<u64>, Category)>> = HashMap::new();
        for (index, op) in ops.iter().enumerate() {
            let entry = calls.entry(op.thread).or_default();
            entry.extend(dag.call(index).map(|s| (s, category(ops, Node::call(index)))));
        }
        for list in calls.values_mut() {
            list.sort_by_key(|(span, _)| (span.start, span.end));
        }
        Self(calls)
    }

    /// What a thread did within `span`.
    fn within(&self, thread: u64, span: Range<u64>, parts: &mut BTreeMap<Cause, u64>) {
        let mut at = span.start;
        if let Some(calls) = self.0.get(&thread) {
            // Calls of a thread follow each other, so their ends are in order too.
            let first = calls.partition_point(|(call, _)| call.end <= span.start);
            for (call, category) in &calls[first..] {
                if call.start >= span.end {
                    break;
                }
                let begin = call.start.max(at);
                let end = call.end.min(span.end).max(begin);
                *parts.entry(Cause::HostLate(Category::User)).or_insert(0) += begin - at;
                *parts.entry(Cause::HostLate(*category)).or_insert(0) += end - begin;
                at = end;
            }
        }
        *parts.entry(Cause::HostLate(Category::User)).or_insert(0) += span.end - at;
    }
}

fn dependency(ops: &[Op], held: &Held) -> Dependency {
    let op = &ops[held.by.op()];
    match op.kind {
        _ if held.legacy => Dependency::Legacy,
        OpKind::Alloc | OpKind::Free => Dependency::Alloc,
        _ if held.by.is_call() => Dependency::Call,
        _ => Dependency::Engine(op.engine),
    }
}

/// What gaps are split with.
struct Splitter<'a> {
    ops: &'a [Op],
    dag: &'a Dag,
    calls: Calls,
    latency: u64,
}

impl Splitter<'_> {
    /// Splits the gap before `op`; `taken` is when what it shares hardware with worked.
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
        let parts = parts.into_iter().filter(|(_, part)| *part > 0);
        parts.map(|(cause, part)| (cause, Nanos(part))).collect()
    }
}

/// Every gap of every engine that worked within `window`, by engine and time. `latency` is that of a
/// launch on an idle stream, calibrated elsewhere.
#[must_use]
pub fn gaps(
    ops: &[Op],
    dag: &Dag,
    window: Range<u64>,
    latency: Nanos,
    copy_engines: CopyEngines,
) -> Vec<Gap> {
    let engines = by_engine(ops, dag);
    let splitter = Splitter { ops, dag, calls: Calls::of(ops, dag), latency: latency.0 };
    let mut found = Vec::new();
    for (engine, list) in &engines {
        let other = match (copy_engines, engine.1) {
            (CopyEngines::One, Engine::Upload) => Some((engine.0, Engine::Download)),
            (CopyEngines::One, Engine::Download) => Some((engine.0, Engine::Upload)),
            _ => None,
        };
        let others = engines.iter().filter(|(name, _)| Some(*name) == other);
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
                    vec![(Cause::Fill, Nanos(gap.end - gap.start))]
                } else {
                    splitter.split(op, gap.clone(), &taken)
                };
                found.push(Gap { engine: *engine, span: gap, op: Some(op), parts });
            }
            first = false;
            at = at.max(span.end.min(window.end));
        }
        if !first && at < window.end {
            let parts = vec![(Cause::Drain, Nanos(window.end - at))];
            found.push(Gap { engine: *engine, span: at..window.end, op: None, parts });
        }
    }
    found
}
