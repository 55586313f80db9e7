//! The library behind the `trijet` command: input and output formats, the journal of a run,
//! pictures, and profiles of traced programs. The command itself is the binary of this crate.
#![forbid(unsafe_code)]

pub mod digest;
mod file_error;
pub mod format;
pub mod journal;
pub mod micrograph;
pub mod output;
pub mod picture;
pub mod profile;
pub mod timeline;
