//! Demands on every traced program: it behaves as if it were not traced, and its work on the GPU is
//! in the trace.

use crate::chosen;
use crate::run::{Place, exists};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::process::Command;

pub(crate) type Test = (&'static str, fn());

pub(crate) const ALL: &[Test] = &[
    ("a_plain_program_is_traced_to_its_end", plain),
    ("the_rank_of_a_process_is_that_of_its_environment", rank),
    ("a_page_is_written_of_a_run_and_of_a_part_of_it", page),
    ("allocations_of_a_program_can_be_replayed", allocations),
    ("the_named_ranges_of_a_program_are_its_steps", named_ranges),
    ("records_of_events_and_waits_for_them_are_matched", chosen::events),
    ("an_older_cupti_numbers_no_waits", chosen::older_events),
    ("the_nodes_of_a_graph_are_grouped_by_launch", chosen::nodes),
    ("the_edges_of_a_graph_are_of_the_nodes_that_ran", chosen::edges),
    ("a_launch_that_is_recorded_as_a_whole_has_no_edges", chosen::no_edges_of_launches),
    ("a_cupti_without_edges_is_no_error", chosen::older_graphs),
    ("a_launch_of_a_graph_is_recorded_as_a_whole_by_choice", chosen::launches),
    ("the_environment_is_recorded_by_choice", chosen::environment),
    ("an_environment_without_samples_has_a_note", chosen::no_samples),
    ("records_that_are_not_chosen_are_left_out_and_named", chosen::left_out),
    ("a_program_that_closes_all_descriptors_keeps_its_files", close_descriptors),
    ("a_program_without_descriptors_is_traced", no_descriptors),
    ("a_program_without_memory_goes_on_and_losses_are_counted", no_memory),
    ("a_full_disk_ends_the_trace_and_not_the_program", file_limit),
    ("a_forked_child_writes_nothing", forks),
    ("a_program_started_in_place_of_another_has_a_trace_of_its_own", execs),
    ("a_program_that_dies_has_a_trace_without_an_end", dies),
    ("a_background_program_is_waited_for", background),
    ("a_daemon_is_waited_for", daemon),
    ("a_signal_ends_the_wait_for_the_background", ends_wait),
    ("a_signal_is_sent_on_and_the_trace_is_shown", signals),
    ("millions_of_records_are_traced", many),
    ("an_unknown_version_of_cupti_is_refused_by_name", unknown_version),
    ("another_subscriber_is_named", another_subscriber),
    ("nothing_traced_is_an_error_and_leaves_no_file", no_cuda),
    ("an_existing_output_is_refused_before_the_program_runs", existing_output),
    ("a_recorder_whose_tracer_is_killed_ends_and_removes_its_files", killed_tracer),
];

fn plain() {
    let place = Place::new();
    let traced = place.trace("plain 5000");
    assert_eq!((traced.status, traced.processes()), (Some(0), vec![(5000, true)]), "{traced:?}");
    assert!(traced.first("command").as_str().unwrap().contains("traced"), "{traced:?}");
    assert_eq!(place.kept(), 1);
}

fn rank() {
    for (set, expected) in [(["5", "3"], Some(3)), (["5", "none"], Some(5)), (["-1", ""], None)] {
        let place = Place::new();
        let mut command = place.command("plain 10");
        for other in ["PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID"] {
            command.env_remove(other);
        }
        command.env("OMPI_COMM_WORLD_RANK", set[0]).env("RANK", set[1]);
        let traced = place.finished(command.spawn().unwrap());
        assert_eq!(traced.first("rank").as_u64(), expected, "{set:?}: {traced:?}");
    }
}

fn allocations() {
    let place = Place::new();
    let call = ["--memory", "memory.csv"];
    let traced = place.finished(place.command_with(&call, "allocates 300").spawn().unwrap());
    assert_eq!(traced.status, Some(0), "{traced:?}");
    let text = String::from_utf8(place.read("memory.csv")).unwrap();
    let count = |action: &str| text.lines().filter(|line| line.contains(action)).count();
    assert_eq!((count("allocate"), count("free")), (300, 300), "{text}");
    let replay = ["replay", "memory.csv", "--device", "host"];
    let ran = Command::new(env!("CARGO_BIN_EXE_trijet"))
        .args(replay)
        .current_dir(place.path(""))
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let again = place.command_with(&call, "plain 2").status().unwrap();
    assert_eq!(again.code(), Some(1), "the file exists already");
}

fn page() {
    let place = Place::new();
    let traced =
        place.finished(place.command_with(&["-o", "whole.html"], "plain 5000").spawn().unwrap());
    assert_eq!(traced.status, Some(0), "{traced:?}");
    let traced = place.trace("plain 5000");
    assert_eq!(traced.status, Some(0), "{traced:?}");
    let call =
        ["trace", "--read", "kept.trijet", "-o", "part.html", "--from", "1ms", "--to", "2ms"];
    let ran = Command::new(env!("CARGO_BIN_EXE_trijet"))
        .args(call)
        .current_dir(place.path(""))
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let page = |name| String::from_utf8(place.read(name)).unwrap();
    let (whole, part) = (page("whole.html"), page("part.html"));
    assert!(
        whole.contains("stand_in_kernel") && !whole.contains("The timeline shows the trace from")
    );
    assert!(part.contains("The timeline shows the trace from 1.00 ms to 2.00 ms"));
}

/// Each part of a program connects itself to the recorder, before or after it uses CUDA.
fn named_ranges() {
    let place = Place::new();
    let traced = place.trace("names-ranges 20");
    assert_eq!((traced.status, traced.processes()), (Some(0), vec![(80, true)]), "{traced:?}");
    let ranges = traced.first("ranges");
    assert_eq!(
        (ranges[0]["name"].as_str(), ranges[0]["ranges"].as_u64()),
        (Some("step #"), Some(20))
    );
    assert_eq!(ranges[0]["operations"].as_u64(), Some(20), "{ranges}");
    assert_eq!(ranges[0]["gpu_busy_ns"].as_u64(), Some(20 * 7_000), "{ranges}");
    let steps = &traced.first("devices")[0]["steps"];
    assert_eq!((steps["range"].as_str(), steps["count"].as_u64()), (Some("step #"), Some(20)));
    assert_eq!(steps["time_per_step"]["median_ns"].as_u64(), Some(10_000), "{steps}");
}

fn close_descriptors() {
    let place = Place::new();
    let traced = place.trace("close-descriptors 5000");
    assert_eq!((traced.status, traced.processes()), (Some(0), vec![(10_000, true)]), "{traced:?}");
    for n in 0..64 {
        assert_eq!(place.read(&format!("own-{n}")), b"own bytes", "file {n}");
    }
}

fn no_descriptors() {
    let traced = Place::new().trace("no-descriptors 5000");
    assert_eq!((traced.status, traced.processes()), (Some(0), vec![(5000, true)]), "{traced:?}");
}

fn no_memory() {
    let traced = Place::new().trace("no-memory 1000");
    assert_eq!((traced.status, traced.out.as_str()), (Some(0), "alive\n"), "{traced:?}");
    let (kept, dropped) = (traced.processes()[0], &traced.first("dropped_activities"));
    let unknown = traced.first("unknown_activities").as_u64().unwrap();
    assert!(kept.1, "the end is there: {traced:?}");
    assert_eq!(kept.0 + dropped.as_u64().unwrap() + unknown, 46_000, "{traced:?}");
    assert!(dropped.as_u64().unwrap() > 0, "the limit was not reached: {traced:?}");
}

fn file_limit() {
    let place = Place::new();
    let traced = place.trace("file-limit 100000");
    assert_eq!((traced.status, traced.out.as_str()), (Some(0), "alive\n"), "{traced:?}");
    let (kept, has_end) = traced.processes()[0];
    assert!((1000..100_000).contains(&kept) && !has_end, "{traced:?}");
    assert_eq!(place.kept(), 1, "the kept file ends with a whole block");
}

fn forks() {
    let place = Place::new();
    let traced = place.trace("forks 1000");
    assert_eq!((traced.status, traced.processes()), (Some(0), vec![(2000, true)]), "{traced:?}");
}

fn execs() {
    let place = Place::new();
    let traced = place.trace("execs 1000");
    let processes = traced.processes();
    assert_eq!((traced.status, processes.len()), (Some(0), 2), "{traced:?}");
    assert!(!processes[0].1, "the first program has no end: {traced:?}");
    assert_eq!(processes[1], (2000, true), "{traced:?}");
}

fn dies() {
    for (program, status) in [("aborts", 128 + 6), ("quits", 0)] {
        let traced = Place::new().trace(program);
        assert_eq!(traced.status, Some(status), "{program}: {traced:?}");
        let processes = traced.processes();
        assert!(processes.len() == 1 && !processes[0].1, "{program}: {traced:?}");
    }
}

fn background() {
    let traced = Place::new().trace("background 3000");
    assert_eq!((traced.status, traced.processes()), (Some(0), vec![(3000, true)]), "{traced:?}");
}

fn daemon() {
    let place = Place::new();
    let traced = place.trace("daemon 3000");
    assert_eq!((traced.status, traced.processes()), (Some(0), vec![(3000, true)]), "{traced:?}");
    assert!(exists(&place.path("daemon-done")));
}

fn ends_wait() {
    let place = Place::new();
    let mut child = place.command("leaves-one-behind 1000").spawn().unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    err.read_line(&mut line).unwrap();
    assert!(line.contains("waiting for processes in the background"), "{line}");
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    let traced = place.finished(child);
    assert_eq!(traced.status, Some(0), "{traced:?}");
    assert!(traced.processes().len() == 1 && !traced.processes()[0].1, "{traced:?}");
    // The program in the background was not disturbed.
    kill(Pid::from_raw(traced.out.trim().parse().unwrap()), Signal::SIGTERM).unwrap();
}

fn signals() {
    for (signal, status) in [(Signal::SIGTERM, 3), (Signal::SIGUSR1, 4)] {
        let place = Place::new();
        let mut child = place.command("waits-for-signal 1000").spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
        let rest = std::io::read_to_string(out).unwrap();
        let ended = child.wait().unwrap();
        assert_eq!(ended.code(), Some(status), "{signal}: {rest}");
        let json: serde_json::Value = serde_json::from_str(&rest).unwrap();
        assert_eq!(json["processes"][0]["activities"], 1000, "{signal}: {rest}");
        assert_eq!(json["processes"][0]["complete"], true, "{signal}: {rest}");
        assert_eq!(std::fs::read_dir(place.path("tmp")).unwrap().count(), 0, "{signal}");
    }
}

/// Two million, and ten million in `cargo xtask files`, which take five times as long. Nothing is saved,
/// because the recorder's file of ten million takes 0.6 GB of the disk.
fn many() {
    let is_whole = std::env::var("TRIJET_FILES").is_ok_and(|files| files == "all");
    let records: u64 = if is_whole { 10_000_000 } else { 2_000_000 };
    let place = Place::new();
    let program = format!("plain {records}");
    let traced = place.finished(place.command_with(&[], &program).spawn().unwrap());
    assert_eq!(traced.status, Some(0), "{traced:?}");
    let dropped = traced.first("dropped_activities").as_u64().unwrap();
    let (kept, has_end) = traced.processes()[0];
    assert!(has_end && kept + dropped == records, "{traced:?}");
    assert!(kept > records / 10, "{traced:?}");
}

fn unknown_version() {
    let place = Place::new();
    let child = place.command("plain").env("EMPTY_CUPTI_VERSION", "990001").spawn().unwrap();
    let traced = place.finished(child);
    assert_eq!(traced.status, Some(1), "{traced:?}");
    assert!(traced.missing().contains("CUPTI has version 990001"), "{traced:?}");
}

fn another_subscriber() {
    let place = Place::new();
    let child = place.command("plain").env("EMPTY_CUPTI_TAKEN", "1").spawn().unwrap();
    let traced = place.finished(child);
    assert_eq!(traced.status, Some(1), "{traced:?}");
    assert!(traced.missing().contains("another tool in this process"), "{traced:?}");
}

fn no_cuda() {
    let place = Place::new();
    let traced = place.trace("no-cuda");
    assert_eq!(traced.status, Some(1), "{traced:?}");
    assert!(traced.err.contains("error: nothing was traced"), "{traced:?}");
    assert!(!exists(&place.path("kept.trijet")));
}

fn existing_output() {
    let place = Place::new();
    std::fs::write(place.path("kept.trijet"), b"precious").unwrap();
    let output = place.command("close-descriptors").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("kept.trijet: already exists"));
    assert_eq!(place.read("kept.trijet"), b"precious");
    assert!(!exists(&place.path("own-0")), "the program did not run");
}

/// Once per second the recorder checks whether its tracer runs, so this test takes about a second.
fn killed_tracer() {
    let place = Place::new();
    place.kill_while_its_program_runs(&mut place.command("waits-for-signal 1000"));
}
