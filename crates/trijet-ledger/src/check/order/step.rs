//! The position of an entry in the order.
#![forbid(unsafe_code)]

use super::clock::{NONE, Stamp};
use crate::base::ledger::{Access, HostStep, Op, OpKind, SourceOrder, StreamWork};
use crate::base::vector_clock::VectorClock;

/// The time in which an access uses its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::check) enum Moment {
    /// During the call of the host thread.
    Call,
    /// When the stream executes the operation.
    Work,
    /// At any time from the call to the end of the operation.
    CallToWork,
}

/// The position of an entry in the order.
#[derive(Debug, Clone, Copy)]
pub(in crate::check) struct Step {
    pub(in crate::check) thread: usize,
    pub(in crate::check) lane: Option<usize>,
    /// The stamp of the call in its thread.
    pub(super) call: Stamp,
    /// The stamp of the work in its stream.
    pub(super) work: Stamp,
    /// Whether the entry is a wait of the program for an event that was never recorded.
    pub(in crate::check) waits_for_nothing: bool,
    /// Whether the call returns only after the operation has read its source.
    pub(super) staged: bool,
    /// Whether the call of the entry had begun earlier ([`HostStep::Begin`]), so that other entries
    /// may have come to the stream while the call waited. Such an entry does not follow everything
    /// that the stream holds, but has its own past (`Known::own_past`).
    pub(super) has_own_past: bool,
}

/// Everything that comes before an access.
#[derive(Debug, Clone, Copy)]
pub(in crate::check) struct AccessPast<'a> {
    /// The stamps that come before the access in every run.
    pub(in crate::check) sure: &'a VectorClock,
    /// Further stamps that come before the access in this run: the seen part of a clock, and the
    /// stamps that the library found complete.
    pub(super) seen: [&'a VectorClock; 2],
}

impl AccessPast<'_> {
    #[inline]
    pub(in crate::check) fn covers(&self, stamp: Stamp) -> bool {
        self.sure.covers(stamp) || self.seen.iter().any(|seen| seen.covers(stamp))
    }
}

impl Step {
    /// The step of an entry that was not read yet: a call of the thread, in no stream.
    pub(super) fn new(thread: usize) -> Self {
        Self {
            thread,
            lane: None,
            call: NONE,
            work: NONE,
            waits_for_nothing: false,
            staged: false,
            has_own_past: false,
        }
    }

    /// The time in which an access of the entry happens.
    pub(in crate::check) fn moment(&self, op: &Op, access: &Access) -> Moment {
        let reads = !access.mode.writes();
        match op.kind {
            OpKind::Host(HostStep::Access) | OpKind::Memory(_) => Moment::Call,
            OpKind::Work(StreamWork::Batch(order)) if reads => match order {
                SourceOrder::Stream => Moment::Work,
                SourceOrder::DuringCall => Moment::Call,
                SourceOrder::Any => Moment::CallToWork,
            },
            OpKind::Work(StreamWork::Copy | StreamWork::CopyNow) if reads && self.staged => {
                Moment::Call
            }
            OpKind::Work(StreamWork::Copy | StreamWork::CopyNow | StreamWork::Batch(_))
            | OpKind::Work(StreamWork::Fill | StreamWork::FillNow)
            | OpKind::Work(StreamWork::Kernel | StreamWork::HostFn)
            | OpKind::Work(StreamWork::Alloc | StreamWork::Free)
            | OpKind::Mark(_)
            | OpKind::Host(HostStep::Sync { .. } | HostStep::Lent | HostStep::Begin)
            | OpKind::Host(HostStep::Failed | HostStep::Open | HostStep::Fault { .. })
            | OpKind::Host(HostStep::Load | HostStep::Release | HostStep::Refused)
            | OpKind::Signal(_)
            | OpKind::Note(_) => Moment::Work,
        }
    }

    /// The stamp that a clock must cover to follow an access of the entry at this moment.
    pub(in crate::check) fn end(&self, moment: Moment) -> Stamp {
        match moment {
            Moment::Call => self.call,
            Moment::Work | Moment::CallToWork => self.work,
        }
    }
}
