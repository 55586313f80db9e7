//! The parts of the `trijet` command: the formats that it reads and writes, and what a run leaves
//! behind. The command itself is the binary of this crate.
#![forbid(unsafe_code)]

pub mod digest;
mod fault;
pub mod format;
pub mod journal;
pub mod micrograph;
pub mod output;
pub mod picture;
pub mod profile;
pub mod timeline;
