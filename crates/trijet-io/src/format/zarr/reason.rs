//! The reasons why an array cannot be read.

use crate::file_error;
use crate::python::{line, literal};
use std::path::Path;
use trijet::Error;

/// The reason why an array cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reason {
    /// The metadata do not conform to the format.
    Damaged(String),
    /// The metadata are right, but this program does not support the feature.
    Refused(String),
}

pub(super) type Checked<T> = std::result::Result<T, Reason>;

impl Reason {
    /// The error for the metadata file at `path` of the array `inner` in the input `root`.
    pub(super) fn error(self, path: &Path, root: &Path, inner: &str) -> Error {
        match self {
            Self::Damaged(cause) => file_error::damaged("open", path, cause),
            Self::Refused(cause) => {
                let array = match inner {
                    "" => "zarr.open_array({}, mode='r')[:]".to_owned(),
                    inner => {
                        let inner = literal(Path::new(inner));
                        format!("zarr.open_array({{}}, mode='r', path={inner})[:]")
                    }
                };
                let line = line(root, "zarr", &array);
                let cause = format!("{cause}; this line of Python converts the array: {line}");
                file_error::refused("open", path, cause)
            }
        }
    }
}

/// A reason to call metadata damaged.
pub(super) fn damaged<T>(cause: impl Into<String>) -> Checked<T> {
    Err(Reason::Damaged(cause.into()))
}

/// A reason to refuse an array.
pub(super) fn refused<T>(cause: impl Into<String>) -> Checked<T> {
    Err(Reason::Refused(cause.into()))
}
