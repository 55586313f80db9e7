//! The place of one record in the order.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use super::clock::{NONE, Stamp};
use crate::base::ledger::{Access, Op, OpKind, SourceOrder};
use crate::base::vector_clock::VectorClock;

/// From when to when an access uses bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::check) enum Moment {
    /// During the call of the host thread.
    Call,
    /// When the stream gets there.
    Work,
    /// From the call until the stream has got there.
    CallToWork,
}

/// The place of one record in the order.
#[derive(Debug, Clone, Copy)]
pub(in crate::check) struct Step {
    pub(in crate::check) thread: usize,
    pub(in crate::check) lane: Option<usize>,
    /// The number of the call in its thread.
    pub(super) call: Stamp,
    /// The number of the work in its stream.
    pub(super) work: Stamp,
    /// A wait of the program for an event that stood for nothing.
    pub(in crate::check) waits_for_nothing: bool,
    /// Its call returns when the source was read.
    pub(super) staged: bool,
    /// Its call took long: not all that its stream holds by now comes before it.
    pub(super) has_own_past: bool,
}

/// What comes before an access, by what may be counted for it.
#[derive(Debug, Clone, Copy)]
pub(in crate::check) struct Before<'a> {
    /// In every run.
    pub(in crate::check) sure: &'a VectorClock,
    /// In this one; and what the library found complete.
    pub(super) seen: [&'a VectorClock; 2],
}

impl Before<'_> {
    #[inline]
    pub(in crate::check) fn covers(&self, stamp: Stamp) -> bool {
        self.sure.covers(stamp) || self.seen.iter().any(|seen| seen.covers(stamp))
    }
}

impl Step {
    /// A record of the thread that is in no stream, and of which nothing is known yet.
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

    /// When an access of the record happens.
    pub(in crate::check) fn moment(&self, op: &Op, access: &Access) -> Moment {
        let reads = !access.mode.writes();
        match op.kind {
            OpKind::Host | OpKind::AllocNow | OpKind::FreeNow => Moment::Call,
            OpKind::Batch(order) if reads => match order {
                SourceOrder::Stream => Moment::Work,
                SourceOrder::DuringCall => Moment::Call,
                SourceOrder::Any => Moment::CallToWork,
            },
            OpKind::Copy | OpKind::CopyNow if reads && self.staged => Moment::Call,
            OpKind::Copy
            | OpKind::CopyNow
            | OpKind::Batch(_)
            | OpKind::Alloc
            | OpKind::Free
            | OpKind::Fill
            | OpKind::FillNow
            | OpKind::Kernel
            | OpKind::HostFn
            | OpKind::Fault { .. }
            | OpKind::Record { .. }
            | OpKind::Sync { .. }
            | OpKind::Call(_)
            | OpKind::Gone { .. }
            | OpKind::Open
            | OpKind::Wait { .. }
            | OpKind::Signal { .. }
            | OpKind::Begin
            | OpKind::Ran
            | OpKind::Settled { .. }
            | OpKind::Name { .. }
            | OpKind::ThreadGone
            | OpKind::Lent
            | OpKind::Handle { .. } => Moment::Work,
        }
    }

    /// What has to be known to follow an access of this moment.
    pub(in crate::check) fn end(&self, moment: Moment) -> Stamp {
        match moment {
            Moment::Call => self.call,
            Moment::Work | Moment::CallToWork => self.work,
        }
    }
}
