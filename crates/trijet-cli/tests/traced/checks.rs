//! `trijet check` on programs of this test.

use crate::run::{Place, exists};
use crate::tests::Test;
use serde_json::Value;
use std::process::{Command, Stdio};

/// All tests of `trijet check` on programs.
pub(crate) const ALL: &[Test] = &[
    ("conflicts_of_calls_are_errors_if_nothing_orders_them", conflicts),
    ("a_conflict_with_an_argument_of_a_kernel_is_possible", possible),
    ("a_conflict_with_a_stream_that_waits_for_a_value_is_possible", value_before),
    ("a_graph_accesses_what_was_captured", graph),
    ("nodes_of_a_graph_conflict_if_no_edge_orders_them", nodes),
    ("conflicts_of_kernels_that_were_seen_are_errors", seen_kernels),
    ("kernels_that_could_not_be_seen_are_counted_and_make_no_error", unseen_kernels),
    ("a_launch_with_too_many_tensor_maps_counts_as_not_seen", many_maps),
    ("a_program_that_exits_inside_of_the_capture_ends", exit_inside),
    ("a_check_of_kernels_without_their_library_has_no_verdict", no_sanitizer),
    ("the_text_of_a_verdict_names_both_calls_and_the_memory", text),
    ("a_page_has_the_findings_with_the_calls_around_them", page),
    ("a_program_is_judged_by_what_it_did_before_it_ended", ended),
    ("a_program_without_an_end_has_no_clean_verdict", aborted),
    ("a_program_with_a_profiler_is_not_checked", profiler),
    ("an_access_of_the_host_to_memory_of_a_copy_is_an_error_if_nothing_orders_it", host),
    ("an_access_of_the_host_is_possible_if_work_may_have_told_it", told),
    ("a_program_keeps_its_own_handler_and_its_children", undisturbed),
    ("a_free_waits_for_the_device_only_as_drivers_were_seen_to_do", free),
];

/// The verdict about a program: the exit status, the text on standard error, and the only process.
struct Checked {
    status: Option<i32>,
    err: String,
    process: Value,
}

fn checked(program: &str) -> Checked {
    checked_with(&["--json"], program)
}

