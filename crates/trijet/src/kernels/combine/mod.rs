//! Sums, minima and maxima of two spans, element by element. The results are written to the second
//! span. The kernels for `f32` are `sum_f32`, `min_f32` and `max_f32`. Each other type has three
//! such kernels.

pub(crate) mod host;

use super::elementwise::{tile_input, twin};
use crate::device::twin::Tile;
use crate::launch::equal_lengths;
use crate::launch::{Code, Kernel, KernelSpec, Read, Shape, Update};
use half::bf16;

/// The device code, generated from `combine.cu`.
pub(crate) const PTX: &str = include_str!("combine.ptx");

fn sum<T: host::Combinable + bytemuck::Pod>(tile: &mut Tile<'_>) {
    let y = tile.write::<T>(2);
    host::sum(tile_input(tile, 0, y.len()), y);
}

fn min<T: host::Combinable + bytemuck::Pod>(tile: &mut Tile<'_>) {
    let y = tile.write::<T>(2);
    host::min(tile_input(tile, 0, y.len()), y);
}

fn max<T: host::Combinable + bytemuck::Pod>(tile: &mut Tile<'_>) {
    let y = tile.write::<T>(2);
    host::max(tile_input(tile, 0, y.len()), y);
}

macro_rules! kernels {
    ($per_thread:literal: $($name:ident $entry:literal $type:ty, $twin:ident;)*) => {$(
        #[doc = concat!("`", $entry, "` over elements of `", stringify!($type), "`. Its arguments are `(&x, &mut y)`, of equal lengths.")]
        pub(crate) static $name: Kernel<(Read<$type>, Update<$type>)> =
            // SAFETY: the entry takes (const T*, u64, T*, u64) for the `T` of its name, and stays
            // within both lengths.
            unsafe {
                Kernel::declare(
                    KernelSpec::new($entry, Code::ptx(PTX), Shape::Elements { per_thread: $per_thread })
                        .check(equal_lengths)
                        .twin(twin($twin::<$type>)),
                )
            };
    )*};
}
kernels! { 1:
    SUM_F32 "sum_f32" f32, sum; MIN_F32 "min_f32" f32, min; MAX_F32 "max_f32" f32, max;
    SUM_I32 "sum_i32" i32, sum; MIN_I32 "min_i32" i32, min; MAX_I32 "max_i32" i32, max;
    SUM_U32 "sum_u32" u32, sum; MIN_U32 "min_u32" u32, min; MAX_U32 "max_u32" u32, max;
    SUM_I64 "sum_i64" i64, sum; MIN_I64 "min_i64" i64, min; MAX_I64 "max_i64" i64, max;
    SUM_U64 "sum_u64" u64, sum; MIN_U64 "min_u64" u64, min; MAX_U64 "max_u64" u64, max;
}
kernels! { 8: SUM_BF16 "sum_bf16" bf16, sum; MIN_BF16 "min_bf16" bf16, min; MAX_BF16 "max_bf16" bf16, max; }
