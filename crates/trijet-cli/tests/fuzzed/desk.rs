//! A folder for the files of a target, and what every refusal owes its user.

use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use trijet::{Error, ErrorKind};

thread_local! {
    /// One per thread: making a folder costs more than most inputs.
    static FOLDER: TempDir = tempfile::tempdir().expect("a folder for temporary files");
}

/// The path of `name` in the folder of this thread.
pub(crate) fn path(name: &str) -> PathBuf {
    FOLDER.with(|folder| folder.path().join(name))
}

/// A file of these bytes. A new one each time: file systems take a file that is cut and written
/// again for one that must reach the disk.
pub(crate) fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = path(name);
    if path.exists() {
        fs::remove_file(&path).expect("a file of ours");
    }
    fs::write(&path, bytes).expect("space for a small file");
    path
}

/// A refusal says whether the file is damaged or not taken, and where it is.
#[track_caller]
pub(crate) fn refused(error: &Error, path: &Path) {
    assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::InvalidValue), "{error}");
    let name = path.file_name().expect("a name").to_string_lossy();
    assert!(error.to_string().contains(&*name), "`{error}` does not name {name}");
}
