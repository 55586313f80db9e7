//! A product of matrices by clusters of blocks. The copy engine loads each tile of the first matrix
//! once for all blocks of a cluster (multicast). Each block loads its own tiles of the second
//! matrix.
//!
//! Needs compute capability 9.0 on a GPU: see [`PtxRule::Target`](super::PtxRule::Target).

pub(crate) mod host;

use crate::base::error::Result;
use crate::device::LaunchConfig;
use crate::device::args::ArgBlock;
use crate::device::tiling::{Swizzle, Tiling};
use crate::device::twin::{Cost, Tile, Twin};
use crate::launch::{Code, Kernel, KernelSpec, Read, Shape, Tiled, Write};
use crate::memory::{TiledView, View};

/// The device code, generated from `multicast.cu`.
pub(crate) const PTX: &str = include_str!("multicast.ptx");

/// The parameters of [`MATMUL`]: `(x, w, y, [rows, inner, columns])`.
pub type MulticastParams = (Tiled<Read<f32>>, Tiled<Read<f32>>, Write<f32>, [u32; 3]);

/// The number of threads of a block: eight warps that compute, and one warp that loads.
const THREADS: u32 = 288;
/// The number of rows, and of columns, of the result that a block computes at a time.
const SIDE: u32 = 32;
/// The number of rows and of columns of a box of `x`.
const BOX_OF_X: [u32; 2] = [8, SIDE];
/// The number of rows and of columns of a box of `w`.
const BOX_OF_W: [u32; 2] = [SIDE, SIDE];
/// Maximum side of a matrix. Positions in a matrix are signed 32-bit numbers, and blocks of the
/// last cluster may be beyond the end of the matrix.
const SIDE_MAX: u32 = (1 << 31) - 1024;

