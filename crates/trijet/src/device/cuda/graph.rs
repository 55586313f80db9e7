//! A graph of the driver.
#![forbid(unsafe_code)]

use crate::base::id::DeviceId;

/// A graph. Its handles contain the device, like all handles of this driver.
#[derive(Debug)]
pub(super) struct CudaGraph {
    pub(super) device: DeviceId,
    pub(super) graph: u64,
    /// The nodes, which may be of several devices.
    pub(super) nodes: Vec<u64>,
    /// The graph that can be launched, once it is ready.
    pub(super) exec: Option<u64>,
    /// Whether it was launched before.
    pub(super) is_uploaded: bool,
}
