//! The capture mode of calls that captures would not allow.
//!
//! While a thread captures a stream in the global mode, the driver refuses many calls of every
//! thread: queries, waits, allocations, changes of graphs and some others. Such a call also ends
//! the capture with an error (law A33). The library makes these calls at any time, even in its own
//! threads. But its calls do no harm to a capture of another stream. So the library makes them in
//! the relaxed mode, in which the driver does not refuse them. In every mode, the driver refuses a
//! query of work that is itself captured.

use super::api::DriverApi;
use super::context::CudaDriver;
use std::ffi::c_int;

/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: c_int = 2;

/// The relaxed capture mode of this thread. The drop restores the previous mode.
#[must_use = "the mode lasts until the guard drops"]
#[derive(Debug)]
pub(super) struct Relaxed<'a> {
    api: &'a DriverApi,
    before: c_int,
}

impl CudaDriver {
    /// Lets this thread query, wait, allocate and free while streams are captured, until the guard
    /// drops.
    pub(super) fn relaxed(&self) -> Relaxed<'_> {
        Relaxed { api: &self.api, before: exchange(&self.api, RELAXED) }
    }
}

impl Drop for Relaxed<'_> {
    fn drop(&mut self) {
        let _relaxed = exchange(self.api, self.before);
    }
}

/// Sets the capture mode of this thread, and returns the previous mode. If the driver refuses, the
/// mode stays.
fn exchange(api: &DriverApi, mut mode: c_int) -> c_int {
    let Some(exchange) = api.capture_mode else { return mode };
    // SAFETY: the call reads and writes the local variable `mode`, and changes only the mode of
    // this thread. This thread begins no capture before the guard restores the mode.
    let _code = unsafe { exchange(&raw mut mode) };
    mode
}
