//! What a run's records say: who was busy when, and what it cost that somebody was not.
#![forbid(unsafe_code)]

pub mod activity;
pub mod bubble;
pub mod chrome;
pub mod critical;
pub mod file;
pub mod html;
mod json;
pub mod metrics;
pub mod perfetto;
pub mod queued;
pub mod raw;
pub mod summary;
pub mod timeline;
mod tracks;
pub mod verdict;
