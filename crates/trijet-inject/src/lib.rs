//! The library that the CUDA driver loads, named by `CUDA_INJECTION64_PATH`, in the initialisation
//! of any program that uses CUDA. All it does is in `trijet::device::record_this_process`.

use std::ffi::c_int;

/// The driver calls it once, after loading this library. It always says that all is well: a
/// program must not fail for being recorded.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    trijet::device::record_this_process();
    1
}
