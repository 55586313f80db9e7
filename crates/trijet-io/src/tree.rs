//! The files in a folder and in the folders below it.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, statat};
use rustix::io::{Errno, retry_on_intr};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Maximum depth of folders. The files of a Zarr array with 64 axes lie in 66 folders.
const DEPTH_MAX: usize = 80;

/// The treatment of symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// The state of a link is the state of the link itself.
    Kept,
    /// The state of a link to a file is the state of the file. No link to a folder is followed.
    Followed,
}

/// A file or a link that was found.
#[derive(Debug)]
pub(crate) struct TreeFile {
    /// A hash of the path within the first folder.
    pub(crate) path_hash: u64,
    pub(crate) state: Stat,
}

/// Calls `visit` for every file below `folder`, in no particular order. Files and folders whose
/// names `is_skipped` are left out.
///
/// # Errors
/// Errors of the system, and `InvalidInput` for too many folders in folders.
pub(crate) fn walk(
    folder: &File,
    links: Links,
    is_skipped: fn(&[u8]) -> bool,
    visit: &mut dyn FnMut(&TreeFile),
) -> io::Result<()> {
    // A second reading of one open folder would start where the first one ended.
    let folder = open_folder(folder, c".")?;
    walk_from(folder, 0, &mut Walk { links, is_skipped, depth: 0, visit })
}

/// The state of a walk.
struct Walk<'v> {
    links: Links,
    is_skipped: fn(&[u8]) -> bool,
    depth: usize,
    visit: &'v mut dyn FnMut(&TreeFile),
}

fn open_folder(folder: impl AsFd, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = folder.as_fd();
    Ok(retry_on_intr(|| openat(folder, name, flags, Mode::empty()))?)
}

fn walk_from(folder: OwnedFd, hash: u64, walk: &mut Walk<'_>) -> io::Result<()> {
    if walk.depth > DEPTH_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many folders in folders"));
    }
    walk.depth += 1;
    let mut entries = Dir::new(folder)?;
    while let Some(entry) = entries.read() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") || (walk.is_skipped)(name.to_bytes()) {
            continue;
        }
        let path_hash = xxh3_64_with_seed(name.to_bytes(), hash);
        let folder = entries.fd()?;
        let mut kind = entry.file_type();
        if !kind.is_dir() {
            let mut state = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                // The file was deleted after the folder was read.
                Err(Errno::NOENT) => continue,
                state => state?,
            };
            // Some file systems do not tell the kinds of files in a folder.
            kind = FileType::from_raw_mode(state.st_mode);
            if kind.is_symlink()
                && walk.links == Links::Followed
                && let Ok(target) = statat(folder, name, AtFlags::empty())
            {
                state = target;
            }
            if !kind.is_dir() {
                (walk.visit)(&TreeFile { path_hash, state });
            }
        }
        if kind.is_dir() {
            walk_from(open_folder(folder, name)?, path_hash, walk)?;
        }
    }
    walk.depth -= 1;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// The sizes of the files that a walk finds.
    fn sizes(folder: &std::path::Path, links: Links) -> Vec<i64> {
        let mut sizes = Vec::new();
        let is_skipped = |name: &[u8]| name == b"skipped";
        walk(&File::open(folder).unwrap(), links, is_skipped, &mut |file| {
            sizes.push(file.state.st_size);
        })
        .unwrap();
        sizes.sort_unstable();
        sizes
    }

    #[test]
    fn a_walk_enters_folders_but_no_links() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("deep/deeper")).unwrap();
        fs::create_dir(path("skipped")).unwrap();
        for (name, text) in [("a", "1"), ("deep/deeper/b", "12"), ("skipped/x", "123")] {
            fs::write(path(name), text).unwrap();
        }
        symlink("deeper/b", path("deep/link")).unwrap();
        assert_eq!(sizes(folder.path(), Links::Followed), [1, 2, 2]);
        assert_eq!(sizes(folder.path(), Links::Kept), [1, 2, 8]);
        symlink("deep", path("loop")).unwrap();
        assert_eq!(sizes(folder.path(), Links::Kept), [1, 2, 4, 8]);
    }

    #[test]
    fn folders_in_folders_have_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = |depth| (0..depth).fold(folder.path().to_owned(), |path, _| path.join("d"));
        let walk =
            || walk(&File::open(folder.path()).unwrap(), Links::Kept, |_| false, &mut |_| {});
        fs::create_dir_all(path(DEPTH_MAX)).unwrap();
        walk().unwrap();
        fs::create_dir_all(path(DEPTH_MAX + 1)).unwrap();
        assert!(walk().is_err());
    }
}
