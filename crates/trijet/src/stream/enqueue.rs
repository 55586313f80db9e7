//! Enqueuing an operation: the one door to the driver.
//!
//! Most operations use memory that their own lane used last: they cost a look at its stamps, the lane's
//! lock and the driver's call. What needs more (waits for other lanes, a record of the operation before,
//! entries of a record) goes by the second way, and what may wait inside the driver by the third, see
//! `waiting`.
#![forbid(unsafe_code)]

use super::around::Aside;
use super::callback::{self, Slot};
use super::default::{LegacyOrder, Turn};
use super::lane::{LaneRef, Marks, State};
use super::thread;
use super::track::{Needs, Use};
use crate::base::error::Result;
use crate::base::id::Position;
use crate::base::mutant;
use crate::device::driver::{Action, AtReturn};
use crate::device::memory::Memory;
use std::panic::Location;
use std::sync::MutexGuard;

/// One operation to be enqueued.
#[derive(Debug)]
pub(crate) struct Submission<'a> {
    pub(crate) action: Action<'a>,
    /// The tracks of its accesses, in the order of [`Action::each_access`]. An allocation uses the
    /// memory that it will return.
    pub(crate) uses: &'a [Use<'a>],
    /// The chunk of a pipeline it belongs to.
    pub(crate) chunk: Option<u64>,
    /// Where it was enqueued.
    pub(crate) site: &'static Location<'static>,
    /// Is told the number of a host function before the driver has the function.
    pub(crate) slot: Option<&'a Slot>,
}

impl Submission<'_> {
    /// Whether the uses are those of the action.
    fn agrees(&self) -> bool {
        let mut uses = self.uses.iter();
        let mut same = true;
        self.action.each_access(|memory, range, mode| {
            same &= uses.next().is_some_and(|used| {
                used.mode == mode && used.range == range && range.end <= memory.bytes()
            });
        });
        let new = usize::from(matches!(self.action, Action::Alloc { .. }));
        same && uses.count() == new
    }
}

