//! Captures of streams, and the graphs that they and other calls make.

use crate::accesses::Touched;
use crate::streams::StreamKey;
use std::collections::HashMap;
use std::ops::Range;

/// Maximum number of accesses of a graph that are kept.
const ACCESSES_MAX: usize = 1 << 20;

/// Memory that a launch of a graph allocates: its addresses, and the function and the stack of the
/// call that made the graph allocate.
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

impl GraphWork {
    /// Adds the work of another graph. Work beyond [`ACCESSES_MAX`] counts as not examined.
    pub(crate) fn add(&mut self, other: &Self) {
        self.kernels = self.kernels.saturating_add(other.kernels);
        self.unknown = self.unknown.saturating_add(other.unknown);
        self.waits |= other.waits;
        if self.parts() + other.parts() > ACCESSES_MAX {
            self.unknown = self.unknown.saturating_add(1);
            return;
        }
        self.records.extend(&other.records);
        self.allocations.extend_from_slice(&other.allocations);
        self.frees.extend(&other.frees);
        self.declared.extend_from_slice(&other.declared);
        self.addresses.extend_from_slice(&other.addresses);
    }

    /// The number of parts that are kept. A graph may have itself as a child, and then doubles.
    fn parts(&self) -> usize {
        let of_memory = self.allocations.len() + self.frees.len();
        self.declared.len() + self.addresses.len() + self.records.len() + of_memory
    }
}

/// The captures that are open, and the graphs by their handles.
#[derive(Debug, Clone, Default)]
pub(crate) struct Graphs {
    /// The capture that a stream is a part of.
    streams: HashMap<StreamKey, u64>,
    /// The capture in which an event was last recorded.
    events: HashMap<u64, u64>,
    /// The work of each open capture.
    open: HashMap<u64, GraphWork>,
    next: u64,
    graphs: HashMap<u64, GraphWork>,
    programs: HashMap<u64, GraphWork>,
}

impl Graphs {
    /// Begins a capture.
    pub(crate) fn begin(&mut self, stream: StreamKey) {
        self.next += 1;
        self.streams.insert(stream, self.next);
        self.open.insert(self.next, GraphWork::default());
    }

    /// Ends the capture of a stream. The work becomes the graph with this handle.
    pub(crate) fn end(&mut self, stream: StreamKey, graph: Option<u64>) {
        let Some(capture) = self.streams.remove(&stream) else { return };
        self.streams.retain(|_, other| *other != capture);
        self.events.retain(|_, other| *other != capture);
        let work = self.open.remove(&capture).unwrap_or_default();
        if let Some(graph) = graph {
            self.graphs.entry(graph).or_default().add(&work);
        }
    }

    /// The work of the capture that a stream is a part of.
    pub(crate) fn capture(&mut self, stream: StreamKey) -> Option<&mut GraphWork> {
        self.open.get_mut(self.streams.get(&stream)?)
    }

    /// Notes a record of an event. Returns whether it is a part of a capture.
    pub(crate) fn record(&mut self, stream: StreamKey, event: u64) -> bool {
        match self.streams.get(&stream) {
            Some(capture) => self.events.insert(event, *capture),
            None => self.events.remove(&event),
        };
        self.events.contains_key(&event)
    }

    /// Notes a wait for an event. Returns whether it is a part of a capture, which the stream then
    /// belongs to.
    pub(crate) fn wait(&mut self, stream: StreamKey, event: u64) -> bool {
        if let Some(capture) = self.events.get(&event) {
            self.streams.insert(stream, *capture);
        }
        self.streams.contains_key(&stream)
    }

    pub(crate) fn forget_stream(&mut self, stream: StreamKey) {
        self.streams.remove(&stream);
    }

    pub(crate) fn forget_event(&mut self, event: u64) {
        self.events.remove(&event);
    }

    /// The graph with this handle, which a call builds.
    pub(crate) fn graph(&mut self, handle: u64) -> &mut GraphWork {
        self.graphs.entry(handle).or_default()
    }

    pub(crate) fn copy(&mut self, graph: u64, to: u64) {
        let work = self.graphs.get(&graph).cloned().unwrap_or_default();
        self.graphs.insert(to, work);
    }

    pub(crate) fn forget_graph(&mut self, handle: u64) {
        self.graphs.remove(&handle);
    }

    /// Makes a program of a graph, or gives a program the work of another graph.
    pub(crate) fn instantiate(&mut self, graph: u64, program: u64) {
        let work = self.graphs.get(&graph).cloned().unwrap_or_default();
        self.programs.insert(program, work);
    }

    /// Notes that a call changes a node of a program. The accesses of all its nodes are then not
    /// known, because the former ones of this node may be among them.
    pub(crate) fn change(&mut self, program: u64) {
        let work = self.programs.entry(program).or_default();
        work.unknown = work.unknown.saturating_add(1);
        work.declared.clear();
        work.addresses.clear();
    }

    pub(crate) fn forget_program(&mut self, handle: u64) {
        self.programs.remove(&handle);
    }

    /// The work of a launch. A program that was not recorded has one unknown node.
    pub(crate) fn program(&self, handle: u64) -> GraphWork {
        let unknown = GraphWork { unknown: 1, ..GraphWork::default() };
        self.programs.get(&handle).cloned().unwrap_or(unknown)
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
            graph.add(&child);
        }
        assert!(graph.parts() <= ACCESSES_MAX);
        assert_eq!(graph.kernels, u64::MAX);
        assert!(graph.unknown > 0, "the parts that were left out count as not examined");
    }
}
