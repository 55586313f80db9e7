//! Where an operation is drawn: in the row of its engine, of its stream, and of the host thread
//! that enqueued it. Shared by the exports, so that they agree.
//!
//! Operations of one track may overlap: event pairs measure from ready to end, and a dependent
//! kernel begins before its predecessor ends. No format can draw that in one row, so a track has as
//! many rows as it needs; each operation takes the first that is free.
#![forbid(unsafe_code)]

use crate::base::id::{DeviceId, LaneId};
use crate::base::ledger::{Engine, HostCall, Op, OpKind, Signalled, StreamClass, Times, Waited};
use std::collections::BTreeMap;

/// What a track shows. The order is the order on the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shows {
    /// An engine of a device: when its operations ran.
    Engine(DeviceId, Engine),
    /// A stream: when its operations ran.
    Stream(DeviceId, LaneId),
    /// A host thread: when it was in calls.
    Thread(u64),
}

/// A track with its rows; in each row, operations that do not overlap, by begin.
#[derive(Debug)]
pub(super) struct Track {
    pub(super) shows: Shows,
    pub(super) rows: Vec<Vec<usize>>,
}

/// The times of an operation in a track of this kind. A clock may be off by less than it resolves,
/// so an end before the begin counts as the begin.
pub(super) fn times(op: &Op, shows: Shows) -> Option<(u64, u64)> {
    let times = match shows {
        Shows::Engine(..) | Shows::Stream(..) => op.times,
        Shows::Thread(_) => op.call,
    };
    times.map(span)
}

/// Begin and end, never in the wrong order.
pub(super) fn span(times: Times) -> (u64, u64) {
    (times.begin.0, times.end.0.max(times.begin.0))
}

/// All tracks of a record, in the order on the page.
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

/// An engine's name, as in the reports.
pub(super) fn engine_name(engine: Engine) -> &'static str {
    match engine {
        Engine::Upload => "upload",
        Engine::Compute => "compute",
        Engine::Download => "download",
        Engine::Peer => "peer",
        Engine::Host => "host functions",
        Engine::None => "no engine",
    }
}

/// The name of a track, without its device.
pub(super) fn track_name(ops: &[Op], track: &Track) -> String {
    match track.shows {
        Shows::Engine(_, engine) => engine_name(engine).to_owned(),
        Shows::Stream(_, lane) => {
            let first = track.rows.first().and_then(|row| row.first());
            match first.map(|index| ops[*index].stream) {
                Some(StreamClass::Legacy) => format!("legacy stream {}", lane.0),
                Some(StreamClass::PerThread) => format!("per-thread stream {}", lane.0),
                _ => format!("stream {}", lane.0),
            }
        }
        Shows::Thread(thread) => format!("host thread {thread}"),
    }
}

/// What an operation does, in a few words.
pub(super) fn kind_name(op: &Op) -> &'static str {
    match (&op.kind, op.engine) {
        (OpKind::Alloc, _) => "allocation",
        (OpKind::Free, _) => "free",
        (OpKind::Batch(_), _) => "batch of copies",
        (OpKind::Copy | OpKind::CopyNow, Engine::Upload) => "upload",
        (OpKind::Copy | OpKind::CopyNow, Engine::Download) => "download",
        (OpKind::Copy | OpKind::CopyNow, Engine::Peer) => "peer copy",
        (OpKind::Copy | OpKind::CopyNow, _) => "copy",
        (OpKind::Fill | OpKind::FillNow, _) => "fill",
        (OpKind::Kernel, _) => "kernel",
        (OpKind::HostFn, _) => "host function",
        (OpKind::Record { .. }, _) => "event record",
        (OpKind::Sync { what: Waited::Event(_) | Waited::Recorded(_), .. }, _) => {
            "wait of the host for an event"
        }
        (OpKind::Sync { what: Waited::Stream, .. }, _) => "wait of the host for a stream",
        (OpKind::Sync { what: Waited::Device, .. }, _) => "wait of the host for a device",
        (OpKind::Host, _) => "access by the host",
        (OpKind::AllocNow, _) => "allocation at the call",
        (OpKind::FreeNow, _) => "free at the call",
        (OpKind::Call(HostCall::Load), _) => "loading of a kernel",
        (OpKind::Call(HostCall::Release), _) => "memory given back by a pool",
        (OpKind::Call(HostCall::InHostFn), _) => "call inside a host function",
        (OpKind::Gone { .. }, _) => "end of an event",
        (OpKind::Fault { .. }, _) => "lost context",
        (OpKind::Open, _) => "new stream",
        (OpKind::Signal { what: Signalled::Set, .. }, _) => "set of a signal",
        (OpKind::Signal { what: Signalled::Gone, .. }, _) => "end of a signal",
        (OpKind::Signal { .. }, _) => "wait for a signal",
        (OpKind::Wait { .. }, _) => "wait of a stream",
        (OpKind::Begin, _) => "begin of a call that waits",
        (OpKind::Call(HostCall::Failed), _) => "call that failed",
        (OpKind::Ran, _) => "end of a host function",
        (OpKind::Settled { .. }, _) => "stream found complete",
        (OpKind::Name { .. }, _) => "name",
        (OpKind::ThreadGone, _) => "end of a thread",
        (OpKind::Lent, _) => "future of memory",
        (OpKind::Handle { .. }, _) => "handle of a signal",
    }
}

