//! The options of a run of workers.
#![forbid(unsafe_code)]

use std::time::Duration;

/// The distribution of tasks to workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Policy {
    /// The initial tasks are dealt out in turn, and children stay with the worker that made them.
    /// Workers do not communicate, so this has the least overhead for tasks of equal length, and is
    /// the worst policy for other tasks.
    Static,
    /// Work sharing: the initial tasks come from one counter, and children come from one queue of
    /// all workers.
    Sharing,
    /// Work stealing: each worker has a range of the initial tasks, and a queue of its own
    /// children. A worker without tasks takes tasks of other workers.
    #[default]
    Stealing,
    /// Three of four initial tasks are dealt out in ranges, the others come from one counter, and
    /// children are stolen.
    Hybrid,
    /// The levels of a graph run one after another, with a barrier after each level. Children stay
    /// with their worker.
    Levels,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 5] =
        [Self::Static, Self::Sharing, Self::Stealing, Self::Hybrid, Self::Levels];

    /// The name of the policy, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Sharing => "sharing",
            Self::Stealing => "stealing",
            Self::Hybrid => "hybrid",
            Self::Levels => "levels",
        }
    }

    /// The number of the policy in `scheduler.cuh`.
    pub(super) const fn number(self) -> u32 {
        match self {
            Self::Static => 0,
            Self::Sharing => 1,
            Self::Stealing => 2,
            Self::Hybrid => 3,
            Self::Levels => 4,
        }
    }
}

/// The options of a run.
///
/// ```
/// use trijet::workers::{Policy, RunOptions};
/// let options = RunOptions { policy: Policy::Sharing, ..RunOptions::default() };
/// assert_eq!(options.policy.name(), "sharing");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct RunOptions {
    /// The distribution of tasks to workers.
    pub policy: Policy,
    /// The number of tasks that the queue of one worker holds, rounded up to a power of two.
    pub queue: u32,
    /// The number of tasks that the common queue holds, rounded up to a power of two.
    pub ring: u32,
    /// Maximum number of initial tasks that a worker takes at once. It takes fewer towards the end.
    pub chunk: u32,
    /// The number of multiprocessors that are left to other streams.
    pub reserve: u32,
    /// Maximum number of workers; `None` for all that fit onto the device.
    pub workers: Option<u32>,
    /// The run ends if a worker is idle for this long although a task is left that no worker runs,
    /// or that runs for as long again. Zero turns the watchdog off.
    pub watchdog: Duration,
    /// Whether each worker counts and times its tasks; see
    /// [`RunReport::workers`](super::RunReport::workers).
    pub statistics: bool,
    /// The number of tasks of each worker, the last ones, that are kept with their times; see
    /// [`RunReport::tasks`](super::RunReport::tasks). A task takes 24 bytes. More than 0 turns the
    /// statistics on.
    pub trace: u32,
    /// The seed for the choice of the workers from which other workers take tasks.
    pub seed: u32,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            queue: 256,
            ring: 1 << 14,
            chunk: 8,
            reserve: 0,
            workers: None,
            watchdog: Duration::from_secs(5),
            statistics: false,
            trace: 0,
            seed: 1,
        }
    }
}
