//! A mark: an event that the library recorded on a lane, with the positions that it stands for.
#![forbid(unsafe_code)]

use crate::base::id::{DeviceId, Position};
use crate::base::vector_clock::VectorClock;
use crate::device::driver::{Driver, EventHandle};
use crate::log::calling;
use crate::log::tracers::Tracers;
use smallvec::SmallVec;
use std::sync::Arc;

/// An event recorded on a lane, with the positions that it stands for.
#[derive(Debug)]
pub(crate) struct Mark {
    pub(super) driver: Arc<dyn Driver>,
    pub(super) tracers: Arc<Tracers>,
    pub(crate) event: EventHandle,
    pub(crate) device: DeviceId,
    /// The positions that are complete when the event is complete.
    pub(crate) snapshot: VectorClock,
    /// For each lane, the last position of `snapshot` with an operation that may wait for the
    /// program, see [`lane`](super::lane).
    pub(super) host_fns: VectorClock,
    pub(crate) position: Position,
}

/// The work that an event of the program stands for.
#[derive(Debug)]
pub(crate) struct EventWork {
    /// The position of the record.
    pub(crate) position: Position,
    /// The positions that are complete when the event is complete.
    pub(crate) clock: VectorClock,
    /// For each lane, the last position of `clock` with an operation that may wait for the program.
    pub(super) host_fns: VectorClock,
}

impl Drop for Mark {
    fn drop(&mut self) {
        // The call never blocks (law A12). After a context error there is nothing to destroy. A
        // host function must not call the driver (law A28), so an event that is dropped in a host
        // function leaks.
        if !calling::inside() {
            self.tracers.note_gone(self.event, self.device);
            drop(self.driver.event_destroy(self.event));
        }
    }
}

/// Marks to wait for.
pub(crate) type Marks = SmallVec<[Arc<Mark>; 10]>;
