//! Calls that make graphs, and those that change them.

use super::{CallReader, Step};
use crate::accesses::{cuboid, fill};
use crate::call_stack::CallStack;
use crate::captures::{GraphMemory, GraphPart};
use crate::file::Call;
use crate::nodes::{EdgeOrder, NodeEnds};

/// The kinds of nodes (`CUgraphNodeType`) that order nothing but what follows them: kernels,
/// copies, fills, host functions, child graphs, empty nodes, memory and conditions. Others wait for
/// something outside of their edges, or signal it.
const PLAIN_KINDS: [u64; 9] = [0, 1, 2, 3, 4, 5, 10, 11, 13];

/// The words of a call with a list of nodes.
#[derive(Debug, Clone, Copy)]
struct NodeLists {
    /// The number of words before the lists.
    fixed: usize,
    /// The place of the number of nodes.
    count: usize,
    /// The number of lists.
    lists: usize,
}

impl NodeLists {
    /// The words of each list. `None` if the call does not have them.
    fn read(self, call: &Call<'_>) -> Option<Vec<Vec<u64>>> {
        let count = usize::try_from(call.word(self.count)).ok()?;
        let words = count.checked_mul(self.lists)?.checked_add(self.fixed)?;
        let list = |number: usize| {
            let first = self.fixed + number * count;
            (first..first + count).map(|at| call.word(at)).collect()
        };
        (call.count() == words).then(|| (0..self.lists).map(list).collect())
    }
}

/// The meaning of `CUgraphEdgeData`, a word: a default edge has zeros.
fn edge_order(data: u64) -> EdgeOrder {
    if data == 0 { EdgeOrder::Full } else { EdgeOrder::Programmatic }
}

impl CallReader {
    pub(super) fn begin_capture(&mut self, call: &Call<'_>, name: &str) {
        let key = Self::key(call, call.word(0));
        let to = Some(call.word(1)).filter(|_| name == "cuStreamBeginCaptureToGraph");
        self.graphs.begin(key, to);
        // The first nodes follow nodes of the graph.
        if to.is_some()
            && call.word(4) != 0
            && let Some(capture) = self.graphs.capture(key)
        {
            capture.work.nodes.lose();
        }
    }

    pub(super) fn graph_call(&mut self, call: &Call<'_>, name: &str, add: &mut impl FnMut(Step)) {
        let word = |at| call.word(at);
        match name {
            "cuGraphInstantiateWithFlags" | "cuGraphInstantiateWithParams" => {
                self.graphs.instantiate(word(1), word(0));
            }
            "cuGraphExecUpdate" | "cuGraphExecUpdate_v2" => {
                self.graphs.instantiate(word(1), word(0));
            }
            "cuGraphClone" => self.graphs.copy(word(1), word(0)),
            "cuGraphLaunch" => self.launch_graph(call, add),
            "cuGraphExecDestroy" => self.graphs.forget_program(word(0)),
            "cuGraphCreate" | "cuGraphDestroy" => self.graphs.forget_graph(word(0)),
            "cuGraphNodeSetEnabled" => self.graphs.change(word(0)),
            "cuGraphAddDependencies" | "cuGraphRemoveDependencies" => {
                self.edges(call, name, NodeLists { fixed: 4, count: 3, lists: 2 });
            }
            "cuGraphAddDependencies_v2" | "cuGraphRemoveDependencies_v2" => {
                self.edges(call, name, NodeLists { fixed: 5, count: 4, lists: 3 });
            }
            "cuGraphDestroyNode" | "cuGraphChildGraphNodeGetGraph" => {
                self.graphs.lose_graph_of(word(0));
            }
            _ if name.starts_with("cuGraphExec") => self.graphs.change(word(0)),
            _ if name.starts_with("cuGraphAdd") => self.add_node(call, name),
            // The parameters of a node.
            _ => self.graphs.lose_graph_of(word(0)),
        }
    }

    /// A call that adds edges between the nodes of a graph, or removes them.
    fn edges(&mut self, call: &Call<'_>, name: &str, lists: NodeLists) {
        let graph = call.word(0);
        let Some(lists) = lists.read(call) else { return self.graphs.lose(graph) };
        for (at, (earlier, later)) in lists[0].iter().zip(&lists[1]).enumerate() {
            let data = lists.get(2).map_or(0, |data| data[at]);
            let order = name.starts_with("cuGraphAdd").then(|| edge_order(data));
            self.graphs.follow(graph, (*earlier, *later), order);
        }
    }

    /// A call that adds a node to a graph: the node, the graph, and the nodes before it.
    fn add_node(&mut self, call: &Call<'_>, name: &str) {
        let word = |at| call.word(at);
        let (part, fixed) = match name {
            "cuGraphAddMemcpyNode" => (GraphPart::Declared("copy of a node", cuboid(call, 4)), 30),
            "cuGraphAddMemsetNode" => {
                let touched = fill(word(4), word(5), word(6) >> 32, word(7), word(8));
                (GraphPart::Declared("fill of a node", touched), 10)
            }
            // The parameters end with the size and, as a result, the address.
            "cuGraphAddMemAllocNode" => {
                let range = word(18)..word(18).saturating_add(word(17));
                let (function, stack) = (name.to_owned(), call.stack);
                (GraphPart::Allocation(GraphMemory { range, function, stack }), 19)
            }
            "cuGraphAddMemFreeNode" => (GraphPart::Free(word(4)), 5),
            "cuGraphAddChildGraphNode"
            | "cuGraphAddEventRecordNode"
            | "cuGraphAddEventWaitNode" => (GraphPart::Nothing, 5),
            "cuGraphAddEmptyNode" => (GraphPart::Nothing, 4),
            "cuGraphAddNode_v2" => (GraphPart::Unknown, 6),
            _ => (GraphPart::Unknown, 5),
        };
        let graph = word(1);
        let ends = if name == "cuGraphAddChildGraphNode" {
            let child = self.graphs.known(word(4));
            self.graphs.graph(graph).append(&child, true)
        } else {
            let node = self.graphs.graph(graph).add(part, CallStack::of(call));
            NodeEnds { first: node, last: node }
        };
        let has_edge_data = name == "cuGraphAddNode_v2";
        let count = if has_edge_data { 4 } else { 3 };
        let lists = NodeLists { fixed, count, lists: 1 + usize::from(has_edge_data) }.read(call);
        let after = lists.map(|lists| {
            let data = |at: usize| lists.get(1).map_or(0, |data| data[at]);
            let after = lists[0].iter().enumerate();
            after.map(|(at, node)| (*node, edge_order(data(at)))).collect::<Vec<_>>()
        });
        self.graphs.place((graph, word(0)), ends, after.as_deref());
        match name {
            "cuGraphAddEventRecordNode" => {
                self.of_graphs.insert(word(4));
                self.graphs.graph(graph).records.push(word(4));
            }
            "cuGraphAddEventWaitNode" => self.graphs.graph(graph).waits = true,
            "cuGraphAddNode" | "cuGraphAddNode_v2" => {
                let kind = word(fixed - 1) & 0xffff_ffff;
                if !PLAIN_KINDS.contains(&kind) {
                    self.graphs.lose(graph);
                }
            }
            _ => {}
        }
    }
}
