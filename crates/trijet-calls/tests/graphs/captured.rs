//! Graphs that are captured: each operation follows its stream, and events that were recorded in the
//! capture.

use crate::calls::*;

/// A fill, and a fill of the same bytes in the other stream, with a fork and a join.
fn forked(is_ordered: bool) -> Calls {
    let mut calls = Calls::new();
    calls.begin(ONE);
    calls.follow(ONE, TWO, EVENT);
    calls.mark("fill").fill(ONE, DATA);
    if is_ordered {
        calls.mark("").follow(ONE, TWO, EVENT);
    }
    calls.mark("copy").copy(TWO, DATA, DATA + 4096);
    calls.mark("").follow(TWO, ONE, EVENT);
    calls
}

#[test]
fn streams_of_a_capture_that_an_event_orders_have_no_conflict() {
    let mut calls = forked(true);
    calls.end_and_launch(ONE);
    calls.assert_silent("fork and join");
}

#[test]
fn streams_of_a_capture_that_nothing_orders_are_an_error_with_both_calls() {
    let mut calls = forked(false);
    calls.end_and_launch(ONE);
    let found = calls.judged();
    assert_eq!(calls.classes(), [vec!["RACE/RAW"], vec![]]);
    let finding = &found.errors[0];
    assert_eq!(marks(&found, finding), ["fill", "copy"]);
    assert_eq!(
        (finding.ranges.as_slice(), finding.rules[0]),
        (std::slice::from_ref(&(0..64)), "A31")
    );
    assert!(finding.known.starts_with("no path of edges of the graph leads"), "{}", finding.known);
    let text = finding.text(&found.names);
    assert!(text.contains("chain 2 of a graph"), "{text}");
    assert!(found.origin(finding).unwrap().starts_with("1048576 bytes by cuMemAlloc"));
}

#[test]
fn a_graph_is_judged_once_however_often_it_is_launched() {
    let mut calls = forked(false);
    calls.end_and_launch(ONE);
    for _ in 0..5 {
        calls.call("cuGraphLaunch", &[PROGRAM, TWO]);
    }
    // The same content as another program.
    calls.launch();
    let found = calls.judged();
    assert_eq!((found.errors.len(), found.graphs, found.merged_graphs), (1, 7, 0));
}

#[test]
fn a_stream_that_waits_for_two_events_follows_both() {
    let joined = |events: &[u64]| {
        let mut calls = Calls::new();
        calls.begin(ONE);
        calls.follow(ONE, TWO, EVENT);
        calls.follow(ONE, THREE, EVENT);
        calls.fill(TWO, DATA);
        calls.fill(THREE, DATA + 4096);
        calls.call("cuEventRecord", &[EVENT, TWO]);
        calls.call("cuEventRecord", &[OTHER_EVENT, THREE]);
        for event in events {
            calls.call("cuStreamWaitEvent", &[ONE, *event, 0]);
        }
        calls.copy(ONE, DATA, DATA + 8192);
        calls.copy(ONE, DATA + 4096, DATA + 12288);
        calls.end_and_launch(ONE);
        calls
    };
    joined(&[EVENT, OTHER_EVENT]).assert_silent("both");
    assert_eq!(joined(&[EVENT]).classes(), [vec!["RACE/RAW"], vec![]]);
}

/// An event stands for the work before its last record, in the same capture too.
#[test]
fn an_event_that_is_recorded_again_stands_for_the_later_work() {
    let again = |is_recorded_again: bool| {
        let mut calls = Calls::new();
        calls.begin(ONE);
        calls.call("cuEventRecord", &[EVENT, ONE]);
        calls.fill(ONE, DATA);
        if is_recorded_again {
            calls.call("cuEventRecord", &[EVENT, ONE]);
        }
        calls.call("cuStreamWaitEvent", &[TWO, EVENT, 0]);
        calls.fill(TWO, DATA);
        calls.follow(TWO, ONE, EVENT);
        calls.end_and_launch(ONE);
        calls
    };
    again(true).assert_silent("recorded again");
    assert_eq!(again(false).classes(), [vec!["RACE/WAW"], vec![]]);
}

