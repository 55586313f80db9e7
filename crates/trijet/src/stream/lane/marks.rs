//! Points of a lane that others wait for: events of the user, tickets, the end of a lane, and what
//! the host waits for.
#![forbid(unsafe_code)]

use super::{LaneRef, Mark, plain};
use crate::base::clock::VectorClock;
use crate::base::error::{Error, Result};
use crate::base::id::Position;
use crate::base::ledger::{Mode, OpKind};
use crate::base::mutant;
use crate::device::driver::{Driver, EventHandle, StreamHandle};
use crate::stream::thread;
use crate::stream::timing::{Instant, Recorder};
use crate::stream::track::{Needs, Track};
use crate::stream::universe::Universe;
use std::ops::Range;
use std::sync::Arc;

impl LaneRef {
    /// Makes future work of this lane wait for a user's event that stands for `snapshot`.
    pub(crate) fn wait_event(
        &self,
        event: EventHandle,
        on: Position,
        snapshot: &VectorClock,
    ) -> Result<()> {
        let mut turn = match &self.legacy {
            Some(legacy) => Some(self.take_turn(legacy, "stream wait")?),
            None => None,
        };
        let mut state = self.lane().lock();
        self.driver().stream_wait(self.stream, event)?;
        if !mutant::on(8, "a lane learns nothing of a wait for an event") {
            state.vector.join(snapshot);
        }
        if let Some(own) = &mut state.own_vector {
            own.join(snapshot);
        }
        if let Some(turn) = &mut turn {
            turn.hold_back(&state.vector);
        }
        state.last_end = None;
        let position = Position { lane: self.id, seq: state.seq + 1 };
        let kind = OpKind::Wait { event: event.0, on };
        state.note(|| plain(kind.clone(), self.device, position));
        Ok(())
    }

    /// Runs `record`, which records a user's event on the stream, and returns what it stands for.
    pub(crate) fn record_event(
        &self,
        event: EventHandle,
        record: impl FnOnce(&dyn Driver, StreamHandle) -> Result<()>,
    ) -> Result<(Position, VectorClock)> {
        // Law A14: a record on the legacy stream stands for the blocking streams as well.
        let _turn = match &self.legacy {
            Some(legacy) => Some(self.take_turn(legacy, "event record")?),
            None => None,
        };
        let mut state = self.lane().lock();
        record(self.driver(), self.stream)?;
        state.own_vector = None;
        let position = Position { lane: self.id, seq: state.seq };
        let kind = OpKind::Record { event: event.0 };
        state.note(|| plain(kind.clone(), self.device, position));
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
        if state.vector == VectorClock::new() {
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

    /// What is complete when the stream is: what the lane has enqueued or waited for so far; with
    /// the legacy stream, what the blocking ones have (law A14).
    pub(crate) fn known(&self, op: &'static str) -> Result<VectorClock> {
        let _turn = match &self.legacy {
            Some(legacy) => Some(self.take_turn(legacy, op)?),
            None => None,
        };
        let state = self.lane().lock();
        if mutant::on(10, "the end of a blocking stream stands for the legacy stream") {
            return Ok(state.vector.clone());
        }
        Ok(state.own_vector.as_ref().unwrap_or(&state.vector).clone())
    }

    /// Records this lane from now on. It gives time zero of its device, if nobody did.
    pub(crate) fn begin_recording(&self, recorder: &Arc<Recorder>) -> Result<()> {
        let state = self.lane().lock();
        let origin = Instant::mark(&self.universe.driver, self.device, self.stream)?;
        drop(state);
        recorder.begin(self.device, &origin);
        self.lane().attach(recorder);
        Ok(())
    }

    /// Ends a recording of this lane.
    pub(crate) fn end_recording(&self, recorder: &Arc<Recorder>) {
        self.lane().detach(recorder);
    }

    /// The mark that answers for all of the lane's work when its stream is gone.
    pub(crate) fn end(&self) -> Result<Option<Arc<Mark>>> {
        match &self.legacy {
            // Its operations are recorded at once, and no other thread can record more.
            Some(legacy) if !legacy.is_own() => Ok(self.lane().lock().checkpoints.back().cloned()),
            _ => self.mark(),
        }
    }

    /// Gives the lane back when its stream goes. The checkpoints stay until the next stream opens
    /// the lane. Without an end (the device is lost) the lane can never be known to be free: it is
    /// left out of circulation, and who needs its work gets an error.
    pub(crate) fn retire(&self, end: Result<Option<Arc<Mark>>>) -> Result<()> {
        let mut state = self.lane().lock();
        state.stream = None;
        state.gone = end.as_ref().err().map(Error::again);
        drop(state);
        self.universe.retire(self.id, end?);
        Ok(())
    }
}

impl Universe {
    /// The oldest mark of the position's lane that covers it: a checkpoint, or one recorded now.
    pub(crate) fn mark_for(&self, position: Position) -> Result<Arc<Mark>> {
        let mut state = self.lane(position.lane).lock();
        let index = state.checkpoints.partition_point(|mark| mark.position.seq < position.seq);
        let early = u64::from(mutant::on(11, "a checkpoint before the needed operation will do"));
        let index = if early == 1 { index.saturating_sub(1) } else { index };
        if let Some(mark) = state.checkpoints.get(index) {
            return Ok(Arc::clone(mark));
        }
        state.record(self, position.lane)
    }

    /// Makes the calling thread wait for the operations that an access by the host must follow.
    pub(crate) fn host_wait_for(
        &self,
        track: &Track,
        range: Range<u64>,
        mode: Mode,
    ) -> Result<()> {
        let mut needs = Needs::new();
        thread::with_known(self.id, |known| {
            track.all_users(&range, mode, |p| known.covers(p), &mut needs);
        });
        if mutant::on(12, "the host does not wait for one of the users") {
            needs.truncate(needs.len().saturating_sub(1));
        }
        for need in needs {
            let mark = self.mark_for(need)?;
            self.host_wait(&mark)?;
        }
        Ok(())
    }

    /// Makes the calling thread wait for `mark`, and know it.
    pub(crate) fn host_wait(&self, mark: &Mark) -> Result<()> {
        self.driver.event_synchronize(mark.event)?;
        self.learn(&mark.snapshot);
        Ok(())
    }

    /// The calling thread has observed `snapshot` to be complete.
    pub(crate) fn learn(&self, snapshot: &VectorClock) {
        thread::learn(self.id, snapshot);
        self.observe(snapshot);
    }
}