fn checked_with(options: &[&str], program: &str) -> Checked {
    let place = Place::new();
    let output = place.checking(options, program).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let json: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    let processes = json["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 1, "{json}");
    Checked { status: output.status.code(), err, process: processes[0].clone() }
}

impl Checked {
    /// The classes of the findings at a level.
    fn classes(&self, level: &str) -> Vec<&str> {
        let findings = self.process[level].as_array().unwrap();
        findings.iter().map(|one| one["class"].as_str().unwrap()).collect()
    }
}

/// The accesses that copies, fills and frees declare are judged, and nothing else is an error.
fn conflicts() {
    let cases: [(&str, &[&str]); 30] = [
        ("copies-race", &["RACE/RAW"]),
        ("refused-wait", &["RACE/RAW"]),
        ("fill-of-part", &["RACE/WAW"]),
        ("batch-race", &["RACE/RAW"]),
        ("box-and-attributes", &["RACE/RAW"]),
        ("uses-before-allocation", &["LIFETIME/USE-BEFORE-ALLOC"]),
        ("uses-after-free", &["LIFETIME/USE-AFTER-FREE"]),
        ("copies-follow", &[]),
        ("batch-follows", &[]),
        ("copies-after-host", &[]),
        ("blocking", &[]),
        ("value", &[]),
        ("batch-of-values", &[]),
        ("semaphore", &[]),
        ("event-of-graph", &[]),
        ("event-of-graph-primed", &[]),
        ("event-before-graph", &["RACE/RAW"]),
        ("frees-of-stream", &["LIFETIME/FREE-RACES-USE"]),
        ("pinned-again", &[]),
        ("graph-in-two-streams", &[]),
        ("frees", &[]),
        ("freed-and-mapped-by-host", &[]),
        ("freed-and-found-in-module", &[]),
        ("found-in-module", &["RACE/WAW"]),
        ("freed-and-of-other-library", &[]),
        ("freed-and-opened", &[]),
        ("graph-memory", &[]),
        ("graph-memory-freed-outside", &[]),
        ("graph-memory-used-early", &["LIFETIME/USE-BEFORE-ALLOC"]),
        ("graph-memory-of-nodes", &["LIFETIME/USE-AFTER-FREE"]),
    ];
    for (program, classes) in cases {
        let found = checked(program);
        assert_eq!(found.classes("errors"), classes, "{program}: {}", found.process);
        assert_eq!(found.classes("possible"), [""; 0], "{program}: {}", found.process);
        assert_eq!(found.status, Some(i32::from(!classes.is_empty())), "{program}");
        assert_eq!(found.process["calls_lost"], 0, "{program}");
        assert!(found.err.is_empty(), "{program}: {}", found.err);
    }
}

/// By the documented edges alone, a free waits for nothing.
fn free() {
    let found = checked_with(&["--json", "--assume", "documented"], "frees");
    assert_eq!(found.classes("errors"), ["LIFETIME/FREE-RACES-USE"], "{}", found.process);
    assert_eq!((checked("frees").status, found.status), (Some(0), Some(1)));
}

/// The wait of a stream for a value may be for work that is enqueued later.
fn value_before() {
    let found = checked("value-before");
    assert_eq!(found.classes("errors"), [""; 0], "{}", found.process);
    assert_eq!(found.classes("possible"), ["RACE/WAR"], "{}", found.process);
}

/// A kernel, whose accesses are not seen, makes no error, and hides none.
fn possible() {
    let found = checked("kernel");
    assert_eq!(found.classes("errors"), [""; 0], "{}", found.process);
    assert_eq!(found.classes("possible"), ["RACE/RAW", "RACE/WAW"], "{}", found.process);
    let pairs = |at: usize| found.process["possible"][at]["pairs"].as_u64();
    assert_eq!([pairs(0), pairs(1)], [Some(3), Some(2)], "{}", found.process);
    let text = found.process["possible"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("possible[RACE/RAW]"), "{text}");
    assert_eq!((found.status, &found.process["kernels"]), (Some(0), &3.into()));
    let found = checked("kernel-follows");
    assert_eq!(found.classes("possible"), [""; 0], "{}", found.process);
    let found = checked("kernel-between");
    assert_eq!(found.classes("errors"), ["RACE/RAW"], "{}", found.process);
}

/// With `--kernels`, what kernels access is known by its addresses.
fn seen_kernels() {
    let cases: [(&str, &[&str], &[&str], u64); 13] = [
        ("seen-kernels", &["RACE/RAW"], &[], 2),
        ("seen-kernels-follow", &[], &[], 2),
        // Both use a granule of 256 bytes, and perhaps not the same bytes of it.
        ("seen-neighbours", &[], &["RACE/WAW"], 2),
        ("seen-part", &[], &[], 1),
        ("seen-graph", &["RACE/RAW"], &[], 1),
        ("seen-graph-follows", &[], &[], 1),
        ("many-seen-kernels", &["RACE/RAW"], &[], 6001),
        ("captured-kernel", &["RACE/WAW"], &[], 2),
        ("seen-tensor", &[], &["RACE/RAW"], 2),
        ("seen-start-of-tensor", &[], &[], 2),
        ("seen-in-parent", &[], &[], 2),
        ("launch-at-thread-exit", &["RACE/RAW"], &[], 2),
        // The handle of a stream that ends during a capture is not used.
        ("stream-ends-during-capture", &["RACE/RAW"], &[], 2),
    ];
    for (program, errors, possible, seen) in cases {
        let found = checked_with(&["--json", "--kernels"], program);
        assert_eq!(found.process["troubles"], serde_json::json!([]), "{program}");
        assert_eq!(found.process["kernels_seen"], seen, "{program}: {}", found.process);
        assert_eq!(found.classes("errors"), errors, "{program}: {}", found.process);
        // The edges of a finding that is an error are no finding of their own.
        assert_eq!(found.classes("possible"), possible, "{program}: {}", found.process);
        for error in found.process["errors"].as_array().unwrap() {
            assert_eq!(error["level"], "seen", "{program}: {error}");
        }
    }
    let found = checked_with(&["--json", "--kernels"], "seen-graph");
    assert_eq!(found.process["graphs_seen"], 1, "{}", found.process);
    assert_eq!(checked("seen-kernels").classes("errors"), [""; 0]);
}

/// A launch with more uses of tensor maps than a table has counts as not seen, and no other one.
fn many_maps() {
    let found = checked_with(&["--json", "--kernels"], "many-maps");
    let counts = (&found.process["kernels"], &found.process["kernels_seen"]);
    assert_eq!(counts, (&2.into(), &1.into()), "{}", found.process);
    assert_eq!(found.classes("errors"), [""; 0], "{}", found.process);
    assert_eq!(found.classes("possible"), ["RACE/WAW"], "{}", found.process);
}

/// A signal handler may end the program while a thread is inside of the capture.
fn exit_inside() {
    let place = Place::new();
    let mut command = place.checking(&["--json", "--kernels"], "seen-kernels");
    let output = command.env("EMPTY_SANITIZER", "exit").output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let process = &json["processes"][0];
    assert_eq!((&process["complete"], &process["kernels_seen"]), (&true.into(), &0.into()));
    assert_eq!(process["errors"], serde_json::json!([]), "{process}");
}

/// Whatever fails in the library, the program goes on, and its kernels count as not seen.
fn unseen_kernels() {
    for fault in ["memory", "patches", "launch", "read"] {
        let place = Place::new();
        let mut command = place.checking(&["--json", "--kernels"], "seen-kernels");
        let output = command.env("EMPTY_SANITIZER", fault).output().unwrap();
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let process = &json["processes"][0];
        assert_eq!(
            (&process["kernels"], &process["kernels_seen"]),
            (&2.into(), &0.into()),
            "{fault}"
        );
        assert_eq!(process["errors"], serde_json::json!([]), "{fault}: {process}");
        assert_eq!(process["possible"][0]["class"], "RACE/RAW", "{fault}: {process}");
        let is_told = !process["troubles"].as_array().unwrap().is_empty();
        assert_eq!(is_told, matches!(fault, "memory" | "patches"), "{fault}: {process}");
    }
}

/// Without the library, or beside another tool, the program runs and nothing is judged.
fn no_sanitizer() {
    for (variable, value) in [("EMPTY_SANITIZER", "subscribe"), ("TRIJET_LIBSANITIZER", "/none")] {
        let place = Place::new();
        let mut command = place.checking(&["--json", "--kernels"], "seen-kernels");
        let output = command.env(variable, value).output().unwrap();
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{json}");
        let trouble = json["processes"][0]["troubles"][0].as_str().unwrap();
        assert!(trouble.contains("Compute Sanitizer API"), "{trouble}");
    }
}

/// Work in a capture is work of each launch of the graph, and of no stream.
fn graph() {
    let found = checked("graph");
    let errors = found.process["errors"].as_array().unwrap();
    assert_eq!(found.classes("errors"), ["RACE/WAW"], "{}", found.process);
    assert_eq!(errors[0]["first"]["label"], "copies and fills of a graph", "{}", found.process);
    assert_eq!(found.process["graphs"], 1);
}

/// The edges come from the lists of nodes in the arguments, and from events in captures.
fn nodes() {
    let cases: [(&str, &[&str], &[&str], u64); 9] = [
        ("nodes-with-edge", &[], &[], 0),
        ("nodes-without-edge", &["RACE/WAW"], &[], 0),
        ("nodes-with-later-edge", &[], &[], 0),
        ("nodes-with-edge-data", &[], &["RACE/WAW"], 0),
        ("nodes-over-empty-node", &[], &[], 0),
        ("nodes-with-long-lists", &[], &[], 1),
        ("captured-race", &["RACE/RAW"], &[], 0),
        ("captured-fork", &[], &[], 0),
        ("captured-and-updated", &[], &[], 1),
    ];
    for (program, errors, possible, merged) in cases {
        let found = checked(program);
        assert_eq!(found.classes("errors"), errors, "{program}: {}", found.process);
        assert_eq!(found.classes("possible"), possible, "{program}: {}", found.process);
        assert_eq!(found.process["graphs_merged"], merged, "{program}: {}", found.process);
        let findings = ["errors", "possible"].map(|level| &found.process[level]);
        for finding in findings.iter().flat_map(|level| level.as_array().unwrap()) {
            for stack in finding["stacks"].as_array().unwrap() {
                assert!(!stack.as_array().unwrap().is_empty(), "{program}: {finding}");
            }
        }
    }
}

/// A text has both calls, the order that is known, and the fix.
fn text() {
    let place = Place::new();
    let output = place.checking(&[], "copies-race").output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    for part in [
        "error[RACE/RAW]",
        "copy to the device",
        "copy to the host",
        "allocation 3: 1048576 bytes by cuMemAlloc, called from",
        "order known:",
        "fix:",
        "called from",
        "1 error\n",
    ] {
        assert!(err.contains(part), "{part}: {err}");
    }
    assert!(output.stdout.is_empty());
    let output = place.checking(&[], "copies-follow").output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("every conflict among the copies, fills and frees"), "{err}");
}

