//! What tells one state of an input from another without reading it: path, size and time.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The state of an input when it was opened. For a folder: the sum of its files' sizes, and the
/// time of the youngest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    /// Seconds and nanoseconds since 1970.
    pub(crate) modified: (i64, i64),
}

impl Stamp {
    pub(super) fn of(path: &Path, metadata: &Metadata) -> Self {
        Self {
            path: path.to_owned(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }

    pub(super) fn add(&mut self, metadata: &Metadata) {
        self.bytes = self.bytes.saturating_add(metadata.len());
        self.modified = self.modified.max((metadata.mtime(), metadata.mtime_nsec()));
    }
}
