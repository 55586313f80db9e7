//! Names of files: how a file gets a name, and whether two paths lead to one file.

use rustix::fs::{AtFlags, CWD, RenameFlags, linkat, rename, renameat_with, unlink};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process;
use xxhash_rust::xxh3::xxh3_64;

/// A random number, which no other process has.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish() ^ RandomState::new().hash_one(process::id())
}

/// Maximum number of bytes of a file name on Linux (`NAME_MAX`).
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// The name, shortened to at most `most` bytes. A longer name is replaced by its start and a hash
/// of the whole name.
pub(crate) fn short_name(name: &OsStr, most: usize) -> OsString {
    let bytes = name.as_encoded_bytes();
    if bytes.len() <= most {
        return name.to_owned();
    }
    let hash = format!("-{:016x}", xxh3_64(bytes));
    let text = name.to_string_lossy();
    let mut short = OsString::from(&text[..text.floor_char_boundary(most - hash.len())]);
    short.push(hash);
    short
}

/// The device and inode number of a file. They are the same for all paths of the file.
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// The folder of a file. `.` if the path has no folder.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Renames the file or folder at `from` to `to`, and replaces nothing. If anything is at `to`, the
/// error is `EXIST`.
///
/// Some systems have no rename that refuses to replace. On such a system, a file first gets the new
/// name as a hard link, which also replaces nothing. After that, the old name is removed. A folder,
/// or a file on a file system without hard links, is renamed after a check of the new name. If
/// something appears at `to` after the check, the rename may replace it: a folder replaces an empty
/// folder, and a file replaces a file.
pub(crate) fn rename_new(from: &Path, to: &Path) -> rustix::io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some sandboxes return PERM for system calls that they do not know.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM) => {}
        done => return done,
    }
    match linkat(CWD, from, CWD, to, AtFlags::empty()) {
        Ok(()) => return unlink(from),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM | Errno::MLINK) => {}
        Err(error) => return Err(error),
    }
    match fs::symlink_metadata(to) {
        Ok(_) => Err(Errno::EXIST),
        Err(error) if error.kind() == io::ErrorKind::NotFound => rename(from, to),
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    }
}
