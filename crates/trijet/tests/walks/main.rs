//! The ways of calls through the code: what ARCHITECTURE.md states of six walks is true, and a call
//! goes down through the floors.
//!
//! A test runs a program on the simulated host device, where all work happens on the calling thread.
//! While the program makes the calls of a walk, the allocator of this program keeps the stack of
//! every call to the heap. Most steps of a call use the heap at some time, so the stacks show how
//! the code gets there. The files come from line tables, which name inlined functions too; the
//! profile `walks` has them.

mod page;
mod programs;
mod stacks;

use page::{Row, document, doors, floors, folder, walks};
use std::collections::BTreeMap;
use trijet::Result;

/// The path of a source file of the library is one of these, then the path in ARCHITECTURE.md.
const SOURCES: [&str; 2] = ["crates/trijet/src/", "crates/trijet-ledger/src/"];

/// The path of a source file of this program.
const PROGRAM: &str = "tests/walks/";

/// The folder that any other folder may call on its way. It also calls functions of its callers.
const SERVING: &str = "base";

/// A file that calls functions of its callers and enters no folder by itself: it names the work of a
/// task for the time of a call.
const CALLS_BACK: &str = "log/task_name.rs";

/// The files of the library on a stack, from the outermost call to the innermost, without the
/// lines: a list for each call that the program makes. A function of the program that the library
/// calls makes the next one.
fn calls(stack: &str) -> Vec<Vec<&str>> {
    let mut calls = vec![Vec::new()];
    let places = stack.lines().rev().filter_map(|line| line.trim_start().strip_prefix("at "));
    for place in places {
        if place.contains(PROGRAM) {
            calls.push(Vec::new());
            continue;
        }
        let ours = SOURCES.iter().find_map(|sources| place.rsplit_once(sources));
        let Some(file) = ours.and_then(|(_, file)| file.split(':').next()) else { continue };
        if folder(file) != SERVING && file != CALLS_BACK {
            calls.last_mut().expect("there is one").push(file);
        }
    }
    calls.retain(|files| !files.is_empty());
    calls
}

/// The folders of a list of files. Equal neighbours count once.
fn folders<'a>(files: &[&'a str]) -> Vec<&'a str> {
    let mut folders: Vec<&str> = files.iter().map(|file| folder(file)).collect();
    folders.dedup();
    folders
}

/// The first folder that a way leaves and enters again.
fn entered_again<'a>(way: &[&'a str]) -> Option<&'a str> {
    let mut folders = way.iter().enumerate();
    folders.find(|(at, folder)| way[..*at].contains(folder)).map(|(_, folder)| *folder)
}

/// The steps of a way to an upper floor.
fn climbs<'a>(way: &[&'a str], floors: &BTreeMap<&str, u8>) -> Vec<(&'a str, &'a str)> {
    let floor = |folder| floors.get(folder).expect("each folder is on a floor");
    let steps = way.iter().zip(way.iter().skip(1));
    steps.filter(|(from, to)| floor(*from) < floor(*to)).map(|(from, to)| (*from, *to)).collect()
}

/// The objection to a way. It enters no folder twice, and goes up once at most, through a door.
fn objection(way: &[&str], floors: &BTreeMap<&str, u8>, doors: &[(&str, &str)]) -> Option<String> {
    if let Some(folder) = entered_again(way) {
        return Some(format!("`{folder}` is entered again"));
    }
    match climbs(way, floors)[..] {
        [] => None,
        [door] if doors.contains(&door) => None,
        [(from, to)] => Some(format!("there is no door from `{from}` to `{to}`")),
        ref several => Some(format!("it goes up more than once: {several:?}")),
    }
}

/// Whether `stack` has all of `files` in this order. Others may stand between them.
fn passes(stack: &[&str], files: &[&str]) -> bool {
    let mut stack = stack.iter();
    files.iter().all(|file| stack.any(|passed| passed == file))
}

/// Demands what ARCHITECTURE.md states of a walk.
fn check(walk: &str, stacks: &[String]) {
    let (page, floors_page) = (document("ARCHITECTURE.md"), document("CONTRIBUTING.md"));
    let (doors, floors) = (doors(&page), floors(&floors_page));
    let stacks: Vec<Vec<Vec<&str>>> = stacks.iter().map(|stack| calls(stack)).collect();
    assert!(stacks.iter().any(|calls| !calls.is_empty()), "no line tables: use --profile walks");
    for files in stacks.iter().flatten() {
        assert_eq!(objection(&folders(files), &floors, &doors), None, "{files:#?}");
    }
    let rows = walks(&page);
    let rows: Vec<&Row<'_>> = rows.iter().filter(|row| row.walk == walk).collect();
    assert!(!rows.is_empty(), "ARCHITECTURE.md describes the walk of a {walk}");
    for Row { call, files, .. } in rows {
        let found = stacks.iter().any(|calls| passes(&calls.concat(), files));
        assert!(found, "no stack of `{call}` passes {files:?}");
    }
}

