//! What a recording of a program that is not ours says: who was busy when, and what it cost that
//! nobody was.
//!
//! Lengths are those of unions of intervals, never sums of durations. A finding's cost is time in
//! which no kernel ran while the thing went on, or the GPU stood still because of it: an estimate
//! of what mending it gains. Several findings may claim the same moment, so they do not add up.
//!
//! What kernels read and write is not in a recording. So nothing here speaks of races.
#![forbid(unsafe_code)]

mod activities;
mod calls;
mod device;
mod findings;
mod idle;
mod json;
mod names;
mod operations;
mod process;
mod text;

pub use device::{Device, EngineTime, KernelTime};
pub use findings::Finding;
pub use idle::Idle;
pub use json::json;
pub use process::{Process, analyse};
pub use text::text;

#[cfg(test)]
mod tests;
