//! The edges of a graph: the nodes that each node must follow.
//!
//! Of two nodes in one stream, the later node follows the earlier one. Two nodes in different
//! streams are in conflict if both use the same bytes and at least one of them writes the bytes.
//! Then the later node follows the earlier one. A graph within the graph is a part of a stream. Its
//! nodes follow earlier nodes of that stream, but that stream does not order them among each other.
//! An edge that other edges imply is left out.
#![forbid(unsafe_code)]

use super::node::{ArgumentRange, Node};
use crate::base::interval::RangeMap;

/// The nodes that use the bytes of one range of an argument. The type also describes the nodes of
/// one stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct RangeUsers {
    /// The last node that writes the bytes.
    writer: Option<usize>,
    /// The nodes that read the bytes after `writer` writes them.
    readers: Vec<usize>,
}

/// For one node `n`: the nodes that are complete when `n` is complete. The index is the number of a
/// stream, and the entry is the index of the last such node in that stream. For the stream of `n`,
/// the entry is `n` itself.
type LastNodes = Vec<Option<usize>>;

/// Sets the edges of the nodes. Leaves out the edge with the number `dropped`, counted from 1.
pub(super) fn connect(nodes: &mut [Node], dropped: Option<usize>) {
    let mut all =
        edges(nodes.iter().map(|node| (node.home.stream, &node.within[..], &node.touches[..])));
    if let Some(mut left) = dropped {
        for after in &mut all {
            if (1..=after.len()).contains(&left) {
                after.remove(left - 1);
                break;
            }
            left = left.saturating_sub(after.len());
        }
    }
    for (number, after) in all.into_iter().enumerate() {
        let is_behind_launch = matches!(after[..], [before]
            if nodes[before].is_kernel() && nodes[before].home.stream == nodes[number].home.stream);
        nodes[number].follow(after, is_behind_launch);
    }
}

/// One node: the number of its stream, the numbers of the streams that contain its graph, and the
/// ranges that the node touches. The second list is empty unless the node comes from a graph within
/// the graph.
type NodeUses<'a> = (usize, &'a [usize], &'a [ArgumentRange]);

/// Returns, for each node, the indices of the nodes that it follows, in descending order.
fn edges<'a>(nodes: impl Iterator<Item = NodeUses<'a>>) -> Vec<Vec<usize>> {
    let mut users: Vec<RangeMap<RangeUsers>> = Vec::new();
    let mut last_nodes: Vec<(usize, LastNodes)> = Vec::new();
    // A node counts as a writer of its own stream, and as a reader of the streams to which its
    // graph was added.
    let mut streams: Vec<RangeUsers> = Vec::new();
    let mut all = Vec::new();
    for (number, (stream, within, touches)) in nodes.enumerate() {
        let count = within.iter().chain([&stream]).max().map_or(0, |most| most + 1);
        streams.resize(streams.len().max(count), RangeUsers::default());
        let count = touches.iter().map(|touch| touch.argument + 1).max().unwrap_or(0);
        users.resize_with(users.len().max(count), RangeMap::default);
        let mut candidates = streams[stream].readers.clone();
        candidates.extend(streams[stream].writer);
        candidates.extend(within.iter().filter_map(|within| streams[*within].writer));
        for touch in touches {
            for (_, users) in users[touch.argument].overlapping(touch.range.clone()) {
                candidates.extend(users.writer);
                if touch.mode.writes() {
                    candidates.extend(&users.readers);
                }
            }
        }
        candidates.sort_unstable_by(|a, b| b.cmp(a));
        candidates.dedup();
        let mut before = LastNodes::new();
        // The candidates are visited from the latest to the earliest. A candidate needs no edge if
        // an edge to a later candidate implies it.
        candidates.retain(|earlier| {
            let (stream, of) = &last_nodes[*earlier];
            if before.get(*stream).is_some_and(|known| *known >= Some(*earlier)) {
                return false;
            }
            before.resize(before.len().max(of.len()), None);
            before.iter_mut().zip(of).for_each(|(known, of)| *known = (*known).max(*of));
            true
        });
        before.resize(before.len().max(stream + 1), None);
        before[stream] = Some(number);
        last_nodes.push((stream, before));
        streams[stream] = RangeUsers { writer: Some(number), readers: Vec::new() };
        within.iter().for_each(|within| streams[*within].readers.push(number));
        note(&mut users, touches, number);
        all.push(candidates);
    }
    all
}

