//! Waits of lanes, and records of events on lanes.
//!
//! A lane waits for marks: events that the library recorded on other lanes. To wait for a position,
//! the lane uses the oldest mark that covers the position. If there is none, an event is recorded.
//! After the wait, the lane vector includes everything that the mark stands for.
#![forbid(unsafe_code)]

use super::domain::DroppedWait;
use super::gate::Maker;
use super::lane::{NotedCall, State};
use super::lane_ref::LaneRef;
use super::legacy::Turn;
use super::mark::{EventWork, Mark, Marks};
use super::submission::Submission;
use super::track::NeededPositions;
use crate::base::error::Result;
use crate::base::id::Position;
use crate::base::ledger::{Asked, Effect, Op, StreamMark, Waited};
use crate::base::vector_clock::VectorClock;
use crate::device::driver::EventHandle;
use crate::log::entry::{HostWait, calls_in, plain};
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Sorts `needs`, the positions for which a lane must wait, and in the same order `marks`, which
/// has the mark of each position. A position comes before each position that its mark covers. So a
/// wait for the mark serves the covered positions too.
fn widest_first(needs: &mut NeededPositions, marks: &mut Marks) {
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
    /// Removes from `needs` the positions that this lane follows already. Adds the marks of the
    /// remaining positions to `marks`.
    #[inline(never)]
    pub(super) fn marks(
        &self,
        turn: Option<&Turn<'_>>,
        needs: &mut NeededPositions,
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
            marks.push(self.domain.mark_for(*need)?);
        }
        widest_first(needs, marks);
        Ok(())
    }

    /// Enqueues the waits for `marks`. Adds to `left_out` the positions for which waits are left
    /// out on request.
    pub(super) fn wait_for(
        &self,
        state: &mut State,
        submission: &Submission<'_>,
        needs: &[Position],
        marks: &[Arc<Mark>],
        left_out: &mut NeededPositions,
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
            // The waits of a free are never left out, because an early free would damage memory of
            // other owners.
            let droppable = submission.action.kind().effect() != Effect::Frees;
            if self.domain.count_wait(droppable, about) {
                // The lane vector does not include the operation whose wait is left out. So a lane
                // that waits for the present operation does not count the other operation as
                // complete.
                left_out.push(*need);
                continue;
            }
            state.follow_host(self.gate(), self.id, &mark.host_fns)?;
            self.gate().wait(self.stream, mark.event)?;
            let by = Asked::Ordering;
            let kind = StreamMark::Wait { event: mark.event.0, on: mark.position, by };
            state.note(|| plain(kind, self.device, self.class(), self.gate().log.domain, position));
            (state.last_end, state.used) = (None, true);
            state.note_awaited();
            if mark.position.seq > need.seq {
                self.domain.over_waits.fetch_add(1, Ordering::Relaxed);
            }
            state.vector.join(&mark.snapshot);
        }
        Ok(())
    }

    /// Makes future work of this lane wait for an event of the program. `work` is the work that the
    /// event stands for; `None` for an event that the library did not make.
    pub(crate) fn wait_event(
        &self,
        event: EventHandle,
        work: Option<&EventWork>,
        site: &'static Location<'static>,
    ) -> Result<()> {
        self.refuse_recorded("stream wait")?;
        let turn = match &self.legacy {
            Some(legacy) => Some(self.take_turn(legacy, "stream wait")?),
            None => None,
        };
        let mut state = self.lane().lock();
        let called = state.called(self.driver());
        match work {
            Some(work) => state.follow_host(self.gate(), self.id, &work.host_fns)?,
            None => state.record_before_host(self.gate(), self.id)?,
        }
        self.gate().wait(self.stream, event)?;
        let on = if let Some(work) = work {
            state.vector.join(&work.clock);
            work.position
        } else {
            // An event of other code may stand for any positions, and its work may wait for the
            // program.
            let next = Position { lane: self.id, seq: state.seq + 1 };
            state.host_fns.raise(next);
            state.has_unknown_wait = true;
            Position { lane: self.id, seq: 0 }
        };
        state.note_awaited();
        state.learn_of_thread(self.gate().log.domain);
        if let Some(turn) = &turn {
            turn.hold_back(&state.vector);
        }
        (state.last_end, state.used) = (None, true);
        self.note_wait(&state, event, on, NotedCall { begin: called, site });
        Ok(())
    }

    /// Records an event for the work of the lane so far, because the next operation waits for work
    /// of other code, which may wait for the program.
    pub(crate) fn record_before_unknown(&self) -> Result<()> {
        self.lane().lock().record_before_host(self.gate(), self.id)
    }

    /// Marks the last operation of the lane as one that waits for work of other code.
    pub(crate) fn note_unknown_wait(&self) {
        let mut state = self.lane().lock();
        let last = Position { lane: self.id, seq: state.seq };
        state.host_fns.raise(last);
        state.has_unknown_wait = true;
    }

    fn note_wait(&self, state: &State, event: EventHandle, on: Position, called: NotedCall) {
        let position = Position { lane: self.id, seq: state.seq + 1 };
        let kind = StreamMark::Wait { event: event.0, on, by: Asked::User };
        let domain = self.gate().log.domain;
        self.note_call_about(state, called, || {
            plain(kind, self.device, self.class(), domain, position)
        });
    }

    /// Notes a call of the program about an event, if the lane is traced.
    fn note_call_about(&self, state: &State, called: NotedCall, op: impl Fn() -> Op) {
        if !state.tracers.is_empty() {
            calls_in(&self.gate().log.tracers);
            state.note_called(self.driver(), called, op);
        }
    }

    /// Notes a wait for an event that was never recorded. The driver would do nothing (law A5), so
    /// the driver is not called.
    pub(crate) fn note_wait_for_nothing(
        &self,
        event: EventHandle,
        site: &'static Location<'static>,
    ) {
        let state = self.lane().lock();
        let on = Position { lane: self.id, seq: 0 };
        self.note_wait(&state, event, on, NotedCall { begin: state.called(self.driver()), site });
    }

    /// Records an event of the program on the stream. Returns the work that the event stands for.
    pub(crate) fn record_event(
        &self,
        event: EventHandle,
        site: &'static Location<'static>,
    ) -> Result<EventWork> {
        self.refuse_recorded("event record")?;
        // Law A14: a record on the legacy stream also stands for the work of the blocking streams.
        let _turn = match &self.legacy {
            Some(legacy) => Some(self.take_turn(legacy, "event record")?),
            None => None,
        };
        let mut state = self.lane().lock();
        let called = state.called(self.driver());
        self.gate().record(self.stream, event)?;
        state.learn_of_thread(self.gate().log.domain);
        let position = Position { lane: self.id, seq: state.seq };
        let kind = StreamMark::Record { event: event.0, by: Asked::User };
        let domain = self.gate().log.domain;
        self.note_call_about(&state, NotedCall { begin: called, site }, || {
            plain(kind, self.device, self.class(), domain, position)
        });
        let (clock, host_fns) = (state.vector.clone(), state.host_fns.clone());
        Ok(EventWork { position, clock, host_fns })
    }

    /// A mark that stands for everything enqueued in the stream so far, including waits. `None` if
    /// nothing was enqueued.
    pub(crate) fn mark(&self) -> Result<Option<Arc<Mark>>> {
        let _turn = match &self.legacy {
            Some(legacy) => Some(self.take_turn(legacy, "event record")?),
            None => None,
        };
        let mut state = self.lane().lock();
        // A default stream may stand for work that this lane did not enqueue. The legacy stream
        // stands for work of the blocking streams. The default stream of a thread stands for work
        // of earlier handles of the same stream. A stream that the program made may contain work
        // that the lane has not seen.
        let is_seen = self.stream.maker == Maker::Library;
        if !state.used && !state.class.is_default() && is_seen {
            return Ok(None);
        }
        match state.checkpoints.back().filter(|_| is_seen && !state.has_unknown_wait) {
            // A checkpoint does not stand for a wait that was enqueued after it.
            Some(mark) if mark.snapshot == state.vector => Ok(Some(Arc::clone(mark))),
            _ => state.record(self.gate(), self.id).map(Some),
        }
    }

    /// Everything that the lane has enqueued or waited for. The host is about to wait for the
    /// stream, and will know all of this to be complete. For the legacy stream, this includes the
    /// work of the blocking streams (law A14).
    pub(crate) fn known(
        &self,
        op: &'static str,
        site: &'static Location<'static>,
    ) -> Result<(VectorClock, HostWait<'_>)> {
        self.refuse_recorded(op)?;
        let _turn = match &self.legacy {
            Some(legacy) => Some(self.take_turn(legacy, op)?),
            None => None,
        };
        let state = self.lane().lock();
        let held = Some(Position { lane: self.id, seq: state.seq });
        let noted =
            self.domain.log().note_sync(Waited::Stream, self.device, self.class(), held, site);
        Ok((state.vector.clone(), noted))
    }
}
