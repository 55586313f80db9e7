//! Calls that wait: copies at once, copies within the host and of pageable memory, and whatever is
//! enqueued in a stream that may be full (laws A17, A18 and A41).
//!
//! The driver may keep such a call until other work is done, so no lock is held meanwhile: neither
//! that of the lane, nor the turn of the legacy stream. Other threads go on, in the same stream too.
//! Whether the driver takes their operations before or after this one is not known, and so nothing is
//! claimed of it:
//!
//! 1. What the operation follows is what the lane knew before the call.
//! 2. It gets its number after the call. What was numbered meanwhile may still be pending although
//!    this operation is complete; then the thread does not learn its number, which would stand for
//!    theirs as well.
//! 3. Blocking streams come after it from the return on, and the legacy stream before the call.
//!
//! A call that fails because the device is lost, or because nothing can go on, or in which another
//! library enqueued its work, may have enqueued its operation all the same. Its memory is stamped then, so that no guard lends it, and nothing else is
//! claimed. Any other refusal enqueued nothing, and leaves everything as it was.
#![forbid(unsafe_code)]

use super::lane::State;
use super::lane_ref::LaneRef;
use super::legacy::{Barrier, LegacyOrder, Turn};
use super::prologue::Prologue;
use super::submission::{Submission, accesses, stamp, stamp_late};
use super::track::Use;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::Position;
use crate::base::ledger::{Engine, HostCall, Op, OpKind};
use crate::base::vector_clock::VectorClock;
use crate::device::driver::{Action, AtReturn};
use crate::device::memory::Memory;
use crate::log::entry::plain;
use std::borrow::Cow;
use std::sync::MutexGuard;

/// What was true before the call.
struct Before {
    seq: u64,
    /// What the operation follows, if the legacy stream or the calling thread learns it: an operation
    /// that others only wait for allocates nothing.
    follows: Option<VectorClock>,
    barrier: Option<Barrier>,
}

impl Before {
    fn of(state: &State, turn: Option<&Turn<'_>>, at_return: AtReturn) -> Self {
        let barrier = turn.map(Turn::barrier);
        let learnt = barrier.is_some() || at_return.completes_earlier();
        let follows = learnt.then(|| {
            let mut follows = state.vector.clone();
            if let Some(barrier) = &barrier {
                follows.join(barrier.clock());
            }
            follows
        });
        Self { seq: state.seq, follows, barrier }
    }
}

impl LaneRef {
    /// Enqueues an operation whose waits are enqueued, without the locks that are handed in.
    #[inline(never)]
    pub(super) fn enqueue_waiting(
        &self,
        (submission, crossed): (&Submission<'_>, bool),
        (turn, state): (Option<Turn<'_>>, MutexGuard<'_, State>),
        prologue: &Prologue,
    ) -> Result<(Position, Option<Memory>)> {
        let Submission { action, uses, .. } = submission;
        let (engine, at_return) = (action.engine(), submission.at_return);
        let before = Before::of(&state, turn.as_ref(), at_return);
        state.note(|| Op {
            accesses: accesses(uses),
            // Law A38: a copy between devices follows the work of both.
            engine: if engine == Engine::Peer { Engine::Peer } else { Engine::None },
            ..self.host_op(submission, before.seq, OpKind::Begin)
        });
        drop((state, turn));
        if let Some(slot) = submission.slot {
            slot.number(before.seq + 1);
        }
        let submitted = self.gate().submit(self.stream, action);
        self.enqueued(prologue);
        let memory = match submitted {
            Ok(memory) => memory,
            Err(error) => return Err(self.not_done(submission, error)),
        };
        let turn = self.legacy.as_ref().map(LegacyOrder::bare_turn);
        let mut state = self.lane().lock();
        let is_next = state.seq == before.seq;
        let position = self.count(&mut state);
        state.last_shared = crossed;
        self.after(&mut state, submission, position, prologue);
        let is_work = !matches!(action, Action::Alloc { .. });
        if let (Some(barrier), true) = (&before.barrier, is_work) {
            let State { vector, barrier_seen, .. } = &mut *state;
            barrier.teach(vector, barrier_seen);
        }
        if let (Some(turn), Some(follows), true) = (&turn, &before.follows, is_work) {
            let mut held_back = follows.clone();
            held_back.raise(position);
            turn.hold_back(&held_back);
        }
        let is_done = at_return == AtReturn::Done;
        let late = if is_done { 0 } else { stamp(uses, position, at_return) };
        drop((state, turn));
        stamp_late(uses, position, late, &prologue.left_out);
        if is_done {
            self.done(uses);
        }
        if let Some(mut follows) = before.follows.filter(|_| at_return.completes_earlier()) {
            if is_done && is_next {
                follows.raise(position);
            }
            self.domain.learn(&follows);
        }
        Ok((position, memory))
    }

    /// The call failed with `error`.
    #[cold]
    fn not_done(&self, submission: &Submission<'_>, error: Error) -> Error {
        let uses = submission.uses;
        let mut state = self.lane().lock();
        let kind = OpKind::Call(HostCall::Failed);
        state.note(|| self.host_op(submission, state.seq, kind.clone()));
        let is_foreign = matches!(submission.action, Action::Foreign { .. });
        let is_open = is_foreign || error.is_loss() || error.kind() == ErrorKind::Stalled;
        if is_open {
            let position = self.count(&mut state);
            let late = stamp(uses, position, AtReturn::Enqueued);
            drop(state);
            stamp_late(uses, position, late, &[]);
        }
        error
    }

    /// What the operation wrote is complete, and so is everything before it: nothing is left to be
    /// waited for. What the operation only read has the uses that it had.
    fn done(&self, uses: &[Use<'_>]) {
        for access in uses.iter().filter(|access| access.mode.writes()) {
            access.track.settle(&access.range);
        }
    }

    /// An entry of what the calling thread does about an operation.
    fn host_op(&self, submission: &Submission<'_>, seq: u64, kind: OpKind) -> Op {
        let at = (self.gate().log.domain, Position { lane: self.id, seq });
        Op {
            label: Cow::Borrowed(submission.action.label()),
            site: Some(submission.site.into()),
            chunk: submission.chunk,
            ..plain(kind, self.device, self.class(), at)
        }
    }
}
