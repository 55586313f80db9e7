//! Threads that cannot be started, as if the system had reached its limit of threads.

use crate::fault::{number, refuse, variable};
use libc::{EAGAIN, c_int, c_void, pthread_attr_t, pthread_t};
use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The type of `pthread_create` of the C library.
type Create = unsafe extern "C" fn(
    *mut pthread_t,
    *const pthread_attr_t,
    extern "C" fn(*mut c_void) -> *mut c_void,
    *mut c_void,
) -> c_int;

/// The number of the first thread that cannot be started. 0 if all threads can be started.
static FIRST: OnceLock<u64> = OnceLock::new();
/// The number of threads that the program has asked for so far.
static THREADS: AtomicU64 = AtomicU64::new(0);

fn first() -> u64 {
    let read = || match variable(c"FAILING_FILES_THREADS").map(CStr::to_bytes) {
        None => 0,
        Some(text) => {
            number(text).unwrap_or_else(|| refuse("FAILING_FILES_THREADS is not a number"))
        }
    };
    *FIRST.get_or_init(read)
}

/// Starts a thread. Returns `EAGAIN` from the thread with the number `FIRST` on, as the C library
/// does at the limit of threads.
///
/// # Safety
/// The same as for the C function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    let started = THREADS.fetch_add(1, Ordering::SeqCst) + 1;
    if first() != 0 && started >= first() {
        return EAGAIN;
    }
    // SAFETY: the name is a string of C.
    let real = unsafe { libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr()) };
    if real.is_null() {
        refuse("the C library has no `pthread_create`");
    }
    // SAFETY: the symbol is the function `pthread_create`, and has the documented type of this
    // function. This does not hold if another preloaded library exports the name with another type.
    let real = unsafe { std::mem::transmute::<*mut c_void, Create>(real) };
    // SAFETY: the promise of this function.
    unsafe { real(thread, attributes, start, argument) }
}