/// The page has the findings, and the numbers and times of calls that the texts have. Without a
/// finding there is no page.
fn page() {
    let place = Place::new();
    let run = |output: &str, program: &str| {
        place.checking(&["-o", output], program).output().unwrap();
    };
    run("race.html", "reads-again");
    let page = String::from_utf8(place.read("race.html")).unwrap();
    // 100 turns of two copies and a wait, before two copies and the read.
    for part in
        ["1 finding", "error[HOST/RAW]: thread 1 (#303)", "#302 copy to the host", "#303 host"]
    {
        assert!(page.contains(part), "{part}");
    }
    let (_, data) = page.split_once("type=\"application/json\">").unwrap();
    let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
    assert_eq!(
        (&data["ofCalls"], &data["hazards"]),
        (&true.into(), &serde_json::json!([[302, 303]]))
    );
    let rows: Vec<_> =
        data["rows"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(rows, ["stream 1", "host thread 1"]);
    run("none.html", "copies-follow");
    assert!(!exists(&place.path("none.html")));
    // Calls that were saved become a page later.
    run("race.calls", "copies-race");
    let saved = |output: &str| {
        Command::new(env!("CARGO_BIN_EXE_trijet"))
            .args(["check", "race.calls", "-o", output])
            .current_dir(place.path(""))
            .output()
            .unwrap()
    };
    assert_eq!(saved("later.html").status.code(), Some(1));
    let page = String::from_utf8(place.read("later.html")).unwrap();
    assert!(page.contains("error[RACE/RAW]") && page.contains("no order"));
    let refused = String::from_utf8(saved("other.calls").stderr).unwrap();
    assert!(refused.contains("has the calls already"), "{refused}");
}

/// Fork, abort, and more calls than wait for the writer at once.
fn ended() {
    let found = checked("forked");
    assert_eq!((found.classes("errors").len(), found.status), (0, Some(0)), "{}", found.process);
    let found = checked("many-calls");
    assert_eq!(found.process["calls"], 20_000 * 6 + 4, "{}", found.process["troubles"]);
    assert_eq!((found.classes("errors").len(), found.status), (0, Some(0)));
}

/// A process that was killed has no end, so nothing was missed is not known.
fn aborted() {
    let place = Place::new();
    let mut child = place.checking(&[], "aborted").stdin(Stdio::piped()).spawn().unwrap();
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(134), "{err}");
    assert!(err.contains("has no end") || err.contains("no call was recorded"), "{err}");
}

