//! Work of another library in a graph. The driver captures the work, and the work becomes one node.
#![forbid(unsafe_code)]

use super::nodes::Nodes;
use crate::base::error::{Error, ErrorKind, Result};
use crate::memory::Uses;
use crate::order::calls::recorder::RecordedLane;
use crate::stream::Stream;
use crate::stream::foreign::Captured;

impl Stream {
    /// Whether the stream belongs to a recording.
    pub(crate) fn is_recorded(&self) -> bool {
        self.lane().recorder().is_some()
    }

    /// Records captured work. In every launch of the graph, the work uses the memory in `uses`,
    /// even if the launch has other arguments.
    ///
    /// # Errors
    /// `InvalidValue` for a stream without a recording, and for memory that is not an argument of
    /// the graph.
    pub(crate) fn record_captured(
        &self,
        captured: Captured,
        name: &'static str,
        uses: &[Uses<'_>],
    ) -> Result<()> {
        let lane = self.lane();
        let nodes = lane.recorder().and_then(|recorder| recorder.as_any().downcast_ref::<Nodes>());
        let Some(nodes) = nodes else {
            let cause = "the stream does not belong to the recording of a graph";
            return Err(Error::new(ErrorKind::InvalidValue, "record", cause));
        };
        let uses = uses.iter().flat_map(|uses| uses.all.iter().map(|one| &one.access));
        nodes.add_captured(RecordedLane { id: lane.id, device: lane.device }, captured, name, uses)
    }
}
