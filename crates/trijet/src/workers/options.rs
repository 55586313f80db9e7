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
/// let options = RunOptions::new().policy(Policy::Sharing).workers(8);
/// assert_ne!(options, RunOptions::new());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "nothing runs yet"]
pub struct RunOptions {
    pub(crate) policy: Policy,
    pub(crate) queue: u32,
    pub(crate) ring: u32,
    pub(crate) chunk: u32,
    pub(crate) reserve: u32,
    pub(crate) workers: Option<u32>,
    pub(crate) watchdog: Duration,
    pub(crate) statistics: bool,
    pub(crate) trace: u32,
    pub(crate) seed: u32,
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

impl RunOptions {
    /// The default options: [`Policy::default`], and as many workers as fit onto the device.
    pub fn new() -> Self {
        Self::default()
    }

    /// The distribution of tasks to workers.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The number of tasks that the queue of one worker holds, rounded up to a power of two; 256 by
    /// default.
    pub fn queue(mut self, tasks: u32) -> Self {
        self.queue = tasks;
        self
    }

    /// The number of tasks that the common queue holds, rounded up to a power of two; 16384 by
    /// default.
    pub fn ring(mut self, tasks: u32) -> Self {
        self.ring = tasks;
        self
    }

    /// Maximum number of initial tasks that a worker takes at once, 8 by default. It takes fewer
    /// towards the end.
    pub fn chunk(mut self, tasks: u32) -> Self {
        self.chunk = tasks;
        self
    }

    /// The number of multiprocessors that are left to other streams.
    pub fn reserve(mut self, multiprocessors: u32) -> Self {
        self.reserve = multiprocessors;
        self
    }

    /// Maximum number of workers; `None` for all that fit onto the device.
    pub fn workers(mut self, workers: impl Into<Option<u32>>) -> Self {
        self.workers = workers.into();
        self
    }

    /// The run ends if a worker is idle for this long although a task is left that no worker runs,
    /// or that runs for as long again. Zero turns the watchdog off. The default is 5 s.
    pub fn watchdog(mut self, limit: Duration) -> Self {
        self.watchdog = limit;
        self
    }

    /// Each worker counts and times its tasks; see
    /// [`RunReport::workers`](super::RunReport::workers).
    pub fn statistics(mut self) -> Self {
        self.statistics = true;
        self
    }

    /// The number of tasks of each worker, the last ones, that are kept with their times; see
    /// [`RunReport::tasks`](super::RunReport::tasks). A task takes 24 bytes. More than 0 turns the
    /// statistics on.
    pub fn trace(mut self, tasks: u32) -> Self {
        self.trace = tasks;
        self
    }

    /// The seed for the choice of the workers from which other workers take tasks.
    pub fn seed(mut self, seed: u32) -> Self {
        self.seed = seed;
        self
    }
}
