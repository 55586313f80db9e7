//! Opens a data set, with the structure that the crate `hdf5-pure` reads.

use super::attributes::annotations_of;
use super::choice::{Chosen, choose};
use super::chunks::chunked;
use super::elements::elements_of;
use super::place::{DataSetFile, Structure, opened_by};
use crate::array::Array;
use crate::byte_order::{ByteOrder, swap};
use crate::file_error;
use crate::format::contract::{Opened, Reader, open_regular};
use crate::format::flat::FlatReader;
use crate::shown::shown;
use hdf5_pure::{Dataset, FormatError, Layout};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use trijet::Result;

/// Maximum size of a data set inside an object header, which a message of the header limits.
const COMPACT_BYTES_MAX: u64 = 64 << 10;

/// Opens the data set `inner` of a file, or the data set that is chosen by default.
///
/// The crate panics for some damaged files, such as a fixed array with pages of 2^64 entries. The
/// handles of the crate are dropped then, so nothing is used after the panic.
pub(super) fn open(path: &Path, inner: Option<&str>) -> Result<Opened> {
    catch_unwind(AssertUnwindSafe(|| open_structure(path, inner))).unwrap_or_else(|_| {
        let cause = "the structure is damaged: its reader has stopped with a panic";
        Err(file_error::damaged("open", path, cause))
    })
}

fn open_structure(path: &Path, inner: Option<&str>) -> Result<Opened> {
    let (file, metadata) = open_regular(path)?;
    let copy = file.try_clone().map_err(|error| file_error::io("open", path, error))?;
    let structure = Structure::new(copy, metadata.len());
    let tree = hdf5_pure::File::from_source(structure).map_err(|error| {
        file_error::damaged("open", path, format!("not an HDF5 file, or damaged: {error}"))
    })?;
    let (wanted, found) = (tree.superblock().eof_address, metadata.len());
    if wanted > found {
        let cause = format!("the file is cut off: {found} of {wanted} bytes");
        return Err(file_error::damaged("open", path, cause));
    }
    let Chosen { name, data_set } = choose(path, &tree, inner)?;
    let place = DataSetFile { path, name, file, metadata };
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

fn opened(
    place: DataSetFile<'_>,
    data_set: &Dataset,
    array: Array,
    order: ByteOrder,
) -> Result<Opened> {
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
            let DataSetFile { path, file, metadata, .. } = place;
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
    place: &DataSetFile<'_>,
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
