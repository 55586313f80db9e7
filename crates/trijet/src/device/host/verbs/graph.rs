//! A graph of a host device. Its nodes run in streams that belong to the graph.
#![forbid(unsafe_code)]

use crate::base::id::DeviceId;
use crate::device::driver::{EventHandle, OwnedNode, StreamHandle};

#[derive(Debug)]
pub(in crate::device::host) struct Node {
    pub(in crate::device::host) work: OwnedNode,
    /// The index of the node's stream among the streams of the graph.
    pub(super) lane: usize,
    /// The numbers of the nodes in other streams that the node waits for.
    pub(in crate::device::host) waits: Vec<usize>,
    /// The event that is recorded after the node, if nodes of other streams wait for it.
    pub(in crate::device::host) done: Option<EventHandle>,
}

#[derive(Debug)]
pub(in crate::device::host) struct HostGraph {
    pub(in crate::device::host) device: DeviceId,
    pub(super) nodes: Vec<Node>,
    pub(super) lanes: Vec<Lane>,
    /// The event that marks the start of a launch in the stream of the launch.
    pub(super) begin: EventHandle,
}

/// A stream of a graph.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) device: DeviceId,
    pub(super) stream: StreamHandle,
    /// The number of the last node that was added to this stream.
    pub(super) last: usize,
    /// The event at the end of the last launch in this stream.
    pub(super) end: EventHandle,
}
