//! An event of the host device, and the snapshot of a stream that it stands for.
#![forbid(unsafe_code)]

use super::ids::{NodeId, Point};
use crate::base::id::DeviceId;
use crate::base::units::Nanos;
use crate::base::vector_clock::VectorClock;
use crate::device::driver::Timing;

/// An event.
#[derive(Debug)]
pub(in crate::device::host) struct SnapshotEvent {
    pub(super) device: DeviceId,
    pub(super) timing: Timing,
    /// The number of times that the event was recorded. The number tells whether a time belongs to
    /// the last record.
    pub(super) generation: u64,
    pub(super) stands_for: Option<Snapshot>,
    pub(super) time: Option<Nanos>,
}

/// The work that an event stands for since its last record (law A4).
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) point: Point,
    /// The last operation of the snapshot. It may be complete.
    pub(super) node: Option<NodeId>,
    pub(super) clock: VectorClock,
}

impl SnapshotEvent {
    /// Takes the clock of an event that is destroyed or recorded again, to reuse its memory.
    pub(super) fn take_clock(&mut self) -> Option<VectorClock> {
        self.stands_for.take().map(|snapshot| snapshot.clock)
    }
}
