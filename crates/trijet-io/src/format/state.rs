//! The state of an input as far as it is known without reading it: path, size and modification
//! time.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The state of an input when it was opened. For a folder of images: the sum of their sizes, and
/// the time of the latest modification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputState {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    /// Seconds and nanoseconds since 1970-01-01 UTC.
    pub(crate) modified: (i64, i64),
}

impl InputState {
    pub(super) fn of(path: &Path, metadata: &Metadata) -> Self {
        Self {
            path: path.to_owned(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }

    /// Includes another file of the same folder.
    pub(super) fn add(&mut self, metadata: &Metadata) {
        self.bytes = self.bytes.saturating_add(metadata.len());
        self.modified = self.modified.max((metadata.mtime(), metadata.mtime_nsec()));
    }
}
