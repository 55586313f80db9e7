//! Opens a data set, with the structure of its file.

use super::attributes::annotations_of;
use super::choice::{Chosen, choose};
use super::chunks::chunked;
use super::elements::elements_of;
use super::place::{DataSetFile, opened_by};
use super::structure::{DataLayout, DataSet, Fault, ObjectTree};
use crate::array::Array;
use crate::byte_order::{ByteOrder, swap};
use crate::file_error;
use crate::format::contract::{Opened, Reader, open_regular};
use crate::format::flat::FlatReader;
use crate::shown::shown;
use std::fs::{File, Metadata};
use std::ops::Range;
use std::path::Path;
use trijet::Result;

/// Opens the data set `inner` of a file, or the data set that is chosen by default.
pub(super) fn open(path: &Path, inner: Option<&str>) -> Result<Opened> {
    let (file, metadata) = open_regular(path)?;
    let copy = file.try_clone().map_err(|error| file_error::io("open", path, error))?;
    let tree = ObjectTree::open(copy, metadata.len()).map_err(|fault| match fault {
        Fault::Unsupported(cause) => file_error::refused("open", path, cause),
        fault => {
            file_error::damaged("open", path, format!("not an HDF5 file, or damaged: {fault}"))
        }
    })?;
    open_in(path, file, metadata, &tree, inner)
}

/// Opens a data set of a file whose start is read.
pub(super) fn open_in(
    path: &Path,
    file: File,
    metadata: Metadata,
    tree: &ObjectTree,
    inner: Option<&str>,
) -> Result<Opened> {
    let (wanted, found) = (tree.end(), metadata.len());
    if wanted > found {
        let cause = format!("the file is cut off: {found} of {wanted} bytes");
        return Err(file_error::damaged("open", path, cause));
    }
    let name = inner.unwrap_or_default().to_owned();
    let place = DataSetFile { path, name, file, metadata };
    let Chosen { name, data_set } = choose(&place, tree, inner)?;
    let place = DataSetFile { name, ..place };
    let (dtype, order) = elements_of(&place, &data_set.datatype)?;
    if data_set.space.is_null {
        return Err(place.refused("has no elements, and no axes"));
    }
    let shape = data_set.space.shape.clone();
    if shape.is_empty() {
        return Err(place.refused("has one element, and no axes"));
    }
    let array =
        Array::new(dtype, shape).map_err(|error| error.context(format!("open {}", shown(path))))?;
    let opened = match array.bytes() {
        // Nothing is stored, and products of the other axes may overflow.
        0 => in_memory(array, Vec::new(), &place.metadata),
        _ => opened(place, tree, &data_set, array, order)?,
    };
    // The attributes are optional, so they take what the elements have left of the limit.
    Ok(Opened { annotations: annotations_of(tree, &data_set), ..opened })
}

fn opened(
    place: DataSetFile<'_>,
    tree: &ObjectTree,
    data_set: &DataSet,
    array: Array,
    order: ByteOrder,
) -> Result<Opened> {
    match tree.layout(data_set).map_err(|fault| place.fault(fault))? {
        DataLayout::Contiguous { .. } if tree.is_external(data_set) => {
            Err(place.refused("the elements are in other files (H5Pset_external)"))
        }
        DataLayout::Contiguous { address: Some(address), bytes } => {
            let stated = bytes.unwrap_or(array.bytes());
            if stated != array.bytes() {
                return Err(place.damaged(format!("{array} does not have {stated} bytes")));
            }
            let offset = tree.offset(address, stated).map_err(|fault| place.fault(fault))?;
            let DataSetFile { path, file, metadata, .. } = place;
            Ok(FlatReader::opened(file, path, offset, array, order, &metadata))
        }
        DataLayout::Contiguous { address: None, .. } => {
            Err(place.refused("no elements are in this file: they were never written"))
        }
        DataLayout::Chunked(layout) => chunked(place, tree, data_set, array, order, &layout),
        DataLayout::Compact(bytes) => compact(&place, array, order, bytes),
        DataLayout::Virtual => {
            let cause = "is a virtual data set, whose elements are in other files; use the file of \
                         the data, for example the data file instead of the master file of a \
                         detector";
            Err(place.refused(cause))
        }
    }
}

/// A data set whose elements are in its object header.
fn compact(
    place: &DataSetFile<'_>,
    array: Array,
    order: ByteOrder,
    mut bytes: Vec<u8>,
) -> Result<Opened> {
    if bytes.len() as u64 != array.bytes() {
        return Err(place.damaged(format!("{array} does not have {} bytes", bytes.len())));
    }
    if order == ByteOrder::Big {
        swap(array.dtype(), &mut bytes);
    }
    Ok(in_memory(array, bytes, &place.metadata))
}

fn in_memory(array: Array, bytes: Vec<u8>, metadata: &Metadata) -> Opened {
    let row_bytes = array.layout().row_bytes;
    opened_by(array, 1, metadata, Box::new(CompactReader { bytes, row_bytes }))
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
