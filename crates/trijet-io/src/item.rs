//! The files of an input.

use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// A file of an input, with its state when the input was opened. The time of the last change of the
/// state (`ctime`) is not part of it: a backup and a new permission change it, but not the bytes. Nor
/// is the number of the file system, which may change when the machine starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The name within the folder of the input; empty for an input that is one file.
    pub name: OsString,
    /// The size of the file.
    pub bytes: u64,
    /// The time of the last modification: seconds and nanoseconds since 1970-01-01 UTC.
    pub modified: (i64, i64),
    /// The number of the file in its file system. Another file with the name has another number.
    pub inode: u64,
}

impl Item {
    /// The state as a value of the journal. Equal values mean that the file has not changed.
    pub(crate) fn stamp(&self) -> Value {
        let (seconds, nanoseconds) = self.modified;
        let modified = format!("{seconds}.{nanoseconds:09}");
        json!([self.name.to_string_lossy(), self.bytes, modified, self.inode])
    }

    /// The file `name` of an input, whose state is `metadata`.
    #[must_use]
    pub fn new(name: OsString, metadata: &Metadata) -> Self {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Self { name, bytes: metadata.len(), modified, inode: metadata.ino() }
    }
}
