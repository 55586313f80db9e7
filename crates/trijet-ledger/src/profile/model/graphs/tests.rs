//! Launches of CUDA graphs whose times a simulation of their edges has made. The replay of a launch
//! in which one operation takes another time is compared with the simulation of it.
#![forbid(unsafe_code)]

use super::super::super::calls::ProgramCalls;
use super::super::edges::{EdgeKind, index};
use super::super::run::RunModel;
use super::*;
use crate::base::units::Nanos;
use crate::trace::activity::{Activity, ActivityKind, Api, GraphNodeId, NameId, ProcessTrace};
use proptest::collection::vec;
use proptest::prelude::*;

/// The start of the launch's call in nanoseconds.
const START: u64 = 1_000_000;
/// Nanoseconds from the start of the call to the start of a node without nodes before it.
const LATENCY: u64 = 6_000;
const GRAPH: u32 = 6;

/// A node of a graph: its stream, or `None` for a node that leaves no operation, its time in
/// nanoseconds, and the places of the nodes before it.
#[derive(Debug, Clone)]
struct MadeNode {
    stream: Option<u32>,
    length: u64,
    before: Vec<usize>,
}

fn node(stream: u32, length: u64, before: &[usize]) -> MadeNode {
    MadeNode { stream: Some(stream), length, before: before.to_vec() }
}

fn silent(length: u64, before: &[usize]) -> MadeNode {
    MadeNode { stream: None, length, before: before.to_vec() }
}

/// The start and the end of each node in a launch.
fn simulated(nodes: &[MadeNode]) -> Vec<[u64; 2]> {
    let mut times: Vec<[u64; 2]> = Vec::new();
    for one in nodes {
        let ready = one.before.iter().map(|&before| times[before][1]).max();
        let begin = ready.unwrap_or(START + LATENCY);
        times.push([begin, begin + one.length]);
    }
    times
}

fn activity(kind: ActivityKind, [begin, end]: [u64; 2], stream: u32) -> Activity {
    Activity {
        kind,
        begin: Nanos(begin),
        end: Nanos(end),
        bytes: 0,
        name: Some(NameId(0)),
        device: 0,
        context: 1,
        stream,
        thread: 1,
        correlation: 1,
        node: None,
    }
}

/// The number of the node at a place.
fn number(place: usize) -> u64 {
    (u64::from(GRAPH) << 32) + place as u64
}

/// The trace of one launch of a graph.
fn launched(nodes: &[MadeNode]) -> ProcessTrace {
    let mut trace =
        ProcessTrace { names: vec!["cudaGraphLaunch".to_owned()], ..Default::default() };
    let call = activity(ActivityKind::Call(Api::Runtime), [START, START + 5_000], 0);
    trace.activities.push(call);
    for (place, (one, time)) in nodes.iter().zip(simulated(nodes)).enumerate() {
        let edge =
            |&before: &usize| GraphEdge { graph: GRAPH, from: number(before), to: number(place) };
        trace.edges.extend(one.before.iter().map(edge));
        trace.nodes.push(GraphNode { graph: GRAPH, node: Some(number(place)) });
        if let Some(stream) = one.stream {
            let node = Some(GraphNodeId(u32::try_from(place).unwrap()));
            let kernel = activity(ActivityKind::Kernel, time, stream);
            trace.activities.push(Activity { node, ..kernel });
        }
    }
    trace
}

/// The start and the end of each operation in a replay, in the order of the records. The operation
/// at a place of `changed` takes that many nanoseconds.
fn replayed(trace: &ProcessTrace, changed: Option<(usize, u64)>) -> Vec<[u64; 2]> {
    let calls = ProgramCalls::of(trace);
    let model = RunModel::of(trace, &calls).expect("the records have an order");
    let operations: Vec<&Activity> =
        trace.activities.iter().filter(|one| one.engine().is_some()).collect();
    let mut sorted: Vec<usize> = (0..operations.len()).collect();
    sorted.sort_by_key(|&at| (operations[at].begin, operations[at].end));
    let mut begins = vec![0; operations.len()];
    for (placed, &at) in model.operations.iter().zip(&sorted) {
        begins[at] = placed.begin;
    }
    let end = changed.map(|(at, length)| (begins[at] + 1, length));
    let times = model.moments.times(|moment, edge| {
        Some(match end {
            Some((end, length)) if end == moment && edge.kind == EdgeKind::Run => length,
            _ => edge.delay,
        })
    });
    begins.iter().map(|&begin| [begin, begin + 1].map(|at| START + times[index(at)])).collect()
}

