//! Calls that are not enqueued as others: they wait, are recorded or captured, or come from other
//! code.
#![forbid(unsafe_code)]

pub(crate) mod blocking_call;
mod captured;
pub(crate) mod dependent;
mod direct;
pub(crate) mod recorded;
pub(crate) mod recorder;
