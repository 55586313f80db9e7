//! Driver result codes as errors of the crate.

use super::api::{CuResult, DriverApi};
use crate::base::error::{Error, ErrorKind, Result};
use std::ffi::CStr;

pub(crate) const INVALID_VALUE: CuResult = 1;
pub(crate) const INVALID_DEVICE: CuResult = 101;
pub(crate) const INVALID_HANDLE: CuResult = 400;
pub(crate) const NOT_FOUND: CuResult = 500;
pub(crate) const NOT_READY: CuResult = 600;
pub(crate) const NOT_SUPPORTED: CuResult = 801;

/// The kind of the error that a code of the driver means. Law A40 describes the losses of a
/// context. A test below lists the codes after which the context is lost.
fn kind(code: CuResult) -> ErrorKind {
    match code {
        1 | 101 | 200 | 201 | 400 => ErrorKind::InvalidValue,
        2 => ErrorKind::OutOfMemory,
        100 => ErrorKind::NoDevice,
        // No binary for the GPU; PTX that does not compile; PTX from a newer toolkit.
        209 | 218 | 222 | 223 => ErrorKind::Compile,
        NOT_FOUND => ErrorKind::NotFound,
        700 | 702 | 714..=719 => ErrorKind::Launch,
        // The driver shuts down; memory or a link failed for good; the context was destroyed; the
        // MPS server ended the process's work; and the other codes after which `cuda.h` requires
        // that the context is destroyed or the process ended.
        4 | 214 | 220 | 226 | 709 | 710 | 721 | 810 | 911 => ErrorKind::ContextLost,
        801 | 803 | 804 => ErrorKind::Unsupported,
        // Calls that a capture does not allow (law A33).
        900..=908 => ErrorKind::Capturing,
        _ => ErrorKind::Driver,
    }
}

/// The error of a misuse that the driver does not check, with the code that the driver returns for
/// such misuse.
#[cold]
pub(crate) fn refused(op: &'static str, code: CuResult, cause: impl Into<String>) -> Error {
    Error::new(kind(code), op, cause.into()).with_code(code)
}

/// `Ok` for success. Otherwise the error of `op`, with the driver's name and description of the
/// code.
#[inline]
pub(crate) fn check(api: &DriverApi, op: &'static str, code: CuResult) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(failed(api, op, code)) }
}

#[cold]
fn failed(api: &DriverApi, op: &'static str, code: CuResult) -> Error {
    let text = |entry: Option<
        unsafe extern "C" fn(CuResult, *mut *const std::ffi::c_char) -> CuResult,
    >| {
        let function = entry?;
        let mut words: *const std::ffi::c_char = std::ptr::null();
        // SAFETY: the call writes the local variable `words`, for any code, and works without a
        // context and after a context error.
        let found = unsafe { function(code, &raw mut words) };
        if found != 0 || words.is_null() {
            return None;
        }
        // SAFETY: on success the text is terminated and static. The text is valid while the library
        // is loaded, and `api` keeps the library loaded.
        let words = unsafe { CStr::from_ptr(words) };
        Some(words.to_string_lossy().into_owned())
    };
    let name = text(api.error_name).unwrap_or_else(|| "unknown error".to_owned());
    let cause = match text(api.error_string) {
        Some(words) => format!("{name}: {words}"),
        None => name,
    };
    Error::new(kind(code), op, cause).with_code(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudarc::driver::sys::CUresult as Theirs;

    /// Law A40: the codes of `cuda.h` after which no further call succeeds, and similar codes after
    /// which the context still works.
    #[test]
    fn a_code_after_which_no_call_succeeds_is_a_loss() {
        let losses = [
            Theirs::CUDA_ERROR_DEINITIALIZED,
            Theirs::CUDA_ERROR_ECC_UNCORRECTABLE,
            Theirs::CUDA_ERROR_NVLINK_UNCORRECTABLE,
            Theirs::CUDA_ERROR_CONTAINED,
            Theirs::CUDA_ERROR_ILLEGAL_ADDRESS,
            Theirs::CUDA_ERROR_LAUNCH_TIMEOUT,
            Theirs::CUDA_ERROR_CONTEXT_IS_DESTROYED,
            Theirs::CUDA_ERROR_ASSERT,
            Theirs::CUDA_ERROR_HARDWARE_STACK_ERROR,
            Theirs::CUDA_ERROR_ILLEGAL_INSTRUCTION,
            Theirs::CUDA_ERROR_MISALIGNED_ADDRESS,
            Theirs::CUDA_ERROR_INVALID_ADDRESS_SPACE,
            Theirs::CUDA_ERROR_INVALID_PC,
            Theirs::CUDA_ERROR_LAUNCH_FAILED,
            Theirs::CUDA_ERROR_TENSOR_MEMORY_LEAK,
            Theirs::CUDA_ERROR_MPS_CLIENT_TERMINATED,
            Theirs::CUDA_ERROR_EXTERNAL_DEVICE,
        ];
        let others = [
            Theirs::CUDA_ERROR_OUT_OF_MEMORY,
            Theirs::CUDA_ERROR_NOT_INITIALIZED,
            Theirs::CUDA_ERROR_INVALID_HANDLE,
            Theirs::CUDA_ERROR_NOT_READY,
            Theirs::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
            Theirs::CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE,
            Theirs::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            Theirs::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
        ];
        let is_loss = |theirs: Theirs| refused("test", theirs as CuResult, "test").is_loss();
        assert_eq!(losses.into_iter().filter(|code| !is_loss(*code)).collect::<Vec<_>>(), []);
        assert_eq!(others.into_iter().filter(|code| is_loss(*code)).collect::<Vec<_>>(), []);
    }
}
