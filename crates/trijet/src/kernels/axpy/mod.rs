//! `y[i] = a * x[i] + y[i]`, rounded after the product and after the sum: `axpy_f32`.
//!
//! Imports: none.
#![forbid(unsafe_code)]

pub(crate) mod host;

/// The device code, generated from `axpy.cu`.
pub(crate) const PTX: &str = include_str!("axpy.ptx");
