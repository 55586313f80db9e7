//! The scheduler for the host device. It has the same queues and the same steps as `scheduler.cuh`.
//! Its workers take turns in a random order, which the seed determines.
#![forbid(unsafe_code)]

mod credits;
mod deque;
mod host;
mod range;
mod ring;
mod run;
mod shared;
mod turns;
mod worker;

pub(super) use host::{answers, ask, forget, report};
pub use shared::Shared;
pub(super) use turns::run;
pub use worker::{Body, Kinds, Worker};
