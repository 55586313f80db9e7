//! The indices of the chunks of a data set.

use super::btree1::{TreeForm, each_leaf};
use super::btree2::BTree;
use super::chunk_sink::{ChunkOrder, ChunkPlace, ChunkSink, Visit};
use super::dataspace::Dataspace;
use super::extensible_array::extensible_array;
use super::fault::{Fault, Outcome};
use super::fixed_array::fixed_array;
use super::layout::{ChunkLayout, IndexKind, SingleChunk};
use super::storage::Structure;

/// The number of the type of the nodes of a tree of chunks, and of the records of chunks without
/// filters and with filters.
const CHUNK_NODES: u8 = 1;
const PLAIN_CHUNKS: u8 = 10;
const FILTERED_CHUNKS: u8 = 11;

/// The chunks of a data set, as its index has them.
pub(in crate::format::hdf5) enum Chunks {
    /// `visit` was called with every stored chunk.
    Visited,
    /// All chunks are stored one after another.
    InOrder(ChunksInOrder),
}

/// Chunks that are stored one after another.
#[derive(Debug)]
pub(in crate::format::hdf5) struct ChunksInOrder {
    order: ChunkOrder,
    /// The offset of the first chunk in the file.
    offset: u64,
    chunk_bytes: u64,
}

impl ChunksInOrder {
    /// The place of the chunk with an index. `None` for an index outside.
    pub(in crate::format::hdf5) fn find(&self, index: &[u64]) -> Option<ChunkPlace> {
        let before = self.order.number_of(index)?.checked_mul(self.chunk_bytes)?;
        let start = self.offset.checked_add(before)?;
        Some(ChunkPlace { start, bytes: self.chunk_bytes, mask: 0 })
    }
}

/// Calls `visit` with every stored chunk.
pub(super) fn each_chunk<'a>(
    structure: &'a Structure,
    layout: &ChunkLayout,
    space: &Dataspace,
    visit: &'a mut Visit<'a>,
) -> Outcome<Chunks> {
    let order = ChunkOrder::new(layout, space)?;
    let bytes = layout.shape.iter().try_fold(layout.element, |all, axis| all.checked_mul(*axis));
    let bytes = bytes.ok_or_else(|| Fault::damaged("the chunks are too large"))?;
    let Some(address) = layout.address else { return Ok(Chunks::Visited) };
    if layout.index == IndexKind::Implicit {
        return in_order(structure, order, address, bytes).map(Chunks::InOrder);
    }
    let unlimited = order.unlimited();
    let mut sink = ChunkSink::new(structure, order, bytes, visit);
    match layout.index {
        IndexKind::BTreeV1 => of_btree1(structure, address, &layout.shape, &mut sink),
        IndexKind::Single(filtered) => {
            let SingleChunk { bytes, mask } = filtered.unwrap_or(SingleChunk { bytes, mask: 0 });
            let place = ChunkPlace { start: address, bytes, mask };
            sink.indexed(&vec![0; layout.shape.len()], place)
        }
        IndexKind::FixedArray if unlimited == 0 => fixed_array(structure, address, &mut sink),
        IndexKind::ExtensibleArray if unlimited == 1 => {
            extensible_array(structure, address, &mut sink)
        }
        IndexKind::BTreeV2 => of_btree2(structure, address, layout.shape.len(), &mut sink),
        _ => Err(Fault::damaged(format!("{unlimited} axes have no limit"))),
    }
    .map_err(|fault| fault.within("the index of the chunks"))?;
    Ok(Chunks::Visited)
}

fn in_order(
    structure: &Structure,
    order: ChunkOrder,
    address: u64,
    chunk_bytes: u64,
) -> Outcome<ChunksInOrder> {
    let bytes = order.chunks().and_then(|chunks| chunks.checked_mul(chunk_bytes));
    let bytes = bytes.ok_or_else(|| Fault::damaged("the chunks are too large"))?;
    Ok(ChunksInOrder { order, offset: structure.offset(address, bytes)?, chunk_bytes })
}

/// A tree whose keys have the size, the mask and the offset of a chunk in elements.
fn of_btree1(
    structure: &Structure,
    address: u64,
    shape: &[u64],
    sink: &mut ChunkSink<'_>,
) -> Outcome<()> {
    // The last number of an offset is within an element.
    let form = TreeForm { kind: CHUNK_NODES, key_bytes: 8 * (shape.len() + 2) };
    let mut index = vec![0; shape.len()];
    each_leaf(structure, address, form, &mut |key, start| {
        let mut fields = structure.cursor(key);
        let (bytes, mask) = (u64::from(fields.u32()?), fields.u32()?);
        for (at, length) in index.iter_mut().zip(shape) {
            let offset = fields.number(8)?;
            if !offset.is_multiple_of(*length) {
                return Err(Fault::damaged(format!("a chunk starts at the element {offset}")));
            }
            *at = offset / length;
        }
        sink.indexed(&index, ChunkPlace { start, bytes, mask })
    })
}

/// A tree whose records have the address and the index of a chunk, and its size and mask if there
/// are filters.
fn of_btree2(
    structure: &Structure,
    address: u64,
    axes: usize,
    sink: &mut ChunkSink<'_>,
) -> Outcome<()> {
    let tree = BTree::read(structure, address)?;
    let fixed = structure.widths.address + 8 * axes;
    let size_bytes = match tree.kind {
        PLAIN_CHUNKS => Some(0),
        FILTERED_CHUNKS => usize::from(tree.record_bytes).checked_sub(fixed + 4),
        _ => None,
    };
    let wrong = || Fault::damaged(format!("the records have the type {}", tree.kind));
    let size_bytes = size_bytes.ok_or_else(wrong)?;
    let mut index = vec![0; axes];
    tree.each_record(structure, &mut |record| {
        let mut fields = structure.cursor(record);
        let start = fields.defined_address()?;
        let (bytes, mask) = match tree.kind {
            PLAIN_CHUNKS => (sink.chunk_bytes, 0),
            _ => (fields.number(size_bytes)?, fields.u32()?),
        };
        for at in &mut index {
            *at = fields.number(8)?;
        }
        sink.indexed(&index, ChunkPlace { start, bytes, mask })
    })
}
