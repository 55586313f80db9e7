//! The affine map `y[i] = scale * x[i] + offset`: `affine_u8`, `affine_u16`, `affine_f32`.

use super::elementwise::{declaration, tile_input, twin};
use crate::device::twin::Tile;
use crate::launch::equal_lengths;
use crate::launch::{Kernel, Read, Write};
use trijet_twins::Affine;

/// The device code, generated from `affine.cu`.
pub(crate) const PTX: &str = include_str!("affine.ptx");

fn tile<T: Affine + bytemuck::Pod>(tile: &mut Tile<'_>) {
    let y = tile.write::<T>(4);
    T::affine(tile.scalar(0), tile.scalar(1), tile_input(tile, 2, y.len()), y);
}

/// `y[i] = scale * x[i] + offset` in single precision, rounded to the nearest integer (ties to
/// even) and saturated. Its arguments are `(scale, offset, &x, &mut y)`; `x` and `y` have equal
/// lengths.
pub static AFFINE_U8: Kernel<(f32, f32, Read<u8>, Write<u8>)> =
    // SAFETY: `affine_u8` takes (float, float, const u8*, u64, u8*, u64) and stays within both
    // lengths.
    unsafe { Kernel::declare(declaration("affine_u8", PTX, equal_lengths, twin(tile::<u8>))) };

/// `y[i] = scale * x[i] + offset` in single precision, rounded to the nearest integer (ties to
/// even) and saturated. Its arguments are `(scale, offset, &x, &mut y)`; `x` and `y` have equal
/// lengths.
pub static AFFINE_U16: Kernel<(f32, f32, Read<u16>, Write<u16>)> =
    // SAFETY: `affine_u16` takes (float, float, const u16*, u64, u16*, u64) and stays within both
    // lengths.
    unsafe {
        Kernel::declare(declaration("affine_u16", PTX, equal_lengths, twin(tile::<u16>)))
    };

/// `y[i] = scale * x[i] + offset` in single precision, rounded after the product and after the sum.
/// Its arguments are `(scale, offset, &x, &mut y)`; `x` and `y` have equal lengths.
pub static AFFINE_F32: Kernel<(f32, f32, Read<f32>, Write<f32>)> =
    // SAFETY: `affine_f32` takes (float, float, const f32*, u64, f32*, u64) and stays within both
    // lengths.
    unsafe {
        Kernel::declare(declaration("affine_f32", PTX, equal_lengths, twin(tile::<f32>)))
    };
