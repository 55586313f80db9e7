//! The tracks of a timeline, which all exports share: one for each engine, stream and host thread.
//! An operation is drawn in the track of its engine and in the track of its stream. The call of the
//! operation is drawn in the track of the host thread.
//!
//! Operations of one track may overlap: a pair of events measures the time from the moment at which
//! an operation is ready to its end, and a dependent kernel may begin before its predecessor ends.
//! No format can draw overlapping operations in one row. So a track has as many rows as it needs,
//! and an operation takes the first free row.
#![deny(clippy::wildcard_enum_match_arm)]
#![forbid(unsafe_code)]

use crate::base::id::{DeviceId, LaneId};
use crate::base::ledger::{
    Engine, HostStep, LedgerNote, MemoryCall, Op, OpKind, SignalStep, Signalled, StreamClass,
    StreamMark, StreamWork, Times, Waited,
};
use std::collections::BTreeMap;

/// The content of a track. Tracks are sorted by their content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shows {
    /// The times of the operations of an engine.
    Engine(DeviceId, Engine),
    /// The times of the operations of a stream.
    Stream(DeviceId, LaneId),
    /// The times of the calls of a host thread.
    Thread(u64),
}

/// A track. The operations of a row do not overlap, and are sorted by start.
#[derive(Debug)]
pub(super) struct Track {
    pub(super) shows: Shows,
    pub(super) rows: Vec<Vec<usize>>,
}

/// The start and the end of an operation in a track with this content.
pub(super) fn times(op: &Op, shows: Shows) -> Option<(u64, u64)> {
    let times = match shows {
        Shows::Engine(..) | Shows::Stream(..) => op.times,
        Shows::Thread(_) => op.call,
    };
    times.map(span)
}

/// The start and the end in nanoseconds. A clock may put the end before the start, by less than the
/// resolution of the clock. Then the result has the start in place of the end.
pub(super) fn span(times: Times) -> (u64, u64) {
    (times.begin.0, times.end.0.max(times.begin.0))
}

/// All tracks of a trace, in the order in which they are drawn.
pub(super) fn tracks(ops: &[Op]) -> Vec<Track> {
    let mut members: BTreeMap<Shows, Vec<usize>> = BTreeMap::new();
    for (index, op) in ops.iter().enumerate() {
        if op.times.is_some() {
            if op.engine != Engine::None {
                members.entry(Shows::Engine(op.device, op.engine)).or_default().push(index);
            }
            members.entry(Shows::Stream(op.device, op.position.lane)).or_default().push(index);
        }
        if op.call.is_some() {
            members.entry(Shows::Thread(op.thread)).or_default().push(index);
        }
    }
    members
        .into_iter()
        .map(|(shows, members)| Track { shows, rows: rows(ops, shows, members) })
        .collect()
}

fn rows(ops: &[Op], shows: Shows, mut members: Vec<usize>) -> Vec<Vec<usize>> {
    let at = |index: usize| times(&ops[index], shows).unwrap_or((0, 0));
    members.sort_by_key(|index| (at(*index), *index));
    let mut rows: Vec<(u64, Vec<usize>)> = Vec::new();
    for index in members {
        let (begin, end) = at(index);
        match rows.iter_mut().find(|(free, _)| *free <= begin) {
            Some((free, row)) => {
                *free = end;
                row.push(index);
            }
            None => rows.push((end, vec![index])),
        }
    }
    rows.into_iter().map(|(_, row)| row).collect()
}

/// The name of the track of an engine.
pub(super) fn engine_name(engine: Engine) -> &'static str {
    match engine {
        Engine::Upload => "upload",
        Engine::Compute => "compute",
        Engine::Download => "download",
        Engine::Peer => "peer",
        Engine::Host => "host functions",
        Engine::None => "no engine",
        Engine::Communication => "communication",
    }
}

