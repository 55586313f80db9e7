//! A file with a data set: its structure for the crate, and the errors about it.

use crate::annotations::Annotations;
use crate::array::Array;
use crate::file_error;
use crate::format::contract::{Opened, Reader};
use crate::item::Item;
use crate::python::{literal, refused_with_line};
use crate::shown::shown;
use hdf5_pure::{FormatError, Source};
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trijet::{Error, Result};

/// The bytes that one read of the structure counts as, at least.
const READ_BYTES_MIN: u64 = 64;
/// The bytes that the structure of any file may have, and the part of a file that may be structure.
/// A damaged file can name the same bytes many times, and would be read for hours.
const STRUCTURE_BYTES: u64 = 64 << 20;
const STRUCTURE_PARTS: u64 = 4;

/// A file whose structure is read.
#[derive(Debug)]
pub(super) struct DataSetFile<'a> {
    pub(super) path: &'a Path,
    /// The path of the data set in the file, for messages.
    pub(super) name: String,
    pub(super) file: File,
    pub(super) metadata: Metadata,
}

impl DataSetFile<'_> {
    /// The error for a damaged structure.
    pub(super) fn damaged(&self, cause: impl std::fmt::Display) -> Error {
        let cause = format!("the structure of {} is damaged: {cause}", shown(&self.name));
        file_error::damaged("open", self.path, cause)
    }

    /// Refuses a data set with the line of Python that converts it.
    pub(super) fn refused(&self, cause: &str) -> Error {
        // `hdf5plugin` reads filters that HDF5 itself does not have.
        let array = format!("h5py.File({{}})[{}][:]", literal(Path::new(&self.name)));
        let cause = format!("{}: {cause}", shown(&self.name));
        refused_with_line("open", self.path, &cause, "hdf5plugin, h5py", &array)
    }
}

/// The file, as the crate reads it.
pub(super) struct Structure {
    file: File,
    bytes: u64,
    left: AtomicU64,
}

impl Structure {
    pub(super) fn new(file: File, bytes: u64) -> Self {
        let left = bytes.saturating_mul(STRUCTURE_PARTS).saturating_add(STRUCTURE_BYTES);
        Self { file, bytes, left: AtomicU64::new(left) }
    }
}

impl Source for Structure {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::result::Result<(), FormatError> {
        if offset.checked_add(into.len() as u64).is_none_or(|end| end > self.bytes) {
            return Err(FormatError::Source("a place beyond the end of the file".to_owned()));
        }
        let cost = READ_BYTES_MIN.max(into.len() as u64);
        let take = |left: u64| left.checked_sub(cost);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            let cause = "the structure names the same bytes again and again";
            return Err(FormatError::Source(cause.to_owned()));
        }
        self.file
            .read_exact_at(into, offset)
            .map_err(|error| FormatError::Source(error.to_string()))
    }
}

/// The description of an input that `reader` reads.
pub(super) fn opened_by(
    array: Array,
    whole_rows: u64,
    metadata: &Metadata,
    reader: Box<dyn Reader>,
) -> Opened {
    let items = vec![Item::new(OsString::new(), metadata)];
    let (left_out, annotations) = (Vec::new(), Annotations::default());
    Opened { array, granule: 1, whole_rows, items, left_out, annotations, reader }
}

/// Shares a file and its path with a reader of blocks.
pub(super) fn shared(place: &DataSetFile<'_>) -> Result<(Arc<File>, Arc<PathBuf>)> {
    let file = place.file.try_clone();
    let file = file.map_err(|error| file_error::io("open", place.path, error))?;
    Ok((Arc::new(file), Arc::new(place.path.to_owned())))
}
