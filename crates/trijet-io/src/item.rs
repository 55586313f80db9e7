//! The files of an input, and the rule that decides whether a file is the same as before.

use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// A file of an input, with its state when the input was opened. The state does not include the
/// number of the file system, because this number may change when the machine starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The file name within the folder of the input. Empty if the input is a single file.
    pub name: OsString,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// The time of the last modification: seconds and nanoseconds since 1970-01-01 UTC.
    pub modified: (i64, i64),
    /// The number of the file in its file system. Another file with the same name has another
    /// number.
    pub inode: u64,
    /// The time of the last change of bytes or state (`ctime`), in seconds and nanoseconds since
    /// 1970-01-01 UTC. No program can set this time. So it shows that bytes were changed, even if
    /// `modified` was set back. The time also changes with a new permission, name or hard link.
    pub changed: (i64, i64),
}

/// The result of the comparison of a file with an earlier state of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sameness {
    Same,
    /// Only `changed` differs. The bytes may have changed or not.
    Doubtful,
    Changed,
}

impl Item {
    /// The state as a value of the journal.
    pub(crate) fn stamp(&self) -> Value {
        json!([
            self.name.to_string_lossy(),
            self.bytes,
            time(self.modified),
            self.inode,
            time(self.changed)
        ])
    }

    /// Compares the file with its earlier state from a journal.
    pub(crate) fn compare(&self, earlier: &Value) -> Sameness {
        let now = self.stamp();
        if now == *earlier {
            return Sameness::Same;
        }
        // An older journal has no `changed`.
        let without_changed = |stamp: &Value| {
            let fields = stamp.as_array()?;
            fields.get(..fields.len().min(4)).map(<[Value]>::to_vec)
        };
        match without_changed(earlier) == without_changed(&now) {
            true => Sameness::Doubtful,
            false => Sameness::Changed,
        }
    }

    /// The file `name` of an input, whose state is `metadata`.
    #[must_use]
    pub fn new(name: OsString, metadata: &Metadata) -> Self {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Self { name, bytes: metadata.len(), modified, inode: metadata.ino(), changed }
    }
}

/// A time in a journal.
fn time((seconds, nanoseconds): (i64, i64)) -> String {
    format!("{seconds}.{nanoseconds:09}")
}
