//! Remarks about streams: needless order between them, engines that work one after the other, and
//! too many streams.
#![forbid(unsafe_code)]

use super::run::LintRun;
use crate::base::dag::{DagNode, Edge};
use crate::base::id::{LaneId, Position};
use crate::base::ledger::{Asked, HostStep, Op, OpKind, StreamClass, StreamMark};
use crate::base::lint::{Lint, Rule};
use crate::base::units::{Nanos, count};
use crate::base::vector_clock::VectorClock;
use std::collections::{BTreeMap, HashMap};

/// With fewer streams than this, there is no remark about their number.
const STREAMS_MIN: usize = 16;
/// A run has too many streams if it has more than this number of streams for each operation that
/// runs at the same time.
const STREAMS_PER_OP: usize = 4;
/// An engine that works for less than this part of the run has too little work to overlap.
const SHARE_MIN: f64 = 0.1;
/// A run that achieves less than this part of the possible overlap is serial.
const OVERLAP_MIN: f64 = 0.2;

fn conflict(a: &Op, b: &Op) -> bool {
    a.accesses.iter().any(|x| {
        b.accesses.iter().any(|y| {
            let shared = x.range.start.max(y.range.start) < x.range.end.min(y.range.end);
            x.block == y.block && shared && (x.mode.writes() || y.mode.writes())
        })
    })
}

/// The legacy stream delayed work of another stream, or work of another stream delayed the legacy
/// stream.
///
/// Saved: for each delayed operation, the time from the end of everything else that the operation
/// follows to the end of the barrier. If the operation conflicts with the operation that it waited
/// for, nothing is saved, because without the legacy stream an event would be needed.
pub(super) fn legacy_barrier(run: &LintRun<'_>) -> Vec<Lint> {
    let (mut saved, mut concerned) = (0, Vec::new());
    for index in 0..run.ops.len() {
        let node = DagNode::work(index);
        let before = run.dag.before(node);
        // Records and waits take no time, so they are left out.
        if run.dag.work(index).is_none() || !before.iter().any(|(_, edge)| *edge == Edge::Legacy) {
            continue;
        }
        let last = |legacy: bool| {
            let of_kind = before.iter().filter(|(_, edge)| (*edge == Edge::Legacy) == legacy);
            of_kind.map(|(node, _)| (run.dag.span(*node).end, *node)).max()
        };
        let Some((barrier, by)) = last(true) else { continue };
        let others = last(false).map_or(0, |(end, _)| end);
        // The operation counts even if it did not wait in this run, because it may wait in another
        // run.
        concerned.push(index);
        if !conflict(&run.ops[by.op()], &run.ops[index]) {
            saved += barrier.saturating_sub(others);
        }
    }
    if concerned.is_empty() {
        return Vec::new();
    }
    let count = count(concerned.len() as u64, "operation");
    let text = format!("{count} ordered by the legacy stream alone");
    vec![run.lint(Rule::LegacyBarrier, saved, concerned, text)]
}

/// A wait of the program for work that its stream follows already.
///
/// The order of enqueues and earlier waits decides what the stream follows. Measured times do not.
///
/// Saved: the time in these calls, where it was measured.
pub(super) fn redundant_wait(run: &LintRun<'_>) -> Vec<Lint> {
    // Lanes get new, dense numbers, because the numbers in a damaged file could make a vector clock
    // of any length.
    let mut numbers: HashMap<LaneId, LaneId> = HashMap::new();
    let mut dense = |position: Position| {
        let next = LaneId(u32::try_from(numbers.len()).unwrap_or(u32::MAX));
        Position { lane: *numbers.entry(position.lane).or_insert(next), ..position }
    };
    let mut lanes: HashMap<LaneId, VectorClock> = HashMap::new();
    let mut events: HashMap<u64, VectorClock> = HashMap::new();
    let mut concerned = Vec::new();
    for (index, op) in run.ops.iter().enumerate() {
        let lane = op.position.lane;
        if let OpKind::Mark(StreamMark::Record { event, .. }) = op.kind {
            let mut snapshot = lanes.entry(lane).or_default().clone();
            snapshot.raise(dense(op.position));
            events.insert(event, snapshot);
        } else if let OpKind::Mark(StreamMark::Wait { event, on, by }) = op.kind {
            // A wait for an event that was never recorded is a finding of the checker.
            if on.seq == 0 {
                continue;
            }
            let known = lanes.entry(lane).or_default();
            let on = dense(on);
            let covered = known.covers(on)
                && events.get(&event).is_none_or(|e| e.positions().all(|p| known.covers(p)));
            if covered && by == Asked::User {
                concerned.push(index);
            }
            if let Some(snapshot) = events.get(&event) {
                known.join(snapshot);
            }
            known.raise(on);
        } else if op.kind == OpKind::Host(HostStep::Open) {
            let mut fresh = VectorClock::new();
            fresh.raise(dense(op.position));
            lanes.insert(lane, fresh);
        } else if op.kind.is_work() {
            lanes.entry(lane).or_default().raise(dense(op.position));
        }
    }
    if concerned.is_empty() {
        return Vec::new();
    }
    let saved = concerned.iter().map(|op| run.call_time(*op)).sum();
    let text = format!("{} waits for work that the stream already follows", concerned.len());
    vec![run.lint(Rule::RedundantWait, saved, concerned, text)]
}

