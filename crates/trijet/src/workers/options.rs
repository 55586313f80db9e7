//! The options of a run of workers.
#![forbid(unsafe_code)]

use std::time::Duration;

/// The distribution of tasks to workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Policy {
    /// Worker `w` of `n` runs the initial tasks `w`, `w + n`, `w + 2 n`, and so on. Tasks that a
    /// body makes stay with the worker of this body. Workers do not communicate. So this policy has
    /// the least overhead for tasks of equal length, and is the worst policy for other tasks.
    Static,
    /// Work sharing: all workers take initial tasks from one counter. Tasks that bodies make are in
    /// one common queue. When it is full, a worker keeps such tasks in its own queue.
    Sharing,
    /// Work stealing: each worker has a range of the initial tasks, and a queue of the tasks that
    /// its bodies make. A worker without tasks takes tasks from other workers.
    #[default]
    Stealing,
    /// Each worker gets a range of the initial tasks. All ranges together have three quarters of
    /// the initial tasks. Workers take the other initial tasks from one counter. Workers may
    /// steal the tasks that bodies make.
    Hybrid,
    /// The levels of a graph run one after another, with a barrier after each level. Bodies cannot
    /// make tasks, because there are no queues.
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
/// let few = RunOptions::new().policy(Policy::Sharing).workers(8);
/// let many = few.workers(None);
/// ```
#[derive(Debug, Clone, Copy)]
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

    /// Sets the distribution of tasks to workers.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the capacity of the queue of each worker, in tasks, rounded up to a power of two. The
    /// default is 256.
    pub fn queue(mut self, tasks: u32) -> Self {
        self.queue = tasks;
        self
    }

    /// Sets the capacity of the common queue, in tasks, rounded up to a power of two. The default
    /// is 16384.
    pub fn ring(mut self, tasks: u32) -> Self {
        self.ring = tasks;
        self
    }

    /// Sets the maximum number of initial tasks that a worker takes at once. The default is 8. When
    /// few initial tasks are left, a worker takes fewer tasks at once.
    pub fn chunk(mut self, tasks: u32) -> Self {
        self.chunk = tasks;
        self
    }

    /// Sets the number of multiprocessors that stay free for other streams.
    pub fn reserve(mut self, multiprocessors: u32) -> Self {
        self.reserve = multiprocessors;
        self
    }

    /// Sets the maximum number of workers; `None` for all that fit onto the device.
    pub fn workers(mut self, workers: impl Into<Option<u32>>) -> Self {
        self.workers = workers.into();
        self
    }

    /// Sets the limit of the watchdog. A worker checks the other workers if it has found no task
    /// for this time, although tasks are left. If no worker runs a task, the run ends with an
    /// error. The run also ends with an error if another worker still runs the same task after this
    /// time has passed again. Zero turns the watchdog off. The default is 5 s.
    pub fn watchdog(mut self, limit: Duration) -> Self {
        self.watchdog = limit;
        self
    }

    /// Lets each worker count and time its tasks; see
    /// [`RunReport::workers`](super::RunReport::workers).
    pub fn statistics(mut self) -> Self {
        self.statistics = true;
        self
    }

    /// Keeps the times of the last `tasks` tasks of each worker; see
    /// [`RunReport::tasks`](super::RunReport::tasks). The times of a task need 24 bytes. A number
    /// above 0 turns the statistics on.
    pub fn trace(mut self, tasks: u32) -> Self {
        self.trace = tasks;
        self
    }

    /// Sets the seed for the random choice of the workers from which other workers steal.
    pub fn seed(mut self, seed: u32) -> Self {
        self.seed = seed;
        self
    }
}