/// Stamps the memory of an operation as far as that needs no lock; the others come back as bits:
/// an operation has at most 64 accesses, those of a full batch.
#[inline(always)]
pub(super) fn stamp(uses: &[Use<'_>], position: Position, at_return: AtReturn) -> u64 {
    let mut late = 0;
    for (index, access) in uses.iter().enumerate() {
        let read = matches!(at_return, AtReturn::SourcesRead | AtReturn::Staged);
        if read && !access.mode.writes() {
            continue;
        }
        if !access.track.stamp(&access.range, access.mode, position) {
            late |= 1 << index;
        }
    }
    late
}

/// Stamps what is left when no lane is locked.
#[inline(always)]
pub(super) fn stamp_late(uses: &[Use<'_>], position: Position, late: u64, left_out: &[Position]) {
    if late != 0 || !left_out.is_empty() {
        stamp_rest(uses, position, late, left_out);
    }
}

#[inline(never)]
fn stamp_rest(uses: &[Use<'_>], position: Position, late: u64, left_out: &[Position]) {
    for (index, access) in uses.iter().enumerate() {
        if !left_out.is_empty() {
            access.track.leave_out(left_out);
        }
        if late & 1 << index != 0 {
            access.track.stamp_ranged(&access.range, access.mode, position);
        }
    }
}

impl LaneRef {
    /// Enqueues one operation: waits for what its uses need of other lanes, submits it, and stamps
    /// the memory. A failed operation leaves no stamp. Returns its position, and the memory of an
    /// allocation.
    #[inline]
    pub(crate) fn enqueue(
        &self,
        submission: &Submission<'_>,
    ) -> Result<(Position, Option<Memory>)> {
        debug_assert!(submission.agrees(), "{submission:?}");
        callback::refuse(submission.action.label())?;
        if let Some(simulation) = self.driver().simulation() {
            simulation.pause();
        }
        let mut alone = None;
        if let Some(crossed) = self.alone(submission)? {
            let mut state = self.lane().lock();
            if state.is_plain(&self.lane.done) {
                let memory = match self.submit(&state, submission) {
                    Ok(memory) => memory,
                    Err(error) => {
                        drop(state);
                        return Err(self.universe.failed(self.device, error));
                    }
                };
                let position = self.count(&mut state);
                state.last_shared = crossed;
                let late = stamp(submission.uses, position, submission.action.at_return());
                drop(state);
                stamp_late(submission.uses, position, late, &[]);
                return Ok((position, memory));
            }
            alone = Some((crossed, state));
        }
        self.enqueue_among(submission, alone)
            .map_err(|error| self.universe.failed(self.device, error))
    }

    /// Whether an operation needs nothing of other lanes and nothing after it; then, whether two
    /// lanes use any of its memory.
    #[inline(always)]
    fn alone(&self, submission: &Submission<'_>) -> Result<Option<bool>> {
        let action = &submission.action;
        let frees = matches!(action, Action::Free(_));
        if self.legacy.is_some() || frees || action.may_wait() {
            return Ok(None);
        }
        let (mut crossed, mut foreign) = (false, false);
        for access in submission.uses {
            let track = access.track;
            self.universe.own(action.label(), track.universe)?;
            if track.is_manual() {
                continue;
            }
            track.each_user(&access.range, access.mode, |user| foreign |= user.lane != self.id);
            if foreign {
                return Ok(None);
            }
            crossed |= track.crossed_by(self.id);
        }
        Ok(Some(crossed))
    }

    /// Calls the driver, under the lock of the lane.
    #[inline(always)]
    fn submit(&self, state: &State, submission: &Submission<'_>) -> Result<Option<Memory>> {
        let position = Position { lane: self.id, seq: state.seq + 1 };
        if let Some(slot) = submission.slot {
            slot.number(position.seq);
        }
        self.driver().submit(self.stream, &submission.action).inspect_err(|_| {
            if mutant::on(6, "a refused operation leaves its stamp") {
                stamp(submission.uses, position, AtReturn::Enqueued);
            }
        })
    }

    /// Gives the operation that has been enqueued its number.
    #[inline(always)]
    pub(super) fn count(&self, state: &mut State) -> Position {
        state.seq += 1;
        state.used = true;
        let position = Position { lane: self.id, seq: state.seq };
        if !mutant::on(5, "a lane does not know its own operations") {
            state.vector.raise(position);
        }
        state.learn_of_thread(self.universe.id);
        position
    }

    /// Enqueues an operation with everything that it may need around it. `alone` is whether two lanes
    /// use any of its memory, with the lane's lock, if it needs nothing of other lanes.
    #[inline(never)]
    fn enqueue_among(
        &self,
        submission: &Submission<'_>,
        alone: Option<(bool, MutexGuard<'_, State>)>,
    ) -> Result<(Position, Option<Memory>)> {
        let Submission { action, uses, .. } = submission;
        let mut needs = Needs::new();
        let (crossed, held) = match alone {
            // Nothing is locked or asked under the lock: such a lane has no turns, and needs nothing.
            Some((crossed, state)) => (crossed, Some(state)),
            None => (self.needs(submission, &mut needs)?, None),
        };
        // Blocking lanes and the legacy one are in order without waits of ours.
        let turn = match &self.legacy {
            Some(legacy) => Some(self.take_turn(legacy, action.label())?),
            None => None,
        };
        let mut marks = Marks::new();
        if !needs.is_empty() {
            self.marks(turn.as_ref(), &mut needs, &mut marks)?;
        }
        let mut state = held.unwrap_or_else(|| self.lane().lock());
        let mut aside = Aside::default();
        self.before(&mut state, submission, (&needs, &marks), &mut aside)?;
        if action.may_wait() || state.may_be_full(&self.lane.done) {
            return self.enqueue_waiting((submission, crossed), (turn, state), &aside);
        }
        let submitted = self.submit(&state, submission);
        self.enqueued(&aside);
        let memory = submitted?;
        // It is enqueued: whatever fails from here on, the memory is stamped.
        let position = self.count(&mut state);
        // An allocation gives memory at once and may leave nothing in the stream that could wait.
        let turn = turn.as_ref().filter(|_| !matches!(action, Action::Alloc { .. }));
        if let Some(turn) = turn {
            turn.teach(&mut state);
        }
        state.last_shared = crossed;
        self.after(&mut state, submission, position, &aside);
        if let Some(turn) = turn {
            turn.hold_back(&state.vector);
        }
        let late = stamp(uses, position, action.at_return());
        drop(state);
        stamp_late(uses, position, late, &aside.left_out);
        Ok((position, memory))
    }

    #[inline(never)]
    pub(super) fn take_turn<'a>(
        &self,
        legacy: &'a LegacyOrder,
        op: &'static str,
    ) -> Result<Turn<'a>> {
        legacy.own(op)?;
        Ok(legacy.turn(self))
    }

    /// Adds the foreign positions that an operation must come after, as far as the calling thread
    /// does not know them to be complete; whether two lanes use any of its memory.
    #[inline]
    fn needs(&self, submission: &Submission<'_>, needs: &mut Needs) -> Result<bool> {
        let Submission { action, uses, .. } = submission;
        let is_done_at_return = action.at_return() == AtReturn::Done;
        let mut crossed = false;
        let implied = |p: Position| p.lane == self.id;
        for access in *uses {
            let track = access.track;
            self.universe.own(action.label(), track.universe)?;
            if track.is_manual() {
                continue;
            }
            track.users(&access.range, access.mode, implied, needs);
            // What is complete at the return of its call needs no record.
            if !is_done_at_return {
                crossed |= track.crossed_by(self.id);
            }
        }
        if matches!(action, Action::Free(_)) && !mutant::on(7, "a free waits like any other access")
        {
            // A free comes after every user, whoever orders the memory (law A22), and after
            // those that a later one did not wait for.
            for access in *uses {
                access.track.all_users(&access.range, access.mode, implied, needs);
            }
        }
        if !needs.is_empty() {
            thread::with_known(self.universe.id, |known| needs.retain(|p| !known.covers(*p)));
        }
        Ok(crossed)
    }
}
