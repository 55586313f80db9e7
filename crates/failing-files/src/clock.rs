//! A clock of the time of day that differs from the clock of the system.

use crate::fault::number_of;
use libc::{c_int, c_long, clockid_t, timespec};
use std::sync::OnceLock;

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
        let shift = *SHIFT.get_or_init(|| number_of(c"FAILING_FILES_CLOCK"));
        // SAFETY: the system has just written this time.
        unsafe { (*time).tv_sec += shift };
    }
    c_int::try_from(read).unwrap_or(-1)
}
