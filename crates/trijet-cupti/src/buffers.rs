//! Buffers for the records of CUPTI. CUPTI asks for a buffer, fills it and returns it.
//!
//! A request for a buffer is declined if no buffer is free and no new one can be allocated. CUPTI
//! then drops records, and counts them. A failed allocation never ends the process.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The size of a buffer, enough for the records of about forty thousand kernels. CUPTI exchanges
/// full buffers on a thread of the program. Buffers of only 1 MiB would therefore slow a program
/// down by 1 %.
const BUFFER_BYTES: usize = 8 << 20;
/// The alignment of a buffer. CUPTI demands a multiple of 8.
const ALIGN: usize = 64;
/// Maximum number of buffers, 256 MiB in total.
pub const BUFFERS_MAX: usize = 32;
/// Maximum number of spare buffers, which are used again for later requests.
const SPARE_MAX: usize = 4;

const LAYOUT: Layout = match Layout::from_size_align(BUFFER_BYTES, ALIGN) {
    Ok(layout) => layout,
    Err(_) => panic!("the size or the alignment of a buffer is invalid"),
};

/// The address and the length that decline a request of CUPTI for a buffer.
pub const NONE: (*mut u8, usize) = (std::ptr::null_mut(), 0);

/// A buffer that this process owns. Every byte is initialised.
#[derive(Debug)]
pub struct Buffer(*mut u8);

// SAFETY: the pointer is the only one to its allocation, as in a `Box`.
unsafe impl Send for Buffer {}

impl Buffer {
    /// A buffer of zeros; `None` if there is no memory.
    fn new() -> Option<Self> {
        // SAFETY: the layout is not empty.
        let bytes = unsafe { alloc_zeroed(LAYOUT) };
        (!bytes.is_null()).then_some(Self(bytes))
    }

    /// The first `valid` bytes of the buffer. If the buffer has fewer bytes, all of them.
    #[must_use]
    pub fn bytes(&self, valid: usize) -> &[u8] {
        // SAFETY: the allocation has at least this length, and is initialised. The slice borrows
        // the buffer. This does not hold if CUPTI still writes to a buffer that it has returned.
        unsafe { std::slice::from_raw_parts(self.0, valid.min(BUFFER_BYTES)) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the allocation was made with this layout, and has no other owner.
        unsafe { dealloc(self.0, LAYOUT) }
    }
}

/// The buffers of one recorder.
#[derive(Debug)]
pub struct Buffers {
    spare: Mutex<Vec<Buffer>>,
    /// The addresses of the buffers that CUPTI has.
    lent: Mutex<Vec<usize>>,
    /// The number of buffers that exist: spare buffers, buffers that CUPTI has, and full buffers.
    made: AtomicUsize,
    /// The number of requests for a buffer that were declined.
    declined: AtomicU64,
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            spare: Mutex::new(Vec::with_capacity(SPARE_MAX)),
            lent: Mutex::new(Vec::with_capacity(BUFFERS_MAX)),
            made: AtomicUsize::new(0),
            declined: AtomicU64::new(0),
        }
    }
}

impl Buffers {
    /// An empty buffer. `None` if there are already [`BUFFERS_MAX`] buffers, or if there is no
    /// memory.
    fn empty(&self) -> Option<Buffer> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if spare.is_some() {
            return spare;
        }
        let room = self.made.fetch_add(1, Ordering::Relaxed) < BUFFERS_MAX;
        let made = room.then(Buffer::new).flatten();
        if made.is_none() {
            self.made.fetch_sub(1, Ordering::Relaxed);
            self.declined.fetch_add(1, Ordering::Relaxed);
        }
        made
    }

    /// Makes a buffer and writes to its pages, so that the first operations of the program do not
    /// wait for the pages.
    pub fn warm(&self) {
        if let Some(buffer) = self.empty() {
            for page in (0..BUFFER_BYTES).step_by(4096) {
                // SAFETY: the byte is inside the allocation, which this thread owns. The pages of
                // zeros exist only after they are written. The write is volatile, so that the
                // compiler does not leave it out.
                unsafe { buffer.0.wrapping_add(page).write_volatile(0) };
            }
            self.keep(buffer);
        }
    }

    /// Stores the buffer for later use. If there are already `SPARE_MAX` spare buffers, frees it.
    pub fn keep(&self, buffer: Buffer) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_MAX {
            spare.push(buffer);
        } else {
            self.made.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A buffer for CUPTI: its address and its length in bytes, or [`NONE`].
    pub fn lend(&self) -> (*mut u8, usize) {
        let Some(buffer) = self.empty() else { return NONE };
        let buffer = std::mem::ManuallyDrop::new(buffer);
        // The list has room for `BUFFERS_MAX` addresses, and there are at most that many buffers.
        self.lent.lock().unwrap_or_else(PoisonError::into_inner).push(buffer.0.addr());
        (buffer.0, BUFFER_BYTES)
    }

    /// The buffer that CUPTI returns. `None` for a buffer of another tool in this process.
    pub fn take_back(&self, buffer: *mut u8) -> Option<Buffer> {
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        let place = lent.iter().position(|&other| other == buffer.addr())?;
        lent.swap_remove(place);
        // The address was just removed from the list, so the returned buffer is the only owner of
        // the memory.
        Some(Buffer(buffer))
    }

    /// The number of requests for a buffer that were declined since the last call.
    pub fn take_declined(&self) -> u64 {
        self.declined.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_once_and_a_foreign_one_never() {
        let buffers = Buffers::default();
        let (address, length) = buffers.lend();
        assert_eq!(length, BUFFER_BYTES);
        assert!(buffers.take_back(std::ptr::dangling_mut()).is_none());
        let buffer = buffers.take_back(address).expect("the buffer was lent");
        assert!(buffers.take_back(address).is_none(), "a buffer comes back only once");
        assert_eq!(buffer.bytes(usize::MAX).len(), BUFFER_BYTES);
        buffers.keep(buffer);
        assert_eq!(buffers.lend().0, address, "a spare buffer is used again");
        drop(buffers.take_back(address));
    }

    #[test]
    fn requests_beyond_the_limit_are_declined_and_counted() {
        let buffers = Buffers::default();
        let lent: Vec<_> = (0..BUFFERS_MAX).map(|_| buffers.lend().0).collect();
        assert!(lent.iter().all(|buffer| !buffer.is_null()));
        assert_eq!((buffers.lend(), buffers.take_declined()), (NONE, 1));
        assert_eq!(buffers.take_declined(), 0, "a later recording has its own number");
        lent.into_iter().for_each(|buffer| drop(buffers.take_back(buffer)));
    }
}
