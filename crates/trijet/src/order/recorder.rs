//! What takes the operations of a lane, where they are collected instead of enqueued.
#![forbid(unsafe_code)]

use super::submission::Submission;
use crate::base::error::Result;
use crate::base::id::LaneId;
use std::fmt::Debug;

/// Collects the operations of lanes. They stamp no memory.
pub(crate) trait Recorder: Debug + Send + Sync {
    /// Takes an operation.
    ///
    /// # Errors
    /// An operation that cannot be collected, or the end of the recording.
    fn take(&self, lane: LaneId, submission: &Submission<'_>) -> Result<()>;
}
