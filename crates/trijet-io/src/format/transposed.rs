//! A file whose elements are in Fortran order: the index of the first axis changes fastest.
//!
//! The elements of a row are far apart in such a file, so a read collects them from many places. It
//! reads pieces of the file into a tile, and copies the elements of the tile to their rows. A piece
//! has neighbours along the first axes, and the pieces of a tile are neighbours along the last
//! axis. So the file is read in long runs, and rows are written in long runs. The memory of a read
//! does not depend on the array.
//!
//! The file is not mapped. If another program cuts a mapped file off, the process ends.

use super::contract::{Opened, Reader};
use crate::annotations::Annotations;
use crate::array::Array;
use crate::byte_order::{ByteOrder, swap};
use crate::file_error;
use crate::item::Item;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use trijet::Dtype;
use trijet::Result;
use trijet_codecs::gather;

/// Maximum size of a piece, which is read by one call of the system.
const PIECE_BYTES: u64 = 16 << 10;
/// Maximum number of pieces in a tile.
const PIECES_MAX: u64 = 64;
/// If fewer bytes than this lie between two runs of elements, one call reads both runs and these
/// bytes. A second call would take longer.
const GAP_BYTES: u64 = 2 << 10;

#[derive(Debug)]
pub(super) struct TransposedReader {
    file: File,
    path: PathBuf,
    data_start: u64,
    dtype: Dtype,
    order: ByteOrder,
    /// The length of the first axis.
    first: u64,
    /// The lengths of the axes between the first and the last one.
    middle: Vec<u64>,
    /// The number of elements of a row, which is the length of the last axis.
    last: u64,
}

/// A part of the array that is read at once.
#[derive(Debug)]
struct Tile {
    /// Indices of the first axis.
    first: Range<u64>,
    /// Combinations of the indices of the middle axes, as the file numbers them. There is more than
    /// one only if a piece may continue over the gap to the next combination.
    middle: Range<u64>,
    /// Indices of the last axis. Each has its own piece.
    last: Range<u64>,
}

impl TransposedReader {
    /// Describes the input `file`, whose elements begin at the byte `data_start`. `array` has at
    /// least two axes, and it has elements.
    pub(super) fn opened(
        file: File,
        path: &Path,
        data_start: u64,
        array: Array,
        order: ByteOrder,
        metadata: &Metadata,
    ) -> Opened {
        let (dtype, path) = (array.dtype(), path.to_owned());
        let [first, middle @ .., last] = array.shape() else {
            unreachable!("an array of one axis is in C order");
        };
        let (first, middle, last) = (*first, middle.to_vec(), *last);
        let reader = Self { file, path, data_start, dtype, order, first, middle, last };
        let items = vec![Item::new(OsString::new(), metadata)];
        let (left_out, reader) = (Vec::new(), Box::new(reader));
        let annotations = Annotations::default();
        Opened { array, granule: 1, whole_rows: 1, items, left_out, annotations, reader }
    }

    /// The number of rows with the same index of the first axis.
    fn rows_of_first(&self) -> u64 {
        self.middle.iter().product()
    }

    /// The row of the combination `number` of the middle axes, among the rows with the same index
    /// of the first axis. In `number` the index of the first of these axes changes fastest. In the
    /// order of the rows, the index of the last of them does.
    fn row_of(&self, number: u64) -> u64 {
        let (mut left, mut row) = (number, 0);
        for axis in &self.middle {
            row = row * axis + left % axis;
            left /= axis;
        }
        row
    }

    fn read_in(&self, order: ByteOrder, rows: &Range<u64>, into: &mut [u8]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut buffer = Vec::new();
        for tile in self.tiles(rows) {
            self.fill(&tile, &mut buffer)?;
            if order != self.order {
                swap(self.dtype, &mut buffer);
            }
            self.copy(&tile, rows, &buffer, into);
        }
        Ok(())
    }

    /// The tiles that have the elements of `rows`.
    fn tiles(&self, rows: &Range<u64>) -> impl Iterator<Item = Tile> {
        let (bytes, count) = (self.dtype.bytes(), self.rows_of_first());
        let wanted = rows.start / count..rows.end.div_ceil(count);
        let gap = self.first.saturating_sub(wanted.end - wanted.start) * bytes;
        let per_first = PIECE_BYTES / bytes;
        let is_whole = gap <= GAP_BYTES && wanted.end - wanted.start <= per_first;
        let per_middle = if is_whole { (per_first / self.first).max(1) } else { 1 };
        let last = self.last;
        steps(wanted, per_first).flat_map(move |first| {
            steps(0..count, per_middle).flat_map(move |middle| {
                let first = first.clone();
                steps(0..last, PIECES_MAX).map(move |last| Tile {
                    first: first.clone(),
                    middle: middle.clone(),
                    last,
                })
            })
        })
    }

    /// The number of elements of a piece of the tile.
    fn piece(&self, tile: &Tile) -> u64 {
        let gaps = tile.middle.end - tile.middle.start - 1;
        gaps * self.first + (tile.first.end - tile.first.start)
    }

    /// Reads the pieces of a tile, one after another.
    fn fill(&self, tile: &Tile, buffer: &mut Vec<u8>) -> Result<()> {
        let (bytes, count) = (self.dtype.bytes(), self.rows_of_first());
        let piece = index(self.piece(tile) * bytes);
        buffer.resize(piece * index(tile.last.end - tile.last.start), 0);
        for (last, part) in tile.last.clone().zip(buffer.chunks_exact_mut(piece)) {
            let element = (last * count + tile.middle.start) * self.first + tile.first.start;
            self.file
                .read_exact_at(part, self.data_start + element * bytes)
                .map_err(|error| file_error::io("read", &self.path, error))?;
        }
        Ok(())
    }

    /// Copies the elements of a tile that belong to `rows` to their places in `into`.
    fn copy(&self, tile: &Tile, rows: &Range<u64>, buffer: &[u8], into: &mut [u8]) {
        let (count, piece) = (self.rows_of_first(), index(self.piece(tile)));
        let element = index(self.dtype.bytes());
        let columns = index(tile.last.end - tile.last.start);
        for middle in tile.middle.clone() {
            let (row_of, before) = (self.row_of(middle), (middle - tile.middle.start) * self.first);
            for first in tile.first.clone() {
                let row = first * count + row_of;
                if !rows.contains(&row) {
                    continue;
                }
                let start = index((row - rows.start) * self.last + tile.last.start);
                let from = index(before + first - tile.first.start);
                let into = &mut into[start * element..(start + columns) * element];
                gather(element, &buffer[from * element..], piece, into);
            }
        }
    }
}

/// Divides `range` into parts of `size`, and a smaller last one.
fn steps(range: Range<u64>, size: u64) -> impl Iterator<Item = Range<u64>> {
    let Range { start, end } = range;
    (0..(end - start).div_ceil(size)).map(move |n| {
        let at = start + n * size;
        at..end.min(at.saturating_add(size))
    })
}

/// An index in a buffer. No buffer is as long as the number that stands for a number that does not
/// fit.
fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl Reader for TransposedReader {
    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        self.read_in(ByteOrder::Little, &rows, into)
    }

    fn byte_order(&self) -> ByteOrder {
        self.order
    }

    fn read_as_stored(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        self.read_in(self.order, &rows, into)
    }
}
