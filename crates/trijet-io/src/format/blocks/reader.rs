//! Reads rows of an array that is stored in blocks.
//!
//! The blocks that hold the rows of a read are decoded in parallel. Each block is decoded once per
//! read. A block that fills one piece of the target as a whole is decoded into the target, without
//! a copy. Memory in addition to the target is at most the stored and the decoded bytes of one
//! block per thread.

use super::grid::Grid;
use super::runs::{RowRun, runs_of};
use crate::file_error;
use crate::format::contract::Reader;
use crate::parallel::each_part;
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use trijet::Result;
use trijet_codecs::{Chain, Scratch, fill};

/// The place of the stored bytes of a block.
#[derive(Debug, Clone)]
pub(in crate::format) struct StoredBlock {
    pub(in crate::format) file: Arc<File>,
    pub(in crate::format) path: Arc<PathBuf>,
    pub(in crate::format) offset: u64,
    pub(in crate::format) bytes: u64,
    /// Bit n is set if the codec n, in the order of encoding, was not applied to this block.
    pub(in crate::format) mask: u32,
}

/// Finds the stored bytes of a block. A format implements this.
pub(in crate::format) trait BlockTable: fmt::Debug + Send + Sync {
    /// The place of the block with this index of the grid. `None` if the block is not stored, so
    /// that its elements have the fill value.
    ///
    /// # Errors
    /// `Io` for a file that cannot be read or is damaged.
    fn find(&self, index: &[u64]) -> Result<Option<StoredBlock>>;
}

/// The reader of an array that is stored in blocks.
#[derive(Debug)]
pub(in crate::format) struct BlocksReader {
    grid: Grid,
    chain: Chain,
    /// The bytes of an element of a block that is not stored.
    fill: Vec<u8>,
    table: Box<dyn BlockTable>,
    /// Buffers that no thread uses now. New memory would cost a page fault for each of its pages.
    idle: Mutex<Vec<BlockBuffers>>,
}

/// The rows of a read that one block holds, and their parts of the target.
struct BlockRead<'a> {
    index: Vec<u64>,
    pieces: Vec<BlockPiece<'a>>,
}

/// Rows of a block, and the part of the target for their elements. The part has whole rows of the
/// block, or the columns of one row that the array has.
struct BlockPiece<'a> {
    /// The number of the first row within the rows of the block.
    row: u64,
    into: &'a mut [u8],
}

/// Buffers for the decoding of a block.
#[derive(Debug, Default)]
struct BlockBuffers {
    stored: Vec<u8>,
    decoded: Vec<u8>,
    scratch: Scratch,
}

impl BlocksReader {
    /// A reader of the array of `grid`. `fill` are the bytes of an element of a block that is not
    /// stored.
    pub(in crate::format) fn new(
        grid: Grid,
        chain: Chain,
        fill: Vec<u8>,
        table: Box<dyn BlockTable>,
    ) -> Self {
        assert_eq!(fill.len() as u64, grid.element_bytes(), "the fill value is one element");
        Self { grid, chain, fill, table, idle: Mutex::default() }
    }

    /// The number of rows that a read should have as a multiple, so that no block is decoded twice.
    pub(in crate::format) fn rows_of_blocks(&self) -> u64 {
        // Any rows of a block that is not encoded can be read alone.
        if self.chain.is_empty() { 1 } else { self.grid.rows_of_blocks() }
    }

    /// Calls `work` with buffers that it shares with no other call.
    fn with_buffers<R>(&self, work: impl FnOnce(&mut BlockBuffers) -> R) -> R {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffers = idle().pop().unwrap_or_default();
        let result = work(&mut buffers);
        idle().push(buffers);
        result
    }

    fn read_block(&self, read: BlockRead<'_>, buffers: &mut BlockBuffers) -> Result<()> {
        let Some(block) = self.table.find(self.grid.own_index(&read.index))? else {
            for piece in read.pieces {
                fill(piece.into, &self.fill);
            }
            return Ok(());
        };
        let shape = self.grid.stored_shape(&read.index);
        let stored = StoredShape {
            bytes: self.grid.bytes_of(&shape),
            row_bytes: shape[shape.len() - 1] * self.grid.element_bytes(),
        };
        if self.chain.is_empty() {
            self.read_plain(&block, &stored, read.pieces, buffers)
        } else {
            self.decode(&block, &stored, read.pieces, buffers)
        }
    }

