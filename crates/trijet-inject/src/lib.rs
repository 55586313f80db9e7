//! The tracing library of `trijet trace`. When a program initialises CUDA, the driver loads the
//! library that `CUDA_INJECTION64_PATH` names, and calls its entry point.
//! `trijet::probe::record_this_process` does the work.

use std::ffi::c_int;

/// The entry point, which the driver calls once after it has loaded this library. It always reports
/// success, because a program must not fail when it is traced.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    trijet::probe::record_this_process();
    1
}
