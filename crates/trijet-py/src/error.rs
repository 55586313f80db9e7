//! Errors of the library as exceptions of the package.

use pyo3::prelude::*;
use pyo3::types::PyString;
use trijet::{Error, ErrorKind};

/// The name of the exception class in `trijet.errors` for a kind of errors.
fn class_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::NoDevice => "NoDeviceError",
        ErrorKind::InvalidValue => "InvalidValueError",
        ErrorKind::OutOfMemory => "OutOfMemoryError",
        ErrorKind::Compile => "CompileError",
        ErrorKind::NotFound => "NotFoundError",
        ErrorKind::NoTwin => "NoTwinError",
        ErrorKind::Launch => "LaunchError",
        ErrorKind::ContextLost => "ContextLostError",
        ErrorKind::Capturing => "CapturingError",
        ErrorKind::InCallback => "InCallbackError",
        ErrorKind::Forked => "ForkedError",
        ErrorKind::Panicked => "PanickedError",
        ErrorKind::Stalled => "StalledError",
        ErrorKind::Closed => "ClosedError",
        ErrorKind::Cancelled => "CancelledError",
        ErrorKind::PeerLost => "PeerLostError",
        ErrorKind::Io => "FileError",
        ErrorKind::Driver => "DriverError",
        _ => "TrijetError",
    }
}

/// The exception for an error of the library.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    exception(py, error.kind(), &error.to_string())
}

/// The exception of a kind, with this message.
pub(crate) fn exception(py: Python<'_>, kind: ErrorKind, message: &str) -> PyErr {
    let made = py
        .import("trijet.errors")
        .and_then(|errors| errors.getattr(class_of(kind)))
        .and_then(|class| class.call1((PyString::new(py, message),)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(other) => other,
    }
}

/// An error of the kind `InvalidValue`.
pub(crate) fn refused(op: &'static str, cause: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidValue, op, cause.into())
}

/// Turns results of the library into results of Python.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception for the error.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for trijet::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raised(py, &error))
    }
}

/// An error of the library with the text of an exception, for a call that the library makes. The
/// exception itself is kept by the caller, and raised at the end.
pub(crate) fn of_exception(py: Python<'_>, op: &'static str, exception: &PyErr) -> Error {
    let text =
        exception.value(py).str().map_or_else(|_| "unprintable".to_owned(), |t| t.to_string());
    let name = exception.get_type(py).name().map_or_else(|_| String::new(), |n| n.to_string());
    Error::new(ErrorKind::Panicked, op, format!("{name}: {text}"))
}
