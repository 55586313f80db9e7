//! The kernels of the library. Each kernel has its device source, the PTX that is generated from
//! the source, and a twin: the same function over slices, for the host device.
//!
//! `<name>/<name>.cu` is CUDA C++ without any header. `cargo xtask ptx` generates
//! `<name>/<name>.ptx` from this source. The PTX contains the hash of the source. `<name>/host.rs`
//! computes one tile of the output with the same arithmetic in the same order. So a GPU and a host
//! device agree bit for bit: the device sources are built with `--fmad=false`, integers wrap, and
//! floats are rounded after every operation.
//!
//! The library compares PTX with its device and its launches: see [`lint`] and [`PtxRule`]. Most
//! kernels run on compute capability 8.0 and later. The documentation of a kernel states if the
//! kernel needs 9.0. An older GPU refuses to load such a kernel, with [`PtxRule::Target`].
//!
//! Every pointer parameter of an entry is followed by its length in elements. No entry reads or
//! writes beyond these lengths.

mod affine;
mod axpy;

pub(crate) mod cluster;
pub(crate) mod combine;
pub(crate) mod dependent;
mod elementwise;
mod fill;
pub mod gemm;
pub mod median;
pub(crate) mod mix;
pub(crate) mod multicast;
mod reduction;
pub(crate) mod tag;
pub(crate) mod warp_specialized;
pub(crate) mod work;

pub use affine::{AFFINE_F32, AFFINE_U8, AFFINE_U16};
pub use axpy::AXPY;
pub use fill::{FILL_F32, FILL_U8, FILL_U16, FILL_U32, FILL_U64};
pub use reduction::{Max, Min, NcclNames, Reduction, Sum};

pub use crate::device::args::{ArgBlock, SpanArg};
pub use crate::device::ptx::{PtxFinding, PtxRule, lint};
pub use crate::device::tiling::{Matrix, Swizzle, TiledArg, TiledElement, Tiling};
pub use crate::device::twin::{Cost, Tile, Twin};
pub use crate::launch::{
    Arg, ArgsFor, CheckArgs, Code, Dynamic, Exactness, KernelSpec, Ptr, Read, Shape, Tiled,
    TwinParams, Update, Write, any_lengths, equal_lengths,
};
