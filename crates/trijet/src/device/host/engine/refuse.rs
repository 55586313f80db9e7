//! The errors of the host device for misuse, with the codes that CUDA returns for it.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind};
use std::borrow::Cow;

/// An argument is out of range or contradicts another: `CUDA_ERROR_INVALID_VALUE`.
pub(in crate::device::host) fn value(
    op: &'static str,
    cause: impl Into<Cow<'static, str>>,
) -> Error {
    Error::new(ErrorKind::InvalidValue, op, cause).with_code(1)
}

/// There is no such object: `CUDA_ERROR_INVALID_HANDLE`.
pub(in crate::device::host) fn handle(
    op: &'static str,
    cause: impl Into<Cow<'static, str>>,
) -> Error {
    Error::new(ErrorKind::InvalidValue, op, cause).with_code(400)
}

/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub(in crate::device::host) fn memory(
    op: &'static str,
    cause: impl Into<Cow<'static, str>>,
) -> Error {
    Error::new(ErrorKind::OutOfMemory, op, cause).with_code(2)
}

/// There is no such device: `CUDA_ERROR_INVALID_DEVICE`.
pub(in crate::device::host) fn device(
    op: &'static str,
    cause: impl Into<Cow<'static, str>>,
) -> Error {
    Error::new(ErrorKind::InvalidValue, op, cause).with_code(101)
}

/// `CUDA_ERROR_NOT_SUPPORTED`.
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
