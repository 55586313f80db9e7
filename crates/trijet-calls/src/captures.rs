//! Captures of streams, and the graphs that they and other calls make.

use crate::accesses::Touched;
use crate::call_stack::CallStack;
use crate::nodes::{EdgeOrder, GraphNode, GraphNodes, NodeEnds, NodeWork};
use crate::streams::StreamKey;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of accesses of a graph that are kept.
const ACCESSES_MAX: usize = 1 << 20;

/// Memory that a launch of a graph allocates: its addresses, and the function and the stack of the
/// call that made the graph allocate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct GraphMemory {
    pub(crate) range: Range<u64>,
    pub(crate) function: String,
    pub(crate) stack: Option<u32>,
}

/// The work of a graph, which a launch of it does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GraphWork {
    /// The bytes that copies and fills access.
    pub(crate) declared: Vec<Touched>,
    /// The addresses among the arguments of kernels.
    pub(crate) addresses: Vec<u64>,
    /// The number of kernels.
    pub(crate) kernels: u64,
    /// The number of nodes whose accesses are not known.
    pub(crate) unknown: u64,
    /// Whether the graph waits for an event that is recorded outside of it.
    pub(crate) waits: bool,
    /// The events that the graph records for others.
    pub(crate) records: Vec<u64>,
    /// The memory that the graph allocates.
    pub(crate) allocations: Vec<GraphMemory>,
    /// The addresses of the memory that the graph frees.
    pub(crate) frees: Vec<u64>,
    /// The order of the work.
    pub(crate) nodes: GraphNodes,
}

/// A part of the work of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GraphPart {
    /// A copy or a fill with this name, and its accesses.
    Declared(&'static str, Vec<Touched>),
    /// A kernel with this number and these addresses.
    Kernel(u32, Vec<u64>),
    Allocation(GraphMemory),
    /// A free of the memory at this address.
    Free(u64),
    /// A node whose accesses are not known.
    Unknown,
    /// A node without accesses.
    Nothing,
}

impl GraphWork {
    /// Adds a part, as a node without edges. Returns the node.
    pub(crate) fn add(&mut self, part: GraphPart, stack: Option<CallStack>) -> u32 {
        let (declared, addresses) = (self.declared.len(), self.addresses.len());
        let work = match part {
            GraphPart::Declared(label, touched) => {
                self.declared.extend(touched);
                NodeWork::Declared(label)
            }
            GraphPart::Kernel(kernel, addresses) => {
                self.kernels = self.kernels.saturating_add(1);
                self.addresses.extend(addresses);
                NodeWork::Kernel(kernel)
            }
            GraphPart::Allocation(memory) => {
                self.allocations.push(memory);
                NodeWork::Allocation(self.allocations.len() - 1)
            }
            GraphPart::Free(address) => {
                self.frees.push(address);
                NodeWork::Free(address)
            }
            GraphPart::Unknown => {
                self.unknown = self.unknown.saturating_add(1);
                NodeWork::Nothing
            }
            GraphPart::Nothing => NodeWork::Nothing,
        };
        let declared = declared..self.declared.len();
        let addresses = addresses..self.addresses.len();
        self.nodes.add(GraphNode { work, stack, declared, addresses })
    }

    /// Adds the work of another graph, as a child or as further nodes. Work beyond [`ACCESSES_MAX`]
    /// counts as not examined.
    pub(crate) fn append(&mut self, other: &Self, is_child: bool) -> NodeEnds {
        self.kernels = self.kernels.saturating_add(other.kernels);
        self.unknown = self.unknown.saturating_add(other.unknown);
        self.waits |= other.waits;
        if self.parts() + other.parts() > ACCESSES_MAX {
            self.unknown = self.unknown.saturating_add(1);
            self.nodes.lose();
            return NodeEnds { first: 0, last: 0 };
        }
        let at = [self.declared.len(), self.addresses.len(), self.allocations.len()];
        self.records.extend(&other.records);
        self.allocations.extend_from_slice(&other.allocations);
        self.frees.extend(&other.frees);
        self.declared.extend_from_slice(&other.declared);
        self.addresses.extend_from_slice(&other.addresses);
        self.nodes.append(&other.nodes, at, is_child)
    }

    /// Notes that a call changes a node. The accesses of all nodes are then not known, because the
    /// former ones of this node may be among them.
    fn change(&mut self) {
        self.unknown = self.unknown.saturating_add(1);
        self.declared.clear();
        self.addresses.clear();
        self.nodes.lose();
    }

