//! `y[i] = hash(y[i], x[i], salt)`, in which order and number of applications show: `mix_u64`.
//!
//! Imports: none.
#![forbid(unsafe_code)]

pub(crate) mod host;

/// The device code, generated from `mix.cu`.
pub(crate) const PTX: &str = include_str!("mix.ptx");
