//! Graphs of tasks: a node runs after all of its predecessors have run.
#![forbid(unsafe_code)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "`TaskGraph::node` adds fewer than 2^32 nodes"
)]

use super::task::WorkerTask;
use crate::base::error::{Error, ErrorKind, Result};
use crate::memory::Buffer;
use crate::stream::Stream;
use std::ops::Range;

/// The number of fields of a node. A field has 64 bits.
pub(crate) const FIELDS: usize = 8;
/// The number of 32-bit words of the fields of a node. The index of the first of these words is a
/// multiple of this number.
const FIELD_WORDS: usize = 2 * FIELDS;

/// A task of a [`TaskGraph`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskNode(u32);

impl TaskNode {
    /// The number of the node, which is also the payload of its task. Nodes are numbered from 0, in
    /// the order in which they were added.
    #[must_use]
    pub const fn number(self) -> usize {
        self.0 as usize
    }
}

/// An access of a node to a range of a resource, for the check of a graph.
#[derive(Debug, Clone)]
struct ResourceAccess {
    node: u32,
    range: Range<u64>,
    writes: bool,
}

/// Tasks, and edges that order the tasks.
///
/// ```
/// use trijet::workers::TaskGraph;
/// let mut graph = TaskGraph::new();
/// let [a, b, c] = [0, 0, 1].map(|kind| graph.node(kind));
/// graph.edge(a, c);
/// graph.writes(a, 0, 0..10).reads(c, 0, 0..10);
/// assert_eq!(graph.conflict()?, None);
/// graph.writes(b, 0, 5..6);
/// assert_eq!(graph.conflict()?, Some((a, b)));
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct TaskGraph {
    kinds: Vec<u8>,
    /// The fields, by the number of the node. A node without fields has zeros. The list ends at the
    /// last node that has fields.
    fields: Vec<[u64; FIELDS]>,
    edges: Vec<(u32, u32)>,
    /// The declared accesses. Each entry has the number of the resource and the access.
    accesses: Vec<(u64, ResourceAccess)>,
}

/// The nodes of a graph, in an order that its edges allow.
#[derive(Debug)]
struct GraphOrder {
    /// The successors of node `n` are `successors[ends[n]..ends[n + 1]]`.
    ends: Vec<u32>,
    successors: Vec<u32>,
    degrees: Vec<u32>,
    /// The numbers of all nodes, level by level. The level of a node is the number of edges on the
    /// longest path that ends at the node.
    nodes: Vec<u32>,
    /// For each level, the index in `nodes` of its first node. The last entry is the number of
    /// nodes.
    levels: Vec<u32>,
    level_of: Vec<u32>,
}

fn refused(cause: String) -> Error {
    Error::new(ErrorKind::InvalidValue, "task graph", cause)
}

impl TaskGraph {
    /// A graph without nodes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a task of the kind with index `kind`. The payload of the task is the number of the
    /// node.
    ///
    /// # Panics
    /// For more than 2^32 nodes.
    pub fn node(&mut self, kind: u8) -> TaskNode {
        let number = u32::try_from(self.kinds.len()).expect("a graph has fewer than 2^32 nodes");
        self.kinds.push(kind);
        TaskNode(number)
    }

    /// Adds a task of the kind with index `kind`, with eight fields of 64 bits. The body of the
    /// task reads the fields with [`Worker::fields`](super::Worker::fields).
    ///
    /// # Panics
    /// As for [`TaskGraph::node`].
    pub fn node_with(&mut self, kind: u8, fields: [u64; 8]) -> TaskNode {
        let node = self.node(kind);
        self.fields.resize(node.number(), [0; FIELDS]);
        self.fields.push(fields);
        node
    }

    /// Adds an edge: `after` runs after `before`.
    pub fn edge(&mut self, before: TaskNode, after: TaskNode) -> &mut Self {
        self.edges.push((before.0, after.0));
        self
    }

    /// Declares that the task reads a range of a resource; see [`TaskGraph::conflict`]. A resource
    /// is some memory, to which the program assigns any number.
    pub fn reads(&mut self, node: TaskNode, resource: u64, range: Range<u64>) -> &mut Self {
        self.accesses.push((resource, ResourceAccess { node: node.0, range, writes: false }));
        self
    }

    /// Declares that the task writes a range of a resource; see [`TaskGraph::conflict`].
    pub fn writes(&mut self, node: TaskNode, resource: u64, range: Range<u64>) -> &mut Self {
        self.accesses.push((resource, ResourceAccess { node: node.0, range, writes: true }));
        self
    }

