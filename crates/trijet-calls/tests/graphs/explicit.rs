//! Graphs that calls build node by node.

use crate::calls::*;

const A: u64 = 0x11;
const B: u64 = 0x12;
const C: u64 = 0x13;

#[test]
fn nodes_with_an_edge_have_no_conflict_and_nodes_without_one_are_an_error() {
    let built = |after: &[u64]| {
        let mut calls = Calls::new();
        calls.mark("fill").fill_node(A, &[], DATA);
        calls.mark("copy").copy_node(B, after, DATA, DATA + 4096);
        calls.mark("").launch();
        calls
    };
    built(&[A]).assert_silent("edge");
    let calls = built(&[]);
    assert_eq!(calls.classes(), [vec!["RACE/RAW"], vec![]]);
    let found = calls.judged();
    assert_eq!(marks(&found, &found.errors[0]), ["fill", "copy"]);
}

#[test]
fn edges_can_be_added_and_removed_later() {
    let edges = |calls: &mut Calls, name: &str| {
        calls.call(name, &[GRAPH, 0x77, 0x78, 2, A, B, B, C]);
    };
    let built = |names: &[&str]| {
        let mut calls = Calls::new();
        for node in [C, B, A] {
            calls.fill_node(node, &[], DATA);
        }
        for name in names {
            edges(&mut calls, name);
        }
        calls.launch();
        calls
    };
    built(&["cuGraphAddDependencies"]).assert_silent("added");
    let all = ["cuGraphAddDependencies", "cuGraphRemoveDependencies"];
    assert_eq!(built(&all).classes()[0], ["RACE/WAW", "RACE/WAW"]);
}

/// An edge with a type of its own may let the second node begin earlier.
#[test]
fn a_conflict_over_a_programmatic_edge_is_possible() {
    let built = |data: u64| {
        let mut calls = Calls::new();
        calls.fill_node(A, &[], DATA);
        calls.fill_node(B, &[], DATA);
        calls.call("cuGraphAddDependencies_v2", &[GRAPH, 0x77, 0x78, 0x79, 1, A, B, data]);
        calls.launch();
        calls
    };
    built(0).assert_silent("default");
    assert_eq!(built(1 << 16).classes(), [vec![], vec!["RACE/WAW"]]);
}

#[test]
fn nodes_without_accesses_pass_the_order_on() {
    let plain: [(&str, &[u64]); 7] = [
        ("cuGraphAddEmptyNode", &[]),
        ("cuGraphAddHostNode", &[0x99]),
        ("cuGraphAddKernelNode_v2", &[0x99]),
        ("cuGraphAddEventRecordNode", &[EVENT]),
        ("cuGraphAddEventWaitNode", &[EVENT]),
        // A condition.
        ("cuGraphAddNode", &[13]),
        ("cuGraphAddMemFreeNode", &[MEMORY]),
    ];
    for (name, words) in plain {
        let mut calls = Calls::new();
        calls.fill_node(A, &[], DATA);
        calls.node(name, B, &[A], words);
        calls.fill_node(C, &[B], DATA);
        calls.launch();
        calls.assert_silent(name);
    }
    let mut calls = Calls::new();
    calls.fill_node(A, &[], DATA);
    calls.call("cuGraphAddNode_v2", &[B, GRAPH, 0x77, 0x78, 1, 0, A, 0]);
    calls.fill_node(C, &[B], DATA);
    calls.launch();
    calls.assert_silent("cuGraphAddNode_v2");
}

#[test]
fn a_child_keeps_its_order_and_follows_what_is_before_it() {
    let child = GRAPH + 8;
    let built = |is_ordered: bool, before: &[u64], after: &[u64]| {
        let mut calls = Calls::new();
        let fill = [DATA, 0, 1 << 32, 64, 1, 0];
        let node = |node, after: &[u64]| {
            let first = [node, child, 0x77, after.len() as u64];
            [&first[..], &fill, after].concat()
        };
        calls.call("cuGraphAddMemsetNode", &node(0x21, &[]));
        calls.call("cuGraphAddMemsetNode", &node(0x22, if is_ordered { &[0x21] } else { &[] }));
        calls.fill_node(A, &[], DATA);
        calls.node("cuGraphAddChildGraphNode", B, before, &[child]);
        calls.fill_node(C, after, DATA);
        calls.launch();
        calls
    };
    built(true, &[A], &[B]).assert_silent("ordered");
    assert_eq!(built(false, &[A], &[B]).classes()[0], ["RACE/WAW"]);
    assert_eq!(built(true, &[], &[B]).classes()[0], ["RACE/WAW"]);
    assert_eq!(built(true, &[A], &[A]).classes()[0], ["RACE/WAW"]);
}

