//! Common parts of the elementwise kernels: the shape, the size of a tile, and the cost in bytes.
#![forbid(unsafe_code)]

use crate::device::LaunchConfig;
use crate::device::args::ArgBlock;
use crate::device::twin::{Cost, Tile, Twin};
use crate::launch::{Code, KernelSpec, Shape};

/// The number of elements of a tile. A tile is large enough to be worth a call, and small enough
/// that a chunk has several tiles.
const TILE: u64 = 16 * 1024;

fn tile(_: &ArgBlock) -> u64 {
    TILE
}

/// The cost of an operation that reads or writes each element of each span once. A span that is
/// read and written counts twice.
fn bytes_moved(args: &ArgBlock) -> Cost {
    let bytes = args.spans().iter().map(|arg| {
        let passes = if arg.mode == crate::base::ledger::Mode::Update { 2 } else { 1 };
        arg.bytes() * passes
    });
    Cost { bytes: bytes.sum(), ops: 0 }
}

/// A twin that runs tile by tile. Its cost is the number of bytes that it moves.
pub(super) const fn twin(run: fn(&mut Tile<'_>)) -> Twin {
    Twin { tile_elements: tile, run, cost: bytes_moved }
}

/// The declaration of an elementwise kernel: one thread per element, and a twin with the same
/// results bit for bit.
pub(super) const fn declaration(
    name: &'static str,
    ptx: &'static str,
    check: fn(&ArgBlock) -> Result<(), String>,
    twin: Twin,
) -> KernelSpec {
    KernelSpec::new(name, Code::ptx(ptx), Shape::Elements { per_thread: 1 }).check(check).twin(twin)
}

/// The elements of the read-only span `index` that have the same indices as the elements of a tile.
/// The tile has `len` elements.
pub(super) fn tile_input<'a, T: bytemuck::Pod>(
    tile: &Tile<'a>,
    index: usize,
    len: usize,
) -> &'a [T] {
    let all: &[T] = tile.read(index);
    let first = tile.first.min(all.len());
    &all[first..(first + len).min(all.len())]
}

/// Refuses a configuration with a grid or blocks of more than one dimension.
pub(super) fn refuse_unless_line(config: &LaunchConfig) -> Result<(), String> {
    let ([_, 1, 1], [_, 1, 1]) = (config.grid, config.block) else {
        let (grid, block) = (config.grid, config.block);
        return Err(format!("a grid of {grid:?} blocks of {block:?}; the kernel uses x only"));
    };
    Ok(())
}