/// The name of a track, without the device.
pub(super) fn track_name(ops: &[Op], track: &Track) -> String {
    match track.shows {
        Shows::Engine(_, engine) => engine_name(engine).to_owned(),
        Shows::Stream(_, lane) => {
            let first = track.rows.first().and_then(|row| row.first());
            match first.map(|index| ops[*index].stream) {
                Some(StreamClass::Legacy) => format!("legacy stream {}", lane.0),
                Some(StreamClass::PerThread) => format!("per-thread stream {}", lane.0),
                Some(StreamClass::Blocking | StreamClass::NonBlocking) | None => {
                    format!("stream {}", lane.0)
                }
            }
        }
        Shows::Thread(thread) => format!("host thread {thread}"),
    }
}

/// The kind of an operation, in words.
pub(super) fn kind_name(op: &Op) -> &'static str {
    match op.kind {
        OpKind::Work(work) => work_name(work, op.engine),
        OpKind::Mark(StreamMark::Record { .. }) => "event record",
        OpKind::Mark(StreamMark::Wait { .. }) => "wait of a stream",
        OpKind::Memory(MemoryCall::AllocNow) => "allocation at the call",
        OpKind::Memory(MemoryCall::FreeNow) => "free at the call",
        OpKind::Memory(MemoryCall::FromHeap { .. }) => "allocation from a heap",
        OpKind::Memory(MemoryCall::ToHeap) => "free to a heap",
        OpKind::Host(step) => step_name(step),
        OpKind::Signal(SignalStep::Use { what: Signalled::Set, .. }) => "set of a signal",
        OpKind::Signal(SignalStep::Use { what: Signalled::Gone, .. }) => "end of a signal",
        OpKind::Signal(SignalStep::Use { .. }) => "wait for a signal",
        OpKind::Signal(SignalStep::Handle { .. }) => "handle of a signal",
        OpKind::Note(LedgerNote::Gone { .. }) => "end of an event",
        OpKind::Note(LedgerNote::Ran) => "end of a host function",
        OpKind::Note(LedgerNote::Settled { .. }) => "stream found complete",
        OpKind::Note(LedgerNote::Name { .. }) => "name",
        OpKind::Note(LedgerNote::ThreadGone) => "end of a thread",
    }
}

fn work_name(work: StreamWork, engine: Engine) -> &'static str {
    match (work, engine) {
        (StreamWork::Alloc, _) => "allocation",
        (StreamWork::Free, _) => "free",
        (StreamWork::Batch(_), _) => "batch of copies",
        (StreamWork::Copy | StreamWork::CopyNow, Engine::Upload) => "upload",
        (StreamWork::Copy | StreamWork::CopyNow, Engine::Download) => "download",
        (StreamWork::Copy | StreamWork::CopyNow, Engine::Peer) => "peer copy",
        (
            StreamWork::Copy | StreamWork::CopyNow,
            Engine::Compute | Engine::Host | Engine::None | Engine::Communication,
        ) => "copy",
        (StreamWork::Fill | StreamWork::FillNow, _) => "fill",
        (StreamWork::Kernel, Engine::Communication) => "collective",
        (StreamWork::Kernel, _) => "kernel",
        (StreamWork::HostFn, _) => "host function",
    }
}

fn step_name(step: HostStep) -> &'static str {
    match step {
        HostStep::Sync { what: Waited::Event(_) | Waited::Recorded(_), .. } => {
            "wait of the host for an event"
        }
        HostStep::Sync { what: Waited::Stream, .. } => "wait of the host for a stream",
        HostStep::Sync { what: Waited::Device, .. } => "wait of the host for a device",
        HostStep::Access => "access by the host",
        HostStep::Lent => "future of memory",
        HostStep::Begin => "start of a call that waits",
        HostStep::Failed => "call that failed",
        HostStep::Open => "new stream",
        HostStep::Load => "loading of a kernel",
        HostStep::Release => "memory given back to the device",
        HostStep::Refused => "call inside a host function",
        HostStep::Fault { .. } => "lost context",
    }
}

