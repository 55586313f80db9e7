//! Waiting: what a lane or a host thread waits for, and what it knows then.
//!
//! A lane waits for marks: events that were recorded on other lanes. It takes the oldest one that
//! covers a position, or has one recorded, and knows everything that the mark stands for.
#![forbid(unsafe_code)]

use super::default::Turn;
use super::enqueue::Submission;
use super::lane::{LaneRef, Mark, Marks, PENDING_MAX, State};
use super::noted::{Noted, calls_in, plain};
use super::ready::{Point, Points};
use super::thread;
use super::timing::Reading;
use super::track::{Needs, Track};
use super::universe::{DroppedWait, Universe};
use crate::base::clock::VectorClock;
use crate::base::error::Result;
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::{Asked, Mode, Op, OpKind, StreamClass, Waited};
use crate::base::mutant;
use crate::device::driver::{Action, Driver, EventHandle, Readiness, StreamHandle};
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Puts a mark that covers another need before that need, which then needs no wait of its own.
fn widest_first(needs: &mut Needs, marks: &mut Marks) {
    for at in 0..needs.len() {
        let covered =
            |i: usize| (at..needs.len()).any(|j| j != i && marks[j].snapshot.covers(needs[i]));
        if let Some(widest) = (at..needs.len()).find(|i| !covered(*i)) {
            needs.swap(at, widest);
            marks.swap(at, widest);
        }
    }
}

impl LaneRef {
    /// The marks of the positions that this lane does not know yet; the others go.
    #[inline(never)]
    pub(super) fn marks(
        &self,
        turn: Option<&Turn<'_>>,
        needs: &mut Needs,
        marks: &mut Marks,
    ) -> Result<()> {
        let implied = |need: Position| turn.is_some_and(|turn| turn.implies(need));
        {
            let state = self.lane().lock();
            needs.retain(|need| !state.vector.covers(*need));
        }
        if turn.is_some() {
            needs.retain(|need| !implied(*need));
        }
        for need in needs.iter() {
            marks.push(self.universe.mark_for(*need)?);
        }
        widest_first(needs, marks);
        Ok(())
    }

    /// Enqueues the waits, and adds to `left_out` what was left out on request.
    pub(super) fn wait_for(
        &self,
        state: &mut State,
        submission: &Submission<'_>,
        (needs, marks): (&[Position], &[Arc<Mark>]),
        left_out: &mut Needs,
    ) -> Result<()> {
        for (need, mark) in needs.iter().zip(marks) {
            if state.vector.covers(*need) {
                continue;
            }
            let position = Position { lane: self.id, seq: state.seq + 1 };
            let about = || DroppedWait {
                waiter: submission.action.label(),
                chunk: submission.chunk,
                position,
                on: mark.position,
            };
            // A free that comes too early would damage others' memory: its waits stay.
            let droppable = !matches!(submission.action, Action::Free(_));
            if self.universe.count_wait(droppable, about) {
                // Left out on request. The lane knows nothing more than before, so that nobody
                // who waits for it believes that the other operation is complete.
                left_out.push(*need);
                continue;
            }
            if mutant::on(2, "a wait between lanes is believed and not enqueued") {
                state.vector.join(&mark.snapshot);
                continue;
            }
            self.driver().stream_wait(self.stream, mark.event)?;
            let by = Asked::Ordering;
            let kind = OpKind::Wait { event: mark.event.0, on: mark.position, by };
            state.note(|| {
                plain(kind.clone(), self.device, self.class(), (self.universe.id, position))
            });
            (state.last_end, state.used) = (None, true);
            if mark.position.seq > need.seq {
                self.universe.over_waits.fetch_add(1, Ordering::Relaxed);
            }
            if !mutant::on(3, "a lane learns nothing of its waits") {
                state.vector.join(&mark.snapshot);
            }
        }
        Ok(())
    }

    /// Makes future work of this lane wait for a user's event that stands for `snapshot`.
    pub(crate) fn wait_event(
        &self,
        event: EventHandle,
        (on, snapshot): (Position, &VectorClock),
        site: &'static Location<'static>,
    ) -> Result<()> {
        let turn = match &self.legacy {
            Some(legacy) => Some(self.take_turn(legacy, "stream wait")?),
            None => None,
        };
        let mut state = self.lane().lock();
        let called = state.called(self.driver());
        self.driver().stream_wait(self.stream, event)?;
        if !mutant::on(8, "a lane learns nothing of a wait for an event") {
            state.vector.join(snapshot);
        }
        state.learn_of_thread(self.universe.id);
        if let Some(turn) = &turn {
            turn.hold_back(&state.vector);
        }
        (state.last_end, state.used) = (None, true);
        self.note_wait(&state, (event, on), (called, site));
        Ok(())
    }

