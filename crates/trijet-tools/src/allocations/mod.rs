//! Traces of allocations: their file format, programs that are typical of one kind of work, and the
//! replay of a trace over the heap of a device, over one of its pools, and over a model of an
//! allocator that caches segments.
#![forbid(unsafe_code)]

pub mod caching;
mod cells;
pub mod format;
pub mod picture;
pub mod replay;
pub mod workloads;

pub use format::{Action, DeviceTrace, Text, Trace, TraceRow, read_all, text_of};
