//! The files of an input, and the comparison of a file with its earlier state.

use crate::tree::{Links, walk};
use rustix::fs::Stat;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// A file of an input, and the state of the file when the input was opened. The state does not
/// include the device number of the file system, because this number may change when the machine
/// starts.
///
/// An item may also be a folder with many files, such as the chunks of an array. Its state then
/// combines the states of all these files, so that the change of one file changes the state.
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
    /// For a folder with many files: the path of the folder within the input. Then `bytes` is the
    /// total size of the files, `modified` and `changed` are their latest times, and `inode` is a
    /// hash of the names, sizes, times of modification and inode numbers of all files.
    pub folder: Option<PathBuf>,
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
        let (bytes, inode) = (metadata.len(), metadata.ino());
        Self { name, bytes, modified, inode, changed, folder: None }
    }

    /// The state of all files in `folder` of the input `root`, and in the folders below. Hidden
    /// files do not count, except the metadata of Zarr.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn of_folder(root: &Path, folder: &Path) -> io::Result<Self> {
        let mut all = Self {
            name: OsString::new(),
            bytes: 0,
            modified: (0, 0),
            inode: 0,
            changed: (0, 0),
            folder: Some(folder.to_owned()),
        };
        let is_hidden = |name: &[u8]| name.starts_with(b".") && !name.starts_with(b".z");
        walk(&File::open(root.join(folder))?, Links::Followed, is_hidden, &mut |file| {
            all.add(file.path_hash, &file.state);
        })?;
        Ok(all)
    }

    /// Adds a file of a folder to the state of the folder. The order of the files does not matter.
    fn add(&mut self, path_hash: u64, state: &Stat) {
        let bytes = state.st_size.cast_unsigned();
        let modified = (state.st_mtime, state.st_mtime_nsec);
        let changed = (state.st_ctime, state.st_ctime_nsec);
        let numbers = [
            path_hash,
            bytes,
            modified.0.cast_unsigned(),
            modified.1.cast_unsigned(),
            state.st_ino,
        ];
        let numbers: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
        self.inode = self.inode.wrapping_add(xxh3_64(&numbers));
        self.bytes = self.bytes.saturating_add(bytes);
        self.modified = self.modified.max(modified);
        self.changed = self.changed.max(changed);
    }

    /// The present state of the file or folder. `input` is the path of the input.
    pub(crate) fn now(&self, input: &Path) -> io::Result<Self> {
        match &self.folder {
            Some(folder) => Self::of_folder(input, folder),
            None if self.name.is_empty() => Ok(Self::new(OsString::new(), &fs::metadata(input)?)),
            None => Ok(Self::new(self.name.clone(), &fs::metadata(input.join(&self.name))?)),
        }
    }
}

/// A time, as the text that the journal has for it.
fn time((seconds, nanoseconds): (i64, i64)) -> String {
    format!("{seconds}.{nanoseconds:09}")
}
