//! The space that an output needs, and the space that its disk has.

use super::target::Target;
use crate::file_error;
use crate::format::state_of;
use rustix::fs::{FsWord, statfs};
use std::os::unix::fs::MetadataExt;
use trijet::{Bytes, Result};

/// The space of an output on its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// The bytes of the complete output that are not allocated yet.
    pub needed: Bytes,
    /// The bytes that this user may still allocate.
    pub free: Bytes,
}

/// The type numbers of file systems that compress: Btrfs, ZFS, Bcachefs and F2FS. On these file
/// systems, bytes may take less space.
const COMPRESSING: [FsWord; 4] = [0x9123_683e, 0x2fc1_2fc1, 0xca45_1a4e, 0xf2f5_2010];

/// The unit of `st_blocks`. It does not depend on the block size of the file system.
const BLOCK_BYTES: u64 = 512;

impl Target {
    /// The space of the output. `None` for images, because their size is not known before they are
    /// written. Also `None` on a file system that compresses or does not report its free space.
    ///
    /// # Errors
    /// `Io` when the state of an earlier output cannot be read.
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
