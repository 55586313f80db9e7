//! A product of bf16 matrices on tensor cores. The warps of a block have different roles: one
//! warpgroup lets the copy engine fill a ring of boxes in shared memory, and the other warpgroups
//! multiply the boxes. The two blocks of a cluster share the boxes that both blocks need.
//!
//! Needs compute capability 9.0 on a GPU, and does not run on later GPUs: see
//! [`PtxRule::Target`](super::PtxRule::Target).

pub(crate) mod host;

use crate::base::error::Result;
use crate::device::LaunchConfig;
use crate::device::args::ArgBlock;
use crate::device::tiling::{Swizzle, Tiling};
use crate::device::twin::{Cost, Tile, Twin};
use crate::launch::{Code, Exactness, Kernel, KernelSpec, Read, Shape, Tiled, Write};
use crate::memory::{TiledView, TiledViewMut, View, ViewMut};
pub use half::bf16;

/// The device code, generated from `gemm.cu`.
pub(crate) const PTX: &str = include_str!("gemm.ptx");

/// The parameters of [`MATMUL`]: `(a, b, d, [m, n, k])`.
pub type GemmParams = (Tiled<Read<bf16>>, Tiled<Read<bf16>>, Tiled<Write<bf16>>, [u32; 3]);

/// The number of threads of a block: two warpgroups that multiply, and one warpgroup that loads.
const THREADS: u32 = 384;
/// The number of rows, and of columns, of the result that a block computes at a time.
const SIDE: u32 = 128;
/// The shared memory of a block in bytes: six slots of two boxes each, the data that the warps
/// store, and the barriers.
const SHARED_BYTES: u32 = 229_472;
/// The numbers of rows of the boxes of `a`, `b` and `d`. A box has 64 columns, which are the 128
/// bytes of the swizzle.
const BOX_ROWS: [u32; 3] = [SIDE, SIDE / 2, 16];
const BOX_COLUMNS: u32 = 64;
/// Maximum side of a matrix. Positions in a matrix are signed 32-bit numbers, and the last tiles
/// reach beyond the end of the matrix.
const SIDE_MAX: u32 = (1 << 31) - 1024;

const fn tiling(sides: [usize; 2], pitch: usize, box_rows: u32) -> Tiling {
    Tiling::new(sides, [box_rows, BOX_COLUMNS]).pitch(pitch).swizzle(Swizzle::Bytes128)
}

