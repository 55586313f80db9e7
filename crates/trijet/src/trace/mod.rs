//! What a run's records say: who was busy when, and what it cost that somebody was not.
#![forbid(unsafe_code)]

pub mod bubble;
pub mod critical;
pub mod file;
pub mod metrics;
pub mod overlap;
pub mod summary;
pub mod timeline;
pub mod verdict;
