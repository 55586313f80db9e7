//! Free blocks by size: two-level segregated fit.
//!
//! Sizes are counted in granules. A row has the sizes from one power of two to the next, in 32
//! cells of equal width. In the first row, each size has its own cell. Two bitmaps mark the cells
//! that have a block, so two scans of a word find a block that fits, whatever the number of blocks.
//! The cell of a request is rounded up, so that every block in the cell fits. The block is at most
//! a 32nd larger than a block that a search without rounding would find.
#![forbid(unsafe_code)]

use super::nodes::{Index, NONE, Nodes};

/// The binary logarithm of the number of cells of a row.
const CELL_BITS: u32 = 5;
const CELLS: usize = 1 << CELL_BITS;

/// Free blocks by size.
#[derive(Debug, Default)]
pub(in crate::heap) struct Bins {
    /// A bitmap of the rows that have a block.
    rows: u64,
    /// For each row: a bitmap of the cells that have a block, and the first block of each cell.
    cells: Vec<(u32, [Index; CELLS])>,
}

/// The row and the cell of a block of `granules`.
fn place(granules: u64) -> (usize, usize) {
    if granules < CELLS as u64 {
        return (0, at(granules));
    }
    let log = granules.ilog2();
    let cell = (granules >> (log - CELL_BITS)) & (CELLS as u64 - 1);
    ((log - CELL_BITS + 1) as usize, at(cell))
}

/// Converts a number below `CELLS` to an index.
fn at(cell: u64) -> usize {
    usize::try_from(cell).expect("the cell is below the number of cells")
}

/// Rounds `granules` up, so that all blocks in the cell of the result have at least `granules`.
fn rounded(granules: u64) -> u64 {
    if granules < CELLS as u64 {
        return granules;
    }
    let width = 1 << (granules.ilog2() - CELL_BITS);
    granules.saturating_add(width - 1)
}

impl Bins {
    /// Adds a free block. The size of the block must not change until the block is removed.
    pub(in crate::heap) fn insert(&mut self, nodes: &mut Nodes, index: Index) {
        let (row, cell) = place(nodes[index].granules);
        if self.cells.len() <= row {
            self.cells.resize(row + 1, (0, [NONE; CELLS]));
        }
        let (filled, heads) = &mut self.cells[row];
        let head = std::mem::replace(&mut heads[cell], index);
        *filled |= 1 << cell;
        self.rows |= 1 << row;
        (nodes[index].previous, nodes[index].next) = (NONE, head);
        if head != NONE {
            nodes[head].previous = index;
        }
    }

    /// Removes a block.
    pub(in crate::heap) fn remove(&mut self, nodes: &mut Nodes, index: Index) {
        let (previous, next) = (nodes[index].previous, nodes[index].next);
        if next != NONE {
            nodes[next].previous = previous;
        }
        if previous != NONE {
            nodes[previous].next = next;
            return;
        }
        let (row, cell) = place(nodes[index].granules);
        let (filled, heads) = &mut self.cells[row];
        heads[cell] = next;
        if next == NONE {
            *filled &= !(1 << cell);
            if *filled == 0 {
                self.rows &= !(1 << row);
            }
        }
    }

    /// Finds a block of at least `granules`, close to the smallest block that fits.
    #[inline]
    pub(super) fn find(&self, nodes: &Nodes, granules: u64) -> Option<Index> {
        if self.rows == 0 {
            return None;
        }
        let (row, cell) = self.filled_from(place(rounded(granules))).or_else(|| {
            // No cell of larger sizes has a block. In the cell of `granules` itself, some blocks
            // may fit.
            let (row, cell) = place(granules);
            self.is_filled(row, cell).then_some((row, cell))
        })?;
        self.chain(nodes, (row, cell)).take(CELLS).find(|index| nodes[*index].granules >= granules)
    }

    /// The blocks of at least `granules`. Cells with small blocks come first.
    pub(super) fn fitting<'a>(
        &'a self,
        nodes: &'a Nodes,
        granules: u64,
    ) -> impl Iterator<Item = Index> + 'a {
        let mut at = self.filled_from(place(granules));
        let cells = std::iter::from_fn(move || {
            let (row, cell) = at?;
            at = self.filled_from((row, cell + 1));
            Some((row, cell))
        });
        let blocks = cells.flat_map(|place| self.chain(nodes, place));
        blocks.filter(move |index| nodes[*index].granules >= granules)
    }

    /// The size of the largest block, in granules.
    pub(super) fn largest(&self, nodes: &Nodes) -> u64 {
        let Some(row) = self.rows.checked_ilog2() else { return 0 };
        let (filled, _) = self.cells[row as usize];
        let cell = filled.ilog2() as usize;
        self.chain(nodes, (row as usize, cell))
            .map(|index| nodes[index].granules)
            .max()
            .unwrap_or(0)
    }

    fn is_filled(&self, row: usize, cell: usize) -> bool {
        self.cells.get(row).is_some_and(|(filled, _)| filled & 1 << cell != 0)
    }

    /// The first cell that has a block, searching upwards from `row` and `cell`.
    #[inline]
    fn filled_from(&self, (row, cell): (usize, usize)) -> Option<(usize, usize)> {
        if let Some((filled, _)) = self.cells.get(row) {
            let filled = u64::from(*filled) >> cell << cell;
            if filled != 0 {
                return Some((row, filled.trailing_zeros() as usize));
            }
        }
        // `row` may be 63. A shift by `row + 1` in one step would then overflow.
        let rows = self.rows >> row >> 1 << 1 << row;
        if rows == 0 {
            return None;
        }
        let row = rows.trailing_zeros() as usize;
        Some((row, self.cells[row].0.trailing_zeros() as usize))
    }

    fn chain<'a>(
        &'a self,
        nodes: &'a Nodes,
        (row, cell): (usize, usize),
    ) -> impl Iterator<Item = Index> + 'a {
        let head = self.cells.get(row).map_or(NONE, |(_, heads)| heads[cell]);
        let some = |index: Index| (index != NONE).then_some(index);
        std::iter::successors(some(head), move |index| some(nodes[*index].next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::prng::Prng;

    /// Every size belongs to a cell. All blocks in the cell of a rounded size have at least the
    /// size before rounding.
    #[test]
    fn a_rounded_size_has_a_cell_whose_blocks_all_fit() {
        let mut prng = Prng::new(3);
        let sizes =
            (1..4000).chain((0..4000).map(|_| 1 + (prng.next_u64() >> (prng.below(50) + 8))));
        for granules in sizes {
            let at = place(rounded(granules));
            assert!(
                granules == 1 || place(granules - 1) < at,
                "{granules}: the cell of the rounded size has a smaller block"
            );
            assert!(place(granules) <= at && at.0 < 64 && at.1 < CELLS, "{granules}");
            assert!(
                place(granules) <= place(granules + 1),
                "larger sizes are in later cells: {granules}"
            );
        }
    }
}
