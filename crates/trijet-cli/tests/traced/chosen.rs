//! The records that the user of a trace chooses: events, graphs, the environment, and records that
//! are left out.

use crate::run::{Place, Traced};
use trijet::trace::activity::{EventUseKind, ProcessTrace, SampleOf};
use trijet::trace::process_file;

/// A program that was traced with these options, and its trace file.
fn traced(options: &[&str], program: &str) -> (Traced, ProcessTrace) {
    traced_by(options, program, "130001")
}

/// The same with another version of CUPTI.
fn traced_by(options: &[&str], program: &str, version: &str) -> (Traced, ProcessTrace) {
    traced_with(options, program, "EMPTY_CUPTI_VERSION", version)
}

/// The same with a variable for the stand-in for CUPTI.
fn traced_with(
    options: &[&str],
    program: &str,
    variable: &str,
    value: &str,
) -> (Traced, ProcessTrace) {
    let place = Place::new();
    let mut command = place.command_with(&[&["-o", "kept.trijet"], options].concat(), program);
    let traced = place.finished(command.env(variable, value).spawn().unwrap());
    assert_eq!(traced.status, Some(0), "{traced:?}");
    let file = std::fs::File::open(place.path("kept.trijet")).unwrap();
    let mut traces = process_file::read(file).unwrap();
    assert_eq!(traces.len(), 1);
    let trace = traces.pop().unwrap();
    assert_eq!(trace.end.unwrap().unknown, 0, "{traced:?}");
    (traced, trace)
}

/// The streams of the events of a trace, with the numbers that they share.
fn events_of(trace: &ProcessTrace) -> Vec<(EventUseKind, u32, Option<u64>)> {
    trace.events.iter().map(|one| (one.what, one.stream, one.sync)).collect()
}

pub(crate) fn events() {
    let (traced, trace) = traced(&["--record", "events"], "uses-events 2");
    let [first, second] = [2, 6].map(|record| Some(record | 1 << 40));
    let (record, wait) = (EventUseKind::Record, EventUseKind::Wait);
    let expected = [(record, 7, first), (wait, 8, first), (record, 7, second), (wait, 8, second)];
    assert_eq!(events_of(&trace), expected, "{traced:?}");
    assert_eq!(traced.processes(), [(14, true)], "records of events are no activities");
}

/// CUPTI before CUDA 12.8 has shorter records. The bytes after them belong to the next record.
pub(crate) fn older_events() {
    let (_, trace) = traced_by(&["--record", "events"], "uses-events 1", "24");
    let expected = [(EventUseKind::Record, 7, None), (EventUseKind::Wait, 8, None)];
    assert_eq!(events_of(&trace), expected);
    assert!(trace.events.iter().all(|one| one.event == 3 && one.correlation > 0));
}

pub(crate) fn nodes() {
    let (traced, trace) = traced(&[], "launches-graphs 3");
    let nodes: Vec<_> = trace.nodes.iter().map(|one| (one.graph, one.node)).collect();
    assert_eq!(nodes, [(6, Some(6 << 32)), (6, Some((6 << 32) + 1))], "{traced:?}");
    let graph = &traced.first("graphs")[0];
    assert_eq!((&graph["launches"], &graph["nodes"]), (&3.into(), &2.into()), "{graph}");
    assert_eq!(graph["by_name"][0]["name"], "stand_in_kernel", "{graph}");
    assert_eq!(graph["median_launch_ns"], 7_900, "{graph}");
}

/// The edges have the numbers of the nodes that ran, and not of the template or of the graph that
/// the driver makes of the copy.
pub(crate) fn edges() {
    let (traced, trace) = traced(&[], "launches-graphs 3");
    let edges: Vec<_> = trace.edges.iter().map(|one| (one.graph, one.from, one.to)).collect();
    assert_eq!(edges, [(6, 6 << 32, (6 << 32) + 1)], "{traced:?}");
    let ran: Vec<_> = trace.nodes.iter().filter_map(|one| one.node).collect();
    assert_eq!(ran, [edges[0].1, edges[0].2]);
    assert_eq!(traced.first("graphs")[0]["edges"], 1, "{traced:?}");
}

