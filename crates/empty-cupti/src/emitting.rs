//! The records that this library reports, and the buffers of the recorder that get them.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) type Request = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
pub(crate) type Complete = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

/// The size of each record in bytes: the size of the record of a kernel in CUDA 13.0.
pub(crate) const RECORD_BYTES: usize = 208;
pub(crate) const KERNEL: u32 = 10;
pub(crate) const CALL: u32 = 5;
/// The time of the first record, and the time between two kernels.
pub(crate) const FIRST_NS: u64 = 1_000;
pub(crate) const PAIR_NS: u64 = 10_000;
/// The name of every kernel.
pub(crate) const NAME: &CStr = c"stand_in_kernel";

/// The registered callbacks, and the buffer that is being filled.
pub(crate) struct State {
    pub(crate) callbacks: Option<(Request, Complete)>,
    pub(crate) enabled: u64,
    /// The buffer that is being filled: its address, its length in bytes, and the number of used
    /// bytes.
    pub(crate) buffer: Option<(usize, usize, usize)>,
    /// The full buffers that wait for a forced flush, with the same fields as `buffer`.
    pub(crate) held: Vec<(usize, usize, usize)>,
    /// Whether full buffers are held until a forced flush.
    pub(crate) holds: bool,
    pub(crate) subscribed: bool,
}

pub(crate) static STATE: Mutex<State> = Mutex::new(State {
    callbacks: None,
    enabled: 0,
    buffer: None,
    held: Vec::new(),
    holds: false,
    subscribed: false,
});
pub(crate) static DROPPED: AtomicU64 = AtomicU64::new(0);

pub(crate) fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether records of a kind are collected.
pub(crate) fn is_enabled(kind: u32) -> bool {
    state().enabled & (1 << kind) != 0
}

/// Reports `count` records that `next` makes, if records of `kind` are collected.
pub(crate) fn emit(kind: u32, count: u64, mut next: impl FnMut() -> [u8; RECORD_BYTES]) {
    for _ in 0..count {
        let mut state = state();
        let Some((request, complete)) = state.callbacks else { return };
        if state.enabled & (1 << kind) == 0 {
            return;
        }
        if let Some((address, length, used)) = state.buffer.filter(|b| b.2 + RECORD_BYTES > b.1) {
            state.buffer = None;
            if state.holds {
                state.held.push((address, length, used));
            } else {
                drop(state);
                let buffer = ptr::with_exposed_provenance_mut(address);
                complete(ptr::null_mut(), 0, buffer, length, used);
                state = self::state();
            }
        }
        if state.buffer.is_none() {
            drop(state);
            let (mut address, mut length, mut records) = (ptr::null_mut(), 0, 0);
            request(&raw mut address, &raw mut length, &raw mut records);
            state = self::state();
            if address.is_null() {
                DROPPED.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            state.buffer = Some((address.expose_provenance(), length, 0));
        }
        if let Some((address, _, used)) = &mut state.buffer {
            let bytes = next();
            let at = ptr::with_exposed_provenance_mut::<u8>(*address + *used);
            // SAFETY: this library has borrowed the buffer until it returns the buffer. The buffer
            // has room for one more record after the used records.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), at, RECORD_BYTES) };
            *used += RECORD_BYTES;
        }
    }
}
