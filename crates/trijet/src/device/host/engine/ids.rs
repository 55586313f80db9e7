//! The identifiers of streams and operations in the queues of a host driver.
#![forbid(unsafe_code)]

use crate::base::id::{LaneId, Position};
use smallvec::SmallVec;

/// The index of a stream's slot among the slots of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::device::host) struct SlotId(pub(in crate::device::host) u32);

impl SlotId {
    pub(in crate::device::host) fn index(self) -> usize {
        self.0 as usize
    }
}

/// An operation: its index in the table of nodes, and its number among all operations of the
/// driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::device::host) struct NodeId {
    pub(in crate::device::host) order: u64,
    pub(in crate::device::host) at: u32,
}

/// A point of a stream: the point after its first `seq` operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::device::host) struct Point {
    pub(in crate::device::host) slot: SlotId,
    pub(in crate::device::host) seq: u64,
}

impl Point {
    pub(in crate::device::host) fn position(self) -> Position {
        Position { lane: LaneId(self.slot.0), seq: self.seq }
    }
}

/// The points that a call waits for.
pub(in crate::device::host) type Points = SmallVec<[Point; 2]>;
