//! Sets of the nodes that come before a point: the type of [`Past`] that the graph uses.
#![forbid(unsafe_code)]

use super::graph::DagNode;
use crate::base::edges::{Edge, Past};
use crate::base::id::LaneId;
use smallvec::SmallVec;

/// In a list of at most this length, a node is added only if the list does not have it. A longer
/// list may get duplicates.
const COMPARED_MAX: usize = 16;

/// A node that comes before a point, and the edge through which the node comes before the point.
/// The third value is the stream of the node. It is `None` if the order of the stream does not
/// include the node.
type PassedNode = (DagNode, Edge, Option<LaneId>);

/// The nodes that come before a point. For each stream and kind of edge, the last node of the
/// stream is enough (law A1).
#[derive(Debug, Clone, Default)]
pub(super) struct Nodes {
    list: SmallVec<[PassedNode; 2]>,
    /// The length of the list above which duplicates are removed.
    compact_at: usize,
}

impl Nodes {
    /// The set of one node and everything before it. `stream` is the stream of the node, if the
    /// order of the stream includes the node.
    pub(super) fn one(node: DagNode, stream: Option<LaneId>) -> Self {
        let mut one = Self::default();
        one.list.push((node, Edge::Lane, stream));
        one
    }

    /// The nodes, each with the edge by which it comes before the point.
    pub(super) fn iter(&self) -> impl Iterator<Item = (DagNode, Edge)> + '_ {
        self.list.iter().map(|(node, edge, _)| (*node, *edge))
    }

    fn add(&mut self, node: DagNode, edge: Edge, stream: Option<LaneId>) {
        // If two launches of a graph are in one stream, the stream already orders them.
        let is_covered =
            |(other, by, of): &PassedNode| (*by, *of) == (Edge::Lane, stream) && *other >= node;
        if edge == Edge::Graph && stream.is_some() && self.list.iter().any(is_covered) {
            return;
        }
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
        let key = |(node, edge, stream): &PassedNode| (*edge, *stream, std::cmp::Reverse(*node));
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