/// The first matrix of a product, with `[m, k]` rows and columns. The distance between the starts
/// of two rows is `pitch` elements, a multiple of 8.
///
/// # Errors
/// As for [`View::tiled`].
pub fn left(a: View<'_, bf16>, sides: [usize; 2], pitch: usize) -> Result<TiledView<'_, bf16>> {
    a.tiled(tiling(sides, pitch, BOX_ROWS[0]))
}

/// The second matrix of a product, with `[n, k]` rows and columns. In both matrices, the factors of
/// one sum are neighbours in a row.
///
/// # Errors
/// As for [`View::tiled`].
pub fn right(b: View<'_, bf16>, sides: [usize; 2], pitch: usize) -> Result<TiledView<'_, bf16>> {
    b.tiled(tiling(sides, pitch, BOX_ROWS[1]))
}

/// The result, with `[m, n]` rows and columns. If `n` is not a multiple of 8, the elements of a row
/// up to the next multiple of 8 are overwritten as well.
///
/// # Errors
/// As for [`ViewMut::tiled`].
pub fn result(
    d: ViewMut<'_, bf16>,
    sides: [usize; 2],
    pitch: usize,
) -> Result<TiledViewMut<'_, bf16>> {
    d.tiled(tiling(sides, pitch, BOX_ROWS[2]))
}

/// The configuration for a result of `m` rows and `n` columns on a GPU with this number of
/// multiprocessors. The grid has as many blocks as can run at once, but at most one block for each
/// tile. The blocks are in clusters of two if there is more than one row of tiles.
///
/// ```
/// use trijet::kernels::gemm;
/// assert_eq!(gemm::config(100, 300, 132).grid, [3, 1, 1]);
/// let config = gemm::config(4096, 4096, 132);
/// assert_eq!((config.grid, config.cluster), ([132, 1, 1], [2, 1, 1]));
/// ```
#[must_use]
pub fn config(m: u32, n: u32, multiprocessors: u32) -> LaunchConfig {
    let cluster = if m > SIDE { 2 } else { 1 };
    let (heights, columns) = (m.div_ceil(SIDE * cluster), n.div_ceil(SIDE));
    let at_once = u64::from((multiprocessors / cluster).max(1));
    let clusters = (u64::from(heights) * u64::from(columns)).min(at_once);
    let blocks = u32::try_from(clusters).expect("`at_once` fits into 32 bits") * cluster;
    shaped(blocks, cluster)
}

/// A configuration of `blocks` blocks in clusters of `cluster` blocks. A cluster that has finished
/// a tile continues with another tile.
const fn shaped(blocks: u32, cluster: u32) -> LaunchConfig {
    LaunchConfig::new([blocks, 1, 1], [THREADS, 1, 1])
        .cluster([cluster, 1, 1])
        .shared_bytes(SHARED_BYTES)
}

fn check(args: &ArgBlock) -> std::result::Result<(), String> {
    let [a, b, d] = args.tiled() else { return Err("three tilings are needed".to_owned()) };
    let [m, n, k] = args.scalar::<[u32; 3]>(3);
    let wanted = [("a", a, [m, k]), ("b", b, [n, k]), ("d", d, [m, n])];
    for ((name, matrix, sides), rows_of_box) in wanted.into_iter().zip(BOX_ROWS) {
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
        if ([box_rows, box_columns], swizzle) != ([rows_of_box, BOX_COLUMNS], Swizzle::Bytes128) {
            return Err(format!(
                "{name} has boxes of {box_rows} rows of {box_columns}; {rows_of_box} of {BOX_COLUMNS} with a \
                 swizzle of 128 bytes are needed"
            ));
        }
    }
    Ok(())
}

fn check_shape(_: &ArgBlock, given: &LaunchConfig) -> std::result::Result<(), String> {
    let cluster = given.cluster[0];
    if given.cluster != [cluster, 1, 1] || !matches!(cluster, 1 | 2) {
        return Err(format!("clusters of {:?} blocks; 1 or 2 in x are allowed", given.cluster));
    }
    if given.grid[1..] != [1, 1] || given.block != [THREADS, 1, 1] {
        return Err(format!(
            "a grid of {:?} blocks of {:?} threads; a grid in x only, with blocks of [{THREADS}, \
             1, 1] threads, is needed",
            given.grid, given.block
        ));
    }
    match given.shared_bytes {
        SHARED_BYTES => Ok(()),
        bytes => Err(format!("{bytes} bytes of shared memory; {SHARED_BYTES} are needed")),
    }
}

fn tile(tile: &mut Tile<'_>) {
    let (a, b, d) = (tile.matrix(0), tile.matrix(1), tile.tiling(2));
    host::matmul(&a, &b, d, tile.first, tile.write(2));
}

fn cost(args: &ArgBlock) -> Cost {
    let [m, n, k] = args.scalar::<[u32; 3]>(3).map(u64::from);
    Cost { bytes: 2 * (m * k + n * k + m * n), ops: 2 * (m * n).saturating_mul(k) }
}

/// `d = a * b^T` of bf16 matrices, summed in single precision and rounded to bf16 at the end. Its
/// arguments are `(a, b, d, [m, n, k])`. `a` has `m` rows of `k` elements, `b` has `n` rows of `k`
/// elements, and `d` has `m` rows of `n` elements. [`left`], [`right`] and [`result`] make these
/// arguments, and [`config`] makes the configuration of a launch. The tensor cores determine the
/// order of the sums. So the kernel and its twin agree within the error of single-precision sums.
/// If no sum is rounded, the kernel and its twin agree exactly.
///
/// The kernel waits for the previous kernel as a [dependent](LaunchConfig::dependent) launch does.
/// The next kernel may begin when the blocks of this kernel have loaded their last boxes.
///
/// ```
/// use trijet::kernels::gemm::{MATMUL, bf16, config, left, result, right};
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// let s = device.stream()?;
/// // Rows of two elements, 8 elements apart: rows begin at multiples of 16 bytes.
/// let rows = |x: [f32; 4]| {
///     let mut all = [bf16::ZERO; 16];
///     [0, 1, 8, 9].into_iter().zip(x).for_each(|(at, x)| all[at] = bf16::from_f32(x));
///     all
/// };
/// let (a, b) = (s.upload(&rows([1.0, 2.0, 3.0, 4.0]))?, s.upload(&rows([5.0, 6.0, 7.0, 8.0]))?);
/// let mut d = s.alloc_zeroed::<bf16>(16)?;
/// let (sides, pitch) = ([2, 2], 8);
/// let args = (
///     left(a.view(), sides, pitch)?,
///     right(b.view(), sides, pitch)?,
///     result(d.view_mut(), sides, pitch)?,
///     [2, 2, 2],
/// );
/// s.launch_with(&MATMUL, config(2, 2, device.info().multiprocessors), args)?;
/// let d = s.download(&d)?;
/// assert_eq!([d[0], d[1], d[8], d[9]].map(f32::from), [17.0, 23.0, 39.0, 53.0]);
/// # Ok::<(), trijet::Error>(())
/// ```
pub static MATMUL: Kernel<GemmParams> = {
    let shape = Shape::Given(check_shape);
    let spec = KernelSpec::new("gemm_bf16", Code::ptx(PTX), shape)
        .check(check)
        .exactness(Exactness::Relative(1e-2))
        .shared_bytes_max(SHARED_BYTES)
        .trust_wait();
    let twin = Twin { tile_elements: |_| 4096, run: tile, cost };
    // SAFETY: the kernel takes (CUtensorMap, CUtensorMap, CUtensorMap, three u32), and accesses
    // global memory only by the copy engine. The copy engine stays within the matrices that the
    // tilings name, including the last unit of 16 bytes of each row. The check demands boxes as
    // large as their tiles in shared memory, and sides for which every index fits into 31 bits. The
    // shape demands as much shared memory as the tiles take. The shape also demands clusters in
    // which all blocks take the same steps, so each barrier is reached. The thread that loads waits
    // for the previous kernel. Barriers order all other threads of a block after the loads of this
    // thread.
    unsafe { Kernel::declare(spec.twin(twin)) }
};
