//! The identifiers of streams and operations in the queues of a host driver.
#![forbid(unsafe_code)]

use crate::base::id::{LaneId, Position};
use smallvec::SmallVec;

/// The slot of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SlotId(pub(super) u32);

impl SlotId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// An operation: its index in the table of nodes, and its number among all operations of the
/// driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeId {
    pub(super) order: u64,
    pub(super) at: u32,
}

/// A point of a stream: its first `seq` operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) slot: SlotId,
    pub(super) seq: u64,
}

impl Point {
    pub(super) fn position(self) -> Position {
        Position { lane: LaneId(self.slot.0), seq: self.seq }
    }
}

/// The points that a call waits for.
pub(super) type Points = SmallVec<[Point; 2]>;
