//! The functions of the recorder that CUPTI and the C library call, on threads of the program, and
//! their registration.

use super::{Progress, RECORDER, Recorder, accepted, guarded};
use crate::{buffers, file, graph_edges, system};
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

impl Recorder {
    /// Makes CUPTI collect records. Returns whether CUPTI accepts the buffers of the recorder.
    /// Appends a warning to `words` for each call that CUPTI refuses. `own` states that the program
    /// has loaded CUPTI itself. In this case, appends a note that the profiler of the program gets
    /// no records.
    pub(super) fn begin(&self, words: &mut Vec<u8>, own: bool) -> bool {
        let mut subscriber: *mut c_void = std::ptr::null_mut();
        let subscribed = self.api.subscribe.map(|call| {
            // SAFETY: the call writes the local variable `subscriber`. The code of the callback
            // `called` is mapped until the process ends.
            unsafe { call(&raw mut subscriber, called, std::ptr::null_mut()) }
        });
        if !accepted(words, "a subscription", subscribed) {
            return false;
        }
        self.subscriber.store(subscriber, Ordering::Relaxed);
        let registered = self.api.register.map(|call| {
            // SAFETY: both callbacks have the documented signatures. They find the recorder in a
            // static that is set before this call. CUPTI calls them until the process ends. This
            // does not hold if this library is unloaded before. The driver never unloads it.
            unsafe { call(requested, completed) }
        });
        if !accepted(words, "buffers for records", registered) {
            return false;
        }
        self.number_threads();
        self.enable(words);
        self.leave_out_questions();
        if own {
            file::note(
                words,
                "CUPTI accepts one subscriber, which was `trijet trace`: a profiler inside the \
                 program, such as torch.profiler, got no records of the GPU",
            );
        }
        true
    }

    /// Makes the process end the recording when it exits. Returns whether it will.
    pub(super) fn end_at_exit(&self) -> bool {
        system::at_exit(ended)
    }
}

/// The callback of the subscription. CUPTI calls it only at new edges of graphs.
extern "C" fn called(_: *mut c_void, domain: c_int, number: u32, data: *const c_void) {
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
extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
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
extern "C" fn completed(_: *mut c_void, _: u32, buffer: *mut u8, _: usize, valid: usize) {
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
extern "C" fn ended() {
    guarded(|| {
        if let Some(recorder) = RECORDER.get().filter(|recorder| recorder.is_at_home()) {
            recorder.end();
        }
    });
}
