//! The host: functions that a stream calls, and waits of threads.
#![forbid(unsafe_code)]

pub(crate) mod host_fn;
pub(crate) mod host_wait;
