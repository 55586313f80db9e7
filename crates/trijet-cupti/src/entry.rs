//! The entry points of the tracing library. When a program initialises CUDA, the driver loads the
//! library that `CUDA_INJECTION64_PATH` names. When a program first calls NVTX, NVTX loads the
//! library that `NVTX_INJECTION64_PATH` names. Each of the two calls its own entry point.

use crate::api::NvtxExport;
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;

/// The driver calls this function once, after it has loaded the library. The function always
/// reports success, because a program must not fail when it is traced.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    // CUPTI accepts one subscriber, so a process is either checked or traced.
    if !crate::calls::record_calls_of_this_process() {
        crate::recorder::record_this_process();
    }
    1
}

/// NVTX calls this function once for each library of the program that contains NVTX. Returns 1 if
/// the ranges of that library are traced, now or from the start of the recorder on. At 0, NVTX does
/// nothing in later calls.
///
/// # Safety
/// `tables` is the function that NVTX passes, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn InitializeInjectionNvtx2(tables: Option<NvtxExport>) -> c_int {
    // SAFETY: NVTX passes the function of its own library. False if that library is unloaded before
    // the recorder starts: NVTX has no call that would tell.
    let taken = tables.is_some_and(|tables| unsafe { crate::recorder::take_ranges(tables) });
    c_int::from(taken)
}

/// Makes the recorder of calls write all calls so far to the file of this process. Returns 1 if it
/// did.
#[unsafe(no_mangle)]
pub extern "C" fn trijet_calls_flush() -> c_int {
    c_int::from(crate::calls::flush())
}

/// Ends the recording of this process early. Returns 1 if the trace file has its end. The program
/// calls this function itself, and completes its work on the GPU before.
#[unsafe(no_mangle)]
pub extern "C" fn trijet_trace_pause() -> c_int {
    c_int::from(crate::recorder::pause())
}

/// Begins another recording of this process, after [`trijet_trace_pause`], in a file in `folder`.
/// Returns 1 if it did.
///
/// # Safety
/// `folder` is a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trijet_trace_resume(folder: *const c_char) -> c_int {
    // SAFETY: the caller of this entry passes a text that ends with a zero byte.
    let folder = unsafe { CStr::from_ptr(folder) };
    c_int::from(crate::recorder::resume(OsStr::from_bytes(folder.to_bytes()).into()))
}
