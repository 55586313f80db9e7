//! Errors of files. Every message starts with the file's name.
//!
//! A file that cannot be read or written, or that is damaged, is `Io`. A sound file that this
//! program does not take is `InvalidValue`: another file helps there, a repaired one does not.

use std::fmt::Display;
use std::io;
use std::path::Path;
use trijet::{Error, ErrorKind};

/// The operating system refused `op` on `path`.
pub(crate) fn io(op: &'static str, path: &Path, error: io::Error) -> Error {
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

/// The content of `path` contradicts its own format.
pub(crate) fn damaged(op: &'static str, path: &Path, cause: impl Display) -> Error {
    Error::new(ErrorKind::Io, op, format!("{}: {cause}", path.display()))
}

/// `path` is sound, but not what this program takes.
pub(crate) fn refused(op: &'static str, path: &Path, cause: impl Display) -> Error {
    Error::new(ErrorKind::InvalidValue, op, format!("{}: {cause}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_the_system_names_the_file_and_the_cause() {
        for (kind, words) in [
            (io::ErrorKind::StorageFull, "no space left"),
            (io::ErrorKind::PermissionDenied, "permission denied"),
            (io::ErrorKind::ReadOnlyFilesystem, "read-only"),
            (io::ErrorKind::UnexpectedEof, "ends early"),
        ] {
            let error = io("write", Path::new("a/b.npy"), kind.into());
            assert_eq!(error.kind(), ErrorKind::Io);
            assert_eq!(error.op(), "write");
            assert!(error.to_string().starts_with("write: a/b.npy: "), "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
