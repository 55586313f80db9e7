//! The reasons why a ledger is not judged again after a change.
#![forbid(unsafe_code)]

use crate::base::hash::NumberMap;
use crate::base::id::LaneId;
use crate::base::ledger::{
    Asked, Engine, HostStep, LedgerNote, Op, OpKind, SignalStep, StreamMark, StreamWork, Waited,
};
use std::collections::BTreeSet;

/// The number of entries after which the checker may have forgotten uses. A thread whose first call
/// comes later is assumed to follow these uses.
const FORGETS_AT: usize = 4096;

/// The reason why a ledger is not judged again after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotJudged {
    /// Threads or host functions hand over by signals.
    Signals,
    /// A future holds memory.
    Futures,
    /// Two threads use one event of the program.
    SharedEvents,
    /// A lane passes from one stream to another.
    LanesPassOn,
    /// A thread makes its first call late in the run.
    LateThread,
    /// A copy between devices is ordered with the streams of both.
    PeerCopies,
    /// An operation failed.
    Fault,
    /// Calls that wait overlap with other calls in their stream.
    Overlapping,
    /// The ledger uses memory before its allocation or after its free.
    Lifetimes,
    /// The accesses have too many parts.
    TooLarge,
    /// The file leaves entries out.
    Incomplete,
}

impl NotJudged {
    /// The reason in words, after "because".
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Signals => "threads or host functions of the run hand over by signals",
            Self::Futures => "a future of the run holds memory",
            Self::SharedEvents => "two threads of the run use one event",
            Self::LanesPassOn => "a stream of the run takes the lane of an earlier one",
            Self::LateThread => "a thread of the run makes its first call late",
            Self::PeerCopies => "a copy between devices is in the legacy stream",
            Self::Fault => "an operation of the run failed",
            Self::Overlapping => "a call waits while another thread uses its stream",
            Self::Lifetimes => "the run uses memory before its allocation or after its free",
            Self::TooLarge => "the accesses of the run have too many parts",
            Self::Incomplete => "the file leaves out entries of the run",
        }
    }
}

/// The first reason in the kinds of the entries, if there is one.
pub(super) fn of_kinds(ops: &[Op]) -> Option<NotJudged> {
    let mut lanes: BTreeSet<LaneId> = BTreeSet::new();
    let mut threads: BTreeSet<u64> = BTreeSet::new();
    let recorded: BTreeSet<u64> = ops.iter().filter_map(recorded_by_program).collect();
    let mut callers: NumberMap<u64, u64> = NumberMap::default();
    for (index, op) in ops.iter().enumerate() {
        if let Some(reason) = of_kind(op) {
            return Some(reason);
        }
        if op.kind == OpKind::Host(HostStep::Open) && !lanes.insert(op.position.lane) {
            return Some(NotJudged::LanesPassOn);
        }
        if has_lane(&op.kind) {
            lanes.insert(op.position.lane);
        }
        let is_new = is_of_thread(&op.kind) && threads.insert(op.thread);
        if is_new && index >= FORGETS_AT && threads.len() > 1 {
            return Some(NotJudged::LateThread);
        }
        if let Some(event) = called_about(op).filter(|event| recorded.contains(event))
            && *callers.entry(event).or_insert(op.thread) != op.thread
        {
            return Some(NotJudged::SharedEvents);
        }
    }
    None
}

fn of_kind(op: &Op) -> Option<NotJudged> {
    match op.kind {
        OpKind::Signal(SignalStep::Use { .. }) => Some(NotJudged::Signals),
        OpKind::Host(HostStep::Lent) => Some(NotJudged::Futures),
        OpKind::Host(HostStep::Fault { .. }) => Some(NotJudged::Fault),
        OpKind::Work(StreamWork::CopyNow) if op.engine == Engine::Peer => {
            Some(NotJudged::PeerCopies)
        }
        OpKind::Work(_) | OpKind::Mark(_) | OpKind::Memory(_) | OpKind::Note(_) => None,
        OpKind::Signal(SignalStep::Handle { .. }) => None,
        OpKind::Host(
            HostStep::Sync { .. } | HostStep::Access | HostStep::Begin | HostStep::Failed,
        )
        | OpKind::Host(HostStep::Open | HostStep::Load | HostStep::Release | HostStep::Refused) => {
            None
        }
    }
}

/// Whether the entry names a stream by its lane.
pub(super) fn has_lane(kind: &OpKind) -> bool {
    kind.is_in_stream()
        || matches!(
            kind,
            OpKind::Host(
                HostStep::Begin | HostStep::Open | HostStep::Sync { what: Waited::Stream, .. }
            )
        )
}

/// Whether the entry is in the order of its thread.
pub(super) fn is_of_thread(kind: &OpKind) -> bool {
    !matches!(
        kind,
        OpKind::Note(
            LedgerNote::Gone { .. }
                | LedgerNote::Ran
                | LedgerNote::ThreadGone
                | LedgerNote::Name { .. }
        ) | OpKind::Signal(SignalStep::Handle { .. })
            | OpKind::Host(HostStep::Refused)
    )
}

/// The event of a record by the program.
fn recorded_by_program(op: &Op) -> Option<u64> {
    let OpKind::Mark(StreamMark::Record { event, by: Asked::User }) = op.kind else { return None };
    Some(event)
}

/// The event of a call that may be in doubt with a record of the event by another thread (law A45).
fn called_about(op: &Op) -> Option<u64> {
    if let OpKind::Mark(StreamMark::Wait { event, by: Asked::User, .. })
    | OpKind::Host(HostStep::Sync { what: Waited::Event(event), .. }) = op.kind
    {
        return Some(event);
    }
    recorded_by_program(op)
}
