//! The comparison of the operations of a recording with the nodes of an existing graph. An
//! operation that equals its node allocates nothing. The first operation that does not fit the
//! graph, and all later operations, are collected for a new graph.
#![forbid(unsafe_code)]

use super::node::{ArgumentRange, Node, NodeHome};
use crate::device::driver::Action;

/// The differences found so far.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// The nodes of the existing graph.
    pub(super) known: Vec<Node>,
    /// The number of arguments of the graph, not counting the chunks of its heap.
    pub(super) arguments: usize,
    /// The number of nodes that have been compared.
    next: usize,
    /// The nodes with new values, each with the index of the node that it replaces.
    pub(super) changes: Vec<(usize, Node)>,
    /// The reason why the recording does not fit the graph. `None` if it has fitted so far.
    mismatch: Option<String>,
    /// The first operation that does not fit the graph, and all later ones.
    others: Vec<Node>,
}

impl Comparison {
    pub(super) fn new(known: Vec<Node>, arguments: usize) -> Self {
        Self { known, arguments, ..Self::default() }
    }

    /// Compares an operation of a stream with the next node.
    pub(super) fn operation(
        &mut self,
        action: &Action<'_>,
        home: NodeHome,
        priority: Option<i32>,
        touches: &[ArgumentRange],
    ) {
        let number = self.next;
        self.next += 1;
        let known = self.known.get(number).filter(|_| self.mismatch.is_none());
        let differs = known.map(|known| known.differs_from(action, priority, home, touches));
        if let Some(Ok(false)) = differs {
            return;
        }
        let node = Node::of(action, home).map(|mut node| {
            node.set_priority(priority);
            node.touches.extend_from_slice(touches);
            node
        });
        match node {
            Ok(node) => self.put(number, node, differs),
            Err(error) => self.mismatch = Some(error.to_string()),
        }
    }

    /// Stores a node that has new values, does not fit the graph, or comes after the graph's last
    /// node.
    fn put(
        &mut self,
        number: usize,
        mut node: Node,
        differs: Option<std::result::Result<bool, String>>,
    ) {
        match (differs, self.known.get(number)) {
            (Some(Ok(_)), Some(known)) => {
                node.follow_as(known);
                self.changes.push((number, node));
            }
            (differs, _) => {
                if let Some(Err(why)) = differs {
                    self.mismatch = Some(format!("operation {number}: {why}"));
                }
                self.others.push(node);
            }
        }
    }

    /// Compares a node with the next node of the graph. `node` comes from a graph within the
    /// recording, or is captured work.
    pub(super) fn node(&mut self, node: Node) {
        let number = self.next;
        self.next += 1;
        let known = self.known.get(number).filter(|_| self.mismatch.is_none());
        let differs = known.map(|known| known.differs(&node));
        if !matches!(differs, Some(Ok(false))) {
            self.put(number, node, differs);
        }
    }

    /// All recorded operations, as nodes. New nodes have no edges yet.
    pub(super) fn into_nodes(self) -> Vec<Node> {
        let Self { known: mut nodes, changes, others, next, .. } = self;
        nodes.truncate(next - others.len());
        changes.into_iter().for_each(|(number, node)| nodes[number] = node);
        nodes.extend(others);
        nodes
    }

    /// The reason why the recording does not fit the graph. `None` if it fits.
    pub(super) fn mismatch(&self) -> Option<String> {
        let (had, has) = (self.known.len(), self.next);
        if had != has {
            return Some(format!("the graph had {had} operations, and has {has} now"));
        }
        self.mismatch.clone()
    }
}
