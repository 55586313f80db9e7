//! An input of one file: `.npy`, or raw with a shape from the user.
//!
//! The size of the file must be exactly what the array needs. All threads share one file
//! descriptor, because `pread` does not use the position of the file.

use super::array::Array;
use super::npy;
use super::state::InputState;
use crate::file_error;
use std::fs::{self, File, Metadata};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use trijet::Result;

#[derive(Debug)]
pub(super) struct Flat {
    file: File,
    path: PathBuf,
    data_start: u64,
    row_bytes: u64,
}

impl Flat {
    /// Opens an `.npy` file.
    pub(super) fn npy(path: &Path) -> Result<(Self, Array, InputState)> {
        let (file, metadata) = open_regular(path)?;
        let (array, data_start) = npy::read_header(&file, path, metadata.len())?;
        let (wanted, found) = (array.bytes(), metadata.len() - data_start);
        if found != wanted {
            let what = if found < wanted { "cut off" } else { "longer than the header says" };
            let cause = format!("the data are {what}: {array} needs {wanted} bytes, found {found}");
            return Err(file_error::damaged("open", path, cause));
        }
        Ok(Self::new(file, path, data_start, array, &metadata))
    }

    /// Opens a file that holds `array` and nothing else.
    pub(super) fn raw(path: &Path, array: Array) -> Result<(Self, Array, InputState)> {
        let (file, metadata) = open_regular(path)?;
        let (wanted, found) = (array.bytes(), metadata.len());
        if found != wanted {
            let cause = format!("{array} needs {wanted} bytes, but the file has {found}");
            return Err(file_error::refused("open", path, cause));
        }
        Ok(Self::new(file, path, 0, array, &metadata))
    }

    fn new(
        file: File,
        path: &Path,
        data_start: u64,
        array: Array,
        metadata: &Metadata,
    ) -> (Self, Array, InputState) {
        let row_bytes = array.layout().row_bytes;
        let flat = Self { file, path: path.to_owned(), data_start, row_bytes };
        (flat, array, InputState::of(path, metadata))
    }

    pub(super) fn read(&self, rows: &Range<u64>, into: &mut [u8]) -> Result<()> {
        self.file
            .read_exact_at(into, self.data_start + rows.start * self.row_bytes)
            .map_err(|error| file_error::io("read", &self.path, error))
    }
}

/// Opens a regular file. The kind is checked first, because opening a pipe would wait for its
/// writer.
pub(super) fn open_regular(path: &Path) -> Result<(File, Metadata)> {
    let metadata = fs::metadata(path).map_err(|error| file_error::io("open", path, error))?;
    if metadata.is_dir() {
        return Err(file_error::refused("open", path, "is a folder"));
    }
    if !metadata.is_file() {
        return Err(file_error::refused("open", path, "is not a regular file"));
    }
    let file = File::open(path).map_err(|error| file_error::io("open", path, error))?;
    let metadata = file.metadata().map_err(|error| file_error::io("open", path, error))?;
    Ok((file, metadata))
}
