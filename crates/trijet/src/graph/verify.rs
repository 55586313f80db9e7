//! The check of a graph before the graph is created, on devices that are checked. It finds
//! conflicts that the edges do not order.
//!
//! The check compares addresses, and derives the order from the edges alone. It does not know the
//! rules for streams and arguments by which the module `edges` makes the edges. So the check finds
//! mistakes of the module `edges`.
#![forbid(unsafe_code)]

use super::node::{ArgumentRange, Node};
use crate::device::memory::Span;
use std::ops::Range;

/// A use of bytes by a node.
struct TouchedBytes<'a> {
    node: usize,
    touch: &'a ArgumentRange,
    addresses: Range<u64>,
}

/// Looks for two nodes that use the same bytes and that no path of edges orders. At least one of
/// the two writes the bytes. Describes the first such pair. The first `arguments` spans belong to
/// arguments. The other spans are memory of the graph.
pub(super) fn race(nodes: &[Node], spans: &[Span], arguments: usize) -> Option<String> {
    let before = before(nodes);
    let mut accesses = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        for touch in &node.touches {
            let first = spans[touch.argument].address();
            let addresses = first + touch.range.start..first + touch.range.end;
            accesses.push(TouchedBytes { node: number, touch, addresses });
        }
    }
    // The accesses are sorted by their start, so that overlapping accesses follow each other.
    accesses.sort_by_key(|access| access.addresses.start);
    for (index, one) in accesses.iter().enumerate() {
        let behind = accesses[index + 1..].iter();
        for other in behind.take_while(|other| other.addresses.start < one.addresses.end) {
            let (early, late) = if one.node < other.node { (one, other) } else { (other, one) };
            let writes = one.touch.mode.writes() || other.touch.mode.writes();
            if writes && early.node != late.node && !has(&before[late.node], early.node) {
                return Some(describe(nodes, arguments, early, late));
            }
        }
    }
    None
}

fn describe(
    nodes: &[Node],
    arguments: usize,
    early: &TouchedBytes<'_>,
    late: &TouchedBytes<'_>,
) -> String {
    let does =
        |access: &TouchedBytes<'_>| if access.touch.mode.writes() { "writes" } else { "reads" };
    let (a, b) = (early.node, late.node);
    let ArgumentRange { argument, range, .. } = early.touch;
    let memory = match argument.checked_sub(arguments) {
        None => format!("argument {argument}"),
        Some(chunk) => format!("part {chunk} of the graph's own memory"),
    };
    format!(
        "a race: operation {a} (`{}`) {} bytes {range:?} of {memory}, operation {b} (`{}`) {} \
         some of them, and no edge orders the two",
        nodes[a].label(),
        does(early),
        nodes[b].label(),
        does(late)
    )
}

/// For each node, the set of the nodes that precede it, as bits. A node precedes another node if a
/// path of edges leads from it to the other node.
fn before(nodes: &[Node]) -> Vec<Vec<u64>> {
    let words = nodes.len().div_ceil(64);
    let mut all: Vec<Vec<u64>> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let mut bits = vec![0; words];
        for earlier in &node.after {
            bits.iter_mut().zip(&all[*earlier]).for_each(|(bits, earlier)| *bits |= earlier);
            bits[earlier / 64] |= 1 << (earlier % 64);
        }
        all.push(bits);
    }
    all
}

fn has(bits: &[u64], number: usize) -> bool {
    bits[number / 64] & 1 << (number % 64) != 0
}
