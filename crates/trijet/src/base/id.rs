//! Identifiers. Newtypes, so that a lane number can never be passed where a device is meant.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// A device by its ordinal within its driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId(pub u32);

/// A lane: a queue of operations that execute in order (a stream).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LaneId(pub u32);

/// One allocation, from its birth to its free. Never reused, so that a recycled address cannot
/// be mistaken for the memory that lived there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BlockId(pub u64);

impl BlockId {
    /// The next identifier of the process.
    pub(crate) fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The place of one operation in the order of the enqueue calls: its lane and its number there.
/// Numbers start at 1; 0 means "nothing yet".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// The lane the operation was enqueued on.
    pub lane: LaneId,
    /// Its number in that lane.
    pub seq: u64,
}

/// Bits of a packed position that hold the number in the lane: 2^48 operations take months.
const SEQ_BITS: u32 = 48;

impl Position {
    /// The position as one number; larger for later ones of its lane, and never 0.
    #[inline]
    pub(crate) fn pack(self) -> u64 {
        debug_assert!(self.seq > 0 && self.seq >> SEQ_BITS == 0 && self.lane.0 < 1 << 16);
        u64::from(self.lane.0) << SEQ_BITS | self.seq
    }

    /// The position behind a packed one; `None` for 0.
    #[inline]
    pub(crate) fn unpack(packed: u64) -> Option<Self> {
        let lane = LaneId(u32::try_from(packed >> SEQ_BITS).unwrap_or(u32::MAX));
        (packed > 0).then_some(Self { lane, seq: packed & ((1 << SEQ_BITS) - 1) })
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {}", self.0)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lane {} #{}", self.lane.0, self.seq)
    }
}