/// A driver refuses such a wait. If it did not, the order would not be known.
#[test]
fn a_wait_for_an_event_from_before_the_capture_orders_nothing_that_is_known() {
    let waiting = |code: u32| {
        let mut calls = Calls::new();
        calls.call("cuEventRecord", &[OTHER_EVENT, ONE]);
        calls.begin(ONE);
        calls.follow(ONE, TWO, EVENT);
        calls.fill(ONE, DATA);
        calls.call_with("cuStreamWaitEvent", &[TWO, OTHER_EVENT, 0], code);
        calls.fill(TWO, DATA);
        calls.follow(TWO, ONE, EVENT);
        calls.end_and_launch(ONE);
        calls
    };
    waiting(0).assert_merged("accepted");
    assert_eq!(waiting(901).classes(), [vec!["RACE/WAW"], vec![]]);
}

/// The side streams of a capture come back to it, and their memory is used in turn.
#[test]
fn side_streams_that_fork_and_join_in_each_layer_have_no_conflict() {
    let mut calls = Calls::new();
    calls.begin(ONE);
    for layer in 0..200 {
        calls.fill(ONE, DATA);
        calls.follow(ONE, TWO, EVENT);
        calls.follow(ONE, THREE, EVENT);
        calls.copy(TWO, DATA, DATA + 4096);
        calls.copy(THREE, DATA, DATA + 8192);
        calls.kernel(TWO, DATA + 4096);
        calls.kernel(THREE, DATA + 8192);
        calls.follow(TWO, ONE, OTHER_EVENT);
        calls.follow(THREE, ONE, EVENT);
        calls.copy(ONE, DATA + 4096, DATA + 12288);
        calls.copy(ONE, DATA + 8192, DATA + 16384 + 64 * (layer % 2));
    }
    calls.end_and_launch(ONE);
    calls.assert_silent("layers");
}

/// A stream that has joined goes on after the capture with work that is not captured.
#[test]
fn a_stream_that_has_left_the_capture_is_a_stream_again() {
    let mut calls = forked(true);
    calls.end_and_launch(ONE);
    calls.follow(ONE, TWO, EVENT);
    calls.fill(TWO, DATA);
    calls.assert_silent("left");
    calls.fill(ONE, DATA);
    assert_eq!(calls.classes(), [vec!["RACE/WAW"], vec![]]);
}

#[test]
fn captures_of_two_threads_at_once_are_two_graphs() {
    let mut calls = Calls::new();
    calls.begin(ONE);
    calls.begin(TWO);
    calls.fill(ONE, DATA);
    calls.fill(TWO, DATA);
    calls.fill(ONE, DATA);
    calls.call("cuStreamEndCapture", &[TWO, GRAPH + 8]);
    calls.end_and_launch(ONE);
    calls.assert_silent("two captures");
}

#[test]
fn a_kernel_of_a_graph_makes_possible_conflicts_only() {
    let mut calls = Calls::new();
    calls.begin(ONE);
    calls.follow(ONE, TWO, EVENT);
    calls.mark("fill").fill(ONE, DATA);
    calls.mark("kernel").kernel(TWO, DATA);
    calls.mark("").follow(TWO, ONE, EVENT);
    calls.end_and_launch(ONE);
    assert_eq!(calls.classes(), [vec![], vec!["RACE/RAW"]]);
    let found = calls.judged();
    assert_eq!(marks(&found, &found.possible[0].finding), ["fill", "kernel"]);
}

/// Memory of the graph is used after its allocation and before its free, and its addresses are
/// given out again.
#[test]
fn memory_of_a_capture_is_used_between_its_allocation_and_its_free() {
    let with_memory = |is_ordered: [bool; 2]| {
        let mut calls = Calls::new();
        calls.begin(ONE);
        calls.follow(ONE, TWO, EVENT);
        for _ in 0..2 {
            calls.call("cuMemAllocAsync", &[MEMORY, BYTES, ONE]);
            if is_ordered[0] {
                calls.follow(ONE, TWO, EVENT);
            }
            calls.fill(TWO, MEMORY);
            if is_ordered[1] {
                calls.follow(TWO, ONE, EVENT);
            }
            calls.call("cuMemFreeAsync", &[MEMORY, ONE]);
        }
        calls.follow(TWO, ONE, EVENT);
        calls.end_and_launch(ONE);
        calls.call("cuGraphLaunch", &[PROGRAM, TWO]);
        calls
    };
    with_memory([true, true]).assert_silent("ordered");
    let found = with_memory([false, true]).classes();
    assert_eq!(found[0][0], "LIFETIME/USE-BEFORE-ALLOC", "{found:?}");
    let found = with_memory([true, false]).classes();
    assert_eq!(found[0][0], "LIFETIME/FREE-RACES-USE", "{found:?}");
}

