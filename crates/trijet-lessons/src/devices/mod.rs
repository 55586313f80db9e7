//! Lessons about work of several GPUs.
#![forbid(unsafe_code)]

pub(crate) mod buckets;
pub(crate) mod four_engines;
pub(crate) mod peer_copy;
pub(crate) mod ring;