/// The order that the streams were given: each operation after the one before it in its stream,
/// and after what its stream was told to wait for since then. Pairs of indices, first before second.
/// What a host thread waited for is not among them.
pub(super) fn edges(ops: &[Op]) -> Vec<(usize, usize)> {
    let mut lanes: BTreeMap<LaneId, Vec<(u64, usize)>> = BTreeMap::new();
    for (index, op) in ops.iter().enumerate().filter(|(_, op)| op.kind.is_work()) {
        lanes.entry(op.position.lane).or_default().push((op.position.seq, index));
    }
    // The last operation of a lane up to a number.
    let last = |lane: LaneId, seq: u64| {
        let lane = lanes.get(&lane)?;
        let count = lane.partition_point(|(number, _)| *number <= seq);
        lane.get(count.checked_sub(1)?).map(|(_, index)| *index)
    };
    let mut edges = Vec::new();
    let mut before: BTreeMap<LaneId, Vec<usize>> = BTreeMap::new();
    for (index, op) in ops.iter().enumerate() {
        let open = before.entry(op.position.lane).or_default();
        if let OpKind::Wait { on, .. } = op.kind {
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
    //! Records made by hand.
    use crate::base::id::{DeviceId, LaneId, Position};
    use crate::base::ledger::{Engine, Op, OpKind, Times};
    use crate::base::units::Nanos;

    /// An operation of a lane that ran from `begin` to `end`, enqueued 5 ns before.
    pub(in crate::trace) fn op(
        kind: OpKind,
        engine: Engine,
        (lane, seq): (u32, u64),
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
    fn operations_that_overlap_in_a_stream_lie_in_rows_of_their_own() {
        let kernel = |seq, times| op(OpKind::Kernel, Engine::Compute, (3, seq), times);
        let ops = [kernel(1, (10, 20)), kernel(2, (15, 30)), kernel(3, (20, 25))];
        let tracks = tracks(&ops);
        let stream = tracks.iter().find(|t| matches!(t.shows, Shows::Stream(..))).unwrap();
        assert_eq!(stream.rows, [vec![0, 2], vec![1]]);
    }

    #[test]
    fn an_operation_follows_its_stream_and_what_the_stream_waits_for() {
        let wait = |lane, on| {
            let on = Position { lane: LaneId(on), seq: 9 };
            let kind = OpKind::Wait { event: 1, on, by: Asked::User };
            op(kind, Engine::None, (lane, 0), (0, 0))
        };
        let copy = |lane, seq| op(OpKind::Copy, Engine::Upload, (lane, seq), (0, 1));
        let ops = [copy(0, 1), copy(1, 1), wait(1, 0), wait(1, 7), copy(1, 2), copy(1, 3)];
        assert_eq!(edges(&ops), [(0, 4), (1, 4), (4, 5)]);
    }

    #[test]
    fn a_wait_stands_for_what_was_before_its_position_only() {
        let on = Position { lane: LaneId(0), seq: 1 };
        let wait = op(OpKind::Wait { event: 1, on, by: Asked::User }, Engine::None, (1, 0), (0, 0));
        let copy = |lane, seq| op(OpKind::Copy, Engine::Upload, (lane, seq), (0, 1));
        let ops = [copy(0, 1), copy(0, 2), wait, copy(1, 1)];
        assert_eq!(edges(&ops), [(0, 1), (0, 3)]);
    }
}