    /// Reads rows of a block whose stored bytes are its elements.
    fn read_plain(
        &self,
        block: &StoredBlock,
        stored: &StoredShape,
        pieces: Vec<BlockPiece<'_>>,
        buffers: &mut BlockBuffers,
    ) -> Result<()> {
        if block.bytes != stored.bytes as u64 {
            let cause = format!("a block has {} bytes instead of {}", block.bytes, stored.bytes);
            return Err(file_error::damaged("read", &block.path, cause));
        }
        let io = |error| file_error::io("read", &block.path, error);
        let is_whole_rows = self.grid.row_bytes() == stored.row_bytes;
        if is_whole_rows {
            return pieces.into_iter().try_for_each(|piece| {
                let offset = block.offset + piece.row * stored.row_bytes;
                block.file.read_exact_at(piece.into, offset).map_err(io)
            });
        }
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return Ok(()) };
        let (first, end) = (first.row, last.row + 1);
        let bytes = usize::try_from((end - first) * stored.row_bytes).map_err(|_| {
            file_error::damaged("read", &block.path, "the block does not fit into memory")
        })?;
        let rows = sized(&mut buffers.decoded, bytes);
        block.file.read_exact_at(rows, block.offset + first * stored.row_bytes).map_err(io)?;
        for BlockPiece { row, into } in pieces {
            let (from, length) = (stored.offset(row - first), into.len());
            into.copy_from_slice(&rows[from..from + length]);
        }
        Ok(())
    }

    /// Reads and decodes a block, and copies its rows to the target.
    fn decode(
        &self,
        block: &StoredBlock,
        stored: &StoredShape,
        mut pieces: Vec<BlockPiece<'_>>,
        buffers: &mut BlockBuffers,
    ) -> Result<()> {
        let BlockBuffers { stored: bytes, decoded, scratch } = buffers;
        let bytes = read_stored(block, stored.bytes, bytes)?;
        let damaged = |error| {
            let cause = format!("the block at byte {} is damaged: {error}", block.offset);
            file_error::damaged("read", &block.path, cause)
        };
        // The columns of the target end before the columns of a padded block, so a piece with all
        // bytes of the block has them in the same order.
        if let [BlockPiece { row: 0, into }] = &mut pieces[..]
            && into.len() == stored.bytes
        {
            return self.chain.decode(bytes, block.mask, into, scratch).map_err(damaged);
        }
        let elements = sized(decoded, stored.bytes);
        self.chain.decode(bytes, block.mask, elements, scratch).map_err(damaged)?;
        for BlockPiece { row, into } in pieces {
            let (from, length) = (stored.offset(row), into.len());
            into.copy_from_slice(&elements[from..from + length]);
        }
        Ok(())
    }
}

/// The size of a stored block, and of its rows, in bytes of elements.
struct StoredShape {
    bytes: usize,
    row_bytes: u64,
}

impl StoredShape {
    /// The offset of a row in the elements of the block.
    fn offset(&self, row: u64) -> usize {
        usize::try_from(row * self.row_bytes).expect("the row is in a block that is in memory")
    }
}

/// Reads the stored bytes of a block that has `decoded` bytes of elements into a buffer.
fn read_stored<'a>(
    block: &StoredBlock,
    decoded: usize,
    buffer: &'a mut Vec<u8>,
) -> Result<&'a [u8]> {
    let StoredBlock { file, path, offset, bytes, .. } = block;
    let io = |error| file_error::io("read", path, error);
    // No codec makes a block much larger. A larger number is damage, and would take memory.
    let most = (decoded as u64).saturating_mul(2).saturating_add(64 << 10);
    let in_file = file.metadata().map_err(io)?.len();
    let is_in_file = offset.checked_add(*bytes).is_some_and(|end| end <= in_file);
    if !is_in_file || *bytes > most {
        let cause = format!(
            "a block of {bytes} bytes at byte {offset} cannot be right: the file has {in_file} \
             bytes, and the block decodes to {decoded}"
        );
        return Err(file_error::damaged("read", path, cause));
    }
    let bytes = usize::try_from(*bytes).map_err(|error| {
        file_error::damaged("read", path, format!("a block does not fit into memory: {error}"))
    })?;
    let into = sized(buffer, bytes);
    file.read_exact_at(into, *offset).map_err(io)?;
    Ok(into)
}

/// The first `bytes` bytes of a buffer, which grows if it is too short.
fn sized(buffer: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
    &mut buffer[..bytes]
}

/// Divides the target of a read into the pieces of each block.
fn block_reads<'a>(grid: &Grid, rows: &Range<u64>, into: &'a mut [u8]) -> Vec<BlockRead<'a>> {
    let columns = grid.columns();
    let to_usize = |bytes: u64| usize::try_from(bytes).expect("a row of the target is in memory");
    let (row_bytes, column_bytes) = (to_usize(grid.row_bytes()), to_usize(grid.block_row_bytes()));
    let found = runs_of(grid, rows);
    let mut reads: Vec<BlockRead<'a>> = Vec::new();
    // The runs of all blocks in the order of the rows, each with the number of its first block.
    let mut runs: Vec<(RowRun, usize)> = Vec::new();
    for (index, own) in found {
        runs.extend(own.into_iter().map(|run| (run, reads.len())));
        reads.extend((0..columns).map(|column| {
            let mut index = index.clone();
            index.push(column);
            BlockRead { index, pieces: Vec::new() }
        }));
    }
    runs.sort_by_key(|(run, _)| run.first);
    let mut rest = into;
    for (run, first_block) in runs {
        let (own, after) = rest.split_at_mut(to_usize(run.count) * row_bytes);
        rest = after;
        if columns == 1 && row_bytes == column_bytes {
            let piece = BlockPiece { row: run.in_block, into: own };
            reads[first_block].pieces.push(piece);
            continue;
        }
        for (row, bytes) in (run.in_block..).zip(own.chunks_exact_mut(row_bytes)) {
            for (column, into) in bytes.chunks_mut(column_bytes).enumerate() {
                reads[first_block + column].pieces.push(BlockPiece { row, into });
            }
        }
    }
    reads
}

impl Reader for BlocksReader {
    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        let reads = block_reads(&self.grid, &rows, into);
        each_part(reads, |read| self.with_buffers(|buffers| self.read_block(read, buffers)))
    }

    fn blocks_across(&self) -> u64 {
        self.grid.blocks_across()
    }
}
