//! A graph of tasks in levels. Each task reads the values of its predecessors.

use crate::mix::mix;
use crate::part::part;
use trijet::Result;
use trijet::kernels::{ArgBlock, Read, Update};
use trijet::workers::{Body, Kinds, Program, ProgramSpec, TaskGraph, Worker};

/// The kinds of tasks of [`LAYERED`]. There is one kind.
#[derive(Debug, Clone, Copy)]
pub struct LayeredNodes;

impl Kinds for LayeredNodes {
    const KINDS: &'static [(&'static str, Body)] = &[("node", node)];
}

/// A graph in levels, given by the predecessors of each node.
#[derive(Debug, Clone)]
pub struct Layered {
    /// The predecessors of node `n` are `before[ends[n]..ends[n + 1]]`.
    pub ends: Vec<u32>,
    /// The predecessors of all nodes, node by node.
    pub before: Vec<u32>,
}

impl Layered {
    /// Makes a graph of `levels` levels with `width` nodes each. A node after the first level has
    /// one to three predecessors in the previous level. `width` is at least 1.
    #[must_use]
    pub fn new(levels: u32, width: u32) -> Self {
        let (mut ends, mut before) = (vec![0], Vec::new());
        for number in 0..levels * width {
            let hash = mix(number);
            let many = if number < width { 0 } else { 1 + hash % 3 };
            let first = (number / width).saturating_sub(1) * width;
            let mut own: Vec<u32> =
                (0..many).map(|at| first + (hash / 4 + at * 133) % width).collect();
            own.sort_unstable();
            own.dedup();
            before.append(&mut own);
            ends.push(before.len() as u32);
        }
        Self { ends, before }
    }

    /// The number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len() - 1
    }

    /// Whether there are no nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn before(&self, number: usize) -> &[u32] {
        &self.before[self.ends[number] as usize..self.ends[number + 1] as usize]
    }

    /// The value of each node that a correct run computes.
    #[must_use]
    pub fn values(&self) -> Vec<u32> {
        let mut values = vec![0_u32; self.len()];
        for number in 0..self.len() {
            let sum = self
                .before(number)
                .iter()
                .fold(0_u32, |sum, at| sum.wrapping_add(values[*at as usize]));
            values[number] = mix(number as u32 ^ sum);
        }
        values
    }

    /// The graph of tasks for the workers, with the declared reads and writes of each task.
    ///
    /// # Errors
    /// Never, because each edge goes from one level to the next level.
    pub fn tasks(&self) -> Result<TaskGraph> {
        let mut graph = TaskGraph::new();
        let nodes: Vec<_> = (0..self.len()).map(|_| graph.node(0)).collect();
        for (number, node) in nodes.iter().enumerate() {
            graph.writes(*node, 0, number as u64..number as u64 + 1);
            for at in self.before(number) {
                graph.edge(nodes[*at as usize], *node);
                graph.reads(*node, 0, u64::from(*at)..u64::from(*at) + 1);
            }
        }
        Ok(graph)
    }
}

fn node(w: &mut Worker<'_>, payload: u64) {
    let (ends, before, values) = (w.read::<u32>(0), w.read::<u32>(2), w.shared::<u32>(4));
    let number = payload as u32 as usize;
    let (Some(begin), Some(end)) = (ends.get(number), ends.get(number + 1)) else { return };
    if number >= values.len() {
        return;
    }
    let edges = part(before, *begin, *end).iter().map(|at| *at as usize);
    let edges = edges.filter(|at| *at < values.len());
    let sum = edges.fold(0_u32, |sum, at| sum.wrapping_add(values.get(at)));
    values.set(number, mix(payload as u32 ^ sum));
}

fn check(args: &ArgBlock) -> std::result::Result<(), String> {
    let [ends, _, values] = [0, 1, 2].map(|at| args.spans()[at].elements);
    if ends != values + 1 {
        return Err(format!("{ends} ends for {values} values; one end more than values is needed"));
    }
    Ok(())
}

/// The parameters of [`LAYERED`].
pub type LayeredParams = (Read<u32>, Read<u32>, Update<u32>);

/// Hashes the values of the predecessors of each node. Its arguments are
/// `(&ends, &before, &mut values)`, from a [`Layered`].
pub static LAYERED: Program<LayeredNodes, LayeredParams> = {
    let bodies = concat!(include_str!("../mix.cu"), include_str!("layered.cu"));
    let parameters =
        "const u32* ends, u64 marks, const u32* before, u64 edges, u32* values, u64 length";
    let spec = ProgramSpec::new("layered", bodies, parameters);
    // SAFETY: a node atomically writes its own value. It reads the values that `before` names, as
    // far as `values` has them. `ends` has one word more than `values`, by the check. The index is
    // computed in 64 bits.
    unsafe { Program::declare(spec.check(check)) }
};