/// CUPTI accepts one subscriber: a refusal is told, and is no verdict.
fn profiler() {
    let place = Place::new();
    let mut command = place.checking(&[], "copies-race");
    let output = command.env("EMPTY_CUPTI_TAKEN", "1").output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("has subscribed to CUPTI"), "{err}");
    let output = place.checking(&[], "no-cuda").output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("the program did not initialise CUDA"), "{err}");
    assert_eq!(output.status.code(), Some(1), "{err}");
}

/// The host may use page-locked memory again when it knows that the copy is complete.
fn host() {
    let cases: [(&str, &[&str]); 21] = [
        ("reads-early", &["HOST/RAW"]),
        ("reads-after-other-wait", &["HOST/RAW"]),
        ("reads-after-early-event", &["HOST/RAW"]),
        ("reads-in-other-thread", &["HOST/RAW"]),
        ("reads-end-early", &["HOST/RAW"]),
        ("reads-registered-early", &["HOST/RAW"]),
        ("reads-again", &["HOST/RAW"]),
        ("reads-part", &["HOST/RAW"]),
        ("writes-source-early", &["HOST/WAR"]),
        ("writes-source-of-graph", &["HOST/WAR"]),
        ("writes-early", &["HOST/WAW"]),
        ("reads-after-wait", &[]),
        ("reads-after-event", &[]),
        ("reads-after-elapsed-time", &[]),
        ("reads-after-two-events", &[]),
        ("reads-read-only", &[]),
        ("reads-while-captured", &[]),
        ("reads-source", &[]),
        ("writes-freed", &[]),
        ("writes-unregistered", &[]),
        ("reads-in-child", &[]),
    ];
    for (program, classes) in cases {
        let found = checked(program);
        assert_eq!(found.classes("errors"), classes, "{program}: {}", found.process);
        assert_eq!(found.classes("possible"), [""; 0], "{program}: {}", found.process);
        assert_eq!(found.status, Some(i32::from(!classes.is_empty())), "{program}: {}", found.err);
        if let [_] = classes {
            let stack = found.process["errors"][0]["stacks"][1].to_string();
            assert!(stack.contains("traced"), "{program}: {stack}");
        }
    }
}

