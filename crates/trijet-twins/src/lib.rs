//! The computations of kernels of [trijet](https://docs.rs/trijet), over slices, on one processor:
//! an exact median of images, an affine map and rounds of arithmetic. Host devices run them in
//! place of the kernels.
//!
//! It is a separate crate because it only computes: every profile optimises it, so tests of the
//! code around it stay fast in profiles that do not optimise that code. For the same reason, no
//! function here is generic for its callers.
#![forbid(unsafe_code)]

mod affine;
mod edges;
mod float;
mod histogram;
mod median;
mod pixel;
mod rows;
mod work;

pub use affine::Affine;
pub use edges::Edges;
pub use float::device_float;
pub use median::Median;
pub use pixel::Pixel;
pub use rows::Geometry;
pub use work::work;

/// The largest radius of the median filter, in pixels.
pub const RADIUS_MAX: u32 = 7;
