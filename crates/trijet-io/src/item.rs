//! The files of an input, and the comparison of a file with its earlier state.

use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// A file of an input, and the state of the file when the input was opened. The state does not
/// include the device number of the file system, because this number may change when the machine
/// starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The file name within the folder of the input. Empty if the input is a single file.
    pub name: OsString,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// The time of the last modification: seconds and nanoseconds since 1970-01-01 UTC.
    pub modified: (i64, i64),
    /// The inode number of the file. If the file is replaced by another file with the same name,
    /// the inode number differs.
    pub inode: u64,
    /// The time of the last change of the file's bytes or metadata (`ctime`), in seconds and
    /// nanoseconds since 1970-01-01 UTC. No program can set this time. So the time shows that bytes
    /// were changed, even if `modified` was set back. The time also changes with a new permission,
    /// name or hard link.
    pub changed: (i64, i64),
}

/// The result of the comparison of a file with an earlier state of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sameness {
    Same,
    /// Only `changed` differs. It is not known whether the bytes have changed.
    Doubtful,
    Changed,
}

impl Item {
    /// The state as a JSON value for the journal.
    pub(crate) fn stamp(&self) -> Value {
        json!([
            self.name.to_string_lossy(),
            self.bytes,
            time(self.modified),
            self.inode,
            time(self.changed)
        ])
    }

    /// Compares the file with its earlier state `earlier` from a journal.
    pub(crate) fn compare(&self, earlier: &Value) -> Sameness {
        let now = self.stamp();
        if now == *earlier {
            return Sameness::Same;
        }
        // The states in an older journal have no `changed`.
        let without_changed = |stamp: &Value| {
            let fields = stamp.as_array()?;
            fields.get(..fields.len().min(4)).map(<[Value]>::to_vec)
        };
        match without_changed(earlier) == without_changed(&now) {
            true => Sameness::Doubtful,
            false => Sameness::Changed,
        }
    }

    /// The file `name` of an input. `metadata` is the state of the file.
    #[must_use]
    pub fn new(name: OsString, metadata: &Metadata) -> Self {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Self { name, bytes: metadata.len(), modified, inode: metadata.ino(), changed }
    }
}

/// A time, as the text that the journal has for it.
fn time((seconds, nanoseconds): (i64, i64)) -> String {
    format!("{seconds}.{nanoseconds:09}")
}
