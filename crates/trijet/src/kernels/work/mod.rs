//! `y[i]` = `rounds` rounds of an integer hash of `x[i]`, the dial of arithmetic cost: `work_u32`.
//!
//! Imports: none.
#![forbid(unsafe_code)]

pub(crate) mod host;

/// The device code, generated from `work.cu`.
pub(crate) const PTX: &str = include_str!("work.ptx");
