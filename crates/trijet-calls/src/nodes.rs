//! The nodes of a graph and the edges between them: the order of its work (law A31).
//!
//! The order of a graph is lost as soon as one edge may be missing, because a missing edge is a
//! false alarm. The work of such a graph counts as one operation.

use crate::call_stack::CallStack;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// Maximum number of nodes, and of edges, of a graph whose order is kept.
const PARTS_MAX: usize = 1 << 20;
/// Maximum number of words in all clocks of a check, which has a clock of a word per chain for each
/// node and edge.
const CLOCK_WORDS_MAX: u64 = 1 << 27;
/// Maximum number of words in clocks that a check keeps at a time.
const HELD_WORDS_MAX: u64 = 1 << 23;

/// The work of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum NodeWork {
    /// Work whose accesses are not known, or none.
    Nothing,
    /// A copy or a fill with this name.
    Declared(&'static str),
    /// A kernel with this number.
    Kernel(u32),
    /// The allocation with this index in the graph.
    Allocation(usize),
    /// A free of the memory at this address.
    Free(u64),
}

/// A node of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct GraphNode {
    pub(crate) work: NodeWork,
    pub(crate) stack: Option<CallStack>,
    /// The accesses of the node among the declared accesses of the graph.
    pub(crate) declared: Range<usize>,
    /// The addresses of the node among the addresses of the graph.
    pub(crate) addresses: Range<usize>,
}

/// How surely an edge orders its two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum EdgeOrder {
    /// The second node begins after the first one has ended.
    Full,
    /// The second node may begin earlier, and perhaps waits by itself.
    Programmatic,
}

/// The first and the last node of what a call added: two nodes for a child graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeEnds {
    pub(crate) first: u32,
    pub(crate) last: u32,
}

/// The nodes of a graph, with its edges.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct GraphNodes {
    list: Vec<GraphNode>,
    /// The edges, by the later node and then the earlier one.
    edges: BTreeMap<(u32, u32), EdgeOrder>,
    is_lost: bool,
}

impl GraphNodes {
    /// Forgets the nodes, because their order is not known.
    pub(crate) fn lose(&mut self) {
        *self = Self { is_lost: true, ..Self::default() };
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// The number of nodes and edges.
    pub(crate) fn parts(&self) -> usize {
        self.list.len() + self.edges.len()
    }

    /// Adds a node without edges.
    pub(crate) fn add(&mut self, node: GraphNode) -> u32 {
        if self.list.len() >= PARTS_MAX {
            self.lose();
        }
        let number = u32::try_from(self.list.len()).unwrap_or(0);
        if !self.is_lost {
            self.list.push(node);
        }
        number
    }

    /// Adds a node without work after others.
    pub(crate) fn join(&mut self, after: &[u32]) -> u32 {
        let work = NodeWork::Nothing;
        let number = self.add(GraphNode { work, stack: None, declared: 0..0, addresses: 0..0 });
        after.iter().for_each(|earlier| self.follow(*earlier, number, EdgeOrder::Full));
        number
    }

    /// Adds an edge.
    pub(crate) fn follow(&mut self, earlier: u32, later: u32, order: EdgeOrder) {
        if self.edges.len() >= PARTS_MAX {
            self.lose();
        }
        if !self.is_lost {
            let known = self.edges.entry((later, earlier)).or_insert(order);
            *known = order.min(*known);
        }
    }

    /// Removes an edge.
    pub(crate) fn unfollow(&mut self, earlier: u32, later: u32) {
        self.edges.remove(&(later, earlier));
    }

    /// Adds the nodes of another graph, whose parts come after `declared` accesses, `addresses` and
    /// `allocations` of this one. `is_child` adds a node before all of them and one after them.
    pub(crate) fn append(&mut self, other: &Self, at: [usize; 3], is_child: bool) -> NodeEnds {
        if other.is_lost || self.parts() + 2 * other.parts() + 2 > PARTS_MAX {
            self.lose();
        }
        let begin = u32::try_from(self.list.len()).unwrap_or(0);
        let ends = |last| NodeEnds { first: begin, last };
        if self.is_lost {
            return ends(begin);
        }
        if is_child {
            self.join(&[]);
        }
        let [declared, addresses, allocations] = at;
        let base = u32::try_from(self.list.len()).unwrap_or(0);
        let later = |range: &Range<usize>, by| range.start + by..range.end + by;
        self.list.extend(other.list.iter().map(|node| GraphNode {
            work: match node.work {
                NodeWork::Allocation(index) => NodeWork::Allocation(index + allocations),
                ref work => work.clone(),
            },
            stack: node.stack,
            declared: later(&node.declared, declared),
            addresses: later(&node.addresses, addresses),
        }));
        let moved =
            other.edges.iter().map(|((to, from), order)| ((to + base, from + base), *order));
        self.edges.extend(moved);
        if !is_child {
            return ends(begin);
        }
        let last = self.join(&[]);
        let followed: HashSet<u32> = other.edges.keys().map(|(_, from)| *from).collect();
        for node in 0..u32::try_from(other.list.len()).unwrap_or(0) {
            if other.before(node).next().is_none() {
                self.follow(begin, base + node, EdgeOrder::Full);
            }
            if !followed.contains(&node) {
                self.follow(base + node, last, EdgeOrder::Full);
            }
        }
        if other.list.is_empty() {
            self.follow(begin, last, EdgeOrder::Full);
        }
        ends(last)
    }

    /// The nodes that a node follows by an edge.
    fn before(&self, node: u32) -> impl Iterator<Item = (u32, EdgeOrder)> + '_ {
        let edges = self.edges.range((node, 0)..=(node, u32::MAX));
        edges.map(|((_, earlier), order)| (*earlier, *order))
    }

