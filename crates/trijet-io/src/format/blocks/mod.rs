//! Arrays that a file, or the files of a folder, hold as blocks.
//!
//! A block is a part of an array with a stored form of its own: a strip or a tile of a TIFF file, a
//! chunk of an HDF5 or Zarr array. The blocks of an array form a regular [`Grid`]. A format only
//! tells where the bytes of a block are ([`BlockTable`]). The [reader](BlocksReader) reads these
//! bytes, decodes them on the threads of the pipeline, and copies the elements to their rows.

mod grid;
mod reader;
mod runs;
#[cfg(test)]
mod tests;

pub(in crate::format) use grid::{BlockEnds, Grid};
pub(in crate::format) use reader::{BlockTable, BlocksReader, StoredBlock};
