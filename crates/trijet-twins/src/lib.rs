//! What kernels of [trijet](https://docs.rs/trijet) compute, over slices, on one processor: an exact median of
//! images, an affine map and rounds of arithmetic. Host devices run it in place of the kernels.
//!
//! It is a crate of its own because it does nothing but compute: it is optimised in every profile, so tests of
//! everything around it stay fast where that is not. So nothing here is generic where it is called.
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
