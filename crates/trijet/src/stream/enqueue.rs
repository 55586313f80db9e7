//! Enqueuing an operation: the one door to the driver.
//!
//! Most operations use memory that their own lane used last: they cost a look at its stamps, the lane's
//! lock and the driver's call. What needs more (waits for other lanes, a record of the operation before,
//! entries of a record) goes by the second way, and what may wait inside the driver by the third, see
//! `waiting`.
#![forbid(unsafe_code)]

use super::around::Aside;
use super::callback;
use super::default::{LegacyOrder, Turn};
use super::lane::{LaneRef, Marks, State};
use super::thread;
use super::track::{Needs, Use};
use crate::base::error::Result;
use crate::base::id::Position;
use crate::base::ledger::{Engine, OpKind};
use crate::base::mutant;
use crate::device::driver::{Driver, StreamHandle};
use std::panic::Location;
use std::sync::MutexGuard;

/// What an operation is, for records and errors.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) kind: OpKind,
    pub(crate) engine: Engine,
    pub(crate) label: &'static str,
    pub(crate) chunk: Option<u64>,
    pub(crate) site: &'static Location<'static>,
    pub(crate) returns: Returns,
    pub(crate) call: Call,
}

/// Whether the driver may keep the call that enqueues an operation until other work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Enqueues,
    /// Laws A17 and A18.
    MayWait,
}

/// What is true when the call that enqueues an operation returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Returns {
    /// Nothing more: it is enqueued.
    AtOnce,
    /// What the operation reads has been read (law A19).
    SourcesRead,
    /// So it has, and everything before the operation is complete (law A18).
    Staged,
    /// The operation is complete (laws A17 and A18).
    Done,
}

impl Returns {
    /// Whether everything before the operation is complete.
    pub(super) const fn completes_earlier(self) -> bool {
        matches!(self, Self::Staged | Self::Done)
    }
}

