//! `y[i] = scale * x[i] + offset`: `affine_u8`, `affine_u16`, `affine_f32`.
//!
//! Imports: none.
#![forbid(unsafe_code)]

pub(crate) mod host;

/// The device code, generated from `affine.cu`.
pub(crate) const PTX: &str = include_str!("affine.ptx");
