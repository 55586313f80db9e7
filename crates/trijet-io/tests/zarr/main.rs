//! Zarr arrays: every usual form that zarr-python writes is read, damaged and hostile ones are
//! refused, and outputs are complete arrays.
#![expect(clippy::unwrap_used, reason = "a helper that fails should fail its test")]

mod damaged;
#[path = "../common/demand.rs"]
mod demand;
mod golden;
mod runs;
mod workdir;
mod written;
