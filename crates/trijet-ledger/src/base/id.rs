//! Identifiers. Each is a type of its own, so a lane cannot be passed where a device is expected.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// A device, by its number within its driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId(pub u32);

/// A lane: the part of a stream that gives its operations an order. A lane serves one stream after
/// another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LaneId(pub u32);

/// An allocation, until it is freed. A number is never reused, so memory at a reused address is not
/// mistaken for the memory that was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BlockId(pub u64);

impl BlockId {
    /// The next unused identifier of the process.
    #[inline]
    pub fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The position of an operation: its lane, and its number in that lane. Numbers start at 1; 0 is
/// the position before the first operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// The lane of the operation.
    pub lane: LaneId,
    /// The number of the operation in its lane.
    pub seq: u64,
}

/// The bits of a packed position that hold the number in the lane. 2^48 operations take months.
const SEQ_BITS: u32 = 48;

impl Position {
    /// The position as one number, which is never 0, and larger for later positions of the lane.
    #[inline]
    pub fn pack(self) -> u64 {
        debug_assert!(self.seq > 0 && self.seq >> SEQ_BITS == 0 && self.lane.0 < 1 << 16);
        u64::from(self.lane.0) << SEQ_BITS | self.seq
    }

    /// The position with this packed number; `None` for 0.
    #[inline]
    pub fn unpack(packed: u64) -> Option<Self> {
        let lane = LaneId(u32::try_from(packed >> SEQ_BITS).unwrap_or(u32::MAX));
        (packed > 0).then_some(Self { lane, seq: packed & ((1 << SEQ_BITS) - 1) })
    }
}

/// Adds `position` to a list that keeps only the latest position of each lane.
pub fn keep_latest<A: smallvec::Array<Item = Position>>(
    positions: &mut SmallVec<A>,
    position: Position,
) {
    match positions.iter_mut().find(|kept| kept.lane == position.lane) {
        Some(kept) => kept.seq = kept.seq.max(position.seq),
        None => positions.push(position),
    }
}

impl fmt::Display for DeviceId {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {}", self.0)
    }
}

impl fmt::Display for Position {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lane {} #{}", self.lane.0, self.seq)
    }
}
