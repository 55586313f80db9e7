//! The part of the contract that tells when engines worked.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::units::Nanos;
use std::fmt::Debug;

/// When engines worked on the operations under one tag: see [`Profiler::activity_tag`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// The tag.
    pub tag: u64,
    /// When an engine began, on the clock of [`Profiler::activity_time`].
    pub begin: Nanos,
    /// When the last operation under the tag was done. There may be gaps in between.
    pub end: Nanos,
}

/// The result of [`Profiler::activity_take`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Activities {
    /// At most one activity for each tag, sorted by tag.
    pub work: Vec<Activity>,
    /// The number of records that the profiler had no room for. A tag without an activity may have
    /// had one of these.
    pub lost: u64,
}

/// A profiler: CUPTI on a GPU, the engine itself on the host device.
pub trait Profiler: Debug {
    /// Starts collecting the times at which engines begin and end the copies, fills and kernels
    /// that are enqueued under a tag.
    ///
    /// # Errors
    /// `Unsupported` without a usable profiler library, and while another trace collects.
    fn activity_begin(&self) -> Result<()>;

    /// Puts everything that the calling thread enqueues from now on under `tag`, or under none.
    /// Does nothing while no activities are collected.
    fn activity_tag(&self, tag: Option<u64>);

    /// The time now, on the clock of the activities.
    ///
    /// # Errors
    /// `Unsupported` without a usable profiler library.
    fn activity_time(&self) -> Result<Nanos>;

    /// Stops collecting, and returns the activities of everything that is complete.
    ///
    /// # Errors
    /// `Unsupported` when no activities are collected; what the profiler reports.
    fn activity_take(&self) -> Result<Activities>;
}