/// An update gives a program the nodes of another graph.
#[test]
fn an_update_is_judged_at_the_next_launch() {
    let mut calls = Calls::new();
    calls.fill_node(A, &[], DATA);
    calls.fill_node(B, &[A], DATA);
    calls.launch();
    calls.assert_silent("before");
    calls.call("cuGraphDestroy", &[GRAPH]);
    calls.fill_node(A, &[], DATA);
    calls.fill_node(B, &[], DATA);
    calls.call("cuGraphExecUpdate_v2", &[PROGRAM, GRAPH, 0]);
    calls.assert_silent("not launched");
    calls.call("cuGraphLaunch", &[PROGRAM, ONE]);
    assert_eq!(calls.classes(), [vec!["RACE/WAW"], vec![]]);
}

/// A program keeps the nodes that its graph had when the program was made.
#[test]
fn a_graph_that_grows_after_its_program_was_made_is_another_graph() {
    let mut calls = Calls::new();
    calls.fill_node(A, &[], DATA);
    calls.fill_node(B, &[A], DATA);
    calls.launch();
    calls.fill_node(C, &[A], DATA);
    calls.call("cuGraphLaunch", &[PROGRAM, ONE]);
    calls.assert_silent("before");
    calls.launch();
    assert_eq!(calls.classes(), [vec!["RACE/WAW"], vec![]]);
}

/// A handle of memory that a graph had may be the handle of another graph.
#[test]
fn a_graph_with_a_handle_of_a_former_graph_has_its_own_nodes() {
    for renewed in [("cuGraphDestroy", [GRAPH, 0]), ("cuGraphCreate", [GRAPH, 0])] {
        let mut calls = Calls::new();
        calls.fill_node(A, &[], DATA);
        calls.call(renewed.0, &renewed.1);
        calls.fill_node(B, &[], DATA);
        calls.launch();
        calls.assert_silent(renewed.0);
    }
}

/// Each change after which the order is not known.
#[test]
fn a_graph_whose_order_is_not_known_counts_as_one_operation() {
    let changes: [(&str, &[u64]); 12] = [
        ("cuGraphAddDependencies", &[GRAPH, 0x77, 0x78, 1, A, 0x99]),
        // The lists were too long for the call.
        ("cuGraphAddDependencies", &[GRAPH, 0x77, 0x78, 400]),
        // Another graph, which may be the child of this one.
        ("cuGraphRemoveDependencies", &[0x98, 0x77, 0x78, 1, 0x99, 0x9a]),
        ("cuGraphDestroyNode", &[A]),
        ("cuGraphDestroyNode", &[0x99]),
        ("cuGraphChildGraphNodeGetGraph", &[A, 0x98]),
        ("cuGraphMemsetNodeSetParams", &[A, 0x77]),
        ("cuGraphKernelNodeSetParams_v2", &[0x99, 0x77]),
        // A wait for a semaphore, and an operation on a value in memory.
        ("cuGraphAddNode", &[C, GRAPH, 0x77, 0, 9]),
        ("cuGraphAddNode", &[C, GRAPH, 0x77, 0, 12]),
        ("cuGraphAddEmptyNode", &[C, GRAPH, 0x77, 1, 0x99]),
        ("cuGraphAddEmptyNode", &[C, GRAPH, 0x77, 1000]),
    ];
    for (name, words) in changes {
        let mut calls = Calls::new();
        calls.fill_node(A, &[], DATA);
        calls.fill_node(B, &[], DATA);
        calls.call(name, words);
        calls.launch();
        calls.assert_merged(name);
    }
}

/// A change of one node of a program leaves the accesses of all nodes unknown.
#[test]
fn a_program_with_a_changed_node_has_no_findings() {
    for (name, words) in [
        ("cuGraphExecMemsetNodeSetParams", [PROGRAM, A, 0x77]),
        ("cuGraphNodeSetEnabled", [PROGRAM, A, 0]),
    ] {
        let mut calls = Calls::new();
        calls.fill_node(A, &[], DATA);
        calls.fill_node(B, &[], DATA);
        calls.call("cuGraphInstantiateWithFlags", &[PROGRAM, GRAPH, 0]);
        calls.call(name, &words);
        calls.call("cuGraphLaunch", &[PROGRAM, ONE]);
        let found = calls.judged();
        assert_eq!(calls.classes(), [vec![], vec![]] as [Vec<&str>; 2], "{name}");
        assert_eq!(found.unknown_graphs, 1, "{name}");
    }
}

