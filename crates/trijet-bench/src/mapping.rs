//! Files mapped into memory. This module is separate from the safe code, because a mapping is
//! unsafe: if another process changes the file, the bytes under a reference change.

use memmap2::{Mmap, MmapMut};
use std::fs::File;
use std::io::Result;

/// Maps a file that this process made, for reading.
pub(crate) fn readable(file: &File) -> Result<Mmap> {
    // SAFETY: the benchmark made the file in a folder of its own, with a name that it gave to no
    // other process, or with none. Its length stays as it is while the mapping lives.
    unsafe { Mmap::map(file) }
}

/// Maps a file that this process made, for writing. Writes go to the file.
pub(crate) fn writable(file: &File) -> Result<MmapMut> {
    // SAFETY: the file lies in a folder that the benchmark made for itself. The programs that it
    // starts there have ended before it maps a file, and it starts none before it drops the
    // mapping.
    unsafe { MmapMut::map_mut(file) }
}
