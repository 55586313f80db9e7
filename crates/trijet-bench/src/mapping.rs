//! Files mapped into memory. This module is separate from the safe code, because a mapping is
//! unsafe: if another process changes the file, the bytes under a reference change.

use memmap2::{Mmap, MmapMut};
use std::fs::File;
use std::io::Result;

/// Maps a file that this process made, for reading.
pub(crate) fn readable(file: &File) -> Result<Mmap> {
    // SAFETY: the benchmark made the file in a folder of its own. No other process knows the name
    // of the file, or the file has no name. The length of the file does not change while the
    // mapping lives.
    unsafe { Mmap::map(file) }
}

/// Maps a file that this process made, for writing. Writes go to the file.
pub(crate) fn writable(file: &File) -> Result<MmapMut> {
    // SAFETY: the file lies in a folder that the benchmark made for itself. All programs that the
    // benchmark starts in this folder have ended before the benchmark maps a file. The benchmark
    // starts no program there before the mapping is dropped.
    unsafe { MmapMut::map_mut(file) }
}
