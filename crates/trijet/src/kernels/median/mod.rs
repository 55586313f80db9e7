//! Exact integer median filter of 8 and 16 bit images, radius 1 to 7, edges clamped.
//!
//! The data are a stack of images, each `height` rows of `width` pixels, rows flattened: global
//! row `g` belongs to image `g / height`. Work is cut by whole output rows, at any row; the window
//! of a row never leaves its image. A chunk therefore needs a halo of up to `radius` rows on each
//! side, and neither device needs to know where the images of other chunks lie.
//!
//! Imports: none.
#![forbid(unsafe_code)]

mod histogram;
pub(crate) mod host;
pub(crate) mod plan;

/// The device code, generated from `median.cu`.
pub(crate) const PTX: &str = include_str!("median.ptx");

/// The largest radius of the filter, in pixels.
pub(crate) const RADIUS_MAX: u32 = 7;
