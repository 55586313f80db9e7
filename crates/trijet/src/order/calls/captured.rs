//! Operations in streams that other code captures into a graph (law A33).
//!
//! The operation becomes a part of that graph. It does not run now; it runs in each launch of the
//! graph by the other code. So the operation stamps no memory and has no position: the other code
//! orders the launches of the graph, see `Device::stream_from_raw`. A graph cannot wait for the
//! work that the operation must follow now, so the calling thread waits for this work.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::device::driver::NodeAction;
use crate::order::gate::CAPTURE_UNSUPPORTED;
use crate::order::lane_ref::LaneRef;
use crate::order::submission::Submission;

impl LaneRef {
    /// Refuses a call that stages its bytes, on a stream whose operations run later: a stream of a
    /// recording, or a stream that other code captures. An upload would run when the staged bytes
    /// no longer exist. A download would not have the bytes when the call returns.
    pub(crate) fn refuse_staged(&self, op: &'static str) -> Result<()> {
        self.refuse_recorded(op)?;
        self.gate().admit(self.stream)
    }

    /// Adds an operation to the graph into which the stream is captured. First waits on the host
    /// for the work that the operation must follow now.
    #[cold]
    pub(in crate::order) fn enqueue_captured(&self, submission: &Submission<'_>) -> Result<()> {
        let Submission { action, uses, site, .. } = submission;
        let label = action.label();
        let node = action.as_node().ok().filter(|node| !matches!(node, NodeAction::HostFn(_)));
        if node.is_none() {
            let cause = "the stream is being captured into a graph, and this call cannot become \
                         a part of the graph; end the \
                         capture first";
            return Err(Error::new(ErrorKind::Capturing, label, cause)
                .with_code(CAPTURE_UNSUPPORTED)
                .on(self.device));
        }
        for access in *uses {
            self.domain.own(label, access.track.domain)?;
            if access.track.is_manual() && !access.track.has_users_before() {
                continue;
            }
            self.domain.host_wait_for(access.track, access.range.clone(), access.mode, site)?;
        }
        let submitted = self.gate().submit_captured(self.stream, action);
        submitted.map_err(|error| self.domain.failed(self.device, error))
    }
}
