//! Errors of files that other tools wrote.
#![forbid(unsafe_code)]

use std::path::Path;
use trijet::{Error, ErrorKind};
use trijet_io::{file_error, shown};
use trijet_traces::TraceError;

/// The error of a file of another tool.
pub(super) fn read_error(file: &Path, error: TraceError) -> Error {
    match error {
        TraceError::Io(error) => file_error::io("trace", file, error),
        TraceError::Format(words) => {
            let cause = format!("{}: {words}", shown(file));
            Error::new(ErrorKind::InvalidValue, "read trace", cause)
        }
    }
}
