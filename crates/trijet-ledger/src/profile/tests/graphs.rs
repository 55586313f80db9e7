//! The launches of CUDA graphs: their times, their nodes and their names.
#![forbid(unsafe_code)]

use super::*;
use crate::trace::activity::{GraphEdge, GraphNode, GraphNodeId};

/// A graph of three nodes, two of them with the same kernel, which is launched `launches` times.
/// Each launch takes 100 us and leaves 20 us of them unused.
fn launched(launches: u64) -> Scenario {
    let mut scenario = Scenario::new();
    let node = |node| GraphNode { graph: 6, node: Some(node) };
    scenario.trace.nodes = vec![node(10), node(11), node(12)];
    for launch in 0..launches {
        let at = launch * 200;
        scenario.call("cudaGraphLaunch", [at, at + 5]);
        for (number, name, [begin, end]) in
            [(0, "scale", [10, 40]), (1, "scale", [50, 70]), (2, "sum", [80, 110])]
        {
            scenario.kernel(13, [at + begin, at + end]);
            let name = scenario.named(name);
            let last = scenario.trace.activities.last_mut().unwrap();
            (last.name, last.node) = (name, Some(GraphNodeId(number)));
        }
    }
    scenario
}

#[test]
fn operations_of_a_graph_are_grouped_by_launch_and_name() {
    let mut scenario = launched(3);
    scenario.call("cudaLaunchKernel", [900, 905]).kernel(13, [910, 990]);
    let process = scenario.process();
    let [graph] = process.graphs.as_slice() else { panic!("{:?}", process.graphs) };
    assert_eq!((graph.graph, graph.launches, graph.nodes), (6, 3, 3));
    assert_eq!((graph.launch, graph.busy), (Nanos(100_000), Nanos(3 * 80_000)));
    let names: Vec<_> =
        graph.names.iter().map(|one| (one.name.as_str(), one.nodes, one.total.0)).collect();
    assert_eq!(names, [("scale", 2, 150_000), ("sum", 1, 90_000)]);
}

#[test]
fn the_edges_of_a_graph_are_counted() {
    let mut scenario = launched(2);
    let edge = |graph, from| GraphEdge { graph, from, to: from + 1 };
    scenario.trace.edges = vec![edge(6, 10), edge(6, 11), edge(7, 20)];
    let process = scenario.process();
    let [graph] = process.graphs.as_slice() else { panic!("{:?}", process.graphs) };
    assert_eq!((graph.graph, graph.edges), (6, 2));
}

#[test]
fn a_launch_that_was_recorded_as_a_whole_has_no_nodes() {
    let mut scenario = Scenario::new();
    scenario.trace.nodes = vec![GraphNode { graph: 6, node: None }];
    scenario.call("cudaGraphLaunch", [0, 5]).kernel(13, [10, 100]);
    scenario.trace.activities.last_mut().unwrap().node = Some(GraphNodeId(0));
    let process = scenario.process();
    let graph = &process.graphs[0];
    assert_eq!((graph.launches, graph.nodes, graph.busy), (1, 0, Nanos(90_000)));
}

#[test]
fn a_program_without_graphs_lists_none() {
    let mut scenario = Scenario::new();
    scenario.call("cudaLaunchKernel", [0, 5]).kernel(13, [10, 100]);
    assert!(scenario.process().graphs.is_empty());
}
