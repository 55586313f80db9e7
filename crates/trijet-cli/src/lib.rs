//! The library of the `trijet` command: pictures, timelines, generated images, and digests of
//! results. The command itself is the binary of this crate.
#![forbid(unsafe_code)]

pub mod digest;
pub mod key;
pub mod micrograph;
pub mod picture;
pub mod timeline;
