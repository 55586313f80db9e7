//! An exact median filter of stacks of 8 and 16 bit images, over slices, on one processor. The host devices
//! of [trijet](https://docs.rs/trijet) run it in place of their kernel.
//!
//! It is a crate of its own because it does nothing but compute: it is optimised in every profile, so tests of
//! everything around it stay fast where that is not.
#![forbid(unsafe_code)]

mod edges;
mod histogram;
mod median;
mod pixel;
mod rows;

pub use edges::Edges;
pub use median::Median;
pub use pixel::Pixel;
pub use rows::Geometry;

/// The largest radius of the filter, in pixels.
pub const RADIUS_MAX: u32 = 7;
