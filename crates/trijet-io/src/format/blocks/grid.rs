//! The regular grid by which an array is cut into blocks.

/// The shape of the blocks at the end of an axis whose length is not a multiple of the block's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::format) enum BlockEnds {
    /// The stored block has the full shape, and the elements beyond the array have no meaning.
    Padded,
    /// The stored block has only the elements of the array.
    Clipped,
}

/// The grid of the blocks of an array. The last axis is the axis of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::format) struct Grid {
    /// The lengths of the axes of the array. There are at least two axes: an array with one axis
    /// has rows of one element.
    shape: Vec<u64>,
    /// The lengths of the axes of a block, at least 1.
    block: Vec<u64>,
    element_bytes: u64,
    ends: BlockEnds,
    has_one_axis: bool,
}

impl Grid {
    /// The grid of an array of this shape, with elements of `element_bytes` bytes, in blocks of the
    /// shape `block`. `None` if the shapes have different numbers of axes, if a block has no
    /// elements, or if the bytes of a block do not fit into the memory of any machine.
    pub(in crate::format) fn new(
        shape: &[u64],
        block: &[u64],
        element_bytes: u64,
        ends: BlockEnds,
    ) -> Option<Self> {
        if shape.is_empty() || shape.len() != block.len() || block.contains(&0) {
            return None;
        }
        let bytes = block.iter().try_fold(element_bytes, |all, &axis| all.checked_mul(axis))?;
        isize::try_from(bytes).ok()?;
        let (mut shape, mut block) = (shape.to_vec(), block.to_vec());
        let has_one_axis = shape.len() == 1;
        if has_one_axis {
            shape.push(1);
            block.push(1);
        }
        Some(Self { shape, block, element_bytes, ends, has_one_axis })
    }

    /// The axes of the array except the axis of a row.
    pub(super) fn row_axes(&self) -> &[u64] {
        &self.shape[..self.shape.len() - 1]
    }

    /// The axes of a block except the axis of a row.
    pub(super) fn block_row_axes(&self) -> &[u64] {
        &self.block[..self.block.len() - 1]
    }

    /// The number of bytes of a row of the array.
    pub(super) fn row_bytes(&self) -> u64 {
        self.shape[self.shape.len() - 1] * self.element_bytes
    }

    /// The number of bytes of a row of the full block.
    pub(super) fn block_row_bytes(&self) -> u64 {
        self.block[self.block.len() - 1] * self.element_bytes
    }

    /// The number of blocks along the axis of a row.
    pub(super) fn columns(&self) -> u64 {
        self.row_bytes().div_ceil(self.block_row_bytes())
    }

    /// The shape of the stored block at this index of the grid.
    pub(super) fn stored_shape(&self, index: &[u64]) -> Vec<u64> {
        let axes = self.shape.iter().zip(&self.block).zip(index);
        axes.map(|((&length, &block), &at)| match self.ends {
            BlockEnds::Padded => block,
            BlockEnds::Clipped => block.min(length.saturating_sub(at.saturating_mul(block))),
        })
        .collect()
    }

    /// The number of bytes of the elements of a stored block of this shape.
    pub(super) fn bytes_of(&self, stored_shape: &[u64]) -> usize {
        let bytes = stored_shape.iter().product::<u64>() * self.element_bytes;
        usize::try_from(bytes).expect("`new` checks that a block fits into memory")
    }

    pub(super) fn element_bytes(&self) -> u64 {
        self.element_bytes
    }

