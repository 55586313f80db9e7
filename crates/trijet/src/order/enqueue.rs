//! The enqueue of an operation.
//!
//! Most operations use memory that their own lane used last. For these, an enqueue reads the stamps
//! of the memory, takes the lock of the lane and calls the driver. All other operations take a
//! second path, because they need waits for other lanes, a record of the previous operation, or
//! entries of a trace. A call that may wait inside the driver takes a third path, see
//! `blocking_call`.
#![forbid(unsafe_code)]

use super::calls::dependent::{in_full_order, is_dependent};
use super::gate::Maker;
use super::lane::State;
use super::lane_ref::LaneRef;
use super::mark::Marks;
use super::prologue::Prologue;
use super::submission::{Submission, stamp, stamp_late};
use super::track::NeededPositions;
use crate::base::error::Result;
use crate::base::id::Position;
use crate::base::ledger::Effect;
use crate::device::driver::{Action, AtReturn};
use crate::log::{calling, thread};
use std::sync::MutexGuard;

impl LaneRef {
    /// Enqueues one operation: enqueues the necessary waits for operations of other lanes, submits
    /// the operation, and stamps the memory. A failed operation leaves no stamp.
    #[inline]
    pub(crate) fn enqueue(&self, submission: &Submission<'_>) -> Result<()> {
        debug_assert!(submission.agrees(), "{submission:?}");
        if !calling::is_free() {
            self.refuse(submission)?;
        }
        if self.gate().is_simulated {
            self.pause();
        }
        if let Some(recorder) = &self.recorder {
            return self.record_instead(&**recorder, submission);
        }
        if self.stream.maker == Maker::Program && self.gate().is_captured(self.stream)? {
            return self.enqueue_captured(submission);
        }
        let Some(shared) = self.needs_nothing(submission) else {
            return self.enqueue_slowly(submission, None);
        };
        let mut state = self.lane().lock();
        if !state.is_plain(&self.lane.done) {
            return self.enqueue_slowly(submission, Some((shared, state)));
        }
        if let Err(error) = self.submit(&state, submission) {
            drop(state);
            return Err(self.domain.failed(self.device, error));
        }
        let position = self.count(&mut state);
        state.last_shared = shared;
        if matches!(submission.action, Action::Launch(_)) {
            state.note_launch();
        }
        let late = stamp(submission.uses, position, submission.at_return);
        drop(state);
        stamp_late(submission.uses, position, late, &[]);
        Ok(())
    }

    /// Checks a call on the stream that enqueues nothing. Refuses the call if an operation would be
    /// refused.
    #[inline]
    pub(crate) fn admit(&self, op: &'static str) -> Result<()> {
        if !calling::is_free() {
            self.refuse_of(op)?;
        }
        if self.gate().is_simulated {
            self.pause();
        }
        self.refuse_recorded(op)?;
        self.gate().admit(self.stream)
    }

    /// Refuses a call of a thread that must not call the driver, and a call of a recording thread
    /// on a stream that is not part of the recording.
    #[cold]
    fn refuse(&self, submission: &Submission<'_>) -> Result<()> {
        self.refuse_of(submission.action.label())
    }

    fn refuse_of(&self, label: &'static str) -> Result<()> {
        calling::refuse(label)?;
        if calling::records() && self.recorder.is_none() {
            return Err(self.not_recorded(label));
        }
        Ok(())
    }

    /// Lets another host thread of a simulation run.
    #[inline(never)]
    fn pause(&self) {
        if let Some(simulation) = self.driver().simulation() {
            simulation.pause();
        }
    }

    /// Returns whether two lanes use any memory of the operation. Returns `None` if the operation
    /// must be enqueued by `enqueue_slowly`. One reason is an operation of another lane that this
    /// operation must follow, or memory of another domain. Another reason is the kind of the
    /// operation, for example a free or a host function. The third reason is a lane that takes part
    /// in the order with the legacy stream.
    #[inline(always)]
    fn needs_nothing(&self, submission: &Submission<'_>) -> Option<bool> {
        let frees = matches!(submission.action, Action::Free(_));
        let is_plain = !(submission.may_wait | submission.has_host_fn);
        if self.legacy.is_some() || frees || !is_plain || is_dependent(submission) {
            return None;
        }
        let mut shared = false;
        let domain = self.domain.id();
        for access in submission.uses {
            let track = access.track;
            if track.domain != domain {
                return None;
            }
            if track.is_manual() {
                if track.has_users_before() {
                    return None;
                }
                continue;
            }
            if track.has_other_user(&access.range, access.mode, self.id) {
                return None;
            }
            shared |= track.note_lane(self.id);
        }
        Some(shared)
    }

    /// Calls the driver, under the lock of the lane.
    #[inline(always)]
    fn submit(&self, state: &State, submission: &Submission<'_>) -> Result<()> {
        if let Some(slot) = submission.slot {
            slot.number(state.seq + 1);
        }
        self.gate().submit(self.stream, &submission.action)
    }

