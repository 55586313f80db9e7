//! The edges of CUDA graphs, which CUPTI states while a program makes its graphs.
//!
//! CUPTI calls back when a node of a graph gets a dependency. An instantiated graph is a copy of
//! its template. CUPTI calls back for the edges of the copy too, and the numbers of its nodes are
//! the numbers that the records of operations have. So no copy has to be matched with its template.
//! An instantiated graph gets and loses no edges later. (A recording of these callbacks with CUDA
//! 13.0 is in the public repository pantheongpu/pantheonsim.)
//!
//! The callback comes when graphs are made, and never at a launch. It takes a lock of its own,
//! which the thread of the recorder keeps for the time of a swap.
//!
//! The edges of a graph are written when its first operation is. So the file has no edges of
//! templates. If some edges of a graph may be missing, it has none.

use crate::api::CuptiApi;
use crate::file::{EDGES_MAX, GraphEdge};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

/// `CUPTI_CB_DOMAIN_RESOURCE` of `cupti_callbacks.h`.
const RESOURCE: c_int = 3;
/// `CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_CREATED`.
const DEPENDENCY_CREATED: u32 = 15;

/// `CUpti_ResourceData`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ResourceData {
    context: *mut c_void,
    handle: *mut c_void,
    descriptor: *const GraphData,
}

/// `CUpti_GraphData`, as the headers of CUDA 11 to 13 have it.
#[repr(C)]
#[derive(Clone, Copy)]
struct GraphData {
    graph: *mut c_void,
    original_graph: *mut c_void,
    node: *mut c_void,
    original_node: *mut c_void,
    node_type: c_int,
    /// The node that `node` follows.
    dependency: *mut c_void,
    program: *mut c_void,
}

/// Makes CUPTI call the subscriber at new edges. If CUPTI refuses, or if it has no numbers of
/// nodes, the trace has no edges.
///
/// # Safety
/// `subscriber` is a subscription to the CUPTI library of `api`.
pub(crate) unsafe fn request(api: &CuptiApi, subscriber: *mut c_void) {
    if let (Some(call), Some(_), Some(_)) = (api.callback, api.graph, api.graph_node) {
        // SAFETY: the caller has made the subscription. CUPTI refuses numbers that it does not
        // know, and then calls nothing.
        let _refused = unsafe { call(1, subscriber, RESOURCE, DEPENDENCY_CREATED) };
    }
}

/// The edge that a callback of CUPTI states. `None` for another callback, and if CUPTI does not
/// know the numbers of the nodes.
///
/// # Safety
/// The arguments are the ones of a callback of the CUPTI library of `api`, which has not returned.
pub(crate) unsafe fn stated(
    api: &CuptiApi,
    domain: c_int,
    number: u32,
    data: *const c_void,
) -> Option<GraphEdge> {
    if (domain, number) != (RESOURCE, DEPENDENCY_CREATED) || data.is_null() {
        return None;
    }
    let (graph_number, node_number) = (api.graph?, api.graph_node?);
    // SAFETY: in the domain of resources, CUPTI passes this structure, which is valid until the
    // callback returns.
    let resource = unsafe { data.cast::<ResourceData>().read() };
    if resource.descriptor.is_null() {
        return None;
    }
    // SAFETY: for a callback about graphs, the descriptor is the address of this structure. False
    // for a callback with another number, which is left out above.
    let of = unsafe { resource.descriptor.read() };
    let mut edge = GraphEdge::default();
    // SAFETY: the graph exists during the callback, and the call writes a local variable. It calls
    // no function of CUDA, which a callback must not do.
    let graph = unsafe { graph_number(of.graph, &raw mut edge.graph) };
    // SAFETY: both nodes of a new edge exist, and the call writes a local variable.
    let from = unsafe { node_number(of.dependency, &raw mut edge.from) };
    // SAFETY: the later node exists too. CUPTI refuses a node that has no number yet.
    let to = unsafe { node_number(of.node, &raw mut edge.to) };
    ((graph, from, to) == (0, 0, 0)).then_some(edge)
}

/// The edges that graphs got and that the recorder has not taken.
#[derive(Debug, Default)]
pub(crate) struct NewEdges(Mutex<Stated>);

/// Edges in the order in which CUPTI stated them.
#[derive(Debug, Default)]
struct Stated {
    edges: Vec<GraphEdge>,
    /// The greatest number of a graph with a missing edge. CUPTI numbers graphs in the order in
    /// which they are made.
    lost: u32,
}

impl NewEdges {
    /// Keeps an edge. At [`EDGES_MAX`] edges, or without memory, the edge is lost.
    pub(crate) fn add(&self, edge: GraphEdge) {
        let mut stated = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if stated.edges.len() < EDGES_MAX && stated.edges.try_reserve(1).is_ok() {
            stated.edges.push(edge);
        } else {
            stated.lost = stated.lost.max(edge.graph);
        }
    }

