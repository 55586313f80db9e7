//! The functions of the recorder that CUPTI and the C library call, on threads of the program.

use super::{Progress, RECORDER, guarded};
use crate::buffers;
use crate::graph_edges;
use std::ffi::{c_int, c_void};

/// The callback of the subscription. CUPTI calls it only at new edges of graphs.
pub(super) extern "C" fn called(_: *mut c_void, domain: c_int, number: u32, data: *const c_void) {
    guarded(|| {
        let Some(recorder) = RECORDER.get().filter(|recorder| recorder.is_at_home()) else {
            return;
        };
        // SAFETY: CUPTI has passed these arguments, and this callback has not returned.
        let edge = unsafe { graph_edges::stated(&recorder.api, domain, number, data) };
        if let Some(edge) = edge {
            recorder.new_edges.add(edge);
        }
    });
}

/// The callback with which CUPTI asks for an empty buffer.
pub(super) extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    let mut given = buffers::NONE;
    guarded(|| {
        if let Some(recorder) = RECORDER.get() {
            given = recorder.buffers.lend();
        }
    });
    // SAFETY: CUPTI passes the address of its variable for the address of the buffer. The variable
    // is valid during this call. A null pointer in the variable declines the request.
    unsafe { buffer.write(given.0) };
    // SAFETY: CUPTI passes the address of its variable for the length of the buffer, which is 0 if
    // the request is declined. The variable is valid during this call, and its address is not
    // stored.
    unsafe { size.write(given.1) };
    // SAFETY: CUPTI passes the address of its variable for the maximum number of records. The
    // variable is valid during this call. 0 means as many records as the buffer can hold.
    unsafe { records.write(0) };
}

/// The callback with which CUPTI returns a buffer.
pub(super) extern "C" fn completed(
    _: *mut c_void,
    _: u32,
    buffer: *mut u8,
    _: usize,
    valid: usize,
) {
    guarded(|| {
        let Some(recorder) = RECORDER.get() else { return };
        if !recorder.is_at_home() {
            return;
        }
        let Some(buffer) = recorder.buffers.take_back(buffer) else { return };
        let mut handed = recorder.handed();
        if handed.progress == Progress::Done || valid == 0 {
            drop(handed);
            return recorder.buffers.keep(buffer);
        }
        // The list has room for every buffer, so this does not allocate.
        handed.full.push((buffer, valid));
        drop(handed);
        recorder.changed.notify_one();
    });
}

/// The handler that runs at the exit of the process.
pub(super) extern "C" fn ended() {
    guarded(|| {
        if let Some(recorder) = RECORDER.get().filter(|recorder| recorder.is_at_home()) {
            recorder.end();
        }
    });
}
