//! A way to run a job.
#![forbid(unsafe_code)]

use crate::base::units::Bytes;
use crate::pipeline::plan::schedule::Schedule;

/// A way to run a job, as a tuner chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pipeline) struct Way {
    pub(in crate::pipeline) schedule: Schedule,
    pub(super) chunk: Bytes,
    pub(super) depth: usize,
}
