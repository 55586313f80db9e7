//! What a run's records say: who was busy when, and what it cost that somebody was not.
#![forbid(unsafe_code)]

pub mod chrome;
pub mod html;
mod json;
pub mod overlap;
pub mod perfetto;
pub mod timeline;
mod tracks;
