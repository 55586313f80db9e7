//! The edges of a graph: what each node must follow.
//!
//! Nodes of one stream follow each other. A node of another stream follows those that use the same bytes,
//! of which one writes them. An edge that others imply is left out.
#![forbid(unsafe_code)]

use super::node::Place;
use crate::base::id::LaneId;
use std::collections::HashMap;

/// The nodes so far, with what each of them follows.
#[derive(Debug, Default)]
pub(super) struct Edges {
    nodes: Vec<Known>,
    /// The last node of each stream.
    last: HashMap<LaneId, usize>,
}

/// A node and what comes before it.
#[derive(Debug)]
struct Known {
    lane: LaneId,
    places: Vec<Place>,
    /// The last node of each stream that comes before this one or is this one.
    before: HashMap<LaneId, usize>,
}

fn conflict(a: &Place, b: &Place) -> bool {
    a.argument == b.argument
        && a.range.start < b.range.end
        && b.range.start < a.range.end
        && (a.mode.writes() || b.mode.writes())
}

impl Edges {
    /// Whether a node is in this stream.
    pub(super) fn is_in(&self, node: usize, lane: LaneId) -> bool {
        self.nodes[node].lane == lane
    }

    /// Adds a node of a stream. Returns the nodes that it follows, latest first.
    pub(super) fn add(&mut self, lane: LaneId, places: &[Place]) -> Vec<usize> {
        let number = self.nodes.len();
        let mut after = Vec::new();
        let mut before: HashMap<LaneId, usize> = HashMap::new();
        let last = self.last.get(&lane).copied();
        // From the latest one, so that what it implies needs no edge.
        for (earlier, node) in self.nodes.iter().enumerate().rev() {
            let is_implied = before.get(&node.lane).is_some_and(|known| *known >= earlier);
            let in_conflict = || places.iter().any(|a| node.places.iter().any(|b| conflict(a, b)));
            if is_implied || (last != Some(earlier) && !in_conflict()) {
                continue;
            }
            after.push(earlier);
            for (lane, known) in &node.before {
                let entry = before.entry(*lane).or_insert(*known);
                *entry = (*entry).max(*known);
            }
        }
        before.insert(lane, number);
        self.last.insert(lane, number);
        self.nodes.push(Known { lane, places: places.to_vec(), before });
        after
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ledger::Mode;
    use proptest::prelude::*;
    use std::ops::Range;

    fn place(argument: usize, range: Range<u64>, mode: Mode) -> Place {
        Place { argument, range, mode }
    }

    #[test]
    fn a_diamond_has_four_edges() {
        let mut edges = Edges::default();
        let (a, b) = (LaneId(1), LaneId(2));
        let (read, write) = (Mode::Read, Mode::Write);
        assert_eq!(edges.add(a, &[place(0, 0..8, write)]), [] as [usize; 0]);
        assert_eq!(edges.add(a, &[place(0, 0..8, read), place(1, 0..4, write)]), [0]);
        assert_eq!(edges.add(b, &[place(0, 0..8, read), place(1, 4..8, write)]), [0]);
        assert_eq!(edges.add(b, &[place(1, 0..8, read), place(2, 0..8, write)]), [2, 1]);
    }

    #[test]
    fn an_edge_of_a_stream_is_left_out_where_another_edge_implies_it() {
        let mut edges = Edges::default();
        let (a, b) = (LaneId(1), LaneId(2));
        assert_eq!(edges.add(a, &[place(0, 0..8, Mode::Read)]), [] as [usize; 0]);
        assert_eq!(edges.add(b, &[place(0, 0..8, Mode::Write)]), [0]);
        assert_eq!(edges.add(a, &[place(0, 0..8, Mode::Read)]), [1]);
    }

    type Drawn = (u8, Vec<(u8, u8, u8, bool)>);

    fn places(drawn: &[(u8, u8, u8, bool)]) -> Vec<Place> {
        let mode = |writes| if writes { Mode::Write } else { Mode::Read };
        let one = |&(argument, start, bytes, writes): &(u8, u8, u8, bool)| {
            let start = u64::from(start);
            place(usize::from(argument), start..start + u64::from(bytes), mode(writes))
        };
        drawn.iter().map(one).collect()
    }

    proptest! {
        /// The law: one node comes before another exactly if a chain of conflicts and of streams leads
        /// from it there; and no edge is implied by the others.
        #[test]
        fn edges_are_those_of_conflicts_and_no_more(
            nodes in prop::collection::vec(
                (0u8..3, prop::collection::vec((0u8..2, 0u8..6, 1u8..4, any::<bool>()), 1..3)), 1..14,
            ),
        ) {
            let nodes: Vec<Drawn> = nodes;
            let mut edges = Edges::default();
            let after: Vec<Vec<usize>> = nodes
                .iter()
                .map(|(lane, drawn)| edges.add(LaneId(u32::from(*lane)), &places(drawn)))
                .collect();
            let direct = |i: usize, j: usize| {
                let ((a, x), (b, y)) = (&nodes[i], &nodes[j]);
                let (x, y) = (places(x), places(y));
                a == b || x.iter().any(|x| y.iter().any(|y| conflict(x, y)))
            };
            let count = nodes.len();
            let mut wanted = vec![vec![false; count]; count];
            let mut found = wanted.clone();
            for j in 0..count {
                for i in (0..j).rev() {
                    let by = |has: &dyn Fn(usize, usize) -> bool, all: &[Vec<bool>]| {
                        has(i, j) || (i + 1..j).any(|k| has(k, j) && all[i][k])
                    };
                    wanted[i][j] = by(&direct, &wanted);
                    found[i][j] = by(&|i, j| after[j].contains(&i), &found);
                }
            }
            prop_assert_eq!(&wanted, &found, "{:?} {:?}", &nodes, &after);
            for (j, of) in after.iter().enumerate() {
                for i in of {
                    let implied = of.iter().any(|k| k != i && found[*i][*k]);
                    prop_assert!(!implied, "{i} -> {j} is implied: {after:?} of {nodes:?}");
                }
            }
        }
    }
}
