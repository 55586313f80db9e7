//! A temporary folder for the files of a fuzz target, and the requirements for every error.

use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use trijet::{Error, ErrorKind};

thread_local! {
    /// One folder for each thread, because creating a folder takes longer than most inputs.
    static FOLDER: TempDir = tempfile::tempdir().expect("a folder for temporary files");
}

/// The path of `name` in the folder of this thread.
pub(crate) fn path(name: &str) -> PathBuf {
    FOLDER.with(|folder| folder.path().join(name))
}

/// Writes a file of these bytes. An existing file is deleted first, because some file systems sync
/// a file to the disk that is truncated and written again.
pub(crate) fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = path(name);
    if path.exists() {
        fs::remove_file(&path).expect("the file is ours");
    }
    fs::write(&path, bytes).expect("space for a small file");
    path
}

/// Asserts that an error has the kind for damaged or for unsupported files, and names the file.
#[track_caller]
pub(crate) fn refused(error: &Error, path: &Path) {
    assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::InvalidValue), "{error}");
    let name = path.file_name().expect("a name").to_string_lossy();
    assert!(error.to_string().contains(&*name), "`{error}` does not name {name}");
}
