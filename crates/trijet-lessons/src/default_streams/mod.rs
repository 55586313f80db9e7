//! Lessons about the default streams.
#![forbid(unsafe_code)]

pub(crate) mod eight_threads;
pub(crate) mod stray_kernel;
pub(crate) mod three_kernels;
