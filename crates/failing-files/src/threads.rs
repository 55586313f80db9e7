//! Threads that cannot be started, as under a limit of the system.

use crate::fault::{number, refuse, variable};
use libc::{EAGAIN, c_int, c_void, pthread_attr_t, pthread_t};
use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// `pthread_create` of the C library.
type Create = unsafe extern "C" fn(
    *mut pthread_t,
    *const pthread_attr_t,
    extern "C" fn(*mut c_void) -> *mut c_void,
    *mut c_void,
) -> c_int;

/// The number of the first thread that cannot be started; 0 for none.
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

/// Starts a thread, or returns `EAGAIN`, as at a limit of the system.
///
/// # Safety
/// As in C.
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
    // SAFETY: the symbol is the function of this name, and it has the type of this function: false
    // for another library before the C library, which would have to keep the type as well.
    let real = unsafe { std::mem::transmute::<*mut c_void, Create>(real) };
    // SAFETY: the promise of this function.
    unsafe { real(thread, attributes, start, argument) }
}