/// A host function or a kernel may have told the host that its stream is so far.
fn told() {
    let found = checked("reads-after-kernel-with-memory");
    assert_eq!(found.classes("errors"), [""; 0], "{}", found.process);
    let possible = found.classes("possible");
    assert!(possible.contains(&"HOST/RAW"), "{}", found.process);
    assert_eq!(found.status, Some(0));
    for program in ["reads-after-host-function", "reads-after-value", "reads-after-batch-of-values"]
    {
        let found = checked(program);
        assert_eq!(found.classes("errors"), [""; 0], "{program}: {}", found.process);
        assert_eq!(found.classes("possible"), [""; 0], "{program}: {}", found.process);
    }
}

/// The program's own faults reach its own handler, whenever it set it.
fn undisturbed() {
    for program in ["own-handler", "own-handler-later"] {
        let found = checked(program);
        assert_eq!(found.classes("errors"), ["HOST/RAW"; 2], "{program}: {}", found.process);
        assert_eq!(found.status, Some(1), "{program}: {}", found.err);
    }
    let found = checked("reads-at-once");
    assert_eq!(found.process["calls"], 504 + 500, "{}", found.process);
    let classes = found.classes("errors");
    assert!(classes.iter().all(|class| *class == "HOST/RAW"), "{classes:?}");
}
