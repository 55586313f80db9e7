//! The scheduler for the host device: the same queues and the same steps as `scheduler.cuh`, with workers that take turns
//! in a drawn order.
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
