//! A product of matrices by clusters of blocks. The first block of a cluster, its leader, loads
//! each tile of the second matrix. All blocks read the tile from the leader's shared memory
//! (distributed shared memory).
//!
//! Needs compute capability 9.0 on a GPU: see [`PtxRule::Target`](super::PtxRule::Target).

pub(crate) mod host;

use crate::device::LaunchConfig;
use crate::device::args::ArgBlock;
use crate::device::twin::{Cost, Tile, Twin};
use crate::launch::{Code, Kernel, KernelSpec, Read, Shape, Write};

/// The device code, generated from `cluster.cu`.
pub(crate) const PTX: &str = include_str!("cluster.ptx");

/// The parameters of [`MATMUL`]: `(inner, columns, x, w, y)`.
pub type ClusterParams = (u32, u32, Read<f32>, Read<f32>, Write<f32>);

const THREADS: u32 = 256;
/// The numbers of rows and of columns of the result that a block computes.
const ROWS: u64 = 16;
const COLUMNS: u64 = 64;

/// The configuration of a launch for a result with `rows` rows of `columns` elements. A cluster has
/// `cluster` blocks (1, 2, 4 or 8), one below the other. The last cluster of a column may have
/// blocks without rows.
///
/// ```
/// use trijet::testing::cluster;
/// let config = cluster::config(100, 65, 4);
/// assert_eq!((config.grid, config.cluster), ([8, 2, 1], [4, 1, 1]));
/// ```
#[must_use]
pub fn config(rows: u64, columns: u32, cluster: u32) -> LaunchConfig {
    let side = |blocks: u64| u32::try_from(blocks).unwrap_or(u32::MAX);
    let below = rows.div_ceil(ROWS).next_multiple_of(u64::from(cluster.max(1)));
    let grid = [side(below), side(u64::from(columns).div_ceil(COLUMNS)), 1];
    LaunchConfig::new(grid, [THREADS, 1, 1]).cluster([cluster, 1, 1])
}

/// The number of rows of the result.
fn rows(args: &ArgBlock) -> u64 {
    args.spans()[2].elements / u64::from(args.scalar::<u32>(1)).max(1)
}

fn check(args: &ArgBlock) -> Result<(), String> {
    let (inner, columns) = (args.scalar::<u32>(0), args.scalar::<u32>(1));
    let [x, w, y] = args.spans() else { return Err("three matrices are needed".to_owned()) };
    if columns == 0 {
        return Err("the matrices have 0 columns; at least 1 is needed".to_owned());
    }
    if !y.elements.is_multiple_of(u64::from(columns)) {
        return Err(format!("y has {} elements, not whole rows of {columns}", y.elements));
    }
    let rows = rows(args);
    let wanted = [("x", x, rows, inner), ("w", w, u64::from(inner), columns)];
    for (name, matrix, rows, row) in wanted {
        if rows.checked_mul(u64::from(row)) != Some(matrix.elements) {
            let found = matrix.elements;
            return Err(format!("{name} has {found} elements; {rows} rows of {row} are needed"));
        }
    }
    Ok(())
}

fn check_shape(args: &ArgBlock, given: &LaunchConfig) -> Result<(), String> {
    let cluster = given.cluster[0];
    if given.cluster != [cluster, 1, 1] || !matches!(cluster, 1 | 2 | 4 | 8) {
        return Err(format!(
            "clusters of {:?} blocks; 1, 2, 4 or 8 in x are allowed",
            given.cluster
        ));
    }
    let wanted = config(rows(args), args.scalar(1), cluster);
    if (given.grid, given.block) != (wanted.grid, wanted.block) {
        return Err(format!(
            "a grid of {:?} blocks of {:?} threads; a grid of {:?} blocks of {:?} threads is \
             needed",
            given.grid, given.block, wanted.grid, wanted.block
        ));
    }
    Ok(())
}

/// The number of elements of a tile of the twin: [`ROWS`] whole rows of the result.
fn tile_elements(args: &ArgBlock) -> u64 {
    u64::from(args.scalar::<u32>(1)) * ROWS
}

fn tile(tile: &mut Tile<'_>) {
    let (inner, columns) = (tile.scalar::<u32>(0) as usize, tile.scalar::<u32>(1) as usize);
    let (x, w, y) = (tile.read::<f32>(2), tile.read::<f32>(4), tile.write::<f32>(6));
    host::matmul(inner, columns, &x[tile.first / columns * inner..], w, y);
}

fn cost(args: &ArgBlock) -> Cost {
    let bytes = args.spans().iter().map(|arg| arg.bytes()).sum();
    Cost { bytes, ops: 2 * args.spans()[2].elements * u64::from(args.scalar::<u32>(0)) }
}

/// `y = x * w` in single precision. Its arguments are `(inner, columns, &x, &w, &mut y)`. `x` has
/// rows of `inner` elements. `w` has `inner` rows of `columns` elements. `y` has as many rows as
/// `x`, with `columns` elements each. Each element of `y` is a sum of products, added in order and
/// rounded after every operation. [`config`] makes the configuration of a launch.
///
/// ```
/// use trijet::testing::cluster::{MATMUL, config};
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// let s = device.stream()?;
/// let (x, w) = (s.upload(&[1.0, 2.0, 3.0, 4.0])?, s.upload(&[5.0, 6.0, 7.0, 8.0])?);
/// let mut y = s.alloc::<f32>(4)?;
/// s.launch_with(&MATMUL, config(2, 2, 8), (2, 2, &x, &w, &mut y))?;
/// assert_eq!(s.download(&y)?, [19.0, 22.0, 43.0, 50.0]);
/// # Ok::<(), trijet::Error>(())
/// ```
pub static MATMUL: Kernel<ClusterParams> = {
    let shape = Shape::Given(check_shape);
    let spec = KernelSpec::new("cluster_matmul_f32", Code::ptx(PTX), shape).check(check);
    // SAFETY: the kernel takes (u32, u32, const float*, u64, const float*, u64, float*, u64), and
    // compares each index with the length of its span. The shape has a block for each part of y,
    // and only whole clusters. All blocks of a cluster reach every barrier.
    unsafe { Kernel::declare(spec.twin(Twin { tile_elements, run: tile, cost })) }
};
