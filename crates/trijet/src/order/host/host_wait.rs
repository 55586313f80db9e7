//! Waits of host threads: for the operations that use memory, and for room in a stream.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::{Mode, StreamClass, Waited};
use crate::base::vector_clock::VectorClock;
use crate::device::driver::Readiness;
use crate::log::entry::HostWait;
use crate::log::thread;
use crate::order::domain::Domain;
use crate::order::lane::PENDING_MAX;
use crate::order::mark::{Mark, Marks};
use crate::order::track::{NeededPositions, Track};
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

impl Domain {
    /// The oldest mark that covers the position: a checkpoint of its lane, or a new mark.
    pub(crate) fn mark_for(&self, position: Position) -> Result<Arc<Mark>> {
        let mut state = self.lane(position.lane).lock();
        if let Some(mark) = state.mark_of(position.seq) {
            return Ok(Arc::clone(mark));
        }
        state.record(&self.gate, position.lane)
    }

    /// Makes the calling thread wait for the operations that an access by the host must follow.
    pub(crate) fn host_wait_for(
        &self,
        track: &Track,
        range: Range<u64>,
        mode: Mode,
        site: &'static Location<'static>,
    ) -> Result<()> {
        for need in self.host_needs(track, range, mode) {
            let mark = self.host_mark(need)?;
            self.host_wait(&mark, site)?;
        }
        Ok(())
    }

    /// The operations that an access by the host must follow, without those that the calling thread
    /// knows to be complete.
    fn host_needs(&self, track: &Track, range: Range<u64>, mode: Mode) -> NeededPositions {
        let mut needs = NeededPositions::new();
        thread::with_known(self.id(), |known| {
            track.all_users(&range, mode, |p| known.covers(p), &mut needs);
        });
        needs
    }

    /// The marks of the operations that an access by the host must follow.
    pub(crate) fn host_marks(&self, track: &Track, range: Range<u64>, mode: Mode) -> Result<Marks> {
        let needs = self.host_needs(track, range, mode);
        needs.into_iter().map(|need| self.host_mark(need)).collect()
    }

    /// Returns the mark of an operation for which the calling thread waits. If a device is lost,
    /// notes the loss.
    pub(crate) fn host_mark(&self, need: Position) -> Result<Arc<Mark>> {
        let device = || self.lane(need.lane).device().unwrap_or(DeviceId(0));
        self.mark_for(need).map_err(|error| self.failed(device(), error))
    }

    /// Makes the calling thread wait for `mark`. Afterwards the thread knows that everything that
    /// the mark stands for is complete.
    pub(crate) fn host_wait(&self, mark: &Mark, site: &'static Location<'static>) -> Result<()> {
        let noted = self.note_mark(mark, site);
        let synchronized = self.gate.synchronize_event(mark.device, mark.event);
        synchronized.map_err(|error| self.failed(mark.device, error))?;
        noted.succeeded();
        self.learn(&mark.snapshot);
        Ok(())
    }

    /// Whether the stream of a lane is known to have room for a few more calls (law A41). Callers
    /// that must not wait ask this first. Queries the driver if necessary.
    pub(crate) fn has_room(&self, lane: LaneId) -> bool {
        let of_lane = self.lane(lane);
        let state = of_lane.lock();
        if !state.may_be_full(&of_lane.done) {
            return true;
        }
        let Some(stream) = state.open_stream() else { return true };
        let end = Position { lane, seq: state.seq };
        let mark = state.mark_of(state.seq - PENDING_MAX).cloned();
        // Another thread may drop the stream, and destroys it only after it has had this lock. The
        // CUDA driver must not be asked about a destroyed stream. A host device knows which streams
        // exist, but may run and drop functions of the program during a query, which may need the
        // lock.
        let held = self.driver().simulation().is_none().then_some(state);
        let answer = self.gate.query_stream(stream);
        drop(held);
        if matches!(answer, Ok(Readiness::Ready)) {
            // A ledger has no entry for this answer. So while something is traced, the answer is
            // not noted.
            if !self.log().tracers.is_on() {
                of_lane.done.raise(end.seq);
            }
            return true;
        }
        let Some(mark) = mark else { return false };
        let is_done =
            matches!(self.gate.query_event(mark.device, mark.event), Ok(Readiness::Ready));
        if is_done {
            self.settle(&mark);
        }
        is_done
    }

    /// Whether a free of memory can be enqueued in the stream of the lane `home` without a wait for
    /// room in a stream. `users` are the operations that the free must follow.
    pub(crate) fn has_room_for(&self, home: LaneId, users: &NeededPositions) -> bool {
        self.has_room(home) && self.has_room_for_marks(users.iter().filter(|n| n.lane != home))
    }

    /// Whether every position has a mark, or is in a stream that has room for the record of a mark.
    pub(crate) fn has_room_for_marks<'a>(
        &self,
        mut users: impl Iterator<Item = &'a Position>,
    ) -> bool {
        let has_mark = |need: &Position| self.lane(need.lane).lock().mark_of(need.seq).is_some();
        users.all(|need| has_mark(need) || self.has_room(need.lane))
    }

    /// Notes that the calling thread waits for a mark, or queries it.
    pub(crate) fn note_mark(&self, mark: &Mark, site: &'static Location<'static>) -> HostWait<'_> {
        let what = Waited::Event(mark.event.0);
        self.log().note_sync(what, mark.device, StreamClass::NonBlocking, Some(mark.position), site)
    }

    /// Notes that the calling thread has found `snapshot` to be complete.
    pub(crate) fn learn(&self, snapshot: &VectorClock) {
        thread::learn(self.id(), snapshot);
        self.observe(snapshot);
    }
}
