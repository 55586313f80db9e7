//! The layout of a data set: where its elements are.

use super::cursor::FieldCursor;
use super::fault::{Fault, Outcome};

/// Where the elements of a data set are.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::format::hdf5) enum DataLayout {
    /// In the object header.
    Compact(Vec<u8>),
    /// In one piece.
    Contiguous {
        /// `None` if the elements were never written.
        address: Option<u64>,
        /// `None` if the version of the layout does not state it.
        bytes: Option<u64>,
    },
    Chunked(ChunkLayout),
    /// In other data sets.
    Virtual,
}

/// The form and the index of the chunks of a data set.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::format::hdf5) struct ChunkLayout {
    pub(in crate::format::hdf5) shape: Vec<u64>,
    /// The size of an element.
    pub(in crate::format::hdf5) element: u64,
    /// Whether chunks that are cut by the end of an axis are stored without filters.
    pub(in crate::format::hdf5) has_raw_edges: bool,
    pub(super) index: IndexKind,
    /// The address of the index, or of the chunks. `None` if no chunk is stored.
    pub(super) address: Option<u64>,
}

/// The kind of the index of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IndexKind {
    BTreeV1,
    /// The only chunk. It has the size and the mask of its filters, if there are filters.
    Single(Option<SingleChunk>),
    Implicit,
    FixedArray,
    ExtensibleArray,
    BTreeV2,
}

/// The only chunk of a data set, with filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SingleChunk {
    pub(super) bytes: u64,
    pub(super) mask: u32,
}

impl DataLayout {
    pub(super) fn parse(mut fields: FieldCursor<'_>) -> Outcome<Self> {
        let version = fields.u8().map_err(|fault| fault.within("the layout"))?;
        let found = match version {
            1 | 2 => of_version_1(fields),
            3..=5 => of_version_3(fields, version),
            _ => Err(Fault::damaged(format!("it has the version {version}"))),
        };
        found.map_err(|fault| fault.within("the layout"))
    }
}

fn of_version_1(mut fields: FieldCursor<'_>) -> Outcome<DataLayout> {
    let (axes, class) = (fields.u8()?, fields.u8()?);
    fields.skip(5)?;
    let address = if class == 0 { None } else { fields.address()? };
    let mut shape = lengths(&mut fields, axes, 4)?;
    match class {
        0 => {
            let bytes = fields.count(4)?;
            Ok(DataLayout::Compact(fields.take(bytes)?.to_vec()))
        }
        1 => Ok(DataLayout::Contiguous { address, bytes: None }),
        2 => {
            let element = last(&mut shape)?;
            let (index, has_raw_edges) = (IndexKind::BTreeV1, false);
            Ok(DataLayout::Chunked(ChunkLayout { shape, element, has_raw_edges, index, address }))
        }
        _ => Err(Fault::damaged(format!("it has the class {class}"))),
    }
}

fn of_version_3(mut fields: FieldCursor<'_>, version: u8) -> Outcome<DataLayout> {
    match (fields.u8()?, version) {
        (0, _) => {
            let bytes = usize::from(fields.u16()?);
            Ok(DataLayout::Compact(fields.take(bytes)?.to_vec()))
        }
        (1, _) => {
            let address = fields.address()?;
            Ok(DataLayout::Contiguous { address, bytes: Some(fields.length()?) })
        }
        (2, 3) => {
            let axes = fields.u8()?;
            let address = fields.address()?;
            let mut shape = lengths(&mut fields, axes, 4)?;
            let element = last(&mut shape)?;
            let (index, has_raw_edges) = (IndexKind::BTreeV1, false);
            Ok(DataLayout::Chunked(ChunkLayout { shape, element, has_raw_edges, index, address }))
        }
        (2, _) => indexed(fields).map(DataLayout::Chunked),
        (3, _) => Ok(DataLayout::Virtual),
        (class, _) => Err(Fault::damaged(format!("it has the class {class}"))),
    }
}

/// Chunks with the indices of version 4. Version 5 differs in the sizes of chunks, whose number of
/// bytes follows from the index.
fn indexed(mut fields: FieldCursor<'_>) -> Outcome<ChunkLayout> {
    let (flags, axes, bytes) = (fields.u8()?, fields.u8()?, fields.u8()?);
    let mut shape = lengths(&mut fields, axes, usize::from(bytes))?;
    let element = last(&mut shape)?;
    let kind = fields.u8()?;
    let index = match kind {
        1 if flags & 2 == 0 => IndexKind::Single(None),
        1 => IndexKind::Single(Some(SingleChunk { bytes: fields.length()?, mask: fields.u32()? })),
        2 => IndexKind::Implicit,
        3 => IndexKind::FixedArray,
        4 => IndexKind::ExtensibleArray,
        5 => IndexKind::BTreeV2,
        _ => return Err(Fault::damaged(format!("the chunks have the index {kind}"))),
    };
    // The parameters of an index are also in its header.
    fields.skip(match index {
        IndexKind::FixedArray => 1,
        IndexKind::ExtensibleArray => 5,
        IndexKind::BTreeV2 => 6,
        _ => 0,
    })?;
    let address = fields.address()?;
    Ok(ChunkLayout { shape, element, has_raw_edges: flags & 1 != 0, index, address })
}

fn lengths(fields: &mut FieldCursor<'_>, axes: u8, bytes: usize) -> Outcome<Vec<u64>> {
    (0..axes).map(|_| fields.number(bytes)).collect()
}

/// Takes the size of an element, which follows the axes of a chunk.
fn last(shape: &mut Vec<u64>) -> Outcome<u64> {
    shape.pop().ok_or_else(|| Fault::damaged("the chunks have no axes"))
}