/// The order that the streams give to operations, as pairs of indices. An operation follows the
/// previous operation of its stream. It also follows the operations for which the stream waited
/// since that previous operation. Waits of host threads give no pairs.
pub(super) fn edges(ops: &[Op]) -> Vec<(usize, usize)> {
    let mut lanes: BTreeMap<LaneId, Vec<(u64, usize)>> = BTreeMap::new();
    for (index, op) in ops.iter().enumerate().filter(|(_, op)| op.kind.is_work()) {
        lanes.entry(op.position.lane).or_default().push((op.position.seq, index));
    }
    // The last operation of the lane with a number of at most `seq`.
    let last = |lane: LaneId, seq: u64| {
        let lane = lanes.get(&lane)?;
        let count = lane.partition_point(|(number, _)| *number <= seq);
        lane.get(count.checked_sub(1)?).map(|(_, index)| *index)
    };
    let mut edges = Vec::new();
    let mut before: BTreeMap<LaneId, Vec<usize>> = BTreeMap::new();
    for (index, op) in ops.iter().enumerate() {
        let open = before.entry(op.position.lane).or_default();
        if let OpKind::Mark(StreamMark::Wait { on, .. }) = op.kind {
            open.extend(last(on.lane, on.seq));
        } else if op.kind.is_work() {
            open.sort_unstable();
            open.dedup();
            edges.extend(open.drain(..).map(|from| (from, index)));
            open.push(index);
        }
    }
    edges
}

#[cfg(test)]
pub(super) mod samples {
    //! Operations made by hand.
    use crate::base::id::{DeviceId, LaneId, Position};
    use crate::base::ledger::{Engine, Op, OpKind, Times};
    use crate::base::units::Nanos;

    /// An operation of a lane that ran from `begin` to `end`, enqueued 5 ns before `begin`.
    pub(in crate::trace) fn op(
        kind: impl Into<OpKind>,
        engine: Engine,
        lane: u32,
        seq: u64,
        (begin, end): (u64, u64),
    ) -> Op {
        let called = begin.saturating_sub(5);
        Op {
            label: "op".into(),
            call: Some(Times { begin: Nanos(called), end: Nanos(called + 1) }),
            times: Some(Times { begin: Nanos(begin), end: Nanos(end) }),
            ..Op::new(kind, engine, DeviceId(0), Position { lane: LaneId(lane), seq })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::samples::op;
    use super::*;
    use crate::base::id::Position;
    use crate::base::ledger::Asked;

    #[test]
    fn operations_of_a_stream_that_overlap_have_different_rows() {
        let kernel = |seq, times| op(StreamWork::Kernel, Engine::Compute, 3, seq, times);
        let ops = [kernel(1, (10, 20)), kernel(2, (15, 30)), kernel(3, (20, 25))];
        let tracks = tracks(&ops);
        let stream = tracks.iter().find(|t| matches!(t.shows, Shows::Stream(..))).unwrap();
        assert_eq!(stream.rows, [vec![0, 2], vec![1]]);
    }

    #[test]
    fn an_operation_follows_its_stream_and_the_waits_of_its_stream() {
        let wait = |lane, on| {
            let on = Position { lane: LaneId(on), seq: 9 };
            let kind = OpKind::Mark(StreamMark::Wait { event: 1, on, by: Asked::User });
            op(kind, Engine::None, lane, 0, (0, 0))
        };
        let copy = |lane, seq| op(StreamWork::Copy, Engine::Upload, lane, seq, (0, 1));
        let ops = [copy(0, 1), copy(1, 1), wait(1, 0), wait(1, 7), copy(1, 2), copy(1, 3)];
        assert_eq!(edges(&ops), [(0, 4), (1, 4), (4, 5)]);
    }

    #[test]
    fn a_wait_covers_only_the_operations_up_to_its_position() {
        let on = Position { lane: LaneId(0), seq: 1 };
        let wait =
            op(StreamMark::Wait { event: 1, on, by: Asked::User }, Engine::None, 1, 0, (0, 0));
        let copy = |lane, seq| op(StreamWork::Copy, Engine::Upload, lane, seq, (0, 1));
        let ops = [copy(0, 1), copy(0, 2), wait, copy(1, 1)];
        assert_eq!(edges(&ops), [(0, 1), (0, 3)]);
    }
}
