//! A library for Python. It computes on PyTorch tensors in a PyTorch stream, without a copy.
//!
//! `tensor.py` loads the library and passes tensors by DLPack.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use trijet::kernels::AXPY;
use trijet::memory::dlpack::DlManagedTensor;
use trijet::{Device, Result, Select};

/// Computes `y += a * x` in a stream of PyTorch. Writes the addresses of `x` and `y` to
/// `addresses`. Returns 0 on success. On an error, prints the error and returns 1.
///
/// # Safety
/// `x` and `y` are tensors of 32-bit floats on the first GPU, which are handed over; `stream` is a
/// live stream of it that holds all pending work on them; `addresses` has room for two numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn axpy(
    a: f32,
    x: *mut DlManagedTensor,
    y: *mut DlManagedTensor,
    stream: *mut c_void,
    addresses: *mut u64,
) -> c_int {
    let (Some(x), Some(y)) = (NonNull::new(x), NonNull::new(y)) else { return 1 };
    // SAFETY: by this function's contract.
    let found = match unsafe { compute(a, x, y, stream) } {
        Ok(found) => found,
        Err(error) => {
            eprintln!("{error}");
            return 1;
        }
    };
    // SAFETY: room for two numbers, by this function's contract.
    unsafe { addresses.copy_from_nonoverlapping(found.as_ptr(), found.len()) };
    0
}

/// # Safety
/// As for `axpy`.
unsafe fn compute(
    a: f32,
    x: NonNull<DlManagedTensor>,
    y: NonNull<DlManagedTensor>,
    stream: *mut c_void,
) -> Result<[u64; 2]> {
    let device = Device::open(Select::Cuda(0))?;
    // SAFETY: a live stream, by this function's contract; it outlives the handle, which is dropped
    // here.
    let stream = unsafe { device.stream_from_raw(stream, ())? };
    // SAFETY: a live tensor whose pending work is in the stream, by this function's contract.
    let x = unsafe { device.from_dlpack::<f32>(x)? };
    // SAFETY: as for `x`.
    let mut y = unsafe { device.from_dlpack::<f32>(y)? };
    let addresses = [x.address(), y.address()];
    stream.launch(&AXPY, (a, &x, &mut y))?;
    drop((x, y));
    // The tensors are returned to PyTorch when the kernel is complete.
    stream.synchronize()?;
    stream.synchronize()?;
    Ok(addresses)
}
