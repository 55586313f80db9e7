//! What a run's records say: who was busy when, and what it cost that somebody was not.
#![forbid(unsafe_code)]

pub mod file;
pub mod overlap;
pub mod timeline;