pub(crate) fn no_edges_of_launches() {
    let (traced, trace) = traced(&["--graphs", "launch"], "launches-graphs 3");
    assert!(trace.edges.is_empty(), "{traced:?}");
    assert_eq!(traced.first("graphs")[0]["edges"], 0, "{traced:?}");
}

/// The rest of the trace is as with another CUPTI, without a warning.
pub(crate) fn older_graphs() {
    let variable = "EMPTY_CUPTI_WITHOUT_EDGES";
    let (traced, trace) = traced_with(&[], "launches-graphs 3", variable, "1");
    assert!(trace.edges.is_empty(), "{traced:?}");
    assert_eq!((trace.nodes.len(), trace.activities.len()), (2, 9), "{traced:?}");
    assert!(trace.troubles.is_empty() && trace.notes.is_empty(), "{traced:?}");
}

pub(crate) fn launches() {
    let (traced, trace) = traced(&["--graphs", "launch"], "launches-graphs 3");
    assert_eq!(trace.names, ["cudaGraphLaunch_v10000", "CUDA graph 6"]);
    let graph = &traced.first("graphs")[0];
    assert_eq!((&graph["launches"], &graph["nodes"]), (&3.into(), &0.into()), "{graph}");
    let notes = traced.first("notes").to_string();
    assert!(notes.contains("recorded as a whole"), "{notes}");
}

pub(crate) fn environment() {
    let (traced, trace) = traced(&["--record", "environment"], "heats-up 30");
    let count = |of: fn(SampleOf) -> bool| trace.samples.iter().filter(|one| of(one.of)).count();
    assert_eq!(count(|of| matches!(of, SampleOf::Clocks { memory: 2619, reasons: 4, .. })), 30);
    assert_eq!(count(|of| of == SampleOf::Temperature(60)), 30);
    assert_eq!(count(|of| of == SampleOf::Power { power: 500_000, limit: 700_000 }), 30);
    let environment = &traced.first("devices")[0]["environment"];
    assert_eq!(environment["clock_fall"]["from_mhz"], 1980, "{environment}");
    assert_eq!(environment["clock_fall"]["to_mhz"], 1690, "{environment}");
    assert_eq!(environment["low_clock_reasons"][0]["key"], "power_limit", "{environment}");

    let (traced, trace) = self::traced(&[], "heats-up 30");
    assert!(trace.samples.is_empty(), "the environment is not recorded by default");
    assert!(traced.first("devices")[0]["environment"].is_null(), "{traced:?}");
}

pub(crate) fn no_samples() {
    let has_note = |traced: &Traced| traced.first("notes").to_string().contains("has no samples");
    let (without, trace) = traced(&["--record", "environment"], "plain 4");
    assert!(trace.samples.is_empty() && has_note(&without), "{without:?}");
    let (with, _) = traced(&["--record", "environment"], "heats-up 1");
    assert!(!has_note(&with), "{with:?}");
    let (not_chosen, _) = traced(&[], "plain 4");
    assert!(!has_note(&not_chosen), "{not_chosen:?}");
}

pub(crate) fn left_out() {
    let (traced, trace) = traced(&[], "uses-events 2");
    let records = trace.events.iter().filter(|one| one.what == EventUseKind::Record);
    assert_eq!(records.count(), 0, "{traced:?}");
    let notes = traced.first("notes").to_string();
    assert!(!notes.contains("left out"), "events are no default: {notes}");
    let (traced, trace) = self::traced(&["--record", "ranges"], "allocates 5");
    assert!(trace.allocations.is_empty(), "{traced:?}");
    let notes = traced.first("notes").to_string();
    assert!(notes.contains("left out by choice: allocations"), "{notes}");
}