    fn take(&self) -> Stated {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The edges of the graphs of a process, by graph. They outlast a recording, because a later one
/// may launch a graph that was made before it.
#[derive(Debug, Default)]
pub(crate) struct KnownEdges {
    by_graph: HashMap<u32, Vec<GraphEdge>>,
    count: usize,
    lost: u32,
}

impl KnownEdges {
    /// Takes the new edges. At [`EDGES_MAX`] edges, forgets the graphs that were made first.
    pub(crate) fn take(&mut self, new: &NewEdges) {
        let Stated { edges, lost } = new.take();
        self.lost = self.lost.max(lost);
        for edge in edges {
            if self.count >= EDGES_MAX {
                self.forget_oldest();
            }
            if self.by_graph.try_reserve(1).is_err() {
                self.lost = self.lost.max(edge.graph);
                continue;
            }
            let of_graph = self.by_graph.entry(edge.graph).or_default();
            if of_graph.try_reserve(1).is_ok() {
                of_graph.push(edge);
                self.count += 1;
            } else {
                self.lost = self.lost.max(edge.graph);
            }
        }
    }

    fn forget_oldest(&mut self) {
        let Some(&oldest) = self.by_graph.keys().min() else { return };
        let edges = self.by_graph.remove(&oldest).map_or(0, |edges| edges.len());
        self.count -= edges;
        self.lost = self.lost.max(oldest);
    }

    /// The edges of a graph. None if some of them may be missing.
    pub(crate) fn of(&self, graph: u32) -> &[GraphEdge] {
        let known = self.by_graph.get(&graph).filter(|_| graph > self.lost);
        known.map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn edge(graph: u32, from: u64) -> GraphEdge {
        GraphEdge { graph, from, to: from + 1 }
    }

    #[test]
    fn the_edges_of_a_graph_are_known_after_they_were_taken() {
        let (new, mut known) = (NewEdges::default(), KnownEdges::default());
        [edge(1, 0), edge(2, 5), edge(1, 1)].into_iter().for_each(|one| new.add(one));
        assert!(known.of(1).is_empty());
        known.take(&new);
        new.add(edge(2, 6));
        known.take(&new);
        assert_eq!(known.of(1), [edge(1, 0), edge(1, 1)]);
        assert_eq!(known.of(2), [edge(2, 5), edge(2, 6)]);
        assert!(known.of(3).is_empty());
    }

    /// A part of the edges would give an order that the graph does not have.
    #[test]
    fn a_graph_of_which_an_edge_is_lost_has_no_edges() {
        let (new, mut known) = (NewEdges::default(), KnownEdges::default());
        for at in 0..EDGES_MAX as u64 {
            new.add(edge(2, at));
        }
        new.add(edge(3, 0));
        known.take(&new);
        new.add(edge(3, 1));
        new.add(edge(4, 0));
        known.take(&new);
        assert!(known.of(2).is_empty() && known.of(3).is_empty());
        assert_eq!(known.of(4), [edge(4, 0)], "a graph that was made later");
    }

    #[test]
    fn the_graphs_that_were_made_first_are_forgotten() {
        let (new, mut known) = (NewEdges::default(), KnownEdges::default());
        new.add(edge(1, 0));
        known.take(&new);
        for at in 0..EDGES_MAX as u64 {
            new.add(edge(2, at));
        }
        known.take(&new);
        assert!(known.of(1).is_empty());
        assert_eq!((known.of(2).len(), known.count), (EDGES_MAX, EDGES_MAX));
    }

    #[test]
    fn a_library_without_numbers_of_nodes_is_complete() {
        extern "C" fn any() {}
        let find = |symbol: &CStr| match symbol.to_bytes() {
            b"cuptiGetGraphId" | b"cuptiGetGraphNodeId" => std::ptr::null(),
            _ => any as *const c_void,
        };
        // SAFETY: no function of the table is called.
        let api = unsafe { CuptiApi::load(find) };
        assert_eq!((api.missing(), api.graph_node.is_some()), (None, false));
    }

    /// `CUpti_ResourceData` and `CUpti_GraphData` in words of eight bytes, with numbers in place of
    /// the handles.
    #[test]
    fn an_edge_is_read_by_its_offsets() {
        unsafe extern "C" fn graph(handle: *mut c_void, number: *mut u32) -> c_int {
            // SAFETY: the caller passes a variable.
            unsafe { number.write(u32::try_from(handle.addr()).unwrap()) };
            0
        }
        unsafe extern "C" fn node(handle: *mut c_void, number: *mut u64) -> c_int {
            // SAFETY: the caller of a node's number passes a variable.
            unsafe { number.write(handle.addr() as u64) };
            c_int::from(handle.is_null())
        }
        // SAFETY: no symbol is found, so no address is called.
        let none = unsafe { CuptiApi::load(|_| std::ptr::null()) };
        let api = CuptiApi { graph: Some(graph), graph_node: Some(node), ..none };
        let read = |api: &CuptiApi, domain, number, words: [usize; 7]| {
            let words = words.map(std::ptr::without_provenance::<c_void>);
            let resource = [std::ptr::null(), std::ptr::null(), words.as_ptr().cast::<c_void>()];
            // SAFETY: both structures have the size that is read, and outlive the call.
            unsafe { stated(api, domain, number, resource.as_ptr().cast()) }
        };
        let words = [3, 90, 22, 91, 5, 11, 92];
        let expected = GraphEdge { graph: 3, from: 11, to: 22 };
        assert_eq!(read(&api, 3, 15, words), Some(expected));
        assert_eq!(read(&api, 3, 16, words), None, "an edge that is removed");
        assert_eq!(read(&api, 1, 15, words), None, "a function of the driver");
        assert_eq!(read(&api, 3, 15, [3, 90, 22, 91, 5, 0, 92]), None, "no number");
        assert_eq!(read(&none, 3, 15, words), None, "an older CUPTI");
    }
}
