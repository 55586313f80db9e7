//! The order that the edges of CUDA graphs give the operations of a launch.
//!
//! An operation follows the operations of the same launch that ran for the nodes before its node. A
//! node that left no operation, such as an empty node or a host node, is a moment of its own. So
//! the edges through it count, and many edges into it and out of it stay few.
//!
//! A launch has this order only if nothing contradicts it: its operations belong to one graph, each
//! node ran once, the edges have no cycle, and no operation started before one that it follows.
//! Without it, and for an operation whose node has no edge, the order comes from streams and times.
#![forbid(unsafe_code)]

use super::sorted::SortedTrace;
use crate::trace::activity::{GraphEdge, GraphNode};
use std::collections::{BTreeMap, HashMap};

/// A node before another one, in a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeBefore {
    /// The operation with this index.
    Operation(usize),
    /// The silent node with this index.
    Silent(usize),
}

/// The run of a node that left no operation.
#[derive(Debug)]
pub(super) struct SilentNode {
    pub(super) before: Vec<NodeBefore>,
    /// The call of the launch, if the node is the first one of its graph.
    pub(super) call: Option<usize>,
    /// The end of the last operation before it, or the start of the call.
    pub(super) ready: u64,
    /// Whether an operation of the launch comes before it.
    follows: bool,
}

/// An operation of a launch with a known order.
#[derive(Debug)]
struct GraphPlace {
    launch: usize,
    before: Vec<NodeBefore>,
    /// Whether an operation of the launch comes before it, directly or through silent nodes.
    follows: bool,
}

/// The operations before each operation in its graph.
#[derive(Debug, Default)]
pub(super) struct LaunchOrder {
    places: HashMap<usize, GraphPlace>,
    pub(super) silent: Vec<SilentNode>,
}

impl LaunchOrder {
    /// The nodes before an operation in its graph.
    pub(super) fn before(&self, operation: usize) -> &[NodeBefore] {
        self.places.get(&operation).map_or(&[], |place| place.before.as_slice())
    }

    /// Whether an operation follows another one of its launch. The first operations of a launch
    /// follow the work before it in their streams, also if the driver has put a node of its own
    /// before them.
    pub(super) fn is_later(&self, operation: usize) -> bool {
        self.places.get(&operation).is_some_and(|place| place.follows)
    }

    /// Whether two operations belong to one launch whose order is known.
    pub(super) fn are_of_one_launch(&self, one: usize, other: usize) -> bool {
        let launch = |operation| self.places.get(&operation).map(|place| place.launch);
        launch(one).is_some_and(|of_one| launch(other) == Some(of_one))
    }
}

/// The nodes of a graph that have edges.
struct SortedNodes {
    /// The numbers of the nodes, sorted.
    nodes: Vec<u64>,
    /// The indices of the nodes before each node.
    before: Vec<Vec<usize>>,
    /// The indices of the nodes, each after all nodes before it.
    order: Vec<usize>,
}

impl SortedNodes {
    /// `None` if the edges have a cycle.
    fn of(edges: &[&GraphEdge]) -> Option<Self> {
        let mut nodes: Vec<u64> = edges.iter().flat_map(|one| [one.from, one.to]).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let mut before = vec![Vec::new(); nodes.len()];
        let mut after = vec![Vec::new(); nodes.len()];
        for one in edges {
            let (from, to) = (at(&nodes, one.from)?, at(&nodes, one.to)?);
            before[to].push(from);
            after[from].push(to);
        }
        let mut missing: Vec<usize> = before.iter().map(Vec::len).collect();
        let mut order: Vec<usize> = (0..nodes.len()).filter(|&node| missing[node] == 0).collect();
        let mut done = 0;
        while let Some(&node) = order.get(done) {
            done += 1;
            for &to in &after[node] {
                missing[to] -= 1;
                if missing[to] == 0 {
                    order.push(to);
                }
            }
        }
        (order.len() == nodes.len()).then_some(Self { nodes, before, order })
    }
}

/// The index of a node in a sorted list.
fn at(nodes: &[u64], node: u64) -> Option<usize> {
    nodes.binary_search(&node).ok()
}