    /// The number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether there are no nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    fn order(&self) -> Result<GraphOrder> {
        let count = self.kinds.len();
        let mut ends = vec![0_u32; count + 1];
        let mut degrees = vec![0_u32; count];
        for &(before, after) in &self.edges {
            let named = before.max(after) as usize;
            if named >= count {
                return Err(refused(format!(
                    "an edge names node {named}, but there are only {count} nodes"
                )));
            }
            ends[before as usize + 1] += 1;
            degrees[after as usize] += 1;
        }
        for node in 0..count {
            ends[node + 1] += ends[node];
        }
        let mut places = ends.clone();
        let mut successors = vec![0_u32; self.edges.len()];
        for &(before, after) in &self.edges {
            let place = &mut places[before as usize];
            successors[*place as usize] = after;
            *place += 1;
        }
        let mut left = degrees.clone();
        let mut level_of = vec![0; count];
        let mut nodes: Vec<u32> = (0..count as u32).filter(|at| left[*at as usize] == 0).collect();
        let mut levels = vec![0];
        let mut begin = 0;
        while begin < nodes.len() {
            let end = nodes.len();
            for at in begin..end {
                let node = nodes[at] as usize;
                level_of[node] = levels.len() as u32 - 1;
                for next in &successors[ends[node] as usize..ends[node + 1] as usize] {
                    left[*next as usize] -= 1;
                    if left[*next as usize] == 0 {
                        nodes.push(*next);
                    }
                }
            }
            levels.push(end as u32);
            begin = end;
        }
        if nodes.len() < count {
            return Err(refused(self.cycle(&left)));
        }
        Ok(GraphOrder { ends, successors, degrees, nodes, levels, level_of })
    }

    /// Describes a cycle. `left` has, for each node, the number of predecessors that could not be
    /// put into an order.
    fn cycle(&self, left: &[u32]) -> String {
        let before = |node: u32| {
            let mut edges = self.edges.iter();
            let edge = edges.find(|(from, to)| *to == node && left[*from as usize] > 0);
            edge.expect("each node that is left has a predecessor that is left").0
        };
        let mut node = left.iter().position(|count| *count > 0).expect("a node is left") as u32;
        // The first loop goes from a node to one of its predecessors until `node` is in a cycle.
        // The second loop goes once around the cycle.
        for _ in 0..left.len() {
            node = before(node);
        }
        let (first, mut path) = (node, vec![node.to_string()]);
        loop {
            node = before(node);
            path.push(node.to_string());
            if node == first {
                break;
            }
        }
        path.reverse();
        let shown = if path.len() > 12 { &path[..12] } else { &path[..] };
        let more = if path.len() > 12 { " -> ..." } else { "" };
        format!("nodes wait for each other: {}{more}", shown.join(" -> "))
    }

    /// Returns two nodes that conflict: both use the same bytes of a resource, at least one of the
    /// two writes, and no path of edges orders the two. Workers may run such nodes at the same
    /// time. `None` if there are no such nodes.
    ///
    /// # Errors
    /// `InvalidValue` if the graph has a cycle, which the error names, or an edge to a node that
    /// does not exist.
    pub fn conflict(&self) -> Result<Option<(TaskNode, TaskNode)>> {
        let order = self.order()?;
        let mut accesses: Vec<&(u64, ResourceAccess)> = self.accesses.iter().collect();
        accesses.sort_by_key(|(resource, access)| (*resource, access.range.start));
        let mut seen = vec![0_u32; self.kinds.len()];
        let mut search = 0;
        for (at, (resource, one)) in accesses.iter().enumerate() {
            let behind = accesses[at + 1..].iter();
            let near = behind.take_while(|(other, access)| {
                other == resource && access.range.start < one.range.end
            });
            for (_, other) in near {
                let differ = one.node != other.node && !other.range.is_empty();
                if differ && (one.writes || other.writes) {
                    search += 1;
                    if !order.follows(one.node, other.node, &mut seen, search) {
                        let (a, b) = (one.node.min(other.node), one.node.max(other.node));
                        return Ok(Some((TaskNode(a), TaskNode(b))));
                    }
                }
            }
        }
        Ok(None)
    }
}

impl GraphOrder {
    /// Whether there is a path from one of the two nodes to the other. `seen[n]` is the number of
    /// the last search that reached node `n`. `search` is the number of this search.
    fn follows(&self, one: u32, other: u32, seen: &mut [u32], search: u32) -> bool {
        let level = |node: u32| self.level_of[node as usize];
        let (from, to) = if level(one) <= level(other) { (one, other) } else { (other, one) };
        let mut stack = vec![from];
        while let Some(node) = stack.pop() {
            if node == to {
                return true;
            }
            let edges = self.ends[node as usize] as usize..self.ends[node as usize + 1] as usize;
            for next in &self.successors[edges] {
                if seen[*next as usize] != search && level(*next) <= level(to) {
                    seen[*next as usize] = search;
                    stack.push(*next);
                }
            }
        }
        false
    }
}

/// A [`TaskGraph`] in the memory of a device. It can run many times.
#[derive(Debug)]
pub struct LoadedGraph {
    pub(super) words: Buffer<u32>,
    pub(super) list: Buffer<u64>,
    pub(super) degrees: Buffer<u32>,
    pub(super) kinds: u8,
    pub(super) nodes: u32,
    pub(super) roots: u32,
    pub(super) levels: u32,
    /// The number of nodes in the widest level.
    pub(super) width: u32,
    /// The index of the first successor in `words`. The next three fields are also indices of words
    /// in `words`.
    pub(super) successors: u32,
    pub(super) order: u32,
    pub(super) level: u32,
    pub(super) fields: u32,
    /// The number of nodes that have fields in `words`: all nodes up to the last node with fields.
    pub(super) with_fields: u32,
}

