//! Measures this machine, and derives advice from the results. The measurements are the rates of
//! copies, the cost of calls, the calls that delay the host or other streams, limits of the device,
//! and the cost of ways to allocate and to launch.
//!
//! Some findings are not stated in the laws, for example a wait of the driver inside `cuMemFree`.
//! These findings hold for this machine and this driver only, and the library does not rely on
//! them.
//!
//! The module `measure` uses the device. The modules `verdict` and `advice` only compute with
//! numbers.
#![forbid(unsafe_code)]

pub mod advice;
pub mod findings;
mod measure;
mod plan;
pub mod verdict;

pub use findings::Findings;
pub use measure::run;
