//! The rows of a read, by the blocks that hold them.

use super::grid::Grid;
use std::collections::BTreeMap;
use std::ops::Range;

/// Rows of a read that follow one another both in the read and in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowRun {
    /// The number of the first row within the rows of the read.
    pub(super) first: u64,
    pub(super) count: u64,
    /// The number of the first row within the rows of the stored block.
    pub(super) in_block: u64,
}

impl RowRun {
    /// Whether `next` follows this run in the read and in the block.
    fn is_before(self, next: Self) -> bool {
        self.first + self.count == next.first && self.in_block + self.count == next.in_block
    }
}

/// For each index of a block along the axes except the axis of a row: the runs of the read that
/// blocks with this index hold. The runs of one index are in the order of the rows.
pub(super) type RunsOfBlocks = BTreeMap<Vec<u64>, Vec<RowRun>>;

/// Divides `rows` of the array among the blocks of the grid.
pub(super) fn runs_of(grid: &Grid, rows: &Range<u64>) -> RunsOfBlocks {
    let (shape, block) = (grid.row_axes(), grid.block_row_axes());
    let last = shape.len() - 1;
    let mut found = RunsOfBlocks::new();
    let mut row = rows.start;
    while row < rows.end {
        let at = index_of(shape, row);
        let index: Vec<u64> = at.iter().zip(block).map(|(at, block)| at / block).collect();
        // The run ends at the end of the block, of the image, or of the read.
        let end_in_axis = (index[last] + 1).saturating_mul(block[last]).min(shape[last]);
        let count = (end_in_axis - at[last]).min(rows.end - row);
        let mut whole = index.clone();
        whole.push(0);
        let stored = grid.stored_shape(&whole);
        let in_block = at
            .iter()
            .zip(block)
            .zip(&stored)
            .fold(0, |all, ((at, block), stored)| all * stored + at % block);
        let run = RowRun { first: row - rows.start, count, in_block };
        let own = found.entry(index).or_default();
        match own.last_mut() {
            Some(last) if last.is_before(run) => last.count += count,
            _ => own.push(run),
        }
        row += count;
    }
    found
}

/// The index of a row along the axes `shape`.
fn index_of(shape: &[u64], row: u64) -> Vec<u64> {
    let mut rest = row;
    let mut index: Vec<u64> = shape
        .iter()
        .rev()
        .map(|&axis| {
            let at = rest % axis;
            rest /= axis;
            at
        })
        .collect();
    index.reverse();
    index
}

#[cfg(test)]
mod tests {
    use super::super::grid::BlockEnds;
    use super::*;

    #[test]
    fn rows_of_two_images_are_in_one_block_of_both_images() {
        let grid = Grid::new(&[3, 4, 8], &[2, 3, 8], 1, BlockEnds::Padded).unwrap();
        let found = runs_of(&grid, &(2..7));
        let run = |first, count, in_block| RowRun { first, count, in_block };
        let expected =
            [(vec![0, 0], vec![run(0, 1, 2), run(2, 3, 3)]), (vec![0, 1], vec![run(1, 1, 0)])];
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn whole_images_of_one_block_are_one_run() {
        let grid = Grid::new(&[4, 3, 8], &[2, 3, 8], 1, BlockEnds::Padded).unwrap();
        let found = runs_of(&grid, &(0..12));
        let run = |first| RowRun { first, count: 6, in_block: 0 };
        let expected = [(vec![0, 0], vec![run(0)]), (vec![1, 0], vec![run(6)])];
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_rows_of_a_clipped_block_are_counted_by_its_own_shape() {
        let grid = Grid::new(&[2, 4, 8], &[2, 3, 8], 1, BlockEnds::Clipped).unwrap();
        let found = runs_of(&grid, &(7..8));
        let expected = (vec![0, 1], vec![RowRun { first: 0, count: 1, in_block: 1 }]);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [expected]);
    }
}
