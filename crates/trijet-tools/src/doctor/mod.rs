//! Measurements of this machine, and advice from them: rates of copies, the cost of calls, calls
//! that hold the host or other streams back, limits, and ways to allocate and to launch.
//!
//! If a driver does more than the laws require, such as a wait inside `cuMemFree`, this is an
//! observation on this machine. It is not a promise, and the library does not rely on it.
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
