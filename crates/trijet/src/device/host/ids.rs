//! The numbers of streams and operations in the engine.
#![forbid(unsafe_code)]

use crate::base::id::{LaneId, Position};
use smallvec::SmallVec;

/// The place of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SlotId(pub(super) u32);

impl SlotId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// An operation by its place in the slab and its number among all of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeId {
    pub(super) order: u64,
    pub(super) at: u32,
}

/// Everything of one stream up to a number.
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

/// Points that a call waits for.
pub(super) type Points = SmallVec<[Point; 2]>;
