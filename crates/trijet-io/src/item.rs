//! The files of an input.

use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// A file of an input, with its state when the input was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The name within the folder of the input; empty for an input that is one file.
    pub name: OsString,
    /// The size of the file.
    pub bytes: u64,
    /// The time of the last modification: seconds and nanoseconds since 1970-01-01 UTC.
    pub modified: (i64, i64),
}

impl Item {
    /// The state as a value of the journal. Equal values mean that the file has not changed.
    pub(crate) fn stamp(&self) -> Value {
        let (seconds, nanoseconds) = self.modified;
        json!([self.name.to_string_lossy(), self.bytes, format!("{seconds}.{nanoseconds:09}")])
    }

    /// The file `name` of an input, whose state is `metadata`.
    #[must_use]
    pub fn new(name: OsString, metadata: &Metadata) -> Self {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Self { name, bytes: metadata.len(), modified }
    }
}