/// A clone has the edges of its graph, and nodes with handles that no recorded call returned.
#[test]
fn a_clone_has_the_order_of_its_graph() {
    let cloned = |after: &[u64]| {
        let mut calls = Calls::new();
        calls.fill_node(A, &[], DATA);
        calls.fill_node(B, after, DATA);
        calls.call("cuGraphClone", &[GRAPH + 8, GRAPH]);
        calls.call("cuGraphInstantiateWithFlags", &[PROGRAM, GRAPH + 8, 0]);
        calls
    };
    let launch = |mut calls: Calls| {
        calls.call("cuGraphLaunch", &[PROGRAM, ONE]);
        calls
    };
    launch(cloned(&[A])).assert_silent("clone");
    assert_eq!(launch(cloned(&[])).classes()[0], ["RACE/WAW"]);
    let mut calls = cloned(&[]);
    calls.call("cuGraphAddDependencies", &[GRAPH + 8, 0x77, 0x78, 1, A, B]);
    calls.call("cuGraphInstantiateWithFlags", &[PROGRAM, GRAPH + 8, 0]);
    launch(calls).assert_merged("edge of a clone");
}

#[test]
fn memory_of_nodes_is_used_after_its_allocation_and_before_its_free() {
    let built = |use_after: &[u64], free_after: &[u64]| {
        let mut calls = Calls::new();
        let parameters = [&[0; 13][..], &[BYTES, MEMORY]].concat();
        calls.node("cuGraphAddMemAllocNode", A, &[], &parameters);
        calls.fill_node(B, use_after, MEMORY);
        calls.node("cuGraphAddMemFreeNode", C, free_after, &[MEMORY]);
        calls.launch();
        calls
    };
    built(&[A], &[B]).assert_silent("ordered");
    assert_eq!(built(&[A], &[A]).classes()[0], ["LIFETIME/FREE-RACES-USE"]);
    assert_eq!(built(&[], &[A, B]).classes()[0], ["LIFETIME/USE-BEFORE-ALLOC"]);
}

/// A file may have edges in a circle, a graph as its own child, and any count.
#[test]
fn damaged_graphs_are_merged() {
    let mut calls = Calls::new();
    calls.fill_node(A, &[], DATA);
    calls.fill_node(B, &[A], DATA);
    calls.call("cuGraphAddDependencies", &[GRAPH, 0x77, 0x78, 2, B, A, A, A]);
    calls.launch();
    calls.assert_merged("circle");
    let mut calls = Calls::new();
    calls.fill_node(A, &[], DATA);
    for node in 0..60 {
        calls.node("cuGraphAddChildGraphNode", 0x1000 + node, &[], &[GRAPH]);
    }
    calls.launch();
    calls.assert_merged("own child");
    for count in [u64::MAX, u64::MAX / 2 + 1, u64::MAX / 3 + 1, 1 << 40] {
        let mut calls = Calls::new();
        calls.fill_node(A, &[], DATA);
        calls.fill_node(B, &[], DATA);
        calls.call("cuGraphAddDependencies", &[GRAPH, 0x77, 0x78, count, A]);
        calls.call("cuGraphAddDependencies_v2", &[GRAPH, 0x77, 0x78, 0x79, count, A]);
        calls.call("cuGraphAddNode_v2", &[C, GRAPH, 0x77, 0x78, count, 0, A, 0]);
        calls.launch();
        calls.assert_merged(&format!("{count} nodes"));
    }
}

/// Nodes of a graph that is too wide for its clocks count as one operation.
#[test]
fn a_graph_with_many_nodes_takes_no_time_that_grows_with_their_square() {
    let mut wide = Calls::new();
    for node in 0..20_000 {
        wide.fill_node(0x1000 + node, &[], DATA + 64 * (node % 16_000));
    }
    wide.launch();
    wide.assert_merged("wide");
    let mut long = Calls::new();
    for node in 0..20_000_u64 {
        let after = node.checked_sub(2).map(|earlier| 0x1000 + earlier);
        long.fill_node(0x1000 + node, after.as_slice(), DATA + 64 * (node % 2));
    }
    long.launch();
    for _ in 0..20 {
        long.call("cuGraphLaunch", &[PROGRAM, ONE]);
    }
    long.assert_silent("long");
}
