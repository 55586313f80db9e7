//! The modules that the commands `trijet` and `trijet-bench` share: the choice of a device, lines
//! for people, progress, signals, the documents of `--json`, and verdicts of the checker.
#![forbid(unsafe_code)]

pub mod beside;
pub mod device;
pub mod document;
pub mod print;
pub mod progress;
pub mod stop;
pub mod usage;
pub mod verdict;
mod wrap;
