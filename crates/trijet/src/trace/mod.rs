//! What a run's records say: who was busy when, and what it cost that somebody was not.
#![forbid(unsafe_code)]

pub mod activity;
pub mod overlap;
pub mod raw;
pub mod timeline;
