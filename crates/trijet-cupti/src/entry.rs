//! The entry point of the tracing library. When a program initialises CUDA, the driver loads the
//! library that `CUDA_INJECTION64_PATH` names, and calls this function.

use std::ffi::c_int;

/// The driver calls this function once, after it has loaded the library. The function always
/// reports success, because a program must not fail when it is traced.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    crate::recorder::record_this_process();
    1
}
