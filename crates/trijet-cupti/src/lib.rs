//! The binding of Trijet to CUPTI, NVIDIA's profiling interface. The crate is also the library that
//! the driver loads into a foreign CUDA program.
//!
//! - [`api`], [`buffers`] and [`layout`] call CUPTI, lend CUPTI memory for records, and read the
//!   records by offset.
//! - [`file`](mod@file) writes the trace file of a process. `trijet::trace::process_file` reads it.
//! - [`recorder`] traces the process that it runs in, for `trijet trace`, with the records that
//!   [`choice`] names.
//! - [`call_file`] writes the call file of a process, and [`calls`] records the calls of the driver
//!   in the process that it runs in, for `trijet check`.
//! - [`stream_key`] tells which stream a handle stands for.
//! - `graph_edges` keeps the edges that the program's graphs get.
//! - `named_ranges` makes the program report its NVTX ranges to CUPTI.
//! - [`search`] lists the files that may be a library of CUDA.
//!
//! The crate has no dependencies. A second compilation, with `--cfg injected`, makes the dynamic
//! library that the CUDA driver loads into a traced program: see the build script of `trijet-cli`.

pub mod api;
pub mod buffers;
pub mod call_file;
pub mod calls;
pub mod choice;
pub mod disk;
#[cfg(injected)]
mod entry;
pub mod file;
mod graph_edges;
pub mod layout;
mod named_ranges;
mod opening;
mod questions;
pub mod recorder;
pub mod search;
mod signal;
mod sink;
pub mod stream_key;
mod system;

/// The folder of the sources of this crate, for the build script that compiles them a second time.
pub const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
