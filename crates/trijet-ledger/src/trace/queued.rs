//! Queueing that pairs of events count as work: operations of several streams were ready for one
//! engine at the same time.
//!
//! A pair of events measures the time from the moment at which an operation is ready to its end. If
//! another operation has the engine during that time, the pair includes the time of the other
//! operation.
#![forbid(unsafe_code)]

use crate::base::id::{DeviceId, LaneId};
use crate::base::ledger::{Engine, Op};
use crate::base::span::Union;
use crate::base::units::Nanos;
use crate::trace::critical::engine_name;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// If two operations overlap by less than this share of the shorter operation, one operation ran
/// after the other.
const SHARE_MIN: f64 = 0.05;

/// An engine for which operations of several streams queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queued {
    /// The device and its engine.
    pub engine: (DeviceId, Engine),
    /// The number of operations that overlap with an operation of another stream.
    pub ops: usize,
    /// The number of streams of these operations.
    pub streams: usize,
    /// The sum of the durations of these operations, minus the length of the union of their times.
    /// If the engine executes one operation at a time, the sum of the durations exceeds the work of
    /// the engine by this difference.
    pub counted_again: Nanos,
}

impl fmt::Display for Queued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { engine: (device, engine), ops, streams, counted_again } = self;
        let name = engine_name(*engine);
        write!(f, "{ops} operations of {streams} streams were ready for {name}")?;
        if device.0 > 0 {
            write!(f, " {}", device.0)?;
        }
        write!(f, " at once; event pairs count up to {counted_again} of queueing as work")
    }
}

/// The engines for which operations of several streams queued. The times of an operation must be
/// from the moment at which it is ready to its end.
///
/// ```
/// assert!(trijet::trace::queued::queued(&[]).is_empty());
/// ```
#[must_use]
pub fn queued(ops: &[Op]) -> Vec<Queued> {
    let mut engines: BTreeMap<(DeviceId, Engine), Vec<Interval>> = BTreeMap::new();
    for op in ops.iter().filter(|op| op.engine != Engine::None) {
        if let Some(times) = op.times.filter(|times| times.begin < times.end) {
            let spans = engines.entry((op.device, op.engine)).or_default();
            spans.push((times.begin.0, times.end.0, op.position.lane));
        }
    }
    let found = engines.into_iter().filter_map(|(engine, mut spans)| {
        spans.sort_unstable();
        let queued = overlapping(&spans);
        let chosen = || spans.iter().zip(&queued).filter_map(|(span, q)| q.then_some(span));
        let streams: BTreeSet<LaneId> = chosen().map(|(.., lane)| *lane).collect();
        let sum: u64 = chosen().map(|(begin, end, _)| end - begin).sum();
        let union = Union::of(chosen().map(|(begin, end, _)| *begin..*end)).length();
        let counted_again = Nanos(sum.saturating_sub(union.0));
        (!streams.is_empty()).then(|| Queued {
            engine,
            ops: chosen().count(),
            streams: streams.len(),
            counted_again,
        })
    });
    found.collect()
}

/// Streams whose pairs of events may hold each other back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldByEvents {
    /// The device of the streams.
    pub device: DeviceId,
    /// The number of streams that have operations with times.
    pub streams: usize,
    /// The number of hardware queues.
    pub hardware_queues: u32,
}

impl fmt::Display for HeldByEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { streams, hardware_queues, .. } = self;
        write!(
            f,
            "{streams} streams share {hardware_queues} hardware queues, so event pairs may hold streams \
             back; the engines' own times do not"
        )
    }
}

/// The devices on which more streams have pairs of events than there are hardware queues. A timed
/// event that waits for an operation of its stream holds back the streams that share its queue (law
/// [A47](crate::laws#a47)). So tracing itself may make the program slower.
///
/// ```
/// assert!(trijet::trace::queued::held_by_events(&[], 8).is_empty());
/// ```
#[must_use]
pub fn held_by_events(ops: &[Op], hardware_queues: u32) -> Vec<HeldByEvents> {
    let mut devices: BTreeMap<DeviceId, BTreeSet<LaneId>> = BTreeMap::new();
    for op in ops.iter().filter(|op| op.engine != Engine::None && op.times.is_some()) {
        devices.entry(op.device).or_default().insert(op.position.lane);
    }
    let held = devices.into_iter().map(|(device, lanes)| HeldByEvents {
        device,
        streams: lanes.len(),
        hardware_queues,
    });
    let queues = usize::try_from(hardware_queues).unwrap_or(usize::MAX);
    held.filter(|held| held.streams > queues).collect()
}