    fn note_wait(
        &self,
        state: &State,
        (event, on): (EventHandle, Position),
        called: (Option<Reading>, &'static Location<'static>),
    ) {
        let position = Position { lane: self.id, seq: state.seq + 1 };
        let kind = OpKind::Wait { event: event.0, on, by: Asked::User };
        let at = (self.universe.id, position);
        self.note_call_about(state, called, || plain(kind.clone(), self.device, self.class(), at));
    }

    /// Appends a user's call about an event to the records of this lane, if there are any.
    fn note_call_about(
        &self,
        state: &State,
        called: (Option<Reading>, &'static Location<'static>),
        op: impl Fn() -> Op,
    ) {
        if !state.recorders.is_empty() {
            calls_in(&self.universe.recorders);
            state.note_called(self.driver(), called, op);
        }
    }

    /// A wait for an event that was never recorded. The driver would do nothing (law A5), so it is
    /// not called, but the record has it.
    pub(crate) fn note_wait_for_nothing(
        &self,
        event: EventHandle,
        site: &'static Location<'static>,
    ) {
        let state = self.lane().lock();
        let on = Position { lane: self.id, seq: 0 };
        self.note_wait(&state, (event, on), (state.called(self.driver()), site));
    }

    /// Runs `record`, which records a user's event on the stream, and returns what it stands for.
    pub(crate) fn record_event(
        &self,
        event: EventHandle,
        site: &'static Location<'static>,
        record: impl FnOnce(&dyn Driver, StreamHandle) -> Result<()>,
    ) -> Result<(Position, VectorClock)> {
        // Law A14: a record on the legacy stream stands for the blocking streams as well.
        let _turn = match &self.legacy {
            Some(legacy) => Some(self.take_turn(legacy, "event record")?),
            None => None,
        };
        let mut state = self.lane().lock();
        let called = state.called(self.driver());
        record(self.driver(), self.stream)?;
        state.learn_of_thread(self.universe.id);
        let position = Position { lane: self.id, seq: state.seq };
        let kind = OpKind::Record { event: event.0, by: Asked::User };
        let at = (self.universe.id, position);
        self.note_call_about(&state, (called, site), || {
            plain(kind.clone(), self.device, self.class(), at)
        });
        Ok((position, state.vector.clone()))
    }

    /// A mark that stands for everything enqueued so far, waits included; `None` when that is
    /// nothing.
    pub(crate) fn mark(&self) -> Result<Option<Arc<Mark>>> {
        let _turn = match &self.legacy {
            Some(legacy) => Some(self.take_turn(legacy, "event record")?),
            None => None,
        };
        let mut state = self.lane().lock();
        // The legacy stream stands for the blocking ones too, and that of a thread for what its earlier
        // handles were given.
        let is_default = matches!(state.class, StreamClass::Legacy | StreamClass::PerThread);
        if !state.used && !is_default {
            return Ok(None);
        }
        match state.checkpoints.back() {
            // A checkpoint of the last operation does not stand for a wait after it.
            Some(mark)
                if mark.snapshot == state.vector
                    || (mark.position.seq == state.seq
                        && mutant::on(9, "a ticket forgets waits after the last operation")) =>
            {
                Ok(Some(Arc::clone(mark)))
            }
            _ => state.record(&self.universe, self.id).map(Some),
        }
    }

    /// What the lane has enqueued or waited for so far; with the legacy stream, what the blocking
    /// ones have (law A14).
    pub(crate) fn known(
        &self,
        op: &'static str,
        site: &'static Location<'static>,
    ) -> Result<(VectorClock, Noted<'_>)> {
        let turn = match &self.legacy {
            Some(legacy) => Some(self.take_turn(legacy, op)?),
            None => None,
        };
        let mut state = self.lane().lock();
        if let Some(turn) = &turn {
            turn.at_end(&mut state);
        }
        let held = Some(Position { lane: self.id, seq: state.seq });
        let noted =
            self.universe.note_sync(Waited::Stream, (self.device, self.class(), held), site);
        Ok((state.vector.clone(), noted))
    }
}

