//! A graph of the driver.
#![forbid(unsafe_code)]

use crate::base::id::DeviceId;

/// A graph. Its handles have the device, as all handles of this driver.
#[derive(Debug)]
pub(super) struct CudaGraph {
    pub(super) device: DeviceId,
    pub(super) graph: u64,
    /// They may be of several devices.
    pub(super) nodes: Vec<u64>,
    /// The graph that can be launched, once it is ready.
    pub(super) exec: Option<u64>,
    /// It was launched before.
    pub(super) is_uploaded: bool,
}
