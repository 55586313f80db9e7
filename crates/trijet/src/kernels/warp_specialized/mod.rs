//! A sum by blocks whose warps have different roles: the first warp loads, the second adds, and the
//! third stores. At any time, each warp works on a different tile of a ring in shared memory. So
//! copies and arithmetic overlap inside a block.
//!
//! Needs compute capability 9.0 on a GPU, for bulk copies: see
//! [`PtxRule::Target`](super::PtxRule::Target).

pub(crate) mod host;

use super::elementwise::{refuse_unless_line, tile_input, twin};
use crate::device::LaunchConfig;
use crate::device::args::ArgBlock;
use crate::device::twin::Tile;
use crate::launch::equal_lengths;
use crate::launch::{Code, Kernel, KernelSpec, Read, Shape, Write};

/// The device code, generated from `warp_specialized.cu`.
pub(crate) const PTX: &str = include_str!("warp_specialized.ptx");

/// The number of threads of a block: one warp for each role.
const THREADS: u32 = 96;

/// The number of elements of a tile. With n blocks, a block takes every n-th tile.
pub const TILE: usize = 1024;

/// The configuration of a launch over `elements` elements: a block for each tile, but at most
/// `blocks_max` blocks. The roles of a block overlap only if the block has several tiles. So a good
/// choice for `blocks_max` is the number of multiprocessors.
///
/// ```
/// use trijet::testing::warp_specialized;
/// assert_eq!(warp_specialized::config(1025, 132).grid, [2, 1, 1]);
/// assert_eq!(warp_specialized::config(1 << 20, 132).grid, [132, 1, 1]);
/// assert_eq!(warp_specialized::config(0, 132).grid, [0, 1, 1], "it launches nothing");
/// ```
#[must_use]
pub fn config(elements: usize, blocks_max: u32) -> LaunchConfig {
    let tiles = u32::try_from(elements.div_ceil(TILE)).unwrap_or(u32::MAX);
    LaunchConfig::new([tiles.min(blocks_max), 1, 1], [THREADS, 1, 1])
}

fn tile(tile: &mut Tile<'_>) {
    let z = tile.write::<f32>(4);
    let len = z.len();
    host::add(tile_input(tile, 0, len), tile_input(tile, 2, len), z);
}

fn check_shape(_: &ArgBlock, config: &LaunchConfig) -> Result<(), String> {
    refuse_unless_line(config)?;
    match config.block[0] {
        THREADS => Ok(()),
        threads => Err(format!("blocks of {threads} threads; {THREADS} are needed")),
    }
}

/// `z[i] = x[i] + y[i]` in single precision. Its arguments are `(&x, &y, &mut z)`. The three spans
/// have equal lengths and may begin at any element. [`config`] makes the configuration of a launch.
///
/// ```
/// use trijet::testing::warp_specialized::{ADD, config};
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// let s = device.stream()?;
/// let (x, y) = (s.upload(&[1.0, 2.0, 3.0])?, s.upload(&[10.0, 20.0, 30.0])?);
/// let mut z = s.alloc::<f32>(3)?;
/// s.launch_with(&ADD, config(3, device.info().multiprocessors), (&x, &y, &mut z))?;
/// assert_eq!(s.download(&z)?, [11.0, 22.0, 33.0]);
/// # Ok::<(), trijet::Error>(())
/// ```
pub static ADD: Kernel<(Read<f32>, Read<f32>, Write<f32>)> = {
    let shape = Shape::Given(check_shape);
    let spec =
        KernelSpec::new("warp_specialized_add_f32", Code::ptx(PTX), shape).check(equal_lengths);
    // SAFETY: the kernel takes (const float*, u64, const float*, u64, float*, u64), and stays
    // within the three lengths, even if a tile is cut: bulk copies move only whole units inside a
    // span. Any one-dimensional grid of blocks of 96 threads is valid.
    unsafe { Kernel::declare(spec.twin(twin(tile))) }
};