impl Universe {
    /// The oldest mark of the position's lane that covers it: a checkpoint, or one recorded now.
    pub(crate) fn mark_for(&self, position: Position) -> Result<Arc<Mark>> {
        let mut state = self.lane(position.lane).lock();
        if let Some(mark) = state.mark_of(position.seq) {
            return Ok(Arc::clone(mark));
        }
        state.record(self, position.lane)
    }

    /// Makes the calling thread wait for the operations that an access by the host must follow.
    pub(crate) fn host_wait_for(
        &self,
        (track, range): (&Track, Range<u64>),
        mode: Mode,
        site: &'static Location<'static>,
    ) -> Result<()> {
        for need in self.host_needs(track, range, mode) {
            let mark = self.host_mark(need)?;
            self.host_wait(&mark, site)?;
        }
        Ok(())
    }

    /// What an access by the host must come after, beside what the calling thread knows to be
    /// complete.
    fn host_needs(&self, track: &Track, range: Range<u64>, mode: Mode) -> Needs {
        let mut needs = Needs::new();
        thread::with_known(self.id, |known| {
            track.all_users(&range, mode, |p| known.covers(p), &mut needs);
        });
        if mutant::on(12, "the host does not wait for one of the users") {
            needs.truncate(needs.len().saturating_sub(1));
        }
        needs
    }

    /// The same as points to be awaited.
    pub(crate) fn host_points(
        &self,
        track: &Track,
        range: Range<u64>,
        mode: Mode,
    ) -> Result<Points> {
        let needs = self.host_needs(track, range, mode);
        needs.into_iter().map(|need| self.host_mark(need).map(Point::Mark)).collect()
    }

    /// A mark that the calling thread waits for: a loss is reported here.
    fn host_mark(&self, need: Position) -> Result<Arc<Mark>> {
        let device = || self.lane(need.lane).device().unwrap_or(DeviceId(0));
        self.mark_for(need).map_err(|error| self.failed(device(), error))
    }

    /// Makes the calling thread wait for `mark`, and know it.
    pub(crate) fn host_wait(&self, mark: &Mark, site: &'static Location<'static>) -> Result<()> {
        let noted = self.note_mark(mark, site);
        self.driver.event_synchronize(mark.event).map_err(|error| noted.failed(error))?;
        noted.succeeded();
        self.learn(&mark.snapshot);
        Ok(())
    }

    /// Whether the stream of a lane is known to have room for a few calls more (law A41), for those that
    /// must not wait. If that is not known, the driver is asked.
    pub(crate) fn has_room(&self, lane: LaneId) -> bool {
        let of_lane = self.lane(lane);
        let (stream, end, mark) = {
            let state = of_lane.lock();
            if !state.may_be_full(&of_lane.done) {
                return true;
            }
            let Some(stream) = state.open_stream() else { return true };
            let end = Position { lane, seq: state.seq };
            (stream, end, state.mark_of(state.seq - PENDING_MAX).cloned())
        };
        if matches!(self.driver.stream_query(stream), Ok(Readiness::Ready)) {
            of_lane.done.raise(end.seq);
            return true;
        }
        let Some(mark) = mark else { return false };
        let is_done = matches!(self.driver.event_query(mark.event), Ok(Readiness::Ready));
        if is_done {
            self.observe(&mark.snapshot);
        }
        is_done
    }

    /// Whether a free of memory with these users may be enqueued without waiting for room: a user
    /// without a mark is recorded in its stream.
    pub(crate) fn has_room_for(&self, home: LaneId, users: &Needs) -> bool {
        let has_mark = |need: &Position| self.lane(need.lane).lock().mark_of(need.seq).is_some();
        let other = users.iter().filter(|need| need.lane != home && !has_mark(need));
        self.has_room(home) && other.into_iter().all(|need| self.has_room(need.lane))
    }

    /// The calling thread waits or asks for a mark.
    pub(crate) fn note_mark(&self, mark: &Mark, site: &'static Location<'static>) -> Noted<'_> {
        let on = (mark.device, StreamClass::NonBlocking, Some(mark.position));
        self.note_sync(Waited::Event(mark.event.0), on, site)
    }

    /// The calling thread has observed `snapshot` to be complete.
    pub(crate) fn learn(&self, snapshot: &VectorClock) {
        thread::learn(self.id, snapshot);
        self.observe(snapshot);
    }
}
