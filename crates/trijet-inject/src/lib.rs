//! The tracing library of `trijet trace`. The CUDA driver loads the library that
//! `CUDA_INJECTION64_PATH` names when a program initialises CUDA. Its work is done in
//! `trijet::probe::record_this_process`.

use std::ffi::c_int;

/// The entry point, which the driver calls once after it has loaded this library. It always reports
/// success, because a program must not fail when it is traced.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    trijet::probe::record_this_process();
    1
}
