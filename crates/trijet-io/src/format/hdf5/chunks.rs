//! A data set in chunks.

use super::filters::codecs_of;
use super::place::{DataSetFile, opened_by, shared};
use super::structure::{ChunkEntry, ChunkLayout, ChunkPlace, Chunks, ChunksInOrder};
use super::structure::{DataSet, ObjectTree};
use crate::array::Array;
use crate::byte_order::{ByteOrder, swap};
use crate::format::blocks::{BlockEnds, BlockTable, BlocksReader, Grid, StoredBlock};
use crate::format::contract::Opened;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use trijet::{Dtype, Result};
use trijet_codecs::{Chain, Codec};

/// Chunks of this size are read in any data set. Larger ones may have this multiple of the bytes of
/// the data set. Each thread needs memory for a chunk, and a damaged file may claim any shape.
const CHUNK_BYTES: u64 = 128 << 20;
const CHUNK_EXCESS: u64 = 8;
/// Chunks that are decoded are in memory as a whole. They may have this multiple of the bytes of
/// the file, which deflate reaches, and no more than a chunk has in HDF5 1.
const DECODED_EXCESS: u64 = 1024;
const DECODED_BYTES_MAX: u64 = 4 << 30;

/// The chunks of a data set in its file.
#[derive(Debug)]
struct ChunkTable {
    file: Arc<File>,
    path: Arc<PathBuf>,
    stored: StoredChunks,
}

/// The places of the chunks that are stored.
#[derive(Debug)]
enum StoredChunks {
    Listed {
        /// The number of chunks along each axis.
        counts: Vec<u64>,
        /// By the number of the chunk in C order.
        chunks: Vec<StoredChunk>,
    },
    InOrder(ChunksInOrder),
}

#[derive(Debug, Clone, Copy)]
struct StoredChunk {
    number: u64,
    place: ChunkPlace,
}

impl StoredChunks {
    fn find(&self, index: &[u64]) -> Option<ChunkPlace> {
        match self {
            Self::Listed { counts, chunks } => {
                let number = number_of(index, counts)?;
                let at = chunks.binary_search_by_key(&number, |chunk| chunk.number).ok()?;
                Some(chunks[at].place)
            }
            Self::InOrder(chunks) => chunks.find(index),
        }
    }

    /// Whether there are fewer chunks than the grid has.
    fn is_sparse(&self) -> bool {
        match self {
            Self::Listed { counts, chunks } => {
                let all = counts.iter().try_fold(1_u64, |all, count| all.checked_mul(*count));
                all != Some(chunks.len() as u64)
            }
            Self::InOrder(_) => false,
        }
    }
}

impl BlockTable for ChunkTable {
    fn find(&self, index: &[u64]) -> Result<Option<StoredBlock>> {
        Ok(self.stored.find(index).map(|ChunkPlace { start, bytes, mask }| {
            let (file, path) = (Arc::clone(&self.file), Arc::clone(&self.path));
            StoredBlock { file, path, offset: start, bytes, mask }
        }))
    }
}

/// The number of a chunk in C order. `None` for an index outside the data set.
fn number_of(index: &[u64], counts: &[u64]) -> Option<u64> {
    index.iter().zip(counts).try_fold(0_u64, |number, (at, count)| {
        let number = number.checked_mul(*count)?.checked_add(*at)?;
        (at < count).then_some(number)
    })
}

/// Opens a data set in chunks.
pub(super) fn chunked(
    place: DataSetFile<'_>,
    tree: &ObjectTree,
    data_set: &DataSet,
    array: Array,
    order: ByteOrder,
    layout: &ChunkLayout,
) -> Result<Opened> {
    let (dtype, shape) = (array.dtype(), &layout.shape);
    let grid = Grid::new(array.shape(), shape, dtype.bytes(), BlockEnds::Padded);
    let grid = grid.filter(|_| layout.element == dtype.bytes());
    let grid = grid.ok_or_else(|| place.damaged(format!("{array} has chunks of {shape:?}")))?;
    let chunk_bytes: u64 = shape.iter().product::<u64>() * dtype.bytes();
    if chunk_bytes > CHUNK_BYTES.max(array.bytes().saturating_mul(CHUNK_EXCESS)) {
        let cause = format!("a chunk has {chunk_bytes} bytes, and the data set {}", array.bytes());
        return Err(place.refused(&cause));
    }
    let filters = tree.filters(data_set).map_err(|fault| place.fault(fault))?;
    let filters = codecs_of(&place, &filters, dtype)?;
    if !filters.is_empty() || swaps(dtype, order) {
        check_decoded(&place, chunk_bytes)?;
    }
    let form = ChunkForm { array: &array, layout, order };
    let stored = stored(&place, tree, data_set, &form)?;
    let fill = match stored.is_sparse() {
        true => fill_of(&place, tree, data_set, dtype, order)?,
        false => vec![0; bytes_of(dtype)],
    };
    let chain = chain_of(filters, dtype, order);
    let (file, path) = shared(&place)?;
    let table = Box::new(ChunkTable { file, path, stored });
    let reader = BlocksReader::new(grid, chain, fill, table);
    let whole_rows = reader.rows_of_blocks();
    Ok(opened_by(array, whole_rows, &place.metadata, Box::new(reader)))
}