/// Two or more engines have work, and take turns instead of working at the same time.
///
/// Saved: T - T_n. T is the length of the run. T_n is the time of a pipeline with a chunk for each
/// of the n operations of the limiting engine: the work of the busiest engine, and 1/n of the work
/// of the other engines.
pub(super) fn no_overlap(run: &LintRun<'_>) -> Vec<Lint> {
    let elapsed = run.elapsed();
    let work = |engine: usize| {
        let spans = run.engines[engine].1.iter().filter_map(|op| run.dag.work(*op));
        spans.map(|span| span.end - span.start).sum::<u64>()
    };
    let works: Vec<u64> = (0..run.engines.len()).map(work).collect();
    let share = |work: &&u64| **work as f64 >= elapsed as f64 * SHARE_MIN;
    let Some(limiting) = run.limiting() else { return Vec::new() };
    let chunks = run.engines[limiting].1.len() as u64;
    let (sum, bound) = (works.iter().sum::<u64>(), works.iter().copied().max().unwrap_or(0));
    if works.iter().filter(share).count() < 2 || chunks < 2 {
        return Vec::new();
    }
    let achieved = (sum as f64 - elapsed as f64) / (sum - bound).max(1) as f64;
    if achieved >= OVERLAP_MIN {
        return Vec::new();
    }
    let finite = bound + (sum - bound) / chunks;
    let saved = elapsed.saturating_sub(finite);
    if run.is_of_host(saved) {
        return Vec::new();
    }
    let (t, b) = (Nanos(elapsed), Nanos(finite));
    let text =
        format!("engines work in turn and need {t}; a pipeline of {chunks} chunks needs {b}");
    let ops: Vec<usize> =
        run.engines.iter().filter_map(|(_, list)| list.first()).copied().collect();
    vec![run.lint(Rule::NoOverlap, saved, ops, text)]
}

/// There are many more streams with work than operations that ran at the same time.
///
/// Saved: the measured time to create the streams that exceed the number of operations that ran at
/// the same time.
pub(super) fn too_many(run: &LintRun<'_>) -> Vec<Lint> {
    // For each stream, the index of its first operation.
    let mut streams: BTreeMap<LaneId, usize> = BTreeMap::new();
    let mut moments: Vec<(u64, i64)> = Vec::new();
    for (_, list) in &run.engines {
        for op in list {
            if run.ops[*op].stream != StreamClass::Legacy {
                let first = streams.entry(run.ops[*op].position.lane).or_insert(*op);
                *first = (*first).min(*op);
            }
            // At equal times, an end is counted before a start.
            if let Some(span) = run.dag.work(*op).filter(|span| !span.is_empty()) {
                moments.extend([(span.start, 1), (span.end, -1)]);
            }
        }
    }
    moments.sort_unstable();
    let (mut now, mut most) = (0_i64, 0_i64);
    for (_, change) in moments {
        now += change;
        most = most.max(now);
    }
    let at_once = usize::try_from(most.max(1)).unwrap_or(usize::MAX);
    if streams.len() < STREAMS_MIN || streams.len() <= STREAMS_PER_OP.saturating_mul(at_once) {
        return Vec::new();
    }
    let opened = (0..run.ops.len()).filter(|op| run.ops[*op].kind == OpKind::Host(HostStep::Open));
    let opened: Vec<usize> =
        opened.filter(|op| streams.contains_key(&run.ops[*op].position.lane)).collect();
    let saved = opened.iter().skip(at_once).map(|op| run.call_time(*op)).sum();
    let text = format!("{} streams, at most {at_once} operations at once", streams.len());
    vec![run.lint(Rule::TooManyStreams, saved, streams.into_values().collect(), text)]
}
