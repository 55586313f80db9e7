//! Lessons about work that is distributed while it runs.
#![forbid(unsafe_code)]

pub(crate) mod idle_workers;
pub(crate) mod stealing;
