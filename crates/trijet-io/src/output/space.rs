//! The disk space that an output needs, and the free space of its disk.

use super::target::Target;
use crate::file_error;
use crate::format::state_of;
use rustix::fs::{FsWord, statfs};
use std::os::unix::fs::MetadataExt;
use trijet::{Bytes, Result};

/// The disk space of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// The number of bytes of the complete output for which the disk has not allocated space yet.
    pub needed: Bytes,
    /// The number of free bytes that this user may allocate.
    pub free: Bytes,
}

/// The type numbers of file systems that compress files: Btrfs, ZFS, Bcachefs and F2FS. On these
/// file systems, a file may take less space than it has bytes.
const COMPRESSING: [FsWord; 4] = [0x9123_683e, 0x2fc1_2fc1, 0xca45_1a4e, 0xf2f5_2010];

/// The number of bytes of a unit of `st_blocks`. It does not depend on the block size of the file
/// system.
const BLOCK_BYTES: u64 = 512;

impl Target {
    /// The disk space of the output. `None` for images, because their size is not known before they
    /// are written. `None` for a file system that compresses files, or that does not report its
    /// free space.
    ///
    /// # Errors
    /// `Io` if the state of an earlier output cannot be read.
    pub fn space(&self) -> Result<Option<Space>> {
        let Some(bytes) = self.plan.bytes() else { return Ok(None) };
        let place = &self.place;
        let disk = statfs(place.folder())
            .map_err(|error| file_error::io("create", &place.out, error.into()))?;
        let unit = u64::try_from(disk.f_bsize).unwrap_or(0);
        if disk.f_blocks == 0 || unit == 0 || COMPRESSING.contains(&disk.f_type) {
            return Ok(None);
        }
        let mut allocated = 0_u64;
        for path in [&place.partial, &place.out] {
            if let Some(state) = state_of("create", path)?.filter(|state| state.is_file()) {
                allocated = allocated.saturating_add(state.blocks().saturating_mul(BLOCK_BYTES));
            }
        }
        let needed = Bytes(bytes.saturating_sub(allocated));
        Ok(Some(Space { needed, free: Bytes(disk.f_bavail.saturating_mul(unit)) }))
    }
}
