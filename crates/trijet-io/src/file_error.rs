//! Errors about files. Every message starts with the path of the file.
//!
//! The error is `Io` if a file cannot be read or written, or is damaged. The error is
//! `InvalidValue` if a file is intact, but this program does not accept it. A repair of such a file
//! would not help.

use crate::shown::shown;
use std::fmt::Display;
use std::io;
use std::path::Path;
use trijet::{Error, ErrorKind};

/// The error for an operation `op` on the file `path`. `error` is the error of the operating
/// system.
#[must_use]
pub fn io(op: &'static str, path: &Path, error: io::Error) -> Error {
    let cause = match error.kind() {
        io::ErrorKind::StorageFull => "no space left".to_owned(),
        io::ErrorKind::QuotaExceeded => "no space left in the quota".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
        io::ErrorKind::NotFound => "no such file or folder".to_owned(),
        io::ErrorKind::UnexpectedEof => "the file ends early".to_owned(),
        _ => error.to_string(),
    };
    damaged(op, path, cause).caused_by(error)
}

/// The error for a file whose content does not conform to its format.
#[must_use]
pub fn damaged(op: &'static str, path: &Path, cause: impl Display) -> Error {
    Error::new(ErrorKind::Io, op, format!("{}: {cause}", shown(path)))
}

/// The error for an intact file that this program does not accept.
#[must_use]
pub fn refused(op: &'static str, path: &Path, cause: impl Display) -> Error {
    Error::new(ErrorKind::InvalidValue, op, format!("{}: {cause}", shown(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_error_names_the_file_and_the_cause() {
        for (kind, cause) in [
            (io::ErrorKind::StorageFull, "no space left"),
            (io::ErrorKind::PermissionDenied, "permission denied"),
            (io::ErrorKind::ReadOnlyFilesystem, "read-only"),
            (io::ErrorKind::UnexpectedEof, "ends early"),
        ] {
            let error = io("write", Path::new("a/b.npy"), kind.into());
            assert_eq!(error.kind(), ErrorKind::Io);
            assert_eq!(error.op(), "write");
            assert!(error.to_string().starts_with("write: a/b.npy: "), "{error}");
            assert!(error.to_string().contains(cause), "{error}");
        }
    }
}
