//! The part of the contract that measures when engines work.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::units::Nanos;
use std::fmt::Debug;

/// The time in which engines worked on the operations under one tag: see
/// [`Profiler::activity_tag`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EngineActivity {
    /// The tag that the operations were enqueued under.
    pub tag: u64,
    /// The start of the first operation, on the clock of [`Profiler::activity_time`].
    pub begin: Nanos,
    /// The end of the last operation under the tag. All engines may be idle in parts of the time
    /// from `begin` to `end`.
    pub end: Nanos,
}

/// The result of [`Profiler::activity_take`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Activities {
    /// At most one activity for each tag, sorted by tag.
    pub work: Vec<EngineActivity>,
    /// The number of records that were lost because the profiler had no room for them. If a tag has
    /// no activity, its record may be among the lost records.
    pub lost: u64,
}

/// A profiler: CUPTI on a GPU, the engine itself on the host device.
pub(crate) trait Profiler: Debug {
    /// Starts collecting the times at which engines start and end the copies, fills and kernels
    /// that are enqueued under a tag.
    ///
    /// # Errors
    /// `Unsupported` without a usable profiler library, and while another trace collects these
    /// times.
    fn activity_begin(&self) -> Result<()>;

    /// Puts every operation that the calling thread enqueues from now on under `tag`, or under no
    /// tag. Does nothing while no activities are collected.
    fn activity_tag(&self, tag: Option<u64>);

    /// The time now, on the clock of the activities.
    ///
    /// # Errors
    /// `Unsupported` without a usable profiler library.
    fn activity_time(&self) -> Result<Nanos>;

    /// Stops collecting, and returns the activities of the operations that are complete.
    ///
    /// # Errors
    /// `Unsupported` when no activities are collected; an error of the profiler.
    fn activity_take(&self) -> Result<Activities>;
}
