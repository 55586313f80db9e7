//! The memory that each kernel of a foreign program reads and writes, for `trijet check --kernels`.
//!
//! The Compute Sanitizer API of NVIDIA calls device functions of ours, the patches
//! (`accesses.cu`), before each access of global memory. The patches set bits in a table in device
//! memory. A thread reads the tables when their launches are complete.
//!
//! - [`api`] has the functions of the library, which the user has from the CUDA toolkit or from
//!   PyPI. Nothing of NVIDIA is part of this crate.
//! - [`data`] reads the arguments of the library's callbacks.
//! - [`table`] has the layout of a table, and turns its bits into ranges of bytes.
//! - [`batches`] decides which table a launch uses, and when a table is read.
//! - [`capture`] takes the callbacks, and patches kernels. `reading` makes the tables, and has the
//!   thread that reads them.
//!
//! The program comes first. A callback waits for a free table only, for a limited time, and never
//! for work of the program. A launch without a table is counted, and its accesses are not known.

pub mod api;
pub mod batches;
pub mod capture;
pub mod data;
mod reading;
pub mod table;

/// The folder of the sources of this crate, for the build script that compiles them a second time.
pub const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
