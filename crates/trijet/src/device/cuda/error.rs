//! Driver result codes as errors of the crate.

use super::api::{CuResult, DriverApi};
use crate::base::error::{Error, ErrorKind, Result};
use std::ffi::CStr;

pub(crate) const INVALID_VALUE: CuResult = 1;
pub(crate) const INVALID_DEVICE: CuResult = 101;
pub(crate) const INVALID_HANDLE: CuResult = 400;
pub(crate) const NOT_FOUND: CuResult = 500;
pub(crate) const NOT_READY: CuResult = 600;

/// The kind of error of a code. Law A40 lists the codes after which the context is lost.
fn kind(code: CuResult) -> ErrorKind {
    match code {
        1 | 101 | 200 | 201 | 400 => ErrorKind::InvalidValue,
        2 => ErrorKind::OutOfMemory,
        100 => ErrorKind::NoDevice,
        // No binary for the GPU; PTX that does not compile; PTX from a newer toolkit.
        209 | 218 | 222 | 223 => ErrorKind::Compile,
        NOT_FOUND => ErrorKind::NotFound,
        700 | 702 | 714..=719 => ErrorKind::Launch,
        226 | 710 | 721 | 911 => ErrorKind::ContextLost,
        801 | 803 | 804 => ErrorKind::Unsupported,
        _ => ErrorKind::Driver,
    }
}

/// The error of a misuse that the driver does not check, with the code that it returns for misuse
/// of that kind.
#[cold]
pub(crate) fn refused(op: &'static str, code: CuResult, cause: impl Into<String>) -> Error {
    Error::new(kind(code), op, cause.into()).with_code(code)
}

/// `Ok` for success, else the error of `op` with the name and the description of the driver.
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
        // SAFETY: on success the text is terminated and static: false once the library is unloaded,
        // and `api` keeps it loaded.
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
