//! The library of the `trijet` command: pictures, timelines, and profiles of traced programs.
//! The command itself is the binary of this crate.
#![forbid(unsafe_code)]

pub mod digest;
pub mod key;
pub mod micrograph;
pub mod picture;
pub mod profile;
pub mod timeline;
