//! Lessons about the default streams.
#![forbid(unsafe_code)]

pub(crate) mod stray_kernel;
