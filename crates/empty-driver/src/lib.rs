//! A CUDA driver library whose functions succeed and do nothing. Opened in place of the real one
//! (`TRIJET_LIBCUDA`), it leaves only the cost of what surrounds the calls, and lets the binding run
//! without a GPU. Functions that return something return a fixed, plausible value.
//!
//! The C ABI passes more arguments than the functions look at, which is harmless: the caller owns
//! its registers and stack.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

macro_rules! nothing {
    ($($name:ident)*) => {$(
        /// Succeeds.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> c_int {
            0
        }
    )*};
}

macro_rules! numbers {
    ($($name:ident = $value:expr;)*) => {$(
        /// Writes a fixed number.
        ///
        /// # Safety
        /// `out` points to a writable `int`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(out: *mut c_int) -> c_int {
            // SAFETY: by the caller's promise.
            unsafe { out.write($value) };
            0
        }
    )*};
}

macro_rules! handles {
    ($($name:ident)*) => {$(
        /// Writes a handle that differs each time.
        ///
        /// # Safety
        /// `out` points to a writable pointer.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(out: *mut usize) -> c_int {
            static NEXT: AtomicUsize = AtomicUsize::new(0x1000);
            let handle = NEXT.fetch_add(0x1000_0000, Ordering::Relaxed);
            // SAFETY: by the caller's promise.
            unsafe { out.write(handle) };
            0
        }
    )*};
}

nothing! {
    cuInit cuCtxSetCurrent cuCtxSynchronize
    cuStreamDestroy_v2 cuStreamSynchronize cuStreamQuery
    cuStreamWaitEvent cuEventDestroy_v2 cuEventRecord
    cuEventQuery cuEventSynchronize cuMemPoolDestroy
    cuMemPoolSetAttribute cuMemPoolTrimTo cuMemFreeAsync
    cuMemFreeHost cuMemcpyAsync cuMemcpyHtoDAsync_v2
    cuMemcpyDtoHAsync_v2 cuMemsetD8Async cuFuncLoad
    cuFuncSetAttribute cuLaunchKernelEx cuLaunchHostFunc
    cuDevicePrimaryCtxRelease_v2 cuMemPoolGetAttribute cuGetErrorName
    cuGetErrorString
}

numbers! {
    cuDriverGetVersion = 13_000;
    cuDeviceGetCount = 1;
    cuDeviceGet = 0;
    cuDeviceGetAttribute = 9;
}

handles! {
    cuStreamCreateWithPriority cuEventCreate cuMemPoolCreate cuMemAllocFromPoolAsync
    cuModuleLoadDataEx cuModuleGetFunction
}

static CONTEXT: usize = 0x42_0000;

/// Writes the one context.
///
/// # Safety
/// `out` points to a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(out: *mut usize) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { out.write(CONTEXT) };
    0
}

/// Writes the one context.
///
/// # Safety
/// `out` points to a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(out: *mut usize) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { out.write(CONTEXT) };
    0
}

/// Writes a name that says what this is.
///
/// # Safety
/// `out` points to at least 13 writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(out: *mut u8) -> c_int {
    let name = b"empty driver\0";
    // SAFETY: by the caller's promise; the two do not overlap.
    unsafe { out.copy_from_nonoverlapping(name.as_ptr(), name.len()) };
    0
}

/// Writes a size.
///
/// # Safety
/// `out` points to a writable `size_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(out: *mut usize) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { out.write(1 << 37) };
    0
}

/// Writes two sizes.
///
/// # Safety
/// Both point to a writable `size_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { free.write(1 << 37) };
    // SAFETY: by the caller's promise.
    unsafe { total.write(1 << 37) };
    0
}

/// Writes two priorities.
///
/// # Safety
/// Both point to a writable `int`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetStreamPriorityRange(low: *mut c_int, high: *mut c_int) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { low.write(0) };
    // SAFETY: by the caller's promise.
    unsafe { high.write(-5) };
    0
}

/// Writes no time at all.
///
/// # Safety
/// `out` points to a writable `float`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(out: *mut f32) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { out.write(0.0) };
    0
}

/// Allocates zeroed memory, which is never freed.
///
/// # Safety
/// `out` points to a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(out: *mut *mut c_void, bytes: usize) -> c_int {
    let pages = vec![0u64; bytes.div_ceil(8)].leak();
    // SAFETY: by the caller's promise.
    unsafe { out.write(pages.as_mut_ptr().cast()) };
    0
}
