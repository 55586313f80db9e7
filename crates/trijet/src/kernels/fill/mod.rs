//! `y[i] = value`: `fill_f32`, `fill_u8`, `fill_u32`.

pub(crate) mod host;

use super::elementwise::{declaration, twin};
use crate::device::twin::Tile;
use crate::launch::kernel::any_lengths;
use crate::launch::{Kernel, Out};

/// The device code, generated from `fill.cu`.
pub(crate) const PTX: &str = include_str!("fill.ptx");

fn tile<T: bytemuck::Pod>(tile: &mut Tile<'_>) {
    host::fill(tile.scalar::<T>(0), tile.write::<T>(1));
}

/// Sets every `f32` of a span: `(value, &mut y)`.
pub static FILL_F32: Kernel<(f32, Out<f32>)> =
    // SAFETY: `fill_f32` takes (f32, f32*, u64) and writes only `y[..y_len]`.
    unsafe { Kernel::declare(declaration("fill_f32", PTX, any_lengths, twin(tile::<f32>))) };

/// Sets every `u8` of a span: `(value, &mut y)`.
pub static FILL_U8: Kernel<(u8, Out<u8>)> =
    // SAFETY: `fill_u8` takes (u8, u8*, u64) and writes only `y[..y_len]`.
    unsafe { Kernel::declare(declaration("fill_u8", PTX, any_lengths, twin(tile::<u8>))) };

/// Sets every `u32` of a span: `(value, &mut y)`.
pub static FILL_U32: Kernel<(u32, Out<u32>)> =
    // SAFETY: `fill_u32` takes (u32, u32*, u64) and writes only `y[..y_len]`.
    unsafe { Kernel::declare(declaration("fill_u32", PTX, any_lengths, twin(tile::<u32>))) };
