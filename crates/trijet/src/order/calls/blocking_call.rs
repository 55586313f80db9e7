//! Calls that may wait, or that run code of the program: synchronous copies and fills, copies
//! within the host and of pageable memory, batches whose sources are read at the call, foreign
//! work, and every call on a stream that may be full (laws A17 to A19, and A41).
//!
//! The driver may hold such a call until other work is complete. So no lock is held during the
//! call: neither the lock of the lane nor the turn of the legacy stream. Other threads can use the
//! same stream. It is unknown whether the driver enqueues the operations of these threads before or
//! after the operation of the call. The library claims no order between the two:
//!
//! 1. The operation follows the positions that the lane vector included before the call.
//! 2. The operation gets its sequence number after the call. Operations that other threads enqueued
//!    during the call have smaller numbers, but may still be pending when this operation is
//!    complete. If there are such operations, the calling thread does not learn that this operation
//!    is complete: its number would also stand for the operations with smaller numbers.
//! 3. In the legacy stream, the operation follows the work that was in the blocking streams before
//!    the call. Operations that are enqueued in the blocking streams after the call follow the
//!    operation.
//!
//! A call may fail although its operation was enqueued: when the device is lost, when no work can
//! continue (`Stalled`), or in foreign work. Then the library stamps the memory that the operation
//! uses, so that no guard lends memory that may be in use. The library claims no order for such an
//! operation. Any other error means that nothing was enqueued, and changes nothing.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::Position;
use crate::base::ledger::{Effect, Engine, HostStep, Op};
use crate::base::vector_clock::VectorClock;
use crate::device::driver::{Action, AtReturn};
use crate::log::entry::plain;
use crate::log::task_name;
use crate::order::lane::State;
use crate::order::lane_ref::LaneRef;
use crate::order::legacy::{Barrier, LegacyOrder, Turn};
use crate::order::prologue::Prologue;
use crate::order::submission::{Submission, accesses, stamp, stamp_late};
use crate::order::track::Use;
use std::sync::MutexGuard;

/// The state of the lane before the call.
struct AtCall {
    seq: u64,
    /// The positions that the operation follows. `None` if the lane takes no part in the order with
    /// the legacy stream and the calling thread learns nothing from the call. In this case, the
    /// vector is not cloned, so that the call allocates nothing.
    follows: Option<VectorClock>,
    barrier: Option<Barrier>,
}

impl AtCall {
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
    /// Enqueues an operation whose waits are already enqueued. Before the driver's call, releases
    /// the lock of the lane and the lane's turn in the order with the legacy stream.
    #[inline(never)]
    pub(in crate::order) fn enqueue_waiting(
        &self,
        submission: &Submission<'_>,
        shared: bool,
        turn: Option<Turn<'_>>,
        state: MutexGuard<'_, State>,
        prologue: &Prologue,
    ) -> Result<()> {
        let Submission { action, uses, .. } = submission;
        let (engine, at_return) = (action.engine(), submission.at_return);
        let at_call = AtCall::of(&state, turn.as_ref(), at_return);
        state.note(|| Op {
            accesses: accesses(uses),
            // Readers of the ledger recognise a copy between two devices by this engine. Only for
            // such a copy do they keep the work of the other devices, which the copy may follow
            // (law A38).
            engine: if engine == Engine::Peer { Engine::Peer } else { Engine::None },
            ..self.host_op(submission, at_call.seq, HostStep::Begin)
        });
        drop((state, turn));
        if let Some(slot) = submission.slot {
            slot.number(at_call.seq + 1);
        }
        let submitted = self.gate().submit(self.stream, action);
        self.enqueued(prologue);
        if let Err(error) = submitted {
            return Err(self.call_failed(submission, error));
        }
        let turn = self.legacy.as_ref().map(LegacyOrder::bare_turn);
        let mut state = self.lane().lock();
        let is_next = state.seq == at_call.seq;
        let position = self.count(&mut state);
        state.last_shared = shared;
        if submission.has_host_fn {
            state.note_host_fn(position, !uses.is_empty());
        }
        self.after(&mut state, submission, position, prologue);
        // An allocation may leave no operation in the stream (law A4).
        let is_work = action.kind().effect() != Effect::Allocates;
        if let (Some(barrier), true) = (&at_call.barrier, is_work) {
            let State { vector, barrier_seen, .. } = &mut *state;
            barrier.teach(vector, barrier_seen);
        }
        if let (Some(turn), Some(follows), true) = (&turn, &at_call.follows, is_work) {
            let mut held_back = follows.clone();
            held_back.raise(position);
            turn.hold_back(&held_back);
        }
        let is_done = at_return == AtReturn::Done;
        let late = if is_done { 0 } else { stamp(uses, position, at_return) };
        drop((state, turn));
        stamp_late(uses, position, late, &prologue.left_out);
        if is_done {
            self.settle_written(uses);
        }
        if let Some(mut follows) = at_call.follows.filter(|_| at_return.completes_earlier()) {
            if is_done && is_next {
                follows.raise(position);
            }
            self.domain.learn(&follows);
        }
        Ok(())
    }

    /// Notes that the call failed. If the operation may have been enqueued nevertheless, stamps the
    /// memory that the operation uses.
    #[cold]
    fn call_failed(&self, submission: &Submission<'_>, error: Error) -> Error {
        let uses = submission.uses;
        let mut state = self.lane().lock();
        state.note(|| self.host_op(submission, state.seq, HostStep::Failed));
        // Foreign work runs code of the program, which may have enqueued operations before it
        // failed.
        let is_foreign = match submission.action {
            Action::Foreign { .. } => true,
            Action::Copy { .. }
            | Action::Batch { .. }
            | Action::Fill { .. }
            | Action::Launch(_)
            | Action::HostFn { .. }
            | Action::Graph { .. }
            | Action::Alloc { .. }
            | Action::Free(_) => false,
        };
        let may_be_enqueued = is_foreign || error.is_loss() || error.kind() == ErrorKind::Stalled;
        if may_be_enqueued {
            let position = self.count(&mut state);
            let late = stamp(uses, position, AtReturn::Enqueued);
            drop(state);
            stamp_late(uses, position, late, &[]);
        }
        error
    }

    /// Removes the stamps of the bytes that a complete operation wrote: every earlier access to
    /// these bytes is complete too. Bytes that the operation only read keep their stamps.
    fn settle_written(&self, uses: &[Use<'_>]) {
        for access in uses.iter().filter(|access| access.mode.writes()) {
            access.track.settle(&access.range);
        }
    }

    /// The ledger entry for one step of the call of an operation.
    fn host_op(&self, submission: &Submission<'_>, seq: u64, step: HostStep) -> Op {
        let position = Position { lane: self.id, seq };
        Op {
            label: task_name::labelled(submission.action.entry_label()),
            site: Some(submission.site.into()),
            chunk: submission.chunk,
            ..plain(step, self.device, self.class(), self.gate().log.domain, position)
        }
    }
}
