//! A growing range, with memory mapped at its front, and the list of ranges without a user.
#![forbid(unsafe_code)]

use super::space::nodes::Users;
use crate::device::driver::RangeSizes;
use crate::device::memory::Memory;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A range grows by its size divided by this number, within the limits that `GrowingRange::unit`
/// states.
const PARTS: u64 = 16;
/// Maximum number of growing ranges per heap. The place of a byte is a number that identifies the
/// byte in the heap. For a byte of a growing range, the place contains this maximum plus the number
/// of the range. So no byte of an ordinary range has the same place.
pub(super) const RANGES_MAX: u32 = 1 << 15;

/// A range of addresses, with memory mapped at its front.
#[derive(Debug)]
pub(crate) struct GrowingRange {
    pub(super) memory: Memory,
    pub(super) number: u32,
    /// The number of mapped bytes. It changes only under the lock of the heap.
    pub(super) mapped: AtomicU64,
    /// Whether the range has no user and is in the list of parked ranges. The flag is accessed
    /// under the lock of the heap.
    pub(super) is_parked: AtomicBool,
    /// The end of each mapped piece of memory, in bytes from the start of the range. A thread holds
    /// the lock while it maps memory into this range or unmaps memory of this range. Enqueue calls
    /// do not take the lock.
    pub(super) pieces: Mutex<Vec<u64>>,
    /// The number of bytes, from the start of the range, that the mapper thread was asked to map.
    pub(super) asked: AtomicU64,
    /// Whether the last attempt to map memory ahead of its use failed.
    pub(super) refused: AtomicBool,
}

/// A parked range, and the operations that used the range last.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) range: Arc<GrowingRange>,
    pub(super) users: Users,
}

/// The parked ranges of a heap, and the numbers of all ranges.
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

    /// The place of the first byte of the range: a number that no byte of another range of the heap
    /// has.
    pub(crate) fn place(&self) -> u64 {
        u64::from(RANGES_MAX + self.number) << 48
    }

    /// The number of mapped bytes.
    #[inline]
    pub(crate) fn mapped(&self) -> u64 {
        self.mapped.load(Ordering::Acquire)
    }

    /// If `used` bytes are used, the number of bytes from the start of the range that should be
    /// mapped ahead. `None` if enough memory is mapped, if a thread was already asked to map it, or
    /// if mapping ahead failed before.
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

    /// The number of bytes by which the range grows at a time: at least one granule, and at most
    /// half a step of the heap.
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