/// The times of the operations in a simulation.
fn expected(nodes: &[MadeNode]) -> Vec<[u64; 2]> {
    let times = simulated(nodes).into_iter().zip(nodes);
    times.filter(|(_, one)| one.stream.is_some()).map(|(time, _)| time).collect()
}

/// A, an empty node, B and C on two streams, and D.
fn diamond() -> Vec<MadeNode> {
    vec![
        node(13, 100_000, &[]),
        silent(0, &[0]),
        node(13, 300_000, &[1]),
        node(14, 200_000, &[1]),
        node(13, 50_000, &[2, 3]),
    ]
}

/// The places of A, B and D among the operations.
const A: usize = 0;
const B: usize = 1;
const D: usize = 3;

#[test]
fn an_operation_follows_all_operations_before_it() {
    let nodes = diamond();
    let trace = launched(&nodes);
    assert_eq!(replayed(&trace, None), expected(&nodes));
    for (operation, place) in [(A, 0), (B, 2), (2, 3), (D, 4)] {
        let mut changed = nodes.clone();
        changed[place].length = 10_000;
        let found = replayed(&trace, Some((operation, 10_000)));
        assert_eq!(found, expected(&changed), "operation {operation}");
    }
}

/// B follows C, which ended last, and through an empty node A. D follows B, which ended last, and
/// F. The edges that delayed nothing are in no time of the trace, so no guess replaces them.
#[test]
fn a_replay_without_an_edge_is_another_one() {
    let nodes = [
        node(13, 100_000, &[]),
        silent(0, &[0]),
        node(14, 400_000, &[]),
        node(13, 50_000, &[1, 2]),
        node(15, 60_000, &[0]),
        node(14, 30_000, &[3, 4]),
    ];
    const F: usize = 3;
    let trace = launched(&nodes);
    for (from, to, longer) in [(0, 1, A), (1, 3, A), (4, 5, F)] {
        let mut without = trace.clone();
        without.edges.retain(|one| (one.from, one.to) != (number(from), number(to)));
        assert_eq!(without.edges.len() + 1, trace.edges.len());
        assert_eq!(replayed(&without, None), replayed(&trace, None), "{from} to {to}");
        let changed = Some((longer, 900_000));
        assert_ne!(replayed(&without, changed), replayed(&trace, changed), "{from} to {to}");
    }
}

/// B and C share a stream and have no order, and C begins before B ends.
#[test]
fn operations_of_a_stream_without_a_path_between_them_have_no_order() {
    let nodes = [node(13, 100_000, &[]), node(13, 90_000, &[0]), node(13, 40_000, &[0])];
    let trace = launched(&nodes);
    let found = replayed(&trace, Some((1, 400_000)));
    assert_eq!(found[2], expected(&nodes)[2]);
    let roots = [node(13, 90_000, &[]), node(13, 40_000, &[]), node(13, 5_000, &[0, 1])];
    let found = replayed(&launched(&roots), Some((0, 400_000)));
    assert_eq!(found[1], expected(&roots)[1]);
}

/// A node that leaves no operation may be a function of the host, which takes any time.
#[test]
fn the_time_of_a_node_without_an_operation_remains() {
    for before in [&[0][..], &[]] {
        let nodes = [node(13, 100_000, &[]), silent(700_000, before), node(14, 50_000, &[0, 1])];
        let trace = launched(&nodes);
        assert_eq!(replayed(&trace, None), expected(&nodes));
    }
}

