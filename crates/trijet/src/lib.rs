//! Trijet: overlapped GPU pipelines.
pub mod base;
mod kernels;
