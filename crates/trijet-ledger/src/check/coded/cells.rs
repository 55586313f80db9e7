//! The bytes of blocks, cut at the ends of all accesses into cells.
#![forbid(unsafe_code)]

use crate::base::id::{BlockId, DeviceId};
use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum number of cells of all accesses together.
const CELLS_MAX: usize = 1 << 24;
/// The first number of a byte that a script cannot represent exactly.
const BYTES_MAX: u64 = 1 << 53;

/// The memory in which bytes have numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CellSpace {
    /// The heap of a device, whose blocks share bytes one after another.
    Heap(DeviceId),
    /// A block that is no part of a heap.
    Block(BlockId),
}

/// The cells of all blocks.
#[derive(Debug, Default)]
pub(crate) struct CodedCells {
    /// For each space, the ends of its cells, and the number of its first cell.
    spaces: BTreeMap<CellSpace, (Vec<u64>, usize)>,
    /// For each cell, its bytes in its space.
    pub(crate) bytes: Vec<Range<u64>>,
}

impl CodedCells {
    /// The cells of these accesses. `None` if there are too many.
    pub(super) fn of(accesses: impl Iterator<Item = (CellSpace, Range<u64>)>) -> Option<Self> {
        let mut cells = Self::default();
        let mut all: Vec<(CellSpace, Range<u64>)> = accesses.collect();
        all.sort_unstable_by_key(|(space, range)| (*space, range.start, range.end));
        all.dedup();
        for (space, range) in &all {
            let (ends, _) = cells.spaces.entry(*space).or_default();
            ends.extend([range.start, range.end]);
        }
        for (ends, first) in cells.spaces.values_mut() {
            ends.sort_unstable();
            ends.dedup();
            *first = cells.bytes.len();
            cells.bytes.extend(ends.windows(2).map(|pair| pair[0]..pair[1]));
        }
        let mut used = 0_usize;
        for (space, range) in &all {
            used = used.saturating_add(cells.within(*space, range).len());
        }
        let is_exact = cells.bytes.iter().all(|bytes| bytes.end < BYTES_MAX);
        (is_exact && used.max(cells.bytes.len()) <= CELLS_MAX).then_some(cells)
    }

    /// The numbers of the cells of a range, whose ends are ends of cells.
    pub(super) fn within(&self, space: CellSpace, range: &Range<u64>) -> Range<usize> {
        let Some((ends, first)) = self.spaces.get(&space) else { return 0..0 };
        let at = |byte: u64| first + ends.partition_point(|end| *end < byte);
        at(range.start)..at(range.end)
    }
}