/// The first operation of a launch waits for the kernel that its stream has before it, also if a
/// node without an operation comes first: the driver adds such nodes.
#[test]
fn a_launch_follows_the_work_before_it_in_its_stream() {
    let plain = vec![node(13, 100_000, &[]), node(14, 90_000, &[0])];
    let after_silent =
        vec![silent(0, &[]), silent(0, &[0]), node(13, 100_000, &[1]), node(14, 90_000, &[2])];
    for nodes in [plain, after_silent] {
        let mut trace = launched(&nodes);
        let (early, late) = (START + 800_000, 300_000);
        for one in trace.activities.iter_mut().skip(1) {
            (one.begin.0, one.end.0) = (one.begin.0 + early - START, one.end.0 + early - START);
        }
        let end = START + LATENCY + 800_000;
        let mut kernel = activity(ActivityKind::Kernel, [START - 20_000, end], 13);
        let mut call =
            activity(ActivityKind::Call(Api::Runtime), [START - 30_000, START - 25_000], 0);
        (kernel.correlation, call.correlation) = (2, 2);
        trace.activities.extend([call, kernel]);
        let [before, after] = [None, Some((2, late))].map(|changed| replayed(&trace, changed));
        assert_eq!(before[0][0] - after[0][0], end - (START - 20_000) - late, "{nodes:?}");
        assert_eq!(before[1][0] - after[1][0], before[0][0] - after[0][0], "{nodes:?}");
    }
}

/// Whether the operations of a trace have the order of their edges.
fn is_ordered(trace: &ProcessTrace) -> bool {
    let calls = ProgramCalls::of(trace);
    let sorted = SortedTrace::of(trace, &calls).expect("the trace has operations");
    !sorted.graph_order().places.is_empty()
}

#[test]
fn a_launch_that_contradicts_the_edges_has_no_order_by_them() {
    let good = launched(&diamond());
    assert!(is_ordered(&good));
    let with = |change: fn(&mut ProcessTrace)| {
        let mut trace = good.clone();
        change(&mut trace);
        // The run has a graph of moments nevertheless.
        replayed(&trace, None);
        is_ordered(&trace)
    };
    let edge = |from, to| GraphEdge { graph: GRAPH, from: number(from), to: number(to) };
    let mut cycle = good.clone();
    cycle.edges.extend([edge(2, 9), edge(9, 2)]);
    assert!(!is_ordered(&cycle));
    replayed(&cycle, None);
    let mut backward = good.clone();
    backward.edges.extend([edge(4, 9), edge(9, 3)]);
    assert!(!is_ordered(&backward), "D began after C");
    replayed(&backward, None);
    assert!(!with(|trace| trace.nodes[2].node = trace.nodes[3].node), "a node ran twice");
    assert!(!with(|trace| trace.nodes[2].graph += 1), "a node of another graph");
    assert!(!with(|trace| trace.edges.iter_mut().for_each(|one| one.graph += 1)));
    assert!(!with(|trace| trace.edges.clear()));
}

/// A node whose stream is 12 leaves no operation.
fn graph() -> impl Strategy<Value = Vec<MadeNode>> {
    vec((12_u32..16, 1_u64..400, vec(any::<prop::sample::Index>(), 0..4)), 2..14).prop_map(
        |drawn| {
            let made = drawn.into_iter().enumerate().map(|(place, (stream, length, before))| {
                let mut before: Vec<usize> = match place {
                    0 => Vec::new(),
                    _ => before.iter().map(|one| one.index(place)).collect(),
                };
                before.sort_unstable();
                before.dedup();
                match stream {
                    12 => silent(0, &before),
                    stream => node(stream, length * 1000, &before),
                }
            });
            let mut nodes: Vec<MadeNode> = made.collect();
            // The last node follows all others, so every node has an edge.
            nodes.push(node(13, 5_000, &(0..nodes.len()).collect::<Vec<_>>()));
            nodes
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_replay_of_a_launch_follows_its_edges_and_nothing_else(
        nodes in graph(),
        chosen in any::<prop::sample::Index>(),
        length in 1_u64..400,
    ) {
        let trace = launched(&nodes);
        prop_assert_eq!(replayed(&trace, None), expected(&nodes));
        let seen: Vec<usize> =
            (0..nodes.len()).filter(|&place| nodes[place].stream.is_some()).collect();
        let operation = chosen.index(seen.len());
        let mut changed = nodes.clone();
        changed[seen[operation]].length = length * 1000;
        let found = replayed(&trace, Some((operation, length * 1000)));
        prop_assert_eq!(found, expected(&changed));
    }
}
