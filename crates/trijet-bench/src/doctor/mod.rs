//! What this machine does, measured: rates of the links, the cost of calls, what holds what back,
//! limits, ways to allocate, ways to launch; and the advice that follows from the numbers.
//!
//! What a driver does beyond the laws (waits inside `cuMemFree`, say) is an observation of this
//! machine and no promise; nothing of the library relies on it.
//!
//! Measuring is in `measure`; `verdict` and `advice` are functions of numbers alone.
#![forbid(unsafe_code)]

pub mod advice;
pub mod findings;
mod measure;
mod plan;
pub mod verdict;

pub use findings::Findings;
pub use measure::run;
