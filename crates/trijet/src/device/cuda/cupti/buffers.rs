//! Buffers for the records of CUPTI, which fills and returns them.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The words of a buffer: 4 MiB, enough for about twenty thousand kernels.
const BUFFER_WORDS: usize = (4 << 20) / 8;
/// The most buffers: 1 GiB. Without a buffer CUPTI drops records, and counts them.
const BUFFERS_MAX: usize = 256;
/// The most buffers that are kept for later use.
const SPARE_MAX: usize = 16;

/// The address and the length that refuse a request for a buffer.
pub(super) const NONE: (*mut u8, usize) = (std::ptr::null_mut(), 0);

/// The buffers of one recorder.
pub(super) struct Buffers {
    spare: Mutex<Vec<Box<[u64]>>>,
    /// The addresses of the buffers that CUPTI has.
    lent: Mutex<Vec<usize>>,
    /// The number of buffers that exist.
    made: AtomicUsize,
    /// The number of requests that were refused.
    declined: AtomicU64,
}

impl Buffers {
    pub(super) fn new() -> Self {
        Self {
            spare: Mutex::new(Vec::with_capacity(SPARE_MAX)),
            lent: Mutex::new(Vec::with_capacity(BUFFERS_MAX)),
            made: AtomicUsize::new(0),
            declined: AtomicU64::new(0),
        }
    }

    /// An empty buffer; `None` if there are [`BUFFERS_MAX`] already.
    fn empty(&self) -> Option<Box<[u64]>> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if spare.is_some() {
            return spare;
        }
        if self.made.fetch_add(1, Ordering::Relaxed) >= BUFFERS_MAX {
            self.made.fetch_sub(1, Ordering::Relaxed);
            self.declined.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(vec![0; BUFFER_WORDS].into_boxed_slice())
    }

    /// Makes a buffer and touches its pages, so that the first operations do not wait for the
    /// pages.
    pub(super) fn warm(&self) {
        if let Some(mut buffer) = self.empty() {
            // The pages of fresh zeros do not exist before they are written.
            buffer.fill(std::hint::black_box(0));
            self.keep(buffer);
        }
    }

    /// Keeps a buffer for later use, or frees it.
    pub(super) fn keep(&self, buffer: Box<[u64]>) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_MAX {
            spare.push(buffer);
        } else {
            self.made.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A buffer for CUPTI: its address and its length in bytes, or [`NONE`].
    pub(super) fn lend(&self) -> (*mut u8, usize) {
        let Some(buffer) = self.empty() else { return NONE };
        let words = Box::into_raw(buffer).cast::<u8>();
        self.lent.lock().unwrap_or_else(PoisonError::into_inner).push(words.addr());
        (words, BUFFER_WORDS * 8)
    }

    /// The buffer that CUPTI returns; `None` for a buffer of another tool in this process.
    pub(super) fn take_back(&self, buffer: *mut u8) -> Option<Box<[u64]>> {
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        let place = lent.iter().position(|&other| other == buffer.addr())?;
        lent.swap_remove(place);
        let words = std::ptr::slice_from_raw_parts_mut(buffer.cast::<u64>(), BUFFER_WORDS);
        // SAFETY: the address is that of a box of this length that `lend` gave away, and was
        // removed from the list just now, so the box is made once. CUPTI does not use a buffer that
        // it has returned: false if it returned one while a thread still wrote a record into it.
        Some(unsafe { Box::from_raw(words) })
    }

    /// The number of requests for a buffer that were refused.
    pub(super) fn declined(&self) -> u64 {
        self.declined.load(Ordering::Relaxed)
    }
}
