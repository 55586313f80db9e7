//! The order of operations.
//!
//! Every operation gets a position on its lane, and every allocation keeps the positions of the
//! operations that used it. The waits that an operation needs follow from these positions alone. So
//! a buffer can be used on any stream without a race. No wait is enqueued if an earlier wait
//! implies it. All calls that order work pass the [`gate`].
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

pub(crate) mod calls;
pub(crate) mod domain;
pub(crate) mod enqueue;
mod freed;
pub(crate) mod gate;
pub(crate) mod host;
pub(crate) mod lane;
pub(crate) mod lane_ref;
pub(crate) mod legacy;
pub(crate) mod mark;
pub(crate) mod peers;
pub(crate) mod prologue;
pub(crate) mod submission;
pub(crate) mod tracing;
pub(crate) mod track;
pub(crate) mod wait;
