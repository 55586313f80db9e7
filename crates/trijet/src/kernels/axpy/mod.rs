//! `y[i] = a * x[i] + y[i]`, rounded after the product and after the sum: `axpy_f32`.

pub(crate) mod host;

use super::elementwise::{beside, twin};
use crate::device::twin::Tile;
use crate::launch::kernel::equal_lengths;
use crate::launch::{Code, Exactness, In, InOut, Kernel, KernelSpec, Shape};
use std::borrow::Cow;

/// The device code, generated from `axpy.cu`.
pub(crate) const PTX: &str = include_str!("axpy.ptx");

fn tile(tile: &mut Tile<'_>) {
    let y = tile.write::<f32>(3);
    host::axpy(tile.scalar(0), beside(tile, 1, y.len()), y);
}

/// `y = a * x + y`: `(a, &x, &mut y)`, equal lengths.
pub static AXPY: Kernel<(f32, In<f32>, InOut<f32>)> =
    // SAFETY: `axpy_f32` takes (float, const float*, u64, float*, u64) and stays within both lengths.
    unsafe {
        Kernel::declare(KernelSpec {
            name: Cow::Borrowed("axpy_f32"),
            code: Code::Ptx(Cow::Borrowed(PTX)),
            shape: Shape::Elements { per_thread: 1 },
            shared_bytes_max: 0,
            check: equal_lengths,
            twin: Some(twin(tile)),
            exactness: Exactness::Exact,
        })
    };