/// The start and the end of an operation in nanoseconds, and its stream.
type Interval = (u64, u64, LaneId);

/// For each of the intervals, in order of their starts: whether the interval overlaps with an
/// interval of another stream. The running time is proportional to the number of intervals times
/// the number of streams.
fn overlapping(spans: &[Interval]) -> Vec<bool> {
    let mut queued = vec![false; spans.len()];
    let mut open: Vec<usize> = Vec::new();
    for (index, (begin, end, lane)) in spans.iter().enumerate() {
        open.retain(|other| spans[*other].1 > *begin);
        for other in &open {
            let (other_begin, other_end, other_lane) = spans[*other];
            let shorter = (end - begin).min(other_end - other_begin);
            let together = (*end).min(other_end) - begin;
            if other_lane != *lane && together as f64 >= SHARE_MIN * shorter as f64 {
                queued[index] = true;
                queued[*other] = true;
            }
        }
        open.push(index);
    }
    queued
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::Position;
    use crate::base::ledger::{Accesses, Declared, OpKind, StreamClass, StreamWork, Times};

    fn op(engine: Engine, lane: u32, begin: u64, end: u64) -> Op {
        Op {
            kind: OpKind::Work(StreamWork::Copy),
            engine,
            device: DeviceId(0),
            stream: StreamClass::NonBlocking,
            position: Position { lane: LaneId(lane), seq: 1 },
            accesses: Accesses::new(),
            declared: Declared::All,
            bytes: 0,
            route: None,
            graph: None,
            label: "op".into(),
            chunk: None,
            site: None,
            thread: 0,
            thread_known: None,
            call: None,
            times: Some(Times { begin: Nanos(begin), end: Nanos(end) }),
        }
    }

    #[test]
    fn pairs_of_events_on_more_streams_than_queues_may_hold_streams_back() {
        let ops: Vec<Op> = (0..9).map(|lane| op(Engine::Compute, lane, 0, 100)).collect();
        assert_eq!(held_by_events(&ops[..8], 8), []);
        let expected = HeldByEvents { device: DeviceId(0), streams: 9, hardware_queues: 8 };
        assert_eq!(held_by_events(&ops, 8), [expected]);
        // A second operation of a stream needs no other queue. An operation without times needs no
        // event.
        let mut more = ops[..8].to_vec();
        more.extend([op(Engine::Upload, 0, 200, 300), Op { times: None, ..ops[8].clone() }]);
        assert_eq!(held_by_events(&more, 8), []);
    }

    #[test]
    fn uploads_that_were_ready_at_once_count_the_time_of_each_other() {
        let ops = [1, 2, 3].map(|lane| op(Engine::Upload, lane, 0, u64::from(lane) * 100));
        let found = queued(&ops);
        // The durations are 100, 200 and 300; the engine worked for 300.
        let expected = Queued {
            engine: (DeviceId(0), Engine::Upload),
            ops: 3,
            streams: 3,
            counted_again: Nanos(300),
        };
        assert_eq!(found, [expected]);
        let words = found[0].to_string();
        assert!(words.contains("3 operations of 3 streams") && words.contains("300 ns"), "{words}");
    }

    #[test]
    fn streams_that_follow_each_other_or_use_engines_of_their_own_do_not_queue() {
        let ops = [
            op(Engine::Upload, 1, 0, 100),
            op(Engine::Upload, 2, 100, 200),
            op(Engine::Compute, 3, 0, 200),
            // Operations of one stream never run at the same time, although their times overlap.
            op(Engine::Download, 4, 0, 100),
            op(Engine::Download, 4, 90, 200),
        ];
        assert_eq!(queued(&ops), []);
    }

    #[test]
    fn operations_that_overlap_by_a_few_per_cent_follow_each_other() {
        assert_eq!(queued(&[op(Engine::Upload, 1, 0, 100), op(Engine::Upload, 2, 96, 200)]), []);
        let found = queued(&[op(Engine::Upload, 1, 0, 100), op(Engine::Upload, 2, 94, 200)]);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn an_operation_that_overlaps_with_no_other_did_not_queue() {
        let ops = [
            op(Engine::Upload, 1, 0, 100),
            op(Engine::Upload, 2, 50, 200),
            op(Engine::Upload, 1, 300, 400),
        ];
        assert_eq!(queued(&ops)[0].ops, 2);
    }
}
