//! The end of a run.
#![forbid(unsafe_code)]

use super::setup::COUNTS;

/// The codes of `End` in `scheduler.cuh`.
pub(super) const DRAINED: u32 = 1;
pub(super) const ABORTED: u32 = 2;
pub(super) const FULL: u32 = 3;
pub(super) const LOST: u32 = 4;
pub(super) const HUNG: u32 = 5;

/// The cause that stopped a run: the code of the cause, and the worker and the task to which the
/// code refers.
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
    /// The balance of the credits: the number of credits that were given back, minus the number of
    /// credits that were taken for tasks that bodies make. All tasks have run exactly if the
    /// balance is [`Setup::credits`](super::setup::Setup::credits). If not, a host device reports
    /// any other number.
    pub(super) credits: u32,
    pub(super) task: u64,
    /// The sums of the counts of all workers.
    pub(super) totals: [u64; COUNTS],
}
