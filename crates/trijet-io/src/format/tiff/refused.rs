//! The error for a file that is not read.

use crate::file_error;
use crate::python::line;
use std::fmt::Display;
use std::path::Path;

/// The error for an intact file that is not read, with a line of Python that converts the file.
pub(super) fn refused(path: &Path, cause: impl Display) -> trijet::Error {
    let line = line(path, "tifffile", "tifffile.imread({})");
    let cause = format!("{cause}; this line of Python converts it to an .npy file: {line}");
    file_error::refused("open", path, cause)
}
