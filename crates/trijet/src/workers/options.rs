//! How workers share their tasks.
#![forbid(unsafe_code)]

use std::time::Duration;

/// Which worker runs which task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Policy {
    /// The initial tasks are dealt out in turn, and children stay with the worker that made them. There is no
    /// communication, so this is the least overhead for tasks of equal length, and the worst for others.
    Static,
    /// Work sharing: the initial tasks come from one counter, and children from one queue of all workers.
    Sharing,
    /// Work stealing: each worker has a range of the initial tasks and a queue of its own children. A worker without tasks takes
    /// those of others.
    #[default]
    Stealing,
    /// Three of four initial tasks are dealt out in ranges, the others come from one counter, and children are stolen.
    Hybrid,
    /// The levels of a graph one after another, with a barrier behind each. Children stay with their worker.
    Levels,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Static, Self::Sharing, Self::Stealing, Self::Hybrid, Self::Levels];

    /// Its name, in lower case.
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

    /// Its number in `scheduler.cuh`.
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
    /// Which worker runs which task.
    pub policy: Policy,
    /// The tasks that the queue of one worker holds, rounded up to a power of two.
    pub queue: u32,
    /// The tasks that the common queue holds, rounded up to a power of two.
    pub ring: u32,
    /// The most initial tasks that a worker takes at once. It takes fewer towards the end.
    pub chunk: u32,
    /// The multiprocessors that are left to other streams.
    pub reserve: u32,
    /// The most workers; all that fit onto the device if it is `None`.
    pub workers: Option<u32>,
    /// The run ends if a worker is idle for so long although a task is left that no worker runs, or that runs for as long
    /// again. Zero turns this off.
    pub watchdog: Duration,
    /// Whether each worker counts and times its tasks, see [`RunReport::workers`](super::RunReport::workers).
    pub statistics: bool,
    /// The tasks of each worker that are kept with their times, the last ones, see [`RunReport::tasks`](super::RunReport::tasks). A
    /// task takes 24 bytes. More than 0 turns the statistics on.
    pub trace: u32,
    /// For the choice of the workers that others take tasks from.
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
