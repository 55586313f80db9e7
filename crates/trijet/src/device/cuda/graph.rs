//! A graph of the driver.
#![forbid(unsafe_code)]

use crate::base::id::DeviceId;

/// A graph. Its handles contain the number of the device, like all handles of this driver.
#[derive(Debug)]
pub(super) struct CudaGraph {
    pub(super) device: DeviceId,
    pub(super) graph: u64,
    /// The handle of each node. The index is the number of the node. The nodes may belong to
    /// several devices.
    pub(super) nodes: Vec<u64>,
    /// The executable form of the graph, once the graph is ready.
    pub(super) exec: Option<u64>,
    /// Whether the graph was launched before. The first launch uploads the graph.
    pub(super) is_uploaded: bool,
}
