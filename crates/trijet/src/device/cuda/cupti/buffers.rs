//! Buffers that go to CUPTI empty and come back full, and are used again.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Words of a buffer: 4 MiB, some twenty thousand kernels, written as one piece.
const BUFFER_WORDS: usize = (4 << 20) / 8;
/// Buffers in the world: 1 GiB. CUPTI drops records, and counts them, when it gets no more.
const BUFFERS_MAX: usize = 256;
/// Buffers that wait for their next use.
const SPARE_MAX: usize = 16;

/// What a request is answered with that gets no buffer: an address and a length in bytes.
pub(super) const NONE: (*mut u8, usize) = (std::ptr::null_mut(), 0);

/// Buffers of one recording.
pub(super) struct Buffers {
    spare: Mutex<Vec<Box<[u64]>>>,
    /// The addresses of those that CUPTI has.
    lent: Mutex<Vec<usize>>,
    /// Those that were made and not given up.
    made: AtomicUsize,
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

    /// An empty buffer, unless there are too many already.
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

    /// Has a buffer ready whose pages exist, so that the first operations do not wait for them.
    pub(super) fn warm(&self) {
        if let Some(mut buffer) = self.empty() {
            // Zeroes that are written again: fresh ones come from pages that do not exist yet.
            buffer.fill(std::hint::black_box(0));
            self.keep(buffer);
        }
    }

    /// Keeps a buffer for its next use, or gives it up.
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

    /// The buffer that CUPTI gives back; `None` for one that another tool in this process gave out.
    pub(super) fn take_back(&self, buffer: *mut u8) -> Option<Box<[u64]>> {
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        let place = lent.iter().position(|&other| other == buffer.addr())?;
        lent.swap_remove(place);
        let words = std::ptr::slice_from_raw_parts_mut(buffer.cast::<u64>(), BUFFER_WORDS);
        // SAFETY: the address was lent and not yet taken back, so the pointer is that of a box of
        // this length which `lend` turned into one; CUPTI uses it no more once it is here.
        Some(unsafe { Box::from_raw(words) })
    }

    /// How often CUPTI was refused one.
    pub(super) fn declined(&self) -> u64 {
        self.declined.load(Ordering::Relaxed)
    }
}