impl SortedTrace<'_> {
    /// The order that the edges of graphs give the operations.
    pub(super) fn graph_order(&self) -> LaunchOrder {
        let mut found = LaunchOrder::default();
        let mut by_graph: HashMap<u32, Vec<&GraphEdge>> = HashMap::new();
        for one in &self.of.edges {
            by_graph.entry(one.graph).or_default().push(one);
        }
        if by_graph.is_empty() {
            return found;
        }
        let graphs: HashMap<u32, SortedNodes> = by_graph
            .into_iter()
            .filter_map(|(graph, edges)| Some((graph, SortedNodes::of(&edges)?)))
            .collect();
        // The operations of each launch, each with its node.
        let mut launches: BTreeMap<u32, Vec<(usize, GraphNode)>> = BTreeMap::new();
        for (at, one) in self.operations.iter().enumerate() {
            if let Some(node) = self.of.node(one.activity) {
                launches.entry(one.activity.correlation).or_default().push((at, node));
            }
        }
        for (launch, operations) in launches.into_values().enumerate() {
            let graph = operations[0].1.graph;
            if let Some(nodes) = graphs.get(&graph)
                && operations.iter().all(|(_, node)| node.graph == graph)
                && let Some(ran) = self.ran(nodes, &operations)
            {
                self.add_launch(&mut found, launch, nodes, &ran);
            }
        }
        found
    }

    /// For each node of a graph, the operation that a launch ran for it. `None` if a node has
    /// several, or if an operation started before one that it follows.
    fn ran(
        &self,
        nodes: &SortedNodes,
        operations: &[(usize, GraphNode)],
    ) -> Option<Vec<Option<usize>>> {
        let mut ran = vec![None; nodes.nodes.len()];
        for (operation, node) in operations {
            if let Some(index) = at(&nodes.nodes, node.node?)
                && ran[index].replace(*operation).is_some()
            {
                return None;
            }
        }
        // The last operation before each node, and the end of the operations before a silent one.
        let mut last: Vec<Option<usize>> = vec![None; ran.len()];
        let mut ended = vec![0_u64; ran.len()];
        for &node in &nodes.order {
            let befores = &nodes.before[node];
            last[node] = befores.iter().filter_map(|&before| ran[before].or(last[before])).max();
            let end_of = |&before: &usize| match ran[before] {
                Some(operation) => self.operations[operation].end(),
                None => ended[before],
            };
            ended[node] = befores.iter().map(end_of).max().unwrap_or(0);
            let Some(operation) = ran[node] else { continue };
            let begin = self.operations[operation].begin();
            let is_after = |before: usize| ran[before].is_none() && ended[before] > begin;
            if last[node] >= Some(operation) || befores.iter().any(|&one| is_after(one)) {
                return None;
            }
        }
        Some(ran)
    }

    fn add_launch(
        &self,
        found: &mut LaunchOrder,
        launch: usize,
        nodes: &SortedNodes,
        ran: &[Option<usize>],
    ) {
        // The call of the launch, if it began before all operations.
        let first = ran.iter().flatten().min().copied();
        let call = first.and_then(|one| self.operations[one].call).filter(|&call| {
            first.is_some_and(|one| self.calls[call].time.start <= self.operations[one].begin())
        });
        // The form of each node in the order. `None` for a silent node without a known time.
        let mut stands: Vec<Option<NodeBefore>> = vec![None; ran.len()];
        for &node in &nodes.order {
            let before: Vec<NodeBefore> =
                nodes.before[node].iter().filter_map(|&before| stands[before]).collect();
            let follows = before.iter().any(|one| match *one {
                NodeBefore::Operation(_) => true,
                NodeBefore::Silent(one) => found.silent[one].follows,
            });
            if let Some(operation) = ran[node] {
                stands[node] = Some(NodeBefore::Operation(operation));
                found.places.insert(operation, GraphPlace { launch, before, follows });
                continue;
            }
            let call = call.filter(|_| before.is_empty());
            let ready = before.iter().map(|one| match *one {
                NodeBefore::Operation(one) => self.operations[one].end(),
                NodeBefore::Silent(one) => found.silent[one].ready,
            });
            let ready = ready.max().or_else(|| call.map(|call| self.calls[call].time.start));
            if let Some(ready) = ready {
                stands[node] = Some(NodeBefore::Silent(found.silent.len()));
                found.silent.push(SilentNode { before, call, ready, follows });
            }
        }
    }
}

#[cfg(test)]
mod tests;