    /// The number of parts that are kept. A graph may have itself as a child, and then doubles.
    fn parts(&self) -> usize {
        let of_memory = self.allocations.len() + self.frees.len();
        self.declared.len() + self.addresses.len() + self.records.len() + of_memory
    }

    /// Whether the order of the nodes is known. A node that waits for an event may follow a node of
    /// the same graph that records it.
    pub(crate) fn has_order(&self) -> bool {
        !self.nodes.is_lost() && (!self.waits || self.records.is_empty())
    }

    /// Whether the graph has two nodes with accesses or more, as far as that is known.
    pub(crate) fn has_several_nodes(&self) -> bool {
        let has_work = self.kernels > 0 || self.parts() > self.records.len();
        if self.nodes.is_lost() { has_work } else { self.nodes.has_several_works() }
    }

    /// A number that differs for graphs of other content.
    pub(crate) fn content(&self) -> u64 {
        self.nodes.content((&self.declared, &self.addresses, &self.allocations))
    }
}

/// The open capture of a stream.
#[derive(Debug)]
pub(crate) struct Capturing<'a> {
    pub(crate) work: &'a mut GraphWork,
    /// The nodes that the next node of the stream follows.
    after: &'a mut Vec<u32>,
}

impl Capturing<'_> {
    /// Adds a part that the stream enqueues.
    pub(crate) fn add(&mut self, part: GraphPart, stack: Option<CallStack>) {
        let node = self.work.add(part, stack);
        self.follow_with(NodeEnds { first: node, last: node });
    }

    /// Adds a wait for something that may come from any node, or what another node may wait for.
    pub(crate) fn wait_for_any(&mut self) {
        self.work.unknown = self.work.unknown.saturating_add(1);
        self.work.nodes.lose();
    }

    /// Adds the work of a graph that the stream launches.
    pub(crate) fn add_child(&mut self, work: &GraphWork) {
        let ends = self.work.append(work, true);
        self.follow_with(ends);
    }

    fn follow_with(&mut self, NodeEnds { first, last }: NodeEnds) {
        for earlier in self.after.drain(..) {
            self.work.nodes.follow(earlier, first, EdgeOrder::Full);
        }
        self.after.push(last);
    }
}

/// A stream or an event of a capture, with the nodes that come before what follows it.
#[derive(Debug, Clone, Default)]
struct InCapture {
    capture: u64,
    after: Vec<u32>,
}

/// Maximum number of nodes that a stream or an event of a capture is kept with. More of them get a
/// node without work after them.
const AFTER_MAX: usize = 16;

/// A graph by its handle.
#[derive(Debug, Clone, Default)]
struct KnownGraph {
    work: GraphWork,
    /// A number that no other graph has, because handles are given out again.
    serial: u64,
}

/// A node by its handle: the graph, the serial number of the graph, and the node.
#[derive(Debug, Clone, Copy)]
struct NodeHandle {
    graph: u64,
    serial: u64,
    ends: NodeEnds,
}

/// An open capture.
#[derive(Debug, Clone, Default)]
struct OpenCapture {
    work: GraphWork,
    serial: u64,
    /// The graph that the program began the capture to.
    to: Option<u64>,
}

/// A program: what can be launched.
#[derive(Debug, Clone, Default)]
struct GraphProgram {
    work: Arc<GraphWork>,
    /// Whether the order of the nodes could be examined, once it is known.
    is_examined: Option<bool>,
}

/// The captures that are open, and the graphs by their handles.
#[derive(Debug, Clone, Default)]
pub(crate) struct Graphs {
    /// The streams that are parts of captures.
    streams: HashMap<StreamKey, InCapture>,
    /// The events that were last recorded in captures.
    events: HashMap<u64, InCapture>,
    open: HashMap<u64, OpenCapture>,
    /// The last number of a capture or a graph.
    last: u64,
    graphs: HashMap<u64, KnownGraph>,
    nodes: HashMap<u64, NodeHandle>,
    programs: HashMap<u64, GraphProgram>,
    /// The order of graphs up to this number is not known, because a call may have changed any of
    /// them.
    lost_up_to: u64,
    /// For the contents of graphs that were launched: whether the order could be examined.
    examined: HashMap<u64, bool>,
}

impl Graphs {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Begins a capture, perhaps to a graph of the program.
    pub(crate) fn begin(&mut self, stream: StreamKey, to: Option<u64>) {
        let serial = self.next();
        self.streams.insert(stream, InCapture { capture: serial, after: Vec::new() });
        self.open.insert(serial, OpenCapture { serial, to, ..OpenCapture::default() });
    }