/// Stamps the memory of an operation as far as that needs no lock; the others come back as bits:
/// an operation has at most 64 accesses, those of a full batch.
#[inline(always)]
pub(super) fn stamp(uses: &[Use<'_>], position: Position, returns: Returns) -> u64 {
    let mut late = 0;
    for (index, access) in uses.iter().enumerate() {
        let read = matches!(returns, Returns::SourcesRead | Returns::Staged);
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
    /// Enqueues one operation: waits for what `uses` needs of other lanes, runs `run` on the
    /// stream, and stamps the memory. A failed operation leaves no stamp.
    #[inline]
    pub(crate) fn enqueue<R>(
        &self,
        spec: &Spec,
        uses: &[Use<'_>],
        run: impl FnOnce(&dyn Driver, StreamHandle) -> Result<R>,
    ) -> Result<(Position, R)> {
        self.enqueue_at(spec, uses, |driver, stream, _| run(driver, stream))
    }

    /// Like [`LaneRef::enqueue`], for what has to know its position.
    #[inline]
    pub(crate) fn enqueue_at<R>(
        &self,
        spec: &Spec,
        uses: &[Use<'_>],
        run: impl FnOnce(&dyn Driver, StreamHandle, Position) -> Result<R>,
    ) -> Result<(Position, R)> {
        callback::refuse(spec.label)?;
        self.driver().pause();
        let mut alone = None;
        if let Some(crossed) = self.alone(spec, uses)? {
            let mut state = self.lane().lock();
            if state.is_plain(&self.lane.done) {
                let result = match self.call(&state, uses, run) {
                    Ok(result) => result,
                    Err(error) => {
                        drop(state);
                        return Err(self.universe.failed(self.device, error));
                    }
                };
                let position = self.count(&mut state);
                state.last_shared = crossed;
                let late = stamp(uses, position, spec.returns);
                drop(state);
                stamp_late(uses, position, late, &[]);
                return Ok((position, result));
            }
            alone = Some((crossed, state));
        }
        self.enqueue_among(spec, uses, alone, run)
            .map_err(|error| self.universe.failed(self.device, error))
    }

    /// Whether an operation needs nothing of other lanes and nothing after it; then, whether two
    /// lanes use any of its memory.
    #[inline(always)]
    fn alone(&self, spec: &Spec, uses: &[Use<'_>]) -> Result<Option<bool>> {
        let frees = matches!(spec.kind, OpKind::Free);
        if self.legacy.is_some() || spec.call == Call::MayWait || frees {
            return Ok(None);
        }
        let (mut crossed, mut foreign) = (false, false);
        for access in uses {
            let track = access.track;
            self.universe.own(spec.label, track.universe)?;
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
    fn call<R>(
        &self,
        state: &State,
        uses: &[Use<'_>],
        run: impl FnOnce(&dyn Driver, StreamHandle, Position) -> Result<R>,
    ) -> Result<R> {
        let position = Position { lane: self.id, seq: state.seq + 1 };
        run(self.driver(), self.stream, position).inspect_err(|_| {
            if mutant::on(6, "a refused operation leaves its stamp") {
                stamp(uses, position, Returns::AtOnce);
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
    fn enqueue_among<R>(
        &self,
        spec: &Spec,
        uses: &[Use<'_>],
        alone: Option<(bool, MutexGuard<'_, State>)>,
        run: impl FnOnce(&dyn Driver, StreamHandle, Position) -> Result<R>,
    ) -> Result<(Position, R)> {
        let mut needs = Needs::new();
        let (crossed, held) = match alone {
            // Nothing is locked or asked under the lock: such a lane has no turns, and needs nothing.
            Some((crossed, state)) => (crossed, Some(state)),
            None => (self.needs(spec, uses, &mut needs)?, None),
        };
        // Blocking lanes and the legacy one are in order without waits of ours.
        let turn = match &self.legacy {
            Some(legacy) => Some(self.take_turn(legacy, spec.label)?),
            None => None,
        };
        let mut marks = Marks::new();
        if !needs.is_empty() {
            self.marks(turn.as_ref(), &mut needs, &mut marks)?;
        }
        let mut state = held.unwrap_or_else(|| self.lane().lock());
        let mut aside = Aside::default();
        self.before(&mut state, spec, (&needs, &marks), &mut aside)?;
        if spec.call == Call::MayWait || state.may_be_full(&self.lane.done) {
            return self.enqueue_waiting((spec, uses, crossed), (turn, state), &aside, run);
        }
        let result = self.call(&state, uses, run);
        self.enqueued(&aside);
        let result = result?;
        // It is enqueued: whatever fails from here on, the memory is stamped.
        let position = self.count(&mut state);
        // An allocation gives memory at once and may leave nothing in the stream that could wait.
        let turn = turn.as_ref().filter(|_| !matches!(spec.kind, OpKind::Alloc));
        if let Some(turn) = turn {
            turn.teach(&mut state);
        }
        state.last_shared = crossed;
        self.after(&mut state, spec, uses, position, &aside);
        if let Some(turn) = turn {
            turn.hold_back(&state.vector);
        }
        let late = stamp(uses, position, spec.returns);
        drop(state);
        stamp_late(uses, position, late, &aside.left_out);
        Ok((position, result))
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
    fn needs(&self, spec: &Spec, uses: &[Use<'_>], needs: &mut Needs) -> Result<bool> {
        let mut crossed = false;
        let implied = |p: Position| p.lane == self.id;
        for access in uses {
            let track = access.track;
            self.universe.own(spec.label, track.universe)?;
            if track.is_manual() {
                continue;
            }
            track.users(&access.range, access.mode, implied, needs);
            // What is complete at the return of its call needs no record.
            if spec.returns != Returns::Done {
                crossed |= track.crossed_by(self.id);
            }
        }
        if matches!(spec.kind, OpKind::Free) && !mutant::on(7, "a free waits like any other access")
        {
            // A free comes after every user, whoever orders the memory (law A22), and after
            // those that a later one did not wait for.
            for access in uses {
                access.track.all_users(&access.range, access.mode, implied, needs);
            }
        }
        if !needs.is_empty() {
            thread::with_known(self.universe.id, |known| needs.retain(|p| !known.covers(*p)));
        }
        Ok(crossed)
    }
}
