//! The end of a run.
#![forbid(unsafe_code)]

use super::setup::COUNTS;

/// The codes of `End` in `scheduler.cuh`.
pub(super) const DRAINED: u32 = 1;
pub(super) const ABORTED: u32 = 2;
pub(super) const FULL: u32 = 3;
pub(super) const LOST: u32 = 4;
pub(super) const HUNG: u32 = 5;

/// The cause that stopped a run: a code, a worker, and the task to which the code refers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StopCause {
    pub(super) code: u32,
    pub(super) worker: u32,
    pub(super) task: u64,
}

/// The end of a run, as its last worker reports it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct EndReport {
    pub(super) code: u32,
    pub(super) worker: u32,
    /// The number of credits that were given back.
    pub(super) credits: u32,
    pub(super) task: u64,
    /// The sums of the counts of all workers.
    pub(super) totals: [u64; COUNTS],
}