    /// Ends the capture of a stream. The work becomes the graph with this handle.
    pub(crate) fn end(&mut self, stream: StreamKey, graph: Option<u64>) {
        let Some(InCapture { capture, .. }) = self.streams.remove(&stream) else { return };
        self.streams.retain(|_, other| other.capture != capture);
        self.events.retain(|_, other| other.capture != capture);
        let mut captured = self.open.remove(&capture).unwrap_or_default();
        let Some(graph) = graph else { return };
        if captured.serial <= self.lost_up_to {
            captured.work.nodes.lose();
        }
        // Nodes that calls added to the graph of the capture may be among those in the order.
        let is_own = captured.to.is_none();
        let known = self.graphs.get(&graph).is_some_and(|known| known.work != GraphWork::default());
        if is_own && known {
            captured.work.nodes.lose();
        }
        self.graph(graph).append(&captured.work, false);
    }

    /// The capture that a stream is a part of.
    pub(crate) fn capture(&mut self, stream: StreamKey) -> Option<Capturing<'_>> {
        let InCapture { capture, after } = self.streams.get_mut(&stream)?;
        Some(Capturing { work: &mut self.open.get_mut(capture)?.work, after })
    }

    /// Notes a record of an event. Returns whether it is a part of a capture.
    pub(crate) fn record(&mut self, stream: StreamKey, event: u64) -> bool {
        let Some(of_stream) = self.streams.get_mut(&stream) else {
            self.events.remove(&event);
            return false;
        };
        if of_stream.after.len() > AFTER_MAX
            && let Some(open) = self.open.get_mut(&of_stream.capture)
        {
            of_stream.after = vec![open.work.nodes.join(&of_stream.after)];
        }
        self.events.insert(event, of_stream.clone());
        true
    }

    /// Notes a wait for an event. Returns whether it is a part of a capture, which the stream then
    /// belongs to. The order of a capture that waits for something else is not known.
    pub(crate) fn wait(&mut self, stream: StreamKey, event: u64) -> bool {
        let Some(event) = self.events.get(&event) else {
            let Some(InCapture { capture, .. }) = self.streams.get(&stream) else { return false };
            if let Some(open) = self.open.get_mut(capture) {
                open.work.nodes.lose();
            }
            return true;
        };
        let of_stream = self
            .streams
            .entry(stream)
            .or_insert_with(|| InCapture { capture: event.capture, after: Vec::new() });
        if of_stream.capture == event.capture {
            let new = event.after.iter().filter(|node| !of_stream.after.contains(node));
            let new: Vec<u32> = new.copied().collect();
            of_stream.after.extend(new);
        } else {
            for capture in [of_stream.capture, event.capture] {
                if let Some(open) = self.open.get_mut(&capture) {
                    open.work.nodes.lose();
                }
            }
            *of_stream = event.clone();
        }
        if of_stream.after.len() > AFTER_MAX
            && let Some(open) = self.open.get_mut(&of_stream.capture)
        {
            of_stream.after = vec![open.work.nodes.join(&of_stream.after)];
        }
        true
    }

    pub(crate) fn forget_stream(&mut self, stream: StreamKey) {
        self.streams.remove(&stream);
    }

    pub(crate) fn forget_event(&mut self, event: u64) {
        self.events.remove(&event);
    }

    /// The graph with this handle, which a call builds.
    pub(crate) fn graph(&mut self, handle: u64) -> &mut GraphWork {
        let serial = self.last + 1;
        let graph = self.graphs.entry(handle).or_insert_with(|| {
            self.last = serial;
            KnownGraph { work: GraphWork::default(), serial }
        });
        &mut graph.work
    }

    /// Notes that a call has added a node to a graph, after the nodes with these handles. `None` if
    /// they were not recorded.
    pub(crate) fn place(
        &mut self,
        (graph, node): (u64, u64),
        ends: NodeEnds,
        after: Option<&[(u64, EdgeOrder)]>,
    ) {
        self.graph(graph);
        let serial = self.graphs.get(&graph).map_or(0, |graph| graph.serial);
        self.nodes.insert(node, NodeHandle { graph, serial, ends });
        let Some(after) = after else { return self.lose(graph) };
        for (earlier, order) in after {
            self.follow(graph, (*earlier, node), Some(*order));
        }
    }

    /// Adds an edge to a graph, or removes it.
    pub(crate) fn follow(
        &mut self,
        graph: u64,
        (earlier, later): (u64, u64),
        order: Option<EdgeOrder>,
    ) {
        let (Some(earlier), Some(later)) = (self.ends(graph, earlier), self.ends(graph, later))
        else {
            return self.lose(graph);
        };
        let nodes = &mut self.graph(graph).nodes;
        match order {
            Some(order) => nodes.follow(earlier.last, later.first, order),
            None => nodes.unfollow(earlier.last, later.first),
        }
    }

    /// The node of a graph with this handle.
    fn ends(&self, graph: u64, node: u64) -> Option<NodeEnds> {
        let known = self.nodes.get(&node)?;
        let serial = self.graphs.get(&graph)?.serial;
        (known.graph == graph && known.serial == serial).then_some(known.ends)
    }

    /// Notes that the order of a graph is not known. A graph whose handle is not known may be a
    /// part of any other one, or of a capture.
    pub(crate) fn lose(&mut self, graph: u64) {
        match self.graphs.get_mut(&graph) {
            Some(graph) => graph.work.nodes.lose(),
            None => self.lost_up_to = self.last,
        }
    }

    /// Notes that a call changes a node with this handle, or the graph inside of it.
    pub(crate) fn lose_graph_of(&mut self, node: u64) {
        let graph = self.nodes.get(&node).map_or(0, |known| known.graph);
        let is_known = self.ends(graph, node).is_some();
        self.lose(if is_known { graph } else { 0 });
    }

    pub(crate) fn copy(&mut self, graph: u64, to: u64) {
        let work = self.known(graph);
        let serial = self.next();
        self.graphs.insert(to, KnownGraph { work, serial });
    }

    /// The present work of a graph.
    pub(crate) fn known(&self, graph: u64) -> GraphWork {
        let Some(KnownGraph { work, serial }) = self.graphs.get(&graph) else {
            return GraphWork::default();
        };
        let mut work = work.clone();
        if *serial <= self.lost_up_to {
            work.nodes.lose();
        }
        work
    }

    pub(crate) fn forget_graph(&mut self, handle: u64) {
        self.graphs.remove(&handle);
    }

    /// Makes a program of a graph, or gives a program the work of another graph.
    pub(crate) fn instantiate(&mut self, graph: u64, program: u64) {
        let work = Arc::new(self.known(graph));
        self.programs.insert(program, GraphProgram { work, is_examined: None });
    }

    /// Notes that a call changes a node of a program.
    pub(crate) fn change(&mut self, program: u64) {
        Arc::make_mut(&mut self.programs.entry(program).or_default().work).change();
    }

    pub(crate) fn forget_program(&mut self, handle: u64) {
        self.programs.remove(&handle);
    }

    /// The work of a launch. A program that was not recorded has one unknown node.
    pub(crate) fn program(&self, handle: u64) -> Arc<GraphWork> {
        let known = self.programs.get(&handle).map(|program| Arc::clone(&program.work));
        known.unwrap_or_else(|| Arc::new(GraphWork { unknown: 1, ..GraphWork::default() }))
    }

    /// Whether the order of the nodes of a program could be examined. `None` at the first launch of
    /// its content.
    pub(crate) fn is_examined(&mut self, handle: u64) -> Option<bool> {
        let program = self.programs.get_mut(&handle)?;
        if program.is_examined.is_none() {
            program.is_examined = self.examined.get(&program.work.content()).copied();
        }
        program.is_examined
    }

    pub(crate) fn note_examined(&mut self, handle: u64, is_examined: bool) {
        let Some(program) = self.programs.get_mut(&handle) else { return };
        program.is_examined = Some(is_examined);
        self.examined.insert(program.work.content(), is_examined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calls of a damaged file may nest a graph in itself without end.
    #[test]
    fn a_graph_that_is_added_to_itself_stays_small() {
        let memory = GraphMemory { range: 0..1, function: String::new(), stack: None };
        let mut graph = GraphWork {
            records: vec![1],
            allocations: vec![memory],
            frees: vec![0],
            addresses: vec![7],
            kernels: 1,
            ..GraphWork::default()
        };
        for _ in 0..100 {
            let child = graph.clone();
            graph.append(&child, true);
        }
        assert!(graph.parts() <= ACCESSES_MAX);
        assert_eq!(graph.kernels, u64::MAX);
        assert!(graph.unknown > 0, "the parts that were left out count as not examined");
    }
}
