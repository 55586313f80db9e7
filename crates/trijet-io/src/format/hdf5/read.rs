//! Opens a data set, with the structure that the crate `hdf5-pure` reads.

use super::attributes::annotations_of;
use super::choice::{Chosen, choose};
use super::chunks::chunked;
use super::elements::elements_of;
use crate::annotations::Annotations;
use crate::array::Array;
use crate::byte_order::{ByteOrder, swap};
use crate::file_error;
use crate::format::contract::{Opened, Reader, open_regular};
use crate::format::flat::FlatReader;
use crate::item::Item;
use crate::python::{literal, refused_with_line};
use crate::shown::shown;
use hdf5_pure::{Dataset, FormatError, Layout, Source};
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trijet::{Error, Result};

/// Maximum size of a data set inside an object header, which a message of the header limits.
const COMPACT_BYTES_MAX: u64 = 64 << 10;
/// The bytes that one read of the structure counts as, at least.
const READ_BYTES_MIN: u64 = 64;
/// The bytes that the structure of any file may have, and the part of a file that may be structure.
/// A damaged file can name the same bytes many times, and would be read for hours.
const STRUCTURE_BYTES: u64 = 64 << 20;
const STRUCTURE_PARTS: u64 = 4;

/// A file whose structure is read.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) path: &'a Path,
    /// The path of the data set in the file, for messages.
    pub(super) name: String,
    pub(super) file: File,
    pub(super) metadata: Metadata,
}

impl Place<'_> {
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
struct Structure {
    file: File,
    bytes: u64,
    left: AtomicU64,
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

/// Opens the data set `inner` of a file, or the data set that is chosen by default.
pub(super) fn open(path: &Path, inner: Option<&str>) -> Result<Opened> {
    let (file, metadata) = open_regular(path)?;
    let copy = || file.try_clone().map_err(|error| file_error::io("open", path, error));
    let bytes = metadata.len();
    let left =
        AtomicU64::new(bytes.saturating_mul(STRUCTURE_PARTS).saturating_add(STRUCTURE_BYTES));
    let structure = Structure { file: copy()?, bytes, left };
    let tree = hdf5_pure::File::from_source(structure).map_err(|error| {
        file_error::damaged("open", path, format!("not an HDF5 file, or damaged: {error}"))
    })?;
    let Chosen { name, data_set } = choose(path, &tree, inner)?;
    let place = Place { path, name, file, metadata };
    let (dtype, order) = elements_of(&place, &data_set)?;
    let shape = data_set.shape().map_err(|error| place.damaged(error))?;
    if shape.is_empty() {
        return Err(place.refused("has one element, and no axes"));
    }
    let array =
        Array::new(dtype, shape).map_err(|error| error.context(format!("open {}", shown(path))))?;
    let annotations = annotations_of(&data_set);
    let opened = opened(place, &data_set, array, order)?;
    Ok(Opened { annotations, ..opened })
}

fn opened(place: Place<'_>, data_set: &Dataset, array: Array, order: ByteOrder) -> Result<Opened> {
    let layout = data_set.layout().map_err(|error| match error {
        hdf5_pure::Error::Format(FormatError::InvalidLayoutVersion(version @ 5..)) => {
            let cause = format!(
                "the layout of the elements has the version {version}, which HDF5 2.0 writes if \
                 libver is 'latest', and which is not supported"
            );
            place.refused(&cause)
        }
        error => place.damaged(error),
    })?;
    match layout {
        Layout::Contiguous { address: Some(address), size } => {
            let end = address.checked_add(size);
            if size != array.bytes() || end.is_none_or(|end| end > place.metadata.len()) {
                let cause = format!("{array} does not have {size} bytes at byte {address}");
                return Err(place.damaged(cause));
            }
            let Place { path, file, metadata, .. } = place;
            Ok(FlatReader::opened(file, path, address, array, order, &metadata))
        }
        Layout::Contiguous { address: None, .. } => {
            let cause = "no elements are in this file: they were never written, or are in other \
                         files (H5Pset_external)";
            Err(place.refused(cause))
        }
        Layout::Chunked { chunk_shape, index } => {
            chunked(place, data_set, array, order, &chunk_shape, index)
        }
        Layout::Compact { size } => compact(&place, data_set, array, order, size),
        Layout::Virtual => {
            let cause = "is a virtual data set, whose elements are in other files; use the file of \
                         the data, for example the data file instead of the master file of a \
                         detector";
            Err(place.refused(cause))
        }
        _ => Err(place.refused("the layout of the elements is not known")),
    }
}

/// A data set whose elements are in its object header.
fn compact(
    place: &Place<'_>,
    data_set: &Dataset,
    array: Array,
    order: ByteOrder,
    size: u64,
) -> Result<Opened> {
    if size != array.bytes() || size > COMPACT_BYTES_MAX {
        return Err(place.damaged(format!("{array} does not have {size} bytes")));
    }
    let mut bytes = data_set.read_raw().map_err(|error| place.damaged(error))?;
    if bytes.len() as u64 != size {
        return Err(place.damaged(format!("{} bytes instead of {size}", bytes.len())));
    }
    if order == ByteOrder::Big {
        swap(array.dtype(), &mut bytes);
    }
    let row_bytes = array.layout().row_bytes;
    let reader = Box::new(CompactReader { bytes, row_bytes });
    Ok(opened_by(array, 1, &place.metadata, reader))
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

/// A data set of a few elements in memory.
#[derive(Debug)]
struct CompactReader {
    bytes: Vec<u8>,
    row_bytes: u64,
}

impl Reader for CompactReader {
    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        let start = usize::try_from(rows.start * self.row_bytes).expect("the rows are in memory");
        into.copy_from_slice(&self.bytes[start..start + into.len()]);
        Ok(())
    }
}

/// Shares a file and its path with a reader of blocks.
pub(super) fn shared(place: &Place<'_>) -> Result<(Arc<File>, Arc<std::path::PathBuf>)> {
    let file = place.file.try_clone();
    let file = file.map_err(|error| file_error::io("open", place.path, error))?;
    Ok((Arc::new(file), Arc::new(place.path.to_owned())))
}
