//! `y[i] = value`: `fill_f32`, `fill_u8`, `fill_u32`.
//!
//! Imports: none.
#![forbid(unsafe_code)]

pub(crate) mod host;

/// The device code, generated from `fill.cu`.
pub(crate) const PTX: &str = include_str!("fill.ptx");