/// The ways of the calls of a chunk are those of the table, in the order of the table, and no other
/// one reaches the driver.
#[test]
fn one_chunk_enters_each_folder_once_as_the_architecture_says() -> Result<()> {
    let stacks = programs::chunk()?;
    check("chunk", &stacks);
    let page = document("ARCHITECTURE.md");
    let rows = walks(&page);
    let ways: Vec<Vec<&str>> =
        rows.iter().filter(|row| row.walk == "chunk").map(|row| folders(&row.files)).collect();
    let mut to_the_driver = Vec::new();
    for files in stacks.iter().map(|stack| calls(stack).concat()) {
        let mut way = folders(&files);
        assert_eq!(entered_again(&way), None, "{files:#?}");
        way.retain(|folder| *folder != "log");
        assert!(ways.iter().any(|known| known.starts_with(&way)), "not described: {files:#?}");
        if way.contains(&"device") {
            to_the_driver.push(way);
        }
    }
    to_the_driver.dedup();
    assert_eq!(to_the_driver, ways, "the calls of a chunk that reach the driver, in order");
    Ok(())
}

#[test]
fn a_task_goes_down_the_floors() -> Result<()> {
    programs::task().map(|stacks| check("task", &stacks))
}

#[test]
fn a_graph_node_goes_up_through_the_door_of_the_recorder_only() -> Result<()> {
    programs::graph_node().map(|stacks| check("graph node", &stacks))
}

#[test]
fn a_collective_goes_down_the_floors() -> Result<()> {
    programs::collective().map(|stacks| check("collective", &stacks))
}

#[test]
fn a_freed_block_goes_down_the_floors() -> Result<()> {
    programs::freed_block().map(|stacks| check("freed block", &stacks))
}

#[test]
fn an_entry_goes_down_the_floors() -> Result<()> {
    programs::entry().map(|stacks| check("entry", &stacks))
}

/// A stack that goes up from the driver to the ordering in its innermost call.
const BACK: &str = "\
   0: trijet::order::mark::Mark::back
             at /home/a/crates/trijet/src/order/mark.rs:3:1
   1: core::ops::function::FnOnce::call_once
             at /rustc/0/library/core/src/ops/function.rs:250:5
   2: trijet::device::host::driver::submit
             at /home/a/crates/trijet/src/device/host/verbs/driver.rs:2:1
   3: trijet::base::retry
             at /home/a/crates/trijet-ledger/src/base/retry.rs:2:1
   4: trijet::order::gate::Gate::submit
             at /home/a/crates/trijet/src/order/gate.rs:9:1
   5: trijet::order::enqueue::enqueue
             at /home/a/crates/trijet/src/order/enqueue.rs:9:1
";

#[test]
fn a_stack_that_goes_back_is_refused() {
    let files = calls(BACK).concat();
    let down = ["order/enqueue.rs", "order/gate.rs", "device/host/verbs/driver.rs"];
    assert_eq!(files, [&down[..], &["order/mark.rs"]].concat());
    assert_eq!(folders(&files), ["order", "device", "order"]);
    assert_eq!(entered_again(&folders(&files)), Some("order"));
    assert_eq!(entered_again(&folders(&down)), None);
}

#[test]
fn a_way_goes_up_once_and_through_a_door() {
    let floors = BTreeMap::from([("device", 0), ("heap", 1), ("memory", 2), ("graph", 3)]);
    let doors = [("heap", "memory"), ("memory", "graph")];
    let refused = |way: &[&str]| objection(way, &floors, &doors).is_some();
    assert!(!refused(&["graph", "memory", "device"]));
    assert!(!refused(&["heap", "memory", "device"]), "through a door");
    assert!(refused(&["device", "memory"]), "without a door");
    assert!(refused(&["heap", "memory", "graph"]), "twice");
    assert!(refused(&["memory", "heap", "memory"]), "to a folder that it has left");
}

#[test]
fn a_function_of_the_program_makes_a_call_of_its_own() {
    let stack = "at /a/crates/trijet/src/order/gate.rs:1:1\n at /a/crates/trijet/src/memory/copy.rs:1\n\
                 at ./tests/walks/programs.rs:1:1\n at /a/crates/trijet/src/task/core.rs:1:1\n";
    assert_eq!(calls(stack), [vec!["task/core.rs"], vec!["memory/copy.rs", "order/gate.rs"]]);
}

#[test]
fn a_stack_passes_files_in_their_order_only() {
    let stack = ["pipeline/run.rs", "pipeline/run/drive.rs", "memory/copy.rs", "order/gate.rs"];
    assert!(passes(&stack, &["pipeline/run/drive.rs", "order/gate.rs"]));
    assert!(!passes(&stack, &["order/gate.rs", "pipeline/run/drive.rs"]));
    assert!(!passes(&stack, &["pipeline/run/drive.rs", "launch/kernel.rs", "order/gate.rs"]));
}
