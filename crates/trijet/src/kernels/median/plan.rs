//! The plan of a launch of the median filter: the entry of `median.cu` for a radius and an element
//! type, its block and its grid.
//!
//! Every entry takes `(u32 width, u32 height, u64 first_out_row, u64 first_in_row, const T* x, u64
//! x_len, T* y, u64 y_len, u32 edges)`, and needs no dynamic shared memory. An entry has one fixed
//! shape of blocks. Blocks stride over tiles, so any grid computes the right result. The grid of a
//! plan has one block per tile.
#![forbid(unsafe_code)]

use trijet_twins::RADIUS_MAX;

/// The number of rows of a tile, `TILE_ROWS` in `median.cu`.
const TILE_ROWS: u64 = 32;

/// Maximum number of blocks along the second axis of a grid (CUDA C++ Programming Guide, compute
/// capabilities).
const GRID_Y_MAX: u64 = 65_535;

/// The launch of the median filter for one radius and type of pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MedianPlan {
    /// The entry in [`super::PTX`].
    pub(crate) entry: &'static str,
    /// The number of threads per block along x, y and z.
    pub(crate) block: [u32; 3],
    /// Dynamic shared memory per block, in bytes.
    pub(crate) shared_bytes: u32,
    /// The number of columns of a tile.
    tile_columns: u32,
}

impl MedianPlan {
    /// The grid for `rows` output rows of `width` pixels: one block per tile, and at least one
    /// block.
    pub(crate) fn grid(&self, width: u32, rows: u64) -> [u32; 3] {
        let row_tiles = rows.div_ceil(TILE_ROWS).clamp(1, GRID_Y_MAX);
        let y = u32::try_from(row_tiles).unwrap_or(u32::MAX);
        [width.div_ceil(self.tile_columns).max(1), y, 1]
    }
}

/// The plan of a launch for `radius`, and for pixels of 8 or 16 bits.
///
/// # Panics
/// If `radius` is not in `1..=7`.
pub(crate) fn plan(radius: u32, bits: u32) -> MedianPlan {
    assert!((1..=RADIUS_MAX).contains(&radius), "median radius {radius} is not in 1..=7");
    let (entry, tile_columns) = match (bits, radius) {
        (8, 1) => ("median_r1_u8", 128),
        (8, 2) => ("median_r2_u8", 128),
        (8, 3) => ("median_r3_u8", 128),
        (8, 4) => ("median_r4_u8", 128),
        (8, 5) => ("median_r5_u8", 128),
        (8, 6) => ("median_r6_u8", 128),
        (8, _) => ("median_r7_u8", 128),
        (_, 1) => ("median_r1_u16", 64),
        (_, 2) => ("median_r2_u16", 64),
        (_, 3) => ("median_r3_u16", 128),
        (_, 4) => ("median_r4_u16", 128),
        (_, 5) => ("median_r5_u16", 128),
        (_, 6) => ("median_r6_u16", 128),
        (_, _) => ("median_r7_u16", 128),
    };
    MedianPlan { entry, block: [256, 1, 1], shared_bytes: 0, tile_columns }
}

#[cfg(test)]
mod tests {
    use super::plan;
    use crate::kernels::median::{PTX, RADIUS_MAX};

    #[test]
    fn every_planned_entry_is_in_the_ptx() {
        for radius in 1..=RADIUS_MAX {
            for (bits, name) in [(8, "u8"), (16, "u16")] {
                let entry = plan(radius, bits).entry;
                assert_eq!(entry, format!("median_r{radius}_{name}"));
                assert!(PTX.contains(&format!(".entry {entry}(")), "{entry}");
            }
        }
    }

    #[test]
    fn the_grid_covers_the_image_and_stays_in_the_limits() {
        assert_eq!(plan(1, 8).grid(4096, 4096), [32, 128, 1]);
        assert_eq!(plan(2, 16).grid(65, 33), [2, 2, 1]);
        assert_eq!(plan(7, 8).grid(0, 0), [1, 1, 1]);
        assert_eq!(plan(7, 8).grid(1, u64::MAX), [1, 65_535, 1]);
    }

    #[test]
    #[should_panic(expected = "median radius 8")]
    fn a_radius_without_an_entry_is_refused() {
        let _ = plan(8, 8);
    }
}