    /// Assigns a sequence number to the operation that has just been enqueued.
    #[inline(always)]
    pub(super) fn count(&self, state: &mut State) -> Position {
        state.seq += 1;
        state.used = true;
        let position = Position { lane: self.id, seq: state.seq };
        state.vector.raise(position);
        state.learn_of_thread(self.gate().log.domain);
        position
    }

    /// [`LaneRef::enqueue`] for an operation that may need more than a call of the driver.
    #[inline(never)]
    fn enqueue_slowly(
        &self,
        submission: &Submission<'_>,
        alone: Option<(bool, MutexGuard<'_, State>)>,
    ) -> Result<()> {
        self.enqueue_among(submission, alone)
            .map_err(|error| self.domain.failed(self.device, error))
    }

    /// Enqueues an operation with the waits, records and entries that it may need. If
    /// [`LaneRef::needs_nothing`] returned a value for the operation, `alone` has two parts: this
    /// value, and the locked state of the lane.
    fn enqueue_among(
        &self,
        submission: &Submission<'_>,
        alone: Option<(bool, MutexGuard<'_, State>)>,
    ) -> Result<()> {
        let Submission { action, uses, .. } = submission;
        let mut needs = NeededPositions::new();
        let (shared, held) = match alone {
            // The lane of this operation takes no part in the order with the legacy stream, so the
            // operation takes no turn. So no other lock is taken while this lane is locked.
            Some((shared, state)) => (shared, Some(state)),
            None => (self.needs(submission, &mut needs)?, None),
        };
        // The driver orders blocking lanes and the legacy lane, so the library adds no waits
        // between them.
        let turn = match &self.legacy {
            Some(legacy) => Some(self.take_turn(legacy, action.label())?),
            None => None,
        };
        let mut marks = Marks::new();
        if !needs.is_empty() {
            self.marks(turn.as_ref(), &mut needs, &mut marks)?;
        }
        let mut state = held.unwrap_or_else(|| self.lane().lock());
        // A dependent launch follows nothing but the previous kernel. In a stream of the program,
        // the launch may have to follow operations of other code. In a lane with an order with the
        // legacy stream, the launch may have to follow operations of other streams.
        let is_alone = self.legacy.is_none() && self.stream.maker == Maker::Library;
        let ordinary = in_full_order(submission, &state, !needs.is_empty() || !is_alone);
        let submission = ordinary.as_ref().unwrap_or(submission);
        let mut prologue = Prologue::default();
        self.before(&mut state, submission, &needs, &marks, &mut prologue)?;
        if submission.may_wait || state.may_be_full(&self.lane.done) {
            return self.enqueue_waiting(submission, shared, turn, state, &prologue);
        }
        let submitted = self.submit(&state, submission);
        self.enqueued(&prologue);
        submitted?;
        // The operation is enqueued, so the memory is stamped even if a later step fails.
        let position = self.count(&mut state);
        // The call of an allocation returns memory immediately, and may leave no operation in the
        // stream that could wait.
        let turn = turn.as_ref().filter(|_| action.kind().effect() != Effect::Allocates);
        if let Some(turn) = turn {
            let State { vector, barrier_seen, .. } = &mut *state;
            turn.teach(vector, barrier_seen);
        }
        state.last_shared = shared;
        if matches!(action, Action::Launch(_)) {
            state.note_launch();
        }
        if submission.has_host_fn {
            state.note_host_fn(position, !uses.is_empty());
        }
        self.after(&mut state, submission, position, &prologue);
        if let Some(turn) = turn {
            turn.hold_back(&state.vector);
        }
        let late = stamp(uses, position, submission.at_return);
        drop(state);
        stamp_late(uses, position, late, &prologue.left_out);
        Ok(())
    }

    /// Adds the positions of other lanes that an operation must follow, except the positions that
    /// the calling thread knows to be complete. Returns whether two lanes use any memory of the
    /// operation.
    #[inline]
    fn needs(&self, submission: &Submission<'_>, needs: &mut NeededPositions) -> Result<bool> {
        let Submission { action, uses, .. } = submission;
        let is_done_at_return = submission.at_return == AtReturn::Done;
        let mut shared = false;
        let implied = |p: Position| p.lane == self.id;
        for access in *uses {
            let track = access.track;
            if track.domain != self.domain.id() {
                self.domain.own(action.label(), track.domain)?;
            }
            if track.is_manual() {
                track.users_before(implied, needs);
                continue;
            }
            track.users(&access.range, access.mode, implied, needs);
            // Work that is complete when its call returns needs no record.
            if !is_done_at_return {
                shared |= track.note_lane(self.id);
            }
        }
        if matches!(action, Action::Free(_)) {
            // A free follows every user, even of manual memory (law A22). The free also follows
            // users for which a later user did not wait.
            for access in *uses {
                access.track.all_users(&access.range, access.mode, implied, needs);
            }
        }
        if !needs.is_empty() {
            thread::with_known(self.gate().log.domain, |known| needs.retain(|p| !known.covers(*p)));
        }
        Ok(shared)
    }
}
