//! The launches of CUDA graphs. The operations of a launch have the number of its call, and each
//! operation has the number of its node, which the edges of the graph have too.
#![forbid(unsafe_code)]

use super::super::activities::is_timed;
use super::super::names::readable;
use crate::base::units::Nanos;
use crate::trace::Union;
use crate::trace::activity::{Activity, ActivityKind, CopyDirection, GraphNode, ProcessTrace};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Maximum number of graphs in a profile, and of names of a graph.
const LISTED_MAX: usize = 24;

/// The launches of one graph, over the whole run.
#[derive(Debug)]
pub struct GraphTime {
    /// The number of the graph, as CUPTI numbers instantiated graphs.
    pub graph: u32,
    /// The number of launches.
    pub launches: usize,
    /// The number of nodes that ran; 0 if launches were recorded as a whole.
    pub nodes: usize,
    /// The number of edges between its nodes, with the nodes that left no operation; 0 if they are
    /// unknown.
    pub edges: usize,
    /// The median time of a launch, from the start of its first operation to the end of the last.
    pub launch: Nanos,
    /// The time in which at least one operation of the graph ran.
    pub busy: Nanos,
    /// The nodes by name, by descending total time.
    pub names: Vec<NodeTime>,
}

/// The nodes of a graph with one name.
#[derive(Debug)]
pub struct NodeTime {
    /// The name of the kernel, or the kind of the operation.
    pub name: String,
    /// The number of nodes.
    pub nodes: usize,
    /// The sum of the durations of all runs of these nodes.
    pub total: Nanos,
}

/// The runs of nodes with one name so far.
#[derive(Default)]
struct NodeRuns {
    nodes: BTreeSet<u64>,
    total: u64,
}

/// The graphs of a process with the most time on a GPU.
pub(in crate::profile) fn times(trace: &ProcessTrace) -> Vec<GraphTime> {
    let mut by_graph: BTreeMap<u32, Vec<(&Activity, GraphNode)>> = BTreeMap::new();
    for one in trace.activities.iter().filter(|one| one.engine().is_some() && is_timed(one)) {
        if let Some(node) = trace.node(one) {
            by_graph.entry(node.graph).or_default().push((one, node));
        }
    }
    let mut edges: HashMap<u32, usize> = HashMap::new();
    trace.edges.iter().for_each(|one| *edges.entry(one.graph).or_default() += 1);
    let edges_of = |graph| edges.get(&graph).copied().unwrap_or(0);
    let mut all: Vec<GraphTime> = by_graph
        .into_iter()
        .map(|(graph, runs)| time(trace, graph, edges_of(graph), &runs))
        .collect();
    all.sort_by_key(|one| (Reverse(one.busy), one.graph));
    all.truncate(LISTED_MAX);
    all
}

fn time(
    trace: &ProcessTrace,
    graph: u32,
    edges: usize,
    runs: &[(&Activity, GraphNode)],
) -> GraphTime {
    let mut launches: HashMap<u32, (u64, u64)> = HashMap::new();
    let mut by_name: HashMap<String, NodeRuns> = HashMap::new();
    let mut names: HashMap<_, String> = HashMap::new();
    let mut nodes = BTreeSet::new();
    for (one, GraphNode { node, .. }) in runs {
        let (begin, end) = (one.begin.0, one.end.0);
        let launch = launches.entry(one.correlation).or_insert((begin, end));
        *launch = (launch.0.min(begin), launch.1.max(end));
        nodes.extend(*node);
        // A name is demangled once.
        let name = names.entry((one.kind, one.name)).or_insert_with(|| name(trace, one));
        if !by_name.contains_key(name.as_str()) {
            by_name.insert(name.clone(), NodeRuns::default());
        }
        if let Some(of_name) = by_name.get_mut(name.as_str()) {
            of_name.nodes.extend(*node);
            of_name.total = of_name.total.saturating_add(end - begin);
        }
    }
    let mut lengths: Vec<u64> = launches.values().map(|(begin, end)| end - begin).collect();
    lengths.sort_unstable();
    let mut names: Vec<NodeTime> = by_name
        .into_iter()
        .map(|(name, runs)| NodeTime { name, nodes: runs.nodes.len(), total: Nanos(runs.total) })
        .collect();
    names.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| a.name.cmp(&b.name)));
    names.truncate(LISTED_MAX);
    let busy = Union::of(runs.iter().map(|(one, _)| one.begin.0..one.end.0));
    GraphTime {
        graph,
        launches: launches.len(),
        nodes: nodes.len(),
        edges,
        launch: Nanos(lengths[lengths.len() / 2]),
        busy: busy.length(),
        names,
    }
}

/// The name of an operation of a graph.
fn name(trace: &ProcessTrace, one: &Activity) -> String {
    match one.kind {
        ActivityKind::Kernel => readable(trace.name(one)),
        ActivityKind::Copy { direction, .. } => match direction {
            CopyDirection::Upload => "copy from host to device",
            CopyDirection::Download => "copy from device to host",
            CopyDirection::Within => "copy within the device",
            CopyDirection::Peer => "copy between devices",
            CopyDirection::Host => "copy within the host",
            CopyDirection::Unknown => "copy",
        }
        .to_owned(),
        ActivityKind::Fill => "fill".to_owned(),
        ActivityKind::Sync(_)
        | ActivityKind::Call(_)
        | ActivityKind::Overhead(_)
        | ActivityKind::Mark(_) => String::new(),
    }
}
