//! What has passed at a point, as nodes of the graph.
#![forbid(unsafe_code)]

use super::graph::Node;
use crate::base::edges::{Edge, Past};
use crate::base::id::LaneId;
use smallvec::SmallVec;

/// So many nodes are compared with each one that is added; with more, some stand there twice.
const COMPARED_MAX: usize = 16;

/// A node, why it comes before, and its stream, if it is an operation in its order.
type Passed = (Node, Edge, Option<LaneId>);

/// Nodes that have passed. Of one stream and one edge the last is enough (law A1).
#[derive(Debug, Clone, Default)]
pub(super) struct Nodes {
    list: SmallVec<[Passed; 2]>,
    /// The length at which nodes that stand there twice are looked for again.
    compact_at: usize,
}

impl Nodes {
    /// Everything up to this node, which may be the last of a stream.
    pub(super) fn one(node: Node, stream: Option<LaneId>) -> Self {
        let mut one = Self::default();
        one.list.push((node, Edge::Lane, stream));
        one
    }

    /// The nodes, each with the edge by which it comes before.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Node, Edge)> + '_ {
        self.list.iter().map(|(node, edge, _)| (*node, *edge))
    }

    fn add(&mut self, node: Node, edge: Edge, stream: Option<LaneId>) {
        if self.list.len() <= COMPARED_MAX {
            let mut same = self.list.iter_mut().filter(|(_, by, _)| *by == edge);
            let found =
                same.find(|(other, _, of)| *other == node || stream.is_some() && *of == stream);
            if let Some((other, ..)) = found {
                *other = node.max(*other);
                return;
            }
        }
        self.list.push((node, edge, stream));
    }

    fn compact(&mut self) {
        let key = |(node, edge, stream): &Passed| (*edge, *stream, std::cmp::Reverse(*node));
        self.list.sort_unstable_by_key(key);
        self.list.dedup_by(|later, first| {
            let is_same = later.0 == first.0 || later.2.is_some() && later.2 == first.2;
            later.1 == first.1 && is_same
        });
        self.compact_at = (2 * self.list.len()).max(4 * COMPARED_MAX);
    }
}

impl Past for Nodes {
    fn follow(&mut self, other: &Self, edge: Edge) {
        for (node, _, stream) in &other.list {
            self.add(*node, edge, *stream);
        }
        if self.list.len() > self.compact_at.max(4 * COMPARED_MAX) {
            self.compact();
        }
    }

    fn copy_from(&mut self, other: &Self) {
        self.list.clear();
        self.list.extend_from_slice(&other.list);
    }
}
