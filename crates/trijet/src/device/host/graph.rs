//! A graph of a host device: its nodes in streams of its own.
#![forbid(unsafe_code)]

use crate::base::id::DeviceId;
use crate::device::driver::{EventHandle, OwnedNode, StreamHandle};

#[derive(Debug)]
pub(super) struct Node {
    pub(super) work: OwnedNode,
    /// The stream of the graph that it runs in.
    pub(super) lane: usize,
    /// The nodes of other streams that it waits for.
    pub(super) waits: Vec<usize>,
    /// Recorded after it, if nodes of other streams wait for it.
    pub(super) done: Option<EventHandle>,
}

#[derive(Debug)]
pub(super) struct HostGraph {
    pub(super) device: DeviceId,
    pub(super) nodes: Vec<Node>,
    pub(super) lanes: Vec<Lane>,
    /// Recorded where a launch begins.
    pub(super) begin: EventHandle,
}

/// A stream of a graph.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) device: DeviceId,
    pub(super) stream: StreamHandle,
    /// The node that was added to it last.
    pub(super) last: usize,
    /// The end of the last launch in it.
    pub(super) end: EventHandle,
}
