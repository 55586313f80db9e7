//! Lessons about work of several GPUs.
#![forbid(unsafe_code)]

pub(crate) mod ring;
