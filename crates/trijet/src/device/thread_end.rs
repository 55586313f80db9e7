//! The end of a thread that has used its per-thread default stream.
//!
//! When a thread ends, the CUDA driver destroys the per-thread streams of the thread. With driver
//! 580, threads that end at the same time with pending work in these streams wait for each other
//! without end (seen on an H100). So a thread waits for its streams first. It waits in the
//! destructor of a thread-local value, which runs before the destructor of the driver. The wait
//! orders nothing, so it has no entry in a ledger.
#![forbid(unsafe_code)]

use super::driver::{CaptureState, Driver, StreamHandle};
use super::fork;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    static OPENED: Opened = const { Opened(RefCell::new(Vec::new())) };
}

/// The per-thread streams that this thread has opened.
#[derive(Debug)]
struct Opened(RefCell<Vec<(Arc<dyn Driver>, StreamHandle)>>);

/// Makes the end of this thread wait for the work of `stream`, its per-thread stream. Does nothing
/// if the thread-local values of this thread are already destroyed.
pub(crate) fn wait_for(driver: &Arc<dyn Driver>, stream: StreamHandle) {
    // A host device destroys no stream at the end of a thread.
    if driver.simulation().is_some() {
        return;
    }
    let noted = OPENED.try_with(|opened| {
        let mut all = opened.0.borrow_mut();
        if all.iter().all(|(_, known)| *known != stream) {
            all.push((Arc::clone(driver), stream));
        }
    });
    noted.unwrap_or(());
}

impl Drop for Opened {
    fn drop(&mut self) {
        // A child of a fork must not call the driver.
        if fork::is_child() {
            return;
        }
        for (driver, stream) in self.0.take() {
            // A wait would end a capture with an error. A captured stream has no pending work.
            if matches!(driver.capture_state(stream), Ok(CaptureState::None)) {
                let _reported_by_the_next_call = driver.stream_synchronize(stream);
            }
        }
    }
}
