//! The modes of a heap. The mode decides which memory an allocation gets if there are several
//! choices.
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

/// The mode of the heap of a device. If an allocation finds no memory that its stream can use again
/// at once, the mode decides which other memory the allocation gets.
///
/// Every mode keeps the order: the first write of an allocation follows the pending operations that
/// use its bytes.
///
/// ```
/// use trijet::{Device, HeapMode, Select};
/// let device = Device::open(Select::Host(0))?;
/// device.set_heap_mode(HeapMode::Footprint)?;
/// let (a, b) = (device.stream()?, device.stream()?);
/// let mut x = a.alloc::<u8>(1 << 20)?;
/// a.fill_bytes(&mut x, 1)?;
/// drop(x);
/// // Takes the memory of `x`, ordered after the fill, and no new memory.
/// b.alloc::<u8>(1 << 20)?;
/// assert_eq!(device.heap_stats().expect("it has a heap").new, 1);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HeapMode {
    /// Prefers memory with complete users, then new memory of the device, then memory with pending
    /// users. In the last case, the first write of the allocation waits for the pending users.
    #[default]
    Speed,
    /// Prefers memory with pending users to new memory. So the heap has less memory, and streams
    /// wait for each other.
    Footprint,
    /// The choice does not depend on which operations are complete. A program that makes the same
    /// calls in the same order gets the same ranges of its heap in each run. If the device has no
    /// new memory, an allocation gets memory that other streams use.
    Deterministic,
    /// Never takes memory that other streams use. An allocation without other memory fails.
    NeverWait,
}

impl HeapMode {
    const ALL: [Self; 4] = [Self::Speed, Self::Footprint, Self::Deterministic, Self::NeverWait];

    /// Whether an allocation may choose memory because a query found its users complete.
    pub(crate) fn asks_for_completion(self) -> bool {
        self != Self::Deterministic
    }
}

impl fmt::Display for HeapMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Speed => "speed",
            Self::Footprint => "footprint",
            Self::Deterministic => "deterministic",
            Self::NeverWait => "never-wait",
        })
    }
}

/// A mode that threads read and set.
#[derive(Debug, Default)]
pub(super) struct SharedMode(AtomicU8);

impl SharedMode {
    #[inline]
    pub(super) fn get(&self) -> HeapMode {
        HeapMode::ALL[usize::from(self.0.load(Ordering::Relaxed))]
    }

    pub(super) fn set(&self, mode: HeapMode) {
        self.0.store(mode as u8, Ordering::Relaxed);
    }
}
