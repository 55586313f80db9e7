//! Traces of allocations: their file format, workloads that make typical traces, and the replay of
//! a trace. A replay runs over the heap of a device, over a memory pool of the device, or over a
//! model of an allocator that caches segments.
#![forbid(unsafe_code)]

pub mod caching;
mod cells;
pub mod format;
pub mod picture;
pub mod replay;
pub mod workloads;

pub use format::{Action, DeviceTrace, Text, Trace, TraceRow, read_all, text_of};
