//! The sum `y[i] = a * x[i] + y[i]`, rounded after the product and after the sum: `axpy_f32`.

pub(crate) mod host;

use super::elementwise::{declaration, tile_input, twin};
use crate::device::twin::Tile;
use crate::launch::equal_lengths;
use crate::launch::{Kernel, Read, Update};

/// The device code, generated from `axpy.cu`.
pub(crate) const PTX: &str = include_str!("axpy.ptx");

fn tile(tile: &mut Tile<'_>) {
    let y = tile.write::<f32>(3);
    host::axpy(tile.scalar(0), tile_input(tile, 1, y.len()), y);
}

/// `y[i] = a * x[i] + y[i]` in single precision, rounded after the product and after the sum. Its
/// arguments are `(a, &x, &mut y)`; `x` and `y` have equal lengths.
pub static AXPY: Kernel<(f32, Read<f32>, Update<f32>)> =
    // SAFETY: `axpy_f32` takes (float, const float*, u64, float*, u64) and stays within both
    // lengths.
    unsafe { Kernel::declare(declaration("axpy_f32", PTX, equal_lengths, twin(tile))) };
