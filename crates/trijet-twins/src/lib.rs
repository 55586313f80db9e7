//! The computations of kernels of [trijet](https://docs.rs/trijet), over slices, on one processor:
//! an exact median of images, an affine map and rounds of arithmetic. Host devices run these
//! computations in place of the kernels.
//!
//! This crate is separate so that every profile can optimise it. Tests of other crates then stay
//! fast, even in profiles that do not optimise those crates. A generic function would be compiled
//! in the crate of its caller, so no function for callers is generic.
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
