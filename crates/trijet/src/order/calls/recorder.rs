//! The recorder of a lane collects the operations of the lane instead of enqueuing them.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::id::{BlockId, DeviceId, LaneId};
use crate::base::units::Bytes;
use crate::device::memory::Span;
use crate::order::submission::Submission;
use crate::order::track::Track;
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// The domain number of memory that only operations of a recording may use. No driver has this
/// number, so every other use of the memory is refused.
pub(crate) const OF_A_RECORDING: u64 = u64::MAX;

/// A lane whose operations are collected, and the device of the lane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordedLane {
    pub(crate) id: LaneId,
    pub(crate) device: DeviceId,
}

/// Collects the operations of lanes. Collected operations stamp no memory.
pub(crate) trait Recorder: Debug + Send + Sync {
    /// Adds an operation of the lane to the recording.
    ///
    /// # Errors
    /// If the operation cannot be part of a recording, or if the recording has ended.
    fn take(&self, lane: RecordedLane, submission: &Submission<'_>) -> Result<()>;

    /// Allocates memory on a device for the operations of the recording.
    ///
    /// # Errors
    /// `OutOfMemory`; an error if the recording has ended.
    fn alloc(&self, device: DeviceId, bytes: Bytes) -> Result<Temporary>;

    /// Returns the recorder as `Any`. The module that made the recorder casts it to its type.
    fn as_any(&self) -> &dyn Any;
}

/// Memory of a recording.
#[derive(Debug)]
pub(crate) struct Temporary {
    pub(crate) span: Span,
    pub(crate) track: Track,
    /// The owner of the memory. It gets the memory back when the buffer is dropped.
    pub(crate) home: Arc<dyn Home>,
}

/// An owner of memory for recordings. A buffer that is dropped gives its memory back to the owner.
pub(crate) trait Home: Debug + Send + Sync {
    /// Takes the memory back. Operations that are recorded later may use it.
    fn give_back(&self, block: BlockId);
}