impl Stream {
    /// Copies a graph of tasks to the device. The graph can run many times.
    ///
    /// # Errors
    /// `InvalidValue` if the graph has a cycle, which the error names, or an edge to a node that
    /// does not exist. `InvalidValue` if two nodes have declared accesses that conflict, and no
    /// path orders the two. `OutOfMemory`; an error of the driver.
    #[track_caller]
    pub fn load_graph(&self, graph: &TaskGraph) -> Result<LoadedGraph> {
        if let Some((a, b)) = graph.conflict()? {
            let cause = format!(
                "nodes {} and {} use the same memory without an order between them",
                a.number(),
                b.number()
            );
            return Err(refused(cause));
        }
        let GraphOrder { ends, successors, degrees, nodes, levels, .. } = graph.order()?;
        let count = |len: usize| {
            let cause = || format!("the graph needs {len} words; the limit is 2^32 - 1");
            u32::try_from(len).map_err(|_| refused(cause()))
        };
        let (first_successor, roots) = (count(ends.len())?, levels.get(1).copied().unwrap_or(0));
        let order = first_successor + count(successors.len())?;
        let level = order + count(nodes.len())?;
        let mut words: Vec<u32> = [ends, successors, nodes, levels.clone()].concat();
        words.resize(words.len().next_multiple_of(FIELD_WORDS), 0);
        let fields = count(words.len())?;
        words.extend_from_slice(bytemuck::cast_slice(&graph.fields));
        let kinds = graph.kinds.iter().enumerate();
        let list: Vec<u64> =
            kinds.map(|(at, kind)| WorkerTask::new(*kind, at as u64).word()).collect();
        Ok(LoadedGraph {
            words: self.upload(&words)?,
            list: self.upload(&list)?,
            degrees: self.upload(&degrees)?,
            kinds: graph.kinds.iter().copied().max().unwrap_or(0),
            nodes: count(graph.kinds.len())?,
            roots,
            levels: count(levels.len())? - 1,
            width: levels.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0),
            successors: first_successor,
            order,
            level,
            fields,
            with_fields: count(graph.fields.len())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_of_a_level_come_after_those_of_the_levels_before() -> Result<()> {
        let mut graph = TaskGraph::new();
        let nodes: Vec<TaskNode> = (0..5).map(|_| graph.node(0)).collect();
        for (before, after) in [(3, 0), (3, 1), (0, 2), (1, 2), (4, 2)] {
            graph.edge(nodes[before], nodes[after]);
        }
        let order = graph.order()?;
        assert_eq!((order.nodes, order.levels), (vec![3, 4, 0, 1, 2], vec![0, 2, 4, 5]));
        assert_eq!((order.degrees, order.level_of), (vec![1, 1, 3, 0, 0], vec![1, 1, 2, 0, 0]));
        Ok(())
    }

    #[test]
    fn a_cycle_is_named_and_so_is_a_node_that_does_not_exist() {
        let mut graph = TaskGraph::new();
        let nodes: Vec<TaskNode> = (0..4).map(|_| graph.node(0)).collect();
        graph.edge(nodes[0], nodes[1]).edge(nodes[1], nodes[2]).edge(nodes[2], nodes[1]);
        graph.edge(nodes[2], nodes[3]);
        let told = graph.order().expect_err("a cycle").to_string();
        let ways = ["1 -> 2 -> 1", "2 -> 1 -> 2"];
        assert!(ways.iter().any(|way| told.ends_with(way)), "{told}");
        let mut graph = TaskGraph::new();
        let node = graph.node(0);
        graph.edge(node, TaskNode(7));
        assert!(
            graph
                .order()
                .expect_err("no node 7")
                .to_string()
                .contains("node 7, but there are only 1")
        );
    }

    #[test]
    fn two_nodes_conflict_if_no_path_orders_their_use_of_a_byte() -> Result<()> {
        let mut graph = TaskGraph::new();
        let [a, b, c] = [0; 3].map(|kind| graph.node(kind));
        graph.writes(a, 1, 0..10).reads(b, 1, 9..12).reads(c, 1, 0..20).writes(c, 2, 0..10);
        assert_eq!(graph.conflict()?, Some((a, c)), "c reads what a writes");
        graph.edge(a, b).edge(b, c);
        assert_eq!(graph.conflict()?, None, "over b");
        graph.writes(b, 2, 3..4);
        assert_eq!(graph.conflict()?, None, "b runs before c");
        let d = graph.node(0);
        graph.reads(d, 2, 10..11).reads(d, 1, 0..5);
        assert_eq!(graph.conflict()?, Some((a, d)));
        Ok(())
    }
}
