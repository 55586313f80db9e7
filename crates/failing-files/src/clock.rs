//! A clock of the time of day that differs from that of the system, and reads that take longer.

use crate::fault::{number, refuse, variable};
use libc::{c_int, c_long, clockid_t, timespec};
use std::ffi::CStr;
use std::sync::{Mutex, OnceLock};

/// The value of a variable as a number; 0 if the variable is not set.
fn value(name: &'static CStr) -> c_long {
    let Some(text) = variable(name) else { return 0 };
    match number(text.to_bytes()) {
        Some(value) => value,
        None => refuse("FAILING_FILES_DELAY or FAILING_FILES_CLOCK is not a number"),
    }
}

/// Waits for the time that a read takes in addition. The slow disk serves one read of a process
/// after another.
pub(crate) fn delay_read() {
    static DELAY: OnceLock<c_long> = OnceLock::new();
    let delay = *DELAY.get_or_init(|| value(c"FAILING_FILES_DELAY"));
    if delay > 0 {
        static DISK: Mutex<()> = Mutex::new(());
        let _served = DISK.lock();
        let time = timespec { tv_sec: delay / 1000, tv_nsec: delay % 1000 * 1_000_000 };
        // SAFETY: `time` is a valid time, and the remaining time is not asked for.
        unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
    }
}

/// Reads a clock.
///
/// # Safety
/// The same as for the C function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    static SHIFT: OnceLock<c_long> = OnceLock::new();
    // SAFETY: the caller passes a place for the time.
    let read = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
    if read == 0 && clock == libc::CLOCK_REALTIME {
        let shift = *SHIFT.get_or_init(|| value(c"FAILING_FILES_CLOCK"));
        // SAFETY: the system has just written this time.
        unsafe { (*time).tv_sec += shift };
    }
    c_int::try_from(read).unwrap_or(-1)
}
