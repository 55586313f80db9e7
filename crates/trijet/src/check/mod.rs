//! What is wrong with a run that was recorded.
#![forbid(unsafe_code)]

pub mod lint;
