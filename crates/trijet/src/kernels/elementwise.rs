//! What the elementwise kernels share: their shape, tiles of equal size, and a cost by the byte.
#![forbid(unsafe_code)]

use crate::device::args::ArgBlock;
use crate::device::twin::{Cost, Tile, Twin};
use crate::launch::{Code, KernelSpec, Shape};

/// Elements of a tile: large enough to be worth a call, small enough to cut a chunk in parts.
const TILE: u64 = 16 * 1024;

fn tile(_: &ArgBlock) -> u64 {
    TILE
}

/// Every span is read or written once.
fn moved(args: &ArgBlock) -> Cost {
    let bytes = args.spans().iter().map(|arg| {
        let passes = if arg.mode == crate::base::ledger::Mode::ReadWrite { 2 } else { 1 };
        arg.bytes() * passes
    });
    Cost { bytes: bytes.sum(), ops: 0 }
}

/// A twin that runs tile by tile and costs its bytes.
pub(super) const fn twin(run: fn(&mut Tile<'_>)) -> Twin {
    Twin { tile_elements: tile, run, cost: moved }
}

/// What an elementwise kernel declares: a thread per element, and its twin bit for bit.
pub(super) const fn declaration(
    name: &'static str,
    ptx: &'static str,
    check: fn(&ArgBlock) -> Result<(), String>,
    twin: Twin,
) -> KernelSpec {
    KernelSpec::new(name, Code::ptx(ptx), Shape::Elements { per_thread: 1 }).check(check).twin(twin)
}

/// The elements of a read-only span that stand beside a tile.
pub(super) fn beside<'a, T: bytemuck::Pod>(tile: &Tile<'a>, index: usize, len: usize) -> &'a [T] {
    let all: &[T] = tile.read(index);
    let first = tile.first.min(all.len());
    &all[first..(first + len).min(all.len())]
}