/// Each way to an order that is not known makes the nodes of the graph one operation.
#[test]
fn a_capture_whose_order_is_not_known_counts_as_one_operation() {
    let calls: [(&str, &[u64]); 6] = [
        ("cuStreamUpdateCaptureDependencies", &[TWO, 0x77, 1, 0]),
        ("cuStreamUpdateCaptureDependencies_v2", &[TWO, 0x77, 0, 1, 1]),
        ("cuStreamWaitValue32_v2", &[TWO, DATA + 4096, 1, 0]),
        ("cuStreamBatchMemOp_v2", &[TWO, 1, 0, 0]),
        ("cuWaitExternalSemaphoresAsync", &[0, 0, 1, TWO]),
        // The graph of a capture and its nodes are known by other calls only.
        ("cuGraphAddDependencies", &[GRAPH, 0x77, 0x78, 1, 0x11, 0x12]),
    ];
    for (name, words) in calls {
        let mut program = Calls::new();
        program.begin(ONE);
        program.follow(ONE, TWO, EVENT);
        program.fill(ONE, DATA);
        program.call(name, words);
        program.fill(TWO, DATA);
        program.follow(TWO, ONE, EVENT);
        program.end_and_launch(ONE);
        program.assert_merged(name);
    }
}

/// A graph that waits for the event that it records may order its nodes by that.
#[test]
fn an_event_of_the_program_may_order_the_nodes_of_a_graph() {
    let mut calls = Calls::new();
    calls.begin(ONE);
    calls.follow(ONE, TWO, EVENT);
    calls.fill(ONE, DATA);
    calls.call("cuEventRecordWithFlags", &[OTHER_EVENT, ONE, 1]);
    calls.call("cuStreamWaitEvent", &[TWO, OTHER_EVENT, 1]);
    calls.fill(TWO, DATA);
    calls.follow(TWO, ONE, EVENT);
    calls.end_and_launch(ONE);
    calls.assert_merged("external event");
}

#[test]
fn a_capture_to_a_graph_follows_its_nodes_only_by_edges() {
    let captured = |after: u64| {
        let mut calls = Calls::new();
        calls.fill_node(0x11, &[], DATA);
        calls.call("cuStreamBeginCaptureToGraph", &[ONE, GRAPH, 0x77, 0, after, 0]);
        calls.fill(ONE, DATA);
        calls.end_and_launch(ONE);
        calls
    };
    captured(1).assert_merged("after nodes");
    assert_eq!(captured(0).classes(), [vec!["RACE/WAW"], vec![]]);
}

#[test]
fn a_file_of_an_earlier_recorder_has_no_order_of_nodes() {
    let mut calls = Calls::of_earlier_recorder();
    calls.begin(ONE);
    calls.follow(ONE, TWO, EVENT);
    calls.fill(ONE, DATA);
    calls.fill(TWO, DATA);
    calls.follow(TWO, ONE, EVENT);
    calls.end_and_launch(ONE);
    calls.assert_merged("earlier recorder");
}

/// A program that is launched into a capture is a child: its nodes follow the stream.
#[test]
fn a_launch_in_a_capture_keeps_the_order_inside_of_it() {
    let launched = |is_ordered: bool| {
        let mut calls = forked(is_ordered);
        calls.call("cuStreamEndCapture", &[ONE, GRAPH]);
        calls.call("cuGraphInstantiateWithFlags", &[PROGRAM, GRAPH, 0]);
        calls.begin(ONE);
        calls.fill(ONE, DATA);
        calls.call("cuGraphLaunch", &[PROGRAM, ONE]);
        calls.fill(ONE, DATA + 4096);
        calls.call("cuStreamEndCapture", &[ONE, GRAPH + 8]);
        calls.call("cuGraphInstantiateWithFlags", &[PROGRAM + 8, GRAPH + 8, 0]);
        calls.call("cuGraphLaunch", &[PROGRAM + 8, ONE]);
        calls
    };
    launched(true).assert_silent("ordered");
    let calls = launched(false);
    let found = calls.judged();
    let expected = [["fill".to_owned(), "copy".to_owned()]].into_iter().collect();
    assert_eq!(pairs(&found, found.errors.iter()), expected);
}