/// The first matrix of a product, with `[rows, inner]` rows and columns. The distance between the
/// starts of two rows is `pitch` elements.
///
/// # Errors
/// As for [`View::tiled`].
pub fn left(x: View<'_, f32>, sides: [usize; 2], pitch: usize) -> Result<TiledView<'_, f32>> {
    x.tiled(Tiling::new(sides, BOX_OF_X).pitch(pitch))
}

/// The second matrix of a product, with `[inner, columns]` rows and columns. The distance between
/// the starts of two rows is `pitch` elements.
///
/// # Errors
/// As for [`View::tiled`].
pub fn right(w: View<'_, f32>, sides: [usize; 2], pitch: usize) -> Result<TiledView<'_, f32>> {
    w.tiled(Tiling::new(sides, BOX_OF_W).pitch(pitch))
}

/// The configuration for a result of `rows` rows and `columns` columns, with a block for each part
/// of the result. A cluster has `cluster` neighbouring blocks: 1, 2, 4 or 8. A launch with fewer
/// clusters computes the same result, because each cluster continues with another part.
///
/// ```
/// use trijet::testing::multicast;
/// let config = multicast::config(100, 65, 2);
/// assert_eq!((config.grid, config.cluster), ([16, 1, 1], [2, 1, 1]));
/// ```
#[must_use]
pub fn config(rows: u32, columns: u32, cluster: u32) -> LaunchConfig {
    let cluster = cluster.max(1);
    let groups = columns.div_ceil(SIDE).div_ceil(cluster);
    let clusters = u64::from(rows.div_ceil(SIDE)) * u64::from(groups);
    // A grid with the maximum number of blocks computes any result.
    let most = u64::from(i32::MAX.cast_unsigned() / cluster);
    let clusters = u32::try_from(clusters.min(most)).expect("`most` is less than 2^31");
    LaunchConfig::new([clusters * cluster, 1, 1], [THREADS, 1, 1]).cluster([cluster, 1, 1])
}

fn check(args: &ArgBlock) -> std::result::Result<(), String> {
    let [rows, inner, columns] = args.scalar::<[u32; 3]>(4);
    let ([x, w], [_, _, y]) = (args.tiled(), args.spans()) else {
        return Err("two tilings and a span are needed".to_owned());
    };
    let wanted = [("x", x, [rows, inner], BOX_OF_X), ("w", w, [inner, columns], BOX_OF_W)];
    for (name, matrix, sides, boxes) in wanted {
        let Tiling { rows, columns, box_rows, box_columns, swizzle, .. } = matrix.tiling;
        if sides.map(|side| side as usize) != [rows, columns] {
            let [r, c] = sides;
            return Err(format!("{name} has {rows} rows of {columns}; {r} rows of {c} are needed"));
        }
        if sides.iter().any(|side| *side > SIDE_MAX) {
            return Err(format!(
                "{name} has {rows} rows of {columns}; at most {SIDE_MAX} are allowed"
            ));
        }
        if ([box_rows, box_columns], swizzle) != (boxes, Swizzle::None) {
            let [r, c] = boxes;
            return Err(format!(
                "{name} has boxes of {box_rows} rows of {box_columns}; {r} of {c} without a swizzle are \
                 needed"
            ));
        }
    }
    let (found, needed) = (y.elements, u64::from(rows) * u64::from(columns));
    if found != needed {
        return Err(format!("y has {found} elements; {rows} rows of {columns} need {needed}"));
    }
    Ok(())
}

fn check_shape(_: &ArgBlock, given: &LaunchConfig) -> std::result::Result<(), String> {
    let cluster = given.cluster[0];
    if given.cluster != [cluster, 1, 1] || !matches!(cluster, 1 | 2 | 4 | 8) {
        return Err(format!(
            "clusters of {:?} blocks; 1, 2, 4 or 8 in x are allowed",
            given.cluster
        ));
    }
    if given.grid[1..] != [1, 1] || given.block != [THREADS, 1, 1] {
        return Err(format!(
            "a grid of {:?} blocks of {:?} threads; a grid in x only, with blocks of [{THREADS}, \
             1, 1] threads, is needed",
            given.grid, given.block
        ));
    }
    Ok(())
}

fn tile(tile: &mut Tile<'_>) {
    let (x, w) = (tile.matrix(0), tile.matrix(1));
    host::matmul(&x, &w, tile.first, tile.write(2));
}

fn cost(args: &ArgBlock) -> Cost {
    let [rows, inner, columns] = args.scalar::<[u32; 3]>(4).map(u64::from);
    let bytes = 4 * (rows * inner + inner * columns + rows * columns);
    Cost { bytes, ops: 2 * (rows * columns).saturating_mul(inner) }
}

/// `y = x * w` in single precision. Its arguments are `(x, w, &mut y, [rows, inner, columns])`. `x`
/// has `rows` rows of `inner` elements, and `w` has `inner` rows of `columns` elements. [`left`]
/// makes the argument `x`, and [`right`] makes the argument `w`. `y` has `rows` contiguous rows of
/// `columns` elements. Each element of `y` is a sum of products, added in order and rounded after
/// every operation. [`config`] makes the configuration of a launch.
///
/// ```
/// use trijet::testing::multicast::{MATMUL, config, left, right};
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// let s = device.stream()?;
/// // Two rows of two elements, 4 elements apart: rows begin at multiples of 16 bytes.
/// let x = s.upload(&[1.0, 2.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0])?;
/// let w = s.upload(&[5.0, 6.0, 0.0, 0.0, 7.0, 8.0, 0.0, 0.0])?;
/// let mut y = s.alloc::<f32>(4)?;
/// let (x, w) = (left(x.view(), [2, 2], 4)?, right(w.view(), [2, 2], 4)?);
/// s.launch_with(&MATMUL, config(2, 2, 4), (x, w, &mut y, [2, 2, 2]))?;
/// assert_eq!(s.download(&y)?, [19.0, 22.0, 43.0, 50.0]);
/// # Ok::<(), trijet::Error>(())
/// ```
pub static MATMUL: Kernel<MulticastParams> = {
    let shape = Shape::Given(check_shape);
    let spec = KernelSpec::new("multicast_matmul_f32", Code::ptx(PTX), shape).check(check);
    let twin = Twin { tile_elements: |_| 1024, run: tile, cost };
    // SAFETY: the kernel takes (CUtensorMap, CUtensorMap, float*, u64, three u32), and compares
    // each index of y with the length of y. The check demands boxes as large as their tiles in
    // shared memory, and sides for which every index fits into 31 bits. With the shapes that are
    // allowed, all blocks of a cluster take the same steps, so each barrier is reached.
    unsafe { Kernel::declare(spec.twin(twin)) }
};
