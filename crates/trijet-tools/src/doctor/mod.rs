//! Measurements of this machine, and advice from them. The measurements are rates of copies, the
//! cost of calls, calls that delay the host or other streams, limits, and ways to allocate and to
//! launch.
//!
//! Some observations go beyond the laws, such as a wait of the driver inside `cuMemFree`. These
//! observations hold for this machine and this driver only, and the library does not rely on them.
//!
//! `measure` uses the device; `verdict` and `advice` are functions of numbers.
#![forbid(unsafe_code)]

pub mod advice;
pub mod findings;
mod measure;
mod plan;
pub mod verdict;

pub use findings::Findings;
pub use measure::run;
