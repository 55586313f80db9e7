//! Handles of objects, and access to the tables of objects.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A `CUresult`: an argument is wrong.
pub(super) const INVALID_VALUE: c_int = 1;

/// A handle that differs from all earlier handles.
pub(super) fn handle() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0x1000);
    NEXT.fetch_add(0x1000_0000, Ordering::Relaxed)
}

/// A table that is used by one thread at a time.
pub(super) fn lock<T>(values: &'static Mutex<T>) -> MutexGuard<'static, T> {
    values.lock().unwrap_or_else(PoisonError::into_inner)
}
