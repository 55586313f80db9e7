//! Words of page-locked memory that the host and a running kernel read and write at the same time.

use super::pinned::{self, PinnedBuffer};
use crate::base::error::Result;
use crate::device::region::HostBytes;
use crate::stream::shared::OpenDevice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Words that the host and a running kernel share. All accesses to the words are atomic, and no
/// code ever takes a guard of the memory. Kernels get the address as a scalar, so the words must
/// exist until the launch is complete.
#[derive(Debug)]
pub(crate) struct HostWords {
    buffer: PinnedBuffer<u32>,
    bytes: HostBytes,
    /// The offset of the first word in `bytes`, in bytes.
    start: u64,
}

impl HostWords {
    /// Allocates `count` words with the value 0.
    #[track_caller]
    pub(crate) fn zeroed(device: &Arc<OpenDevice>, count: usize) -> Result<Self> {
        let buffer = pinned::alloc::<u32>(device, count)?;
        let start = buffer.block.in_memory(&buffer.view().range()).start;
        let bytes = buffer.block.whole().memory().host().expect("page-locked memory").clone();
        let words = Self { buffer, bytes, start };
        (0..count).for_each(|at| words.set(at, 0));
        Ok(words)
    }

    /// The address of the first word, which is the same for the host and for kernels.
    pub(crate) fn address(&self) -> u64 {
        self.buffer.address()
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at < self.buffer.len(), "word {at} of {}", self.buffer.len());
        // SAFETY: the buffer is private, and only this function makes a reference to the bytes of
        // the buffer. So all accesses of the host are atomic. Accesses of kernels are atomic in the
        // scope of the system. This argument does not hold if another function lends the bytes as a
        // slice, or if a twin gets the bytes as an argument.
        unsafe { self.bytes.word(self.start + 4 * at as u64) }
    }

    /// The word with the index `at`. The read acquires: everything that the writer of the word did
    /// before its write happens before this call returns.
    pub(crate) fn get(&self, at: usize) -> u32 {
        self.word(at).load(Ordering::Acquire)
    }

    /// Writes the word with the index `at`.
    pub(crate) fn set(&self, at: usize, value: u32) {
        self.word(at).store(value, Ordering::Release);
    }
}
