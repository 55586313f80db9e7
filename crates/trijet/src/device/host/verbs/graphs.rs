//! Graphs on host devices: a launch enqueues the nodes in streams that belong to the graph.
//!
//! The nodes of a chain share a stream. Every other edge is a wait for an event. So an exploration
//! tries a graph in every order that its edges allow, and finds a missing edge as in streams.
#![forbid(unsafe_code)]

use super::graph::{HostGraph, Lane, Node};
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::device::driver::{
    Core, GraphHandle, Graphs, NodeAction, OwnedNode, StreamHandle, StreamKind, Timing,
};
use crate::device::host::HostDriver;
use crate::device::host::engine::refuse;
use crate::device::host::engine::work::OpWork;
use crate::device::host::fault::Verb;
use std::cell::Cell;
use std::sync::{Arc, Mutex};

thread_local! {
    /// Whether this thread launches a graph. A launch is one call, so a fault refuses the whole
    /// launch and never a single node.
    static LAUNCHES: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calls of this thread are parts of the launch of a graph.
pub(super) fn launches_graph() -> bool {
    LAUNCHES.get()
}

impl HostDriver {
    fn graph(&self, graph: GraphHandle) -> Result<Arc<Mutex<HostGraph>>> {
        self.graphs.find(graph).ok_or_else(|| refuse::handle("graph", "the graph was destroyed"))
    }

    /// The index of the stream for a node that follows `after`. If a node in `after` is on the same
    /// device and is the last node of its stream, the stream of that node is used. Otherwise a new
    /// stream is made.
    fn lane_for(&self, graph: &mut HostGraph, device: DeviceId, after: &[usize]) -> Result<usize> {
        let fits = |lane: &Lane| lane.device == device && after.contains(&lane.last);
        if let Some(lane) = graph.lanes.iter().position(fits) {
            return Ok(lane);
        }
        let stream = self.stream_create(device, StreamKind::NonBlocking, 0)?;
        let end = self.event_create(device, Timing::Off)?;
        graph.lanes.push(Lane { device, stream, last: usize::MAX, end });
        Ok(graph.lanes.len() - 1)
    }

    pub(super) fn graph_launch(&self, stream: StreamHandle, graph: GraphHandle) -> Result<()> {
        let graph = self.graph(graph)?;
        let graph = graph.lock().expect("no thread panicked while it held this lock");
        // Laws A13 and A31: unlike a record (law A4), a launch is an operation of its stream. So
        // the launch follows the legacy stream, and in the legacy stream it is a barrier.
        let call = self.begin_on(Verb::GraphLaunch, stream)?;
        drop(self.push(call, OpWork::Mark, &[])?);
        LAUNCHES.set(true);
        let launched = self.enqueue_nodes(stream, &graph);
        LAUNCHES.set(false);
        launched
    }

    fn enqueue_nodes(&self, stream: StreamHandle, graph: &HostGraph) -> Result<()> {
        let HostGraph { nodes, lanes, begin, .. } = graph;
        self.event_record(*begin, stream)?;
        for lane in lanes {
            self.stream_wait(lane.stream, *begin)?;
            // Law A31: a launch follows all operations of the previous launch.
            lanes.iter().try_for_each(|other| self.stream_wait(lane.stream, other.end))?;
        }
        for node in nodes {
            let stream = lanes[node.lane].stream;
            for before in node.waits.iter().filter_map(|before| nodes[*before].done) {
                self.stream_wait(stream, before)?;
            }
            match node.work.node().action() {
                Ok(action) => self.submit(stream, &action)?,
                Err(NodeAction::Conditional(parts)) => self.conditional(stream, parts)?,
                Err(other) => return Err(refuse::unsupported("graph launch", other.label())),
            }
            node.done.map_or(Ok(()), |done| self.event_record(done, stream))?;
        }
        for lane in lanes {
            self.event_record(lane.end, lane.stream)?;
            self.stream_wait(stream, lane.end)?;
        }
        Ok(())
    }
}

impl Graphs for HostDriver {
    fn graph_create(&self, device: DeviceId) -> Result<GraphHandle> {
        let begin = self.event_create(device, Timing::Off)?;
        let graph = HostGraph { device, nodes: Vec::new(), lanes: Vec::new(), begin };
        Ok(self.graphs.add(graph))
    }

    fn graph_add(
        &self,
        graph: GraphHandle,
        device: DeviceId,
        node: NodeAction<'_>,
        after: &[usize],
    ) -> Result<()> {
        if let NodeAction::Captured(_) = node {
            let cause =
                "a host device cannot run captured work of another library; run the graph on a GPU";
            return Err(refuse::unsupported("graph add", cause));
        }
        let (graph, work) = (self.graph(graph)?, OwnedNode::of(node));
        let mut graph = graph.lock().expect("no thread panicked while it held this lock");
        let number = graph.nodes.len();
        if let Some(missing) = after.iter().find(|before| **before >= number) {
            let cause = format!("node {number} follows node {missing}, which does not exist yet");
            return Err(refuse::value("graph add", cause));
        }
        let lane = self.lane_for(&mut graph, device, after)?;
        graph.lanes[lane].last = number;
        let of_others = |before: &usize| graph.nodes[*before].lane != lane;
        let waits: Vec<_> = after.iter().copied().filter(of_others).collect();
        for before in &waits {
            if graph.nodes[*before].done.is_none() {
                let of = graph.lanes[graph.nodes[*before].lane].device;
                graph.nodes[*before].done = Some(self.event_create(of, Timing::Off)?);
            }
        }
        graph.nodes.push(Node { work, lane, waits, done: None });
        Ok(())
    }

    /// On a host device, there is nothing to prepare: the nodes are launched in the form in which
    /// they were added.
    fn graph_ready(&self, graph: GraphHandle) -> Result<()> {
        self.graph(graph).map(drop)
    }

    fn graph_update(&self, graph: GraphHandle, number: usize, node: NodeAction<'_>) -> Result<()> {
        let (graph, work) = (self.graph(graph)?, OwnedNode::of(node));
        let mut graph = graph.lock().expect("no thread panicked while it held this lock");
        drop(self.begin(Verb::GraphUpdate, graph.device)?);
        match graph.nodes.get_mut(number) {
            Some(node) if node.work.is_like(&work) => {
                if !matches!(work, OwnedNode::HostFn(_)) {
                    node.work = work;
                }
            }
            _ => {
                let cause = format!(
                    "node {number} does not exist, or differs from `{}` in its kind or its \
                     kernel, which an update cannot change",
                    node.label()
                );
                return Err(refuse::value("graph update", cause));
            }
        }
        Ok(())
    }

    fn graph_destroy(&self, graph: GraphHandle) -> Result<()> {
        let Some(graph) = self.graphs.remove(graph) else {
            return Err(refuse::handle("graph destroy", "the graph was destroyed"));
        };
        let graph = graph.lock().expect("no thread panicked while it held this lock");
        let HostGraph { nodes, lanes, begin, .. } = &*graph;
        let events = nodes.iter().filter_map(|node| node.done).chain([*begin]);
        let ends = lanes.iter().map(|lane| lane.end);
        events.chain(ends).try_for_each(|event| self.event_destroy(event))?;
        lanes.iter().try_for_each(|lane| self.stream_destroy(lane.stream))
    }
}
