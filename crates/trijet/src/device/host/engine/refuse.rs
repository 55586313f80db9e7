//! The errors of the host device for misuse. Each error has the code that CUDA returns for the
//! misuse.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind};
use std::borrow::Cow;

/// The error for an argument that is out of range or contradicts another argument:
/// `CUDA_ERROR_INVALID_VALUE`.
pub(in crate::device::host) fn value(
    op: &'static str,
    cause: impl Into<Cow<'static, str>>,
) -> Error {
    Error::new(ErrorKind::InvalidValue, op, cause).with_code(1)
}

/// The error for an object that does not exist: `CUDA_ERROR_INVALID_HANDLE`.
pub(in crate::device::host) fn handle(
    op: &'static str,
    cause: impl Into<Cow<'static, str>>,
) -> Error {
    Error::new(ErrorKind::InvalidValue, op, cause).with_code(400)
}

/// The error for too little memory: `CUDA_ERROR_OUT_OF_MEMORY`.
pub(in crate::device::host) fn memory(
    op: &'static str,
    cause: impl Into<Cow<'static, str>>,
) -> Error {
    Error::new(ErrorKind::OutOfMemory, op, cause).with_code(2)
}

/// The error for a device that does not exist: `CUDA_ERROR_INVALID_DEVICE`.
pub(in crate::device::host) fn device(
    op: &'static str,
    cause: impl Into<Cow<'static, str>>,
) -> Error {
    Error::new(ErrorKind::InvalidValue, op, cause).with_code(101)
}

/// The error for a call that is not supported: `CUDA_ERROR_NOT_SUPPORTED`.
pub(in crate::device::host) fn unsupported(
    op: &'static str,
    cause: impl Into<Cow<'static, str>>,
) -> Error {
    Error::new(ErrorKind::Unsupported, op, cause).with_code(801)
}

/// An error with a code that has no kind of its own.
pub(in crate::device::host) fn other(
    op: &'static str,
    code: i32,
    cause: impl Into<Cow<'static, str>>,
) -> Error {
    Error::new(ErrorKind::Driver, op, cause).with_code(code)
}
