//! The search for every outcome of a program.
#![forbid(unsafe_code)]

pub(super) mod races;
pub(crate) mod search;
