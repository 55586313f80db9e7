//! Collectives by copies and kernels.
#![forbid(unsafe_code)]

pub(super) mod chains;
pub(super) mod ring;