    pub(crate) fn node(&self, number: u32) -> &GraphNode {
        &self.list[number as usize]
    }

    /// Whether two nodes or more have accesses.
    pub(crate) fn has_several_works(&self) -> bool {
        let works = self.list.iter().filter(|node| node.work != NodeWork::Nothing);
        works.take(2).count() == 2
    }

    /// A number that differs for graphs whose nodes, edges or accesses differ.
    pub(crate) fn content(&self, accesses: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self, accesses).hash(&mut hasher);
        hasher.finish()
    }

    /// The nodes in an order that follows all edges, and among these in the order of their calls.
    /// `None` for edges in a circle, which no driver accepts.
    fn sorted(&self) -> Option<Vec<u32>> {
        let mut after: Vec<Vec<u32>> = vec![Vec::new(); self.list.len()];
        let mut open = vec![0_usize; self.list.len()];
        for (later, earlier) in self.edges.keys() {
            after.get_mut(*earlier as usize)?.push(*later);
            *open.get_mut(*later as usize)? += 1;
        }
        let roots = (0_u32..).zip(&open).filter(|(_, open)| **open == 0);
        let mut ready: BinaryHeap<_> = roots.map(|(node, _)| Reverse(node)).collect();
        let mut sorted = Vec::with_capacity(self.list.len());
        while let Some(Reverse(node)) = ready.pop() {
            sorted.push(node);
            for later in &after[node as usize] {
                open[*later as usize] -= 1;
                if open[*later as usize] == 0 {
                    ready.push(Reverse(*later));
                }
            }
        }
        (sorted.len() == self.list.len()).then_some(sorted)
    }

    /// The nodes as steps on chains. `None` if a check of them would take too long.
    pub(crate) fn steps(&self) -> Option<Vec<NodeStep>> {
        let sorted = self.sorted()?;
        let chains = NodeChains::of(self, &sorted);
        // The last node that waits for each node.
        let mut last_wait: BTreeMap<u32, u32> = BTreeMap::new();
        let is_wait = |(earlier, later, order): (u32, u32, EdgeOrder)| {
            order != EdgeOrder::Full || chains.of_node(earlier) != chains.of_node(later)
        };
        let mut cost = sorted.len() as u64;
        for node in &sorted {
            for (earlier, order) in self.before(*node) {
                if is_wait((earlier, *node, order)) {
                    cost += 1;
                    last_wait.insert(earlier, *node);
                }
            }
        }
        let width = u64::from(chains.count);
        cost += last_wait.len() as u64 + width;
        // Each chain has a clock from its first node on.
        let is_wide = width.saturating_mul(width) > HELD_WORDS_MAX;
        if is_wide || cost.saturating_mul(width) > CLOCK_WORDS_MAX {
            return None;
        }
        let (mut steps, mut held) = (Vec::new(), width);
        for node in sorted {
            let chain = chains.of_node(node);
            for (earlier, order) in self.before(node) {
                if !is_wait((earlier, node, order)) {
                    continue;
                }
                let from = chains.of_node(earlier);
                steps.push(NodeStep::Wait { chain, earlier, from, order });
                if last_wait[&earlier] == node {
                    steps.push(NodeStep::Forget { chain, node: earlier });
                    held -= 1;
                }
            }
            steps.push(NodeStep::Work { chain, node });
            if last_wait.contains_key(&node) {
                steps.push(NodeStep::Record { chain, node });
                held += 1;
                if held.saturating_mul(width) > HELD_WORDS_MAX {
                    return None;
                }
            }
        }
        Some(steps)
    }
}

