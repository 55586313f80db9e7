//! The number of allocated bytes of a heap, and the maximum of this number. Threads count without
//! the lock of the heap, because an allocation of a block that a lane kept does not take the lock.
#![forbid(unsafe_code)]

use super::space::nodes::GRANULE;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of allocated bytes. The size of each allocation is rounded up to granules.
#[derive(Debug, Default)]
pub(crate) struct Live {
    now: AtomicU64,
    /// The maximum of `now` since the last call of [`Live::reset_high`].
    high: AtomicU64,
    /// The maximum of `now` since the last call of [`Live::end_period`].
    period_high: AtomicU64,
}

fn rounded(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(GRANULE)
}

impl Live {
    /// Adds an allocation of `bytes`.
    #[inline]
    pub(crate) fn add(&self, bytes: u64) {
        self.add_mapped(rounded(bytes));
    }

    /// Adds memory that was mapped for a growing buffer.
    #[inline]
    pub(super) fn add_mapped(&self, bytes: u64) {
        let now = self.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        for high in [&self.high, &self.period_high] {
            if high.load(Ordering::Relaxed) < now {
                high.fetch_max(now, Ordering::Relaxed);
            }
        }
    }

    /// Subtracts a freed allocation of `bytes`.
    #[inline]
    pub(crate) fn subtract(&self, bytes: u64) {
        self.subtract_mapped(rounded(bytes));
    }

    /// Subtracts the memory of a growing buffer that was dropped.
    #[inline]
    pub(super) fn subtract_mapped(&self, bytes: u64) {
        self.now.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The number of allocated bytes.
    pub(crate) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// The maximum number of allocated bytes since the last call of [`Live::reset_high`].
    pub(crate) fn high(&self) -> u64 {
        self.high.load(Ordering::Relaxed)
    }

    pub(crate) fn reset_high(&self) {
        self.high.store(self.now(), Ordering::Relaxed);
    }

    /// Ends a period. Returns the maximum number of allocated bytes in this period.
    pub(crate) fn end_period(&self) -> u64 {
        self.period_high.swap(self.now(), Ordering::Relaxed)
    }
}
