//! The folders of the benchmark: one in memory, and one on a disk.
#![forbid(unsafe_code)]

use super::definition::Kind;
use rustix::fs::statfs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The type of a file system in memory (statfs(2), `TMPFS_MAGIC`).
const TMPFS: u64 = 0x0102_1994;

/// Makes a folder in the first of `folders` that has this kind and room for `bytes`. Returns the
/// new folder and its parent. The new folder is removed when its value is dropped.
///
/// # Errors
/// For each folder, the reason why it is not used.
pub(super) fn find(
    kind: Kind,
    folders: &[PathBuf],
    bytes: u64,
) -> Result<(TempDir, &Path), String> {
    let mut refused = Vec::new();
    for folder in folders {
        match check(kind, folder, bytes) {
            Ok(()) => {
                let made = tempfile::Builder::new().prefix("trijet-bench-").tempdir_in(folder);
                let made = made.map(|made| (made, folder.as_path()));
                return made.map_err(|error| format!("{}: {error}", folder.display()));
            }
            Err(why) => refused.push(format!("{} {why}", folder.display())),
        }
    }
    if refused.is_empty() {
        refused.push("no folder is given".to_owned());
    }
    Err(refused.join(", "))
}

fn check(kind: Kind, folder: &Path, bytes: u64) -> Result<(), String> {
    let found = statfs(folder).map_err(|error| format!("cannot be used: {error}"))?;
    let is_tmpfs = u64::try_from(found.f_type).is_ok_and(|of| of == TMPFS);
    if is_tmpfs != (kind == Kind::Tmpfs) {
        let which = if is_tmpfs { "is in memory" } else { "is not in memory" };
        return Err(which.to_owned());
    }
    let free = found.f_bavail.saturating_mul(u64::try_from(found.f_bsize).unwrap_or(0));
    if free < bytes {
        return Err(format!("has only {free} free bytes, but {bytes} are needed"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_room_or_of_another_kind_is_refused_with_the_reason() {
        let here = [PathBuf::from(".")];
        // The folder has one of the two kinds, and has less room than required.
        for kind in [Kind::Tmpfs, Kind::Disk] {
            let why = find(kind, &here, u64::MAX).err().unwrap();
            let told = ["has ", "is in memory", "is not in memory"].map(|told| format!(". {told}"));
            assert!(told.iter().any(|told| why.starts_with(told)), "{why}");
        }
        let missing = [PathBuf::from("no-such-folder")];
        let why = find(Kind::Disk, &missing, 1).err().unwrap();
        assert!(why.starts_with("no-such-folder cannot be used: "), "{why}");
    }
}