    /// The index of a block for the format: without the axis that an array with one axis does not
    /// have.
    pub(super) fn own_index<'a>(&self, index: &'a [u64]) -> &'a [u64] {
        &index[..index.len() - usize::from(self.has_one_axis)]
    }

    /// The number of rows that a read should have as a multiple, so that no two reads decode the
    /// same block. If the blocks do not divide the images, this is the number of rows of an image,
    /// or of all images that have a block in common.
    pub(in crate::format) fn rows_of_blocks(&self) -> u64 {
        let Some((axis, along)) = self.cut_axis() else { return 1 };
        let inner: u64 = self.row_axes()[axis + 1..].iter().product();
        (along * inner).max(1)
    }

    /// The number of blocks that have elements of the same [`rows_of_blocks`](Self::rows_of_blocks)
    /// rows.
    pub(super) fn blocks_across(&self) -> u64 {
        let (shape, block) = (self.row_axes(), self.block_row_axes());
        let Some((axis, along)) = self.cut_axis() else { return self.columns() };
        let inner = shape[axis + 1..].iter().zip(&block[axis + 1..]);
        let inner: u64 = inner.map(|(shape, block)| shape.div_ceil(*block)).product();
        along.div_ceil(block[axis]) * inner * self.columns()
    }

    /// The first axis along which a block has several rows, and the length along this axis at whose
    /// multiples a block starts in every image.
    fn cut_axis(&self) -> Option<(usize, u64)> {
        let (shape, block) = (self.row_axes(), self.block_row_axes());
        let axis = block.iter().zip(shape).position(|(&block, &axis)| block.min(axis) > 1)?;
        let outer: u64 = shape[..axis].iter().product();
        let fits = outer <= 1 || shape[axis].is_multiple_of(block[axis]);
        Some((axis, if fits { block[axis].min(shape[axis]) } else { shape[axis] }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(shape: &[u64], block: &[u64]) -> u64 {
        Grid::new(shape, block, 2, BlockEnds::Padded).unwrap().rows_of_blocks()
    }

    #[test]
    fn reads_of_the_stated_number_of_rows_share_no_block() {
        assert_eq!(rows(&[20, 512, 512], &[1, 512, 512]), 512);
        assert_eq!(rows(&[20, 512, 512], &[1, 256, 512]), 256);
        // 600 rows are two blocks and a part of a third one, so the blocks start again at each
        // image.
        assert_eq!(rows(&[20, 600, 512], &[1, 256, 512]), 600);
        assert_eq!(rows(&[1, 600, 512], &[1, 256, 512]), 256);
        assert_eq!(rows(&[20, 512, 512], &[5, 256, 256]), 5 * 512);
        assert_eq!(rows(&[3, 20, 64, 64], &[1, 3, 64, 64]), 20 * 64);
        assert_eq!(rows(&[3, 21, 64, 64], &[1, 3, 64, 64]), 3 * 64);
        assert_eq!(rows(&[100], &[7]), 7);
        assert_eq!(rows(&[4, 8, 8], &[1, 1, 3]), 1);
        assert_eq!(rows(&[4, 8, 8], &[9, 8, 8]), 32);
    }

    #[test]
    fn every_block_of_some_rows_is_counted() {
        let count = |shape: &[u64], block: &[u64]| {
            Grid::new(shape, block, 2, BlockEnds::Padded).unwrap().blocks_across()
        };
        assert_eq!(count(&[20, 512, 512], &[1, 512, 512]), 1);
        assert_eq!(count(&[20, 600, 512], &[1, 256, 512]), 3);
        assert_eq!(count(&[20, 512, 512], &[5, 256, 200]), 2 * 3);
        assert_eq!(count(&[3, 20, 64, 64], &[1, 3, 64, 64]), 7);
        assert_eq!(count(&[4, 8, 8], &[1, 1, 3]), 3);
        assert_eq!(count(&[4, 8, 8], &[9, 8, 8]), 1);
    }

    #[test]
    fn a_grid_without_blocks_or_of_too_large_blocks_is_refused() {
        let grid = |shape: &[u64], block: &[u64]| Grid::new(shape, block, 2, BlockEnds::Padded);
        assert_eq!(grid(&[], &[]), None);
        assert_eq!(grid(&[4, 4], &[4]), None);
        assert_eq!(grid(&[4, 4], &[4, 0]), None);
        assert_eq!(grid(&[4, 4], &[1 << 31, 1 << 32]), None);
    }
}
