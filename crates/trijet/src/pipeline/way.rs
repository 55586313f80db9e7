//! A way to run a job.
#![forbid(unsafe_code)]

use super::schedule::Schedule;
use crate::base::units::Bytes;

/// A way to run a job, as a tuner chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) schedule: Schedule,
    pub(super) chunk: Bytes,
    pub(super) depth: usize,
}
