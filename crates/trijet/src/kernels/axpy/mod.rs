//! `y[i] = a * x[i] + y[i]`, rounded after the product and after the sum: `axpy_f32`.

pub(crate) mod host;

use super::elementwise::{beside, declaration, twin};
use crate::device::twin::Tile;
use crate::launch::equal_lengths;
use crate::launch::{In, InOut, Kernel};

/// The device code, generated from `axpy.cu`.
pub(crate) const PTX: &str = include_str!("axpy.ptx");

fn tile(tile: &mut Tile<'_>) {
    let y = tile.write::<f32>(3);
    host::axpy(tile.scalar(0), beside(tile, 1, y.len()), y);
}

/// `y = a * x + y`: `(a, &x, &mut y)`, equal lengths.
pub static AXPY: Kernel<(f32, In<f32>, InOut<f32>)> =
    // SAFETY: `axpy_f32` takes (float, const float*, u64, float*, u64) and stays within both lengths.
    unsafe { Kernel::declare(declaration("axpy_f32", PTX, equal_lengths, twin(tile))) };
