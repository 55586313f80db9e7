//! A growing range: addresses with memory at their front, and the list of those that have no user now.
#![forbid(unsafe_code)]

use super::nodes::Users;
use crate::device::driver::RangeSizes;
use crate::device::memory::Memory;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The parts of a range that it grows by, at most.
const PARTS: u64 = 16;
/// The most growing ranges of a heap. Each has a number in the upper half of the places of a heap.
pub(super) const RANGES_MAX: u32 = 1 << 15;

/// A range of addresses with memory at its front.
#[derive(Debug)]
pub(crate) struct GrowingRange {
    pub(super) memory: Memory,
    pub(super) number: u32,
    /// The bytes that have memory. Changed under the lock of the heap.
    pub(super) mapped: AtomicU64,
    /// Whether it is parked. Used under the lock of the heap.
    pub(super) is_parked: AtomicBool,
    /// The end of each piece of memory. The lock is held while memory is mapped or unmapped here, and by nothing that an
    /// operation waits for.
    pub(super) pieces: Mutex<Vec<u64>>,
    /// The bytes up to which a thread maps memory ahead.
    pub(super) asked: AtomicU64,
    /// Whether the device refused memory ahead of its use.
    pub(super) refused: AtomicBool,
}

/// A range that has no user now.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) range: Arc<GrowingRange>,
    pub(super) users: Users,
}

/// The parked ranges of a heap, and the numbers of all.
#[derive(Debug, Default)]
pub(super) struct Parking {
    pub(super) parked: Vec<Parked>,
    pub(super) numbers: u32,
    pub(super) unused: Vec<u32>,
}

impl GrowingRange {
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// A number for its first byte, which no byte of another range has.
    pub(crate) fn place(&self) -> u64 {
        u64::from(RANGES_MAX + self.number) << 48
    }

    /// The bytes that have memory.
    #[inline]
    pub(crate) fn mapped(&self) -> u64 {
        self.mapped.load(Ordering::Acquire)
    }

    /// The bytes up to which memory should be mapped ahead if `used` bytes are used; `None` if there is enough, or a
    /// thread was asked for it.
    #[inline]
    pub(crate) fn ahead(&self, used: u64, sizes: RangeSizes) -> Option<u64> {
        let (mapped, unit) = (self.mapped(), self.unit(sizes));
        let wanted = (mapped + unit).min(self.memory.bytes());
        let is_near = used + unit / 2 >= mapped && wanted > mapped;
        if !is_near || self.refused.load(Ordering::Relaxed) {
            return None;
        }
        (self.asked.fetch_max(wanted, Ordering::Relaxed) < wanted).then_some(wanted)
    }

    /// The bytes by which it grows.
    pub(super) fn unit(&self, sizes: RangeSizes) -> u64 {
        let (least, most) = (sizes.granule.0, (sizes.step.0 / 2).max(sizes.granule.0));
        (self.memory.bytes() / PARTS).next_multiple_of(least).clamp(least, most)
    }
}

impl Parking {
    pub(super) fn take_number(&mut self) -> Option<u32> {
        self.unused.pop().or_else(|| {
            (self.numbers < RANGES_MAX).then(|| {
                self.numbers += 1;
                self.numbers - 1
            })
        })
    }
}