/// Refuses chunks that would need too much memory. A file of a few bytes may claim any size.
fn check_decoded(place: &DataSetFile<'_>, chunk_bytes: u64) -> Result<()> {
    let file_bytes = place.metadata.len();
    let most = CHUNK_BYTES.max(file_bytes.saturating_mul(DECODED_EXCESS)).min(DECODED_BYTES_MAX);
    if chunk_bytes > most {
        let cause = format!(
            "a chunk has {chunk_bytes} bytes, and the file {file_bytes}; such chunks are decoded \
             up to {most} bytes"
        );
        return Err(place.refused(&cause));
    }
    Ok(())
}

/// The facts about a data set that decide how its chunks are decoded.
struct ChunkForm<'a> {
    array: &'a Array,
    layout: &'a ChunkLayout,
    order: ByteOrder,
}

impl ChunkForm<'_> {
    /// The number of chunks along each axis.
    fn counts(&self) -> Vec<u64> {
        let axes = self.array.shape().iter().zip(&self.layout.shape);
        axes.map(|(all, one)| all.div_ceil(*one)).collect()
    }

    /// The mask of a chunk for the chain, whose first codec in the order of encoding is the byte
    /// order, if there is one.
    fn mask(&self, chunk: &ChunkEntry<'_>) -> u32 {
        let is_raw = self.layout.has_raw_edges && self.is_cut(chunk.index);
        let mask = if is_raw { u32::MAX } else { chunk.place.mask };
        if swaps(self.array.dtype(), self.order) { mask << 1 } else { mask }
    }

    /// Whether the end of an axis cuts the chunk with this index.
    fn is_cut(&self, index: &[u64]) -> bool {
        let axes = self.array.shape().iter().zip(&self.layout.shape).zip(index);
        axes.into_iter().any(|((all, one), at)| at.saturating_add(1).saturating_mul(*one) > *all)
    }
}

/// Whether a chain has the conversion of the byte order.
fn swaps(dtype: Dtype, order: ByteOrder) -> bool {
    order == ByteOrder::Big && dtype.part_bytes() > 1
}

fn bytes_of(dtype: Dtype) -> usize {
    usize::try_from(dtype.bytes()).expect("an element has at most 16 bytes")
}

/// The chain that decodes chunks.
fn chain_of(filters: Vec<Codec>, dtype: Dtype, order: ByteOrder) -> Chain {
    let mut codecs: Vec<Codec> = filters.into_iter().rev().collect();
    if swaps(dtype, order) {
        let element = usize::try_from(dtype.part_bytes()).expect("a part is small");
        codecs.push(Codec::Swap { element });
    }
    Chain::new(codecs)
}

/// The places of the chunks inside the data set.
fn stored(
    place: &DataSetFile<'_>,
    tree: &ObjectTree,
    data_set: &DataSet,
    form: &ChunkForm<'_>,
) -> Result<StoredChunks> {
    let (counts, mut chunks) = (form.counts(), Vec::new());
    let mut visit = |chunk: ChunkEntry<'_>| {
        // A data set that has become smaller may still have chunks outside.
        if let Some(number) = number_of(chunk.index, &counts) {
            let place = ChunkPlace { mask: form.mask(&chunk), ..chunk.place };
            chunks.push(StoredChunk { number, place });
        }
        Ok(())
    };
    let found = tree.each_chunk(form.layout, &data_set.space, &mut visit);
    if let Chunks::InOrder(chunks) = found.map_err(|fault| place.fault(fault))? {
        return Ok(StoredChunks::InOrder(chunks));
    }
    chunks.sort_by_key(|chunk| chunk.number);
    if let Some(pair) = chunks.windows(2).find(|pair| pair[0].number == pair[1].number) {
        return Err(place.damaged(format!("the chunk {} has two places", pair[0].number)));
    }
    Ok(StoredChunks::Listed { counts, chunks })
}

/// The bytes of an element of a chunk that is not stored.
fn fill_of(
    place: &DataSetFile<'_>,
    tree: &ObjectTree,
    data_set: &DataSet,
    dtype: Dtype,
    order: ByteOrder,
) -> Result<Vec<u8>> {
    let stored = tree.fill_value(data_set).map_err(|fault| place.fault(fault))?;
    let mut value = stored.unwrap_or_else(|| vec![0; bytes_of(dtype)]);
    if value.len() != bytes_of(dtype) {
        return Err(place.damaged(format!("a fill value of {dtype} has {} bytes", value.len())));
    }
    if order == ByteOrder::Big {
        swap(dtype, &mut value);
    }
    Ok(value)
}
