//! The modes of a heap: which memory an allocation takes if several would do.
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

/// The mode of the heap of a device: which memory an allocation takes if its stream has none to use again at once.
///
/// In every mode the order is kept: the first write of an allocation follows the operations that used its bytes
/// before and may be pending.
///
/// ```
/// use trijet::{Device, HeapMode, Select};
/// let device = Device::open(Select::Host(0))?;
/// device.set_heap_mode(HeapMode::Footprint)?;
/// let (a, b) = (device.stream()?, device.stream()?);
/// let mut x = a.alloc::<u8>(1 << 20)?;
/// a.fill_bytes(&mut x, 1)?;
/// drop(x);
/// // The memory of `x`, behind the fill, and no new memory.
/// b.alloc::<u8>(1 << 20)?;
/// assert_eq!(device.heap_stats().expect("it has a heap").new, 1);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HeapMode {
    /// Memory whose users are complete; then new memory of the device; then memory in use, after whose users the first
    /// write of the allocation comes.
    #[default]
    Speed,
    /// Memory in use comes before new memory, so the heap holds less and streams wait for each other.
    Footprint,
    /// Nothing depends on which operations are complete: a program that makes the same calls in the same order gets the
    /// same ranges of its heap in each run. Memory in use by other streams is taken when the device has no new memory.
    Deterministic,
    /// Memory in use by other streams is never taken: an allocation fails instead.
    NeverWait,
}

impl HeapMode {
    const ALL: [Self; 4] = [Self::Speed, Self::Footprint, Self::Deterministic, Self::NeverWait];

    /// Whether an allocation may take memory because operations were found complete.
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
