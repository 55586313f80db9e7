//! The comparison of a recording with a graph. Nothing is allocated for an operation that is equal.
#![forbid(unsafe_code)]

use super::node::{Node, Place};
use crate::device::driver::Action;

/// What differs so far.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// The nodes of the graph.
    pub(super) known: Vec<Node>,
    /// The number of arguments of the graph, without its heap.
    pub(super) arguments: usize,
    /// The number of nodes that have been compared.
    next: usize,
    /// The nodes with other values.
    pub(super) changes: Vec<(usize, Node)>,
    /// Why the recording is another graph.
    mismatch: Option<String>,
}

impl Comparison {
    pub(super) fn new(known: Vec<Node>, arguments: usize) -> Self {
        Self { known, arguments, ..Self::default() }
    }

    /// Compares an operation of a stream with the next node.
    pub(super) fn operation(
        &mut self,
        action: &Action<'_>,
        (stream, priority): (usize, Option<i32>),
        places: &[Place],
    ) {
        let number = self.next;
        self.next += 1;
        let Some(known) = self.known.get(number).filter(|_| self.mismatch.is_none()) else {
            return;
        };
        match known.differs_from(action, priority, (stream, &[]), places) {
            Ok(false) => {}
            Ok(true) => match Node::of(action, stream) {
                Ok(mut node) => {
                    node.set_priority(priority);
                    node.places.extend_from_slice(places);
                    node.follow_as(known);
                    self.changes.push((number, node));
                }
                Err(error) => self.mismatch = Some(error.to_string()),
            },
            Err(why) => self.mismatch = Some(format!("operation {number}: {why}")),
        }
    }

    /// Compares a node of a graph within the graph with the next node.
    pub(super) fn node(&mut self, mut node: Node) {
        let number = self.next;
        self.next += 1;
        let Some(known) = self.known.get(number).filter(|_| self.mismatch.is_none()) else {
            return;
        };
        match known.differs(&node) {
            Ok(false) => {}
            Ok(true) => {
                node.follow_as(known);
                self.changes.push((number, node));
            }
            Err(why) => self.mismatch = Some(format!("operation {number}: {why}")),
        }
    }

    /// Why the recording is another graph, if it is.
    pub(super) fn mismatch(&self) -> Option<String> {
        let (had, has) = (self.known.len(), self.next);
        if had != has {
            return Some(format!("the graph had {had} operations, and has {has} now"));
        }
        self.mismatch.clone()
    }
}
