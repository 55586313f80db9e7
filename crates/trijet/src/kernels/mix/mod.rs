//! A hash `y[i] = hash(y[i], x[i], salt)`: `mix_u64`. The result shows how many times and in which
//! order the hash was applied.

pub(crate) mod host;

use super::elementwise::{declaration, tile_input, twin};
use crate::device::twin::Tile;
use crate::launch::equal_lengths;
use crate::launch::{Kernel, Read, Update};

/// The device code, generated from `mix.cu`.
pub(crate) const PTX: &str = include_str!("mix.ptx");

fn tile(tile: &mut Tile<'_>) {
    let y = tile.write::<u64>(3);
    host::mix(tile.scalar(0), tile_input(tile, 1, y.len()), y);
}

/// Hashes `x` into `y`. Its arguments are `(salt, &x, &mut y)`; `x` and `y` have equal lengths. The
/// result depends on the order of two calls, so tests of ordering use this kernel.
pub static MIX: Kernel<(u64, Read<u64>, Update<u64>)> =
    // SAFETY: `mix_u64` takes (u64, const u64*, u64, u64*, u64) and stays within both lengths.
    unsafe { Kernel::declare(declaration("mix_u64", PTX, equal_lengths, twin(tile))) };
