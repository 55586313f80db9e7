//! Calls that differ from an ordinary enqueue: calls that wait, calls that are recorded or
//! captured, and calls about work that other code enqueues.
#![forbid(unsafe_code)]

pub(crate) mod blocking_call;
mod captured;
pub(crate) mod dependent;
mod direct;
pub(crate) mod recorded;
pub(crate) mod recorder;
