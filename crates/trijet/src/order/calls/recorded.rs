//! Calls on lanes whose operations are recorded and not enqueued.
#![forbid(unsafe_code)]

use super::recorder::{OF_A_RECORDING, RecordedLane, Recorder};
use crate::base::error::{Error, ErrorKind, Result};
use crate::order::gate::CAPTURE_UNSUPPORTED;
use crate::order::lane_ref::LaneRef;
use crate::order::submission::Submission;

impl LaneRef {
    /// Passes an operation to the recorder of the lane instead of the driver.
    #[cold]
    pub(in crate::order) fn record_instead(
        &self,
        recorder: &dyn Recorder,
        submission: &Submission<'_>,
    ) -> Result<()> {
        for access in submission.uses {
            if access.track.domain != OF_A_RECORDING {
                self.domain.own(submission.action.label(), access.track.domain)?;
            }
        }
        recorder.take(RecordedLane { id: self.id, device: self.device }, submission)
    }

    /// The error of an operation in a stream that is not part of the recording. The operation would
    /// run before the operations that are recorded.
    pub(in crate::order) fn not_recorded(&self, op: &'static str) -> Error {
        let cause = "the operations of this code are recorded, but the stream does not belong to \
                     the recording; use one that does";
        Error::new(ErrorKind::Capturing, op, cause).with_code(CAPTURE_UNSUPPORTED).on(self.device)
    }

    /// Refuses a call that makes no sense on a lane with a recorder, because the operations of the
    /// lane are not enqueued.
    pub(crate) fn refuse_recorded(&self, op: &'static str) -> Result<()> {
        if self.recorder.is_none() {
            return Ok(());
        }
        let cause =
            "the stream belongs to a recording; its operations run when the graph is launched";
        Err(Error::new(ErrorKind::Capturing, op, cause)
            .with_code(CAPTURE_UNSUPPORTED)
            .on(self.device))
    }
}