/// A step of a graph on a chain: a stream of its own, whose nodes follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeStep {
    Work {
        chain: u32,
        node: u32,
    },
    /// A record of the event of the node.
    Record {
        chain: u32,
        node: u32,
    },
    /// A wait for the event of an earlier node, on the chain `from`.
    Wait {
        chain: u32,
        earlier: u32,
        from: u32,
        order: EdgeOrder,
    },
    /// The event of the node has no further wait.
    Forget {
        chain: u32,
        node: u32,
    },
}

/// The end of a chain: its last node, the number of its nodes, and its spare chains.
#[derive(Debug, Default)]
struct ChainEnd {
    last: u32,
    length: u32,
    spares: VecDeque<SpareChain>,
}

/// A chain whose last node comes before a place of another chain.
#[derive(Debug)]
struct SpareChain {
    from: u32,
    chain: u32,
    last: u32,
}

/// The nodes of a graph in chains, as few as can be found in one pass.
#[derive(Debug)]
struct NodeChains {
    of: Vec<u32>,
    count: u32,
}

impl NodeChains {
    fn of_node(&self, node: u32) -> u32 {
        self.of[node as usize]
    }

    /// A node continues the chain of a node that it follows, if that is the last node of its chain.
    /// The other chains that end at the node are spare from it on: later nodes of its chain, and
    /// nodes that follow one of these, may continue them.
    fn of(nodes: &GraphNodes, sorted: &[u32]) -> Self {
        let mut chains = Self { of: vec![0; sorted.len()], count: 0 };
        // For each chain: its last node, the number of its nodes, and the chains that are spare
        // from one of them on.
        let mut ends: Vec<ChainEnd> = Vec::new();
        let mut places = vec![0_u32; sorted.len()];
        for node in sorted {
            let full = nodes.before(*node).filter(|(_, order)| *order == EdgeOrder::Full);
            let full: Vec<u32> = full.map(|(earlier, _)| earlier).collect();
            let mut ended: Vec<u32> = { full.iter() }
                .filter(|earlier| ends[chains.of_node(**earlier) as usize].last == **earlier)
                .map(|earlier| chains.of_node(*earlier))
                .collect();
            let own = ended.pop().or_else(|| {
                let mut spare = full.iter().filter_map(|earlier| {
                    let place = places[*earlier as usize];
                    let chain = chains.of_node(*earlier) as usize;
                    let is_free = |one: &SpareChain| ends[one.chain as usize].last == one.last;
                    let at = ends[chain].spares.iter().position(is_free)?;
                    ends[chain].spares.drain(..at);
                    let first = ends[chain].spares.front().filter(|one| one.from <= place)?.chain;
                    ends[chain].spares.pop_front();
                    Some(first)
                });
                spare.next()
            });
            let own = own.unwrap_or_else(|| {
                ends.push(ChainEnd::default());
                chains.count += 1;
                chains.count - 1
            });
            let from = ends[own as usize].length;
            let spares = { ended.into_iter() }.map(|chain| SpareChain {
                from,
                chain,
                last: ends[chain as usize].last,
            });
            let spares: Vec<_> = spares.collect();
            let end = &mut ends[own as usize];
            (end.last, end.length) = (*node, from + 1);
            end.spares.extend(spares);
            (chains.of[*node as usize], places[*node as usize]) = (own, from);
        }
        chains
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trijet_ledger::base::prng::Prng;

    /// A chain is an order, so a node must follow the one before it on its chain.
    #[test]
    fn a_node_follows_the_node_before_it_on_its_chain() {
        for seed in 0..2000 {
            let mut draw = Prng::new(seed);
            let density = 1 + draw.below(8);
            let mut nodes = GraphNodes::default();
            let mut pasts: Vec<HashSet<u32>> = Vec::new();
            for node in 0..24 {
                let before: Vec<u32> = (0..node).filter(|_| draw.below(12) < density).collect();
                let mut past: HashSet<u32> = before.iter().copied().collect();
                before.iter().for_each(|one| past.extend(&pasts[*one as usize]));
                nodes.join(&before);
                pasts.push(past);
            }
            let sorted = nodes.sorted().unwrap();
            let chains = NodeChains::of(&nodes, &sorted);
            let mut ends = BTreeMap::new();
            for node in sorted {
                let before = ends.insert(chains.of_node(node), node);
                let is_after = before.is_none_or(|one| pasts[node as usize].contains(&one));
                assert!(is_after, "seed {seed}: {node} is not after {before:?}");
            }
            assert_eq!(ends.len(), chains.count as usize, "seed {seed}");
        }
    }

    #[test]
    fn layers_of_forks_and_joins_need_no_more_chains_than_branches() {
        let mut nodes = GraphNodes::default();
        let mut last = nodes.join(&[]);
        for _ in 0..100 {
            let branches: Vec<u32> = (0..5).map(|_| nodes.join(&[last])).collect();
            last = nodes.join(&branches);
        }
        let chains = NodeChains::of(&nodes, &nodes.sorted().unwrap());
        assert_eq!(chains.count, 5);
    }

    /// Clocks of nodes without edges would need memory that grows with the square of their number.
    #[test]
    fn nodes_in_too_many_chains_have_no_steps() {
        let wide = |count: u32| {
            let mut nodes = GraphNodes::default();
            (0..count).for_each(|_| assert!(nodes.join(&[]) < count));
            nodes.steps().is_some()
        };
        assert_eq!((wide(2800), wide(3000)), (true, false));
    }

    #[test]
    fn edges_in_a_circle_have_no_steps() {
        let mut nodes = GraphNodes::default();
        let (one, two) = (nodes.join(&[]), nodes.join(&[]));
        nodes.follow(one, two, EdgeOrder::Full);
        assert!(nodes.steps().is_some());
        nodes.follow(two, one, EdgeOrder::Full);
        assert_eq!(nodes.steps(), None);
        nodes.unfollow(two, one);
        assert!(nodes.steps().is_some());
    }

    /// A node of a damaged file may name any other.
    #[test]
    fn an_edge_to_a_node_that_is_not_there_has_no_steps() {
        let mut nodes = GraphNodes::default();
        let one = nodes.join(&[]);
        nodes.follow(one, 7, EdgeOrder::Full);
        assert_eq!(nodes.steps(), None);
    }
}