/// Registers the uses of a node. A node that reads and writes a range counts as the writer of the
/// range.
fn note(users: &mut [RangeMap<RangeUsers>], touches: &[ArgumentRange], number: usize) {
    let reads = touches.iter().filter(|touch| !touch.mode.writes());
    for touch in reads {
        users[touch.argument]
            .update(touch.range.clone(), RangeUsers::default, |users| users.readers.push(number));
    }
    for touch in touches.iter().filter(|touch| touch.mode.writes()) {
        let written = RangeUsers { writer: Some(number), readers: Vec::new() };
        users[touch.argument]
            .update(touch.range.clone(), RangeUsers::default, |users| *users = written.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ledger::Mode;
    use proptest::prelude::*;
    use std::ops::Range;

    fn conflict(a: &ArgumentRange, b: &ArgumentRange) -> bool {
        a.argument == b.argument
            && a.range.start < b.range.end
            && b.range.start < a.range.end
            && (a.mode.writes() || b.mode.writes())
    }

    fn touch(argument: usize, range: Range<u64>, mode: Mode) -> ArgumentRange {
        ArgumentRange { argument, range, mode }
    }

    fn found(nodes: &[(usize, Vec<ArgumentRange>)]) -> Vec<Vec<usize>> {
        edges(nodes.iter().map(|(stream, touches)| (*stream, &[][..], &touches[..])))
    }

    #[test]
    fn a_diamond_has_four_edges() {
        let (read, write) = (Mode::Read, Mode::Write);
        let nodes = [
            (0, vec![touch(0, 0..8, write)]),
            (0, vec![touch(0, 0..8, read), touch(1, 0..4, write)]),
            (1, vec![touch(0, 0..8, read), touch(1, 4..8, write)]),
            (1, vec![touch(1, 0..8, read), touch(2, 0..8, write)]),
        ];
        assert_eq!(found(&nodes), [vec![], vec![0], vec![0], vec![2, 1]]);
    }

    #[test]
    fn an_edge_of_a_stream_is_left_out_where_another_edge_implies_it() {
        let nodes = [
            (0, vec![touch(0, 0..8, Mode::Read)]),
            (1, vec![touch(0, 0..8, Mode::Write)]),
            (0, vec![touch(0, 0..8, Mode::Read)]),
        ];
        assert_eq!(found(&nodes), [vec![], vec![0], vec![1]]);
    }

    #[test]
    fn a_graph_within_is_a_part_of_its_stream() {
        // Nodes 1 and 2 come from a graph within the graph. They lie between two nodes of stream 0,
        // and have no bytes in common.
        let nodes: [NodeUses<'_>; 4] =
            [(0, &[], &[]), (1, &[0], &[]), (2, &[0], &[]), (0, &[], &[])];
        assert_eq!(edges(nodes.into_iter()), [vec![], vec![0], vec![0], vec![2, 1]]);
    }

    type Drawn = (u8, Vec<(u8, u8, u8, bool)>);

    fn touches(drawn: &[(u8, u8, u8, bool)]) -> Vec<ArgumentRange> {
        let mode = |writes| if writes { Mode::Write } else { Mode::Read };
        let one = |&(argument, start, bytes, writes): &(u8, u8, u8, bool)| {
            let start = u64::from(start);
            touch(usize::from(argument), start..start + u64::from(bytes), mode(writes))
        };
        drawn.iter().map(one).collect()
    }

    proptest! {
        /// The law: a path of edges leads from one node to another exactly if a chain of nodes
        /// connects the two. In this chain, each node conflicts with the next node, or both are in
        /// one stream. No edge is implied by other edges.
        #[test]
        fn edges_are_those_of_conflicts_and_no_more(
            nodes in prop::collection::vec(
                (0u8..3, prop::collection::vec((0u8..2, 0u8..6, 1u8..4, any::<bool>()), 1..3)), 1..14,
            ),
        ) {
            let nodes: Vec<Drawn> = nodes;
            let placed: Vec<_> =
                nodes.iter().map(|(stream, drawn)| (usize::from(*stream), touches(drawn))).collect();
            let after = found(&placed);
            let direct = |i: usize, j: usize| {
                let ((a, x), (b, y)) = (&nodes[i], &nodes[j]);
                let (x, y) = (touches(x), touches(y));
                a == b || x.iter().any(|x| y.iter().any(|y| conflict(x, y)))
            };
            let count = nodes.len();
            let mut wanted = vec![vec![false; count]; count];
            let mut implied = wanted.clone();
            for j in 0..count {
                for i in (0..j).rev() {
                    let by = |has: &dyn Fn(usize, usize) -> bool, all: &[Vec<bool>]| {
                        has(i, j) || (i + 1..j).any(|k| has(k, j) && all[i][k])
                    };
                    wanted[i][j] = by(&direct, &wanted);
                    implied[i][j] = by(&|i, j| after[j].contains(&i), &implied);
                }
            }
            prop_assert_eq!(&wanted, &implied, "{:?} {:?}", &nodes, &after);
            for (j, of) in after.iter().enumerate() {
                for i in of {
                    let superfluous = of.iter().any(|k| k != i && implied[*i][*k]);
                    prop_assert!(!superfluous, "{i} -> {j} is implied: {after:?} of {nodes:?}");
                }
            }
        }
    }
}
