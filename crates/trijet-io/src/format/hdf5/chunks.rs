//! A data set in chunks.

use super::filters::codecs_of;
use super::place::{DataSetFile, opened_by, shared};
use crate::array::Array;
use crate::byte_order::ByteOrder;
use crate::format::blocks::{BlockEnds, BlockTable, BlocksReader, Grid, StoredBlock};
use crate::format::contract::Opened;
use hdf5_pure::{Chunk, ChunkIndex, Dataset};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use trijet::{Dtype, Result};
use trijet_codecs::{Chain, Codec};

/// The chunks of a data set that are stored.
#[derive(Debug)]
struct ChunkTable {
    file: Arc<File>,
    path: Arc<PathBuf>,
    /// The number of chunks along each axis.
    counts: Vec<u64>,
    /// By the number of the chunk in C order.
    chunks: Vec<StoredChunk>,
}

#[derive(Debug, Clone, Copy)]
struct StoredChunk {
    number: u64,
    address: u64,
    bytes: u64,
    mask: u32,
}

impl BlockTable for ChunkTable {
    fn find(&self, index: &[u64]) -> Result<Option<StoredBlock>> {
        let number = number_of(index, &self.counts);
        let found = number.and_then(|number| {
            self.chunks.binary_search_by_key(&number, |chunk| chunk.number).ok()
        });
        Ok(found.map(|at| {
            let StoredChunk { address, bytes, mask, .. } = self.chunks[at];
            let (file, path) = (Arc::clone(&self.file), Arc::clone(&self.path));
            StoredBlock { file, path, offset: address, bytes, mask }
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

/// Opens a data set whose chunks have the shape `chunk`.
pub(super) fn chunked(
    place: DataSetFile<'_>,
    data_set: &Dataset,
    array: Array,
    order: ByteOrder,
    chunk: &[u64],
    index: ChunkIndex,
) -> Result<Opened> {
    let dtype = array.dtype();
    if index == ChunkIndex::BTreeV2 {
        let cause = "the chunks are in a version 2 B-tree (several axes can grow), which is not \
                     supported";
        return Err(place.refused(cause));
    }
    let grid = Grid::new(array.shape(), chunk, dtype.bytes(), BlockEnds::Padded);
    let grid = grid.ok_or_else(|| place.damaged(format!("{array} has chunks of {chunk:?}")))?;
    let filters = codecs_of(&place, &data_set.filter_pipeline(), dtype)?;
    let found = data_set.chunks().map_err(|error| place.damaged(error))?;
    let form = ChunkForm { dtype, chunk, order };
    let counts: Vec<u64> =
        array.shape().iter().zip(chunk).map(|(all, one)| all.div_ceil(*one)).collect();
    let chunks = stored(&place, &form, &counts, &found)?;
    let is_sparse = counts.iter().try_fold(1_u64, |all, count| all.checked_mul(*count))
        != Some(chunks.len() as u64);
    let fill = match is_sparse {
        true => fill_of(&place, data_set, dtype)?,
        false => vec![0; bytes_of(dtype)],
    };
    let chain = chain_of(filters, dtype, order);
    let (file, path) = shared(&place)?;
    let table = Box::new(ChunkTable { file, path, counts, chunks });
    let reader = BlocksReader::new(grid, chain, fill, table);
    let whole_rows = reader.rows_of_blocks();
    Ok(opened_by(array, whole_rows, &place.metadata, Box::new(reader)))
}

/// The facts about a data set that decide how its chunks are decoded.
struct ChunkForm<'a> {
    dtype: Dtype,
    chunk: &'a [u64],
    order: ByteOrder,
}

impl ChunkForm<'_> {
    /// The mask of a chunk for the chain, whose first codec in the order of encoding is the byte
    /// order, if there is one.
    fn mask(&self, chunk: &Chunk) -> u32 {
        let is_swapped = swaps(self.dtype, self.order);
        if is_swapped { chunk.filter_mask << 1 } else { chunk.filter_mask }
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

/// The chunks inside the data set, in the order of their numbers.
fn stored(
    place: &DataSetFile<'_>,
    form: &ChunkForm<'_>,
    counts: &[u64],
    found: &[Chunk],
) -> Result<Vec<StoredChunk>> {
    let mut chunks = Vec::with_capacity(found.len());
    for chunk in found {
        let is_on_grid = chunk.offset.len() == counts.len()
            && chunk.offset.iter().zip(form.chunk).all(|(at, length)| at.is_multiple_of(*length));
        if !is_on_grid {
            return Err(place.damaged(format!("a chunk at {:?}", chunk.offset)));
        }
        let index: Vec<u64> =
            chunk.offset.iter().zip(form.chunk).map(|(at, length)| at / length).collect();
        // A data set that has become smaller may still have chunks outside.
        let Some(number) = number_of(&index, counts) else { continue };
        let (address, bytes, mask) = (chunk.address, chunk.storage_size, form.mask(chunk));
        chunks.push(StoredChunk { number, address, bytes, mask });
    }
    chunks.sort_by_key(|chunk| chunk.number);
    if let Some(pair) = chunks.windows(2).find(|pair| pair[0].number == pair[1].number) {
        return Err(place.damaged(format!("the chunk {} has two places", pair[0].number)));
    }
    Ok(chunks)
}

/// The bytes of an element of a chunk that is not stored.
fn fill_of(place: &DataSetFile<'_>, data_set: &Dataset, dtype: Dtype) -> Result<Vec<u8>> {
    macro_rules! value {
        ($number:ty) => {
            data_set
                .fill_value::<$number>()
                .map(|value| value.unwrap_or_default().to_le_bytes().to_vec())
        };
    }
    let value = match dtype {
        Dtype::U8 => value!(u8),
        Dtype::I8 => value!(i8),
        Dtype::U16 => value!(u16),
        Dtype::I16 => value!(i16),
        Dtype::U32 => value!(u32),
        Dtype::I32 => value!(i32),
        Dtype::U64 => value!(u64),
        Dtype::I64 => value!(i64),
        Dtype::F32 => value!(f32),
        Dtype::F64 => value!(f64),
        // The crate converts no fill value of these types, but it states whether there is one.
        Dtype::F16 | Dtype::BF16 | Dtype::C64 | Dtype::C128 => {
            return match data_set.fill_value::<u8>() {
                Ok(None) => Ok(vec![0; bytes_of(dtype)]),
                _ => {
                    let cause = format!("chunks that are not stored have a fill value of {dtype}");
                    Err(place.refused(&cause))
                }
            };
        }
    };
    value.map_err(|error| place.damaged(error))
}
