//! Demands on every checked program: it behaves as if it were not checked, and the verdict is about
//! what was recorded of it.

use crate::run::Place;
use crate::tests::Test;
use crate::touching::PREPARED;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command};

/// All tests.
pub(crate) const ALL: &[Test] = &[
    ("a_checked_program_is_recorded_to_its_end", whole),
    ("a_checked_program_that_closes_all_descriptors_keeps_its_files", close_descriptors),
    ("a_checked_program_without_memory_goes_on_and_losses_are_counted", no_memory),
    ("a_full_disk_ends_the_record_of_calls_and_not_the_program", file_limit),
    ("a_checked_program_that_dies_has_no_clean_verdict", dies),
    ("a_signal_is_sent_on_and_the_verdict_is_shown", signals),
    ("a_recorder_of_calls_whose_checker_is_killed_ends_and_removes_its_files", killed_checker),
];

/// The result of a check.
#[derive(Debug)]
struct Checked {
    status: Option<i32>,
    out: String,
    json: Value,
}

impl Checked {
    /// For each process the calls that were recorded, and whether it has an end.
    fn processes(&self) -> Vec<(u64, bool)> {
        let processes = self.json["processes"].as_array().unwrap();
        processes
            .iter()
            .map(|one| {
                assert_eq!(one["errors"], serde_json::json!([]), "{one}");
                (one["calls"].as_u64().unwrap(), one["complete"].as_bool().unwrap())
            })
            .collect()
    }
}

fn command(place: &Place, program: &str) -> Command {
    place.checking(&["--json"], program)
}

fn checked(place: &Place, program: &str) -> Checked {
    finished(place, command(place, program).spawn().unwrap())
}

/// Waits for the end of a check, which leaves nothing behind.
fn finished(place: &Place, child: Child) -> Checked {
    let output = child.wait_with_output().unwrap();
    assert_eq!(std::fs::read_dir(place.path("tmp")).unwrap().count(), 0, "files were left behind");
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), output.stderr);
    let begin = out.find('{').unwrap_or_else(|| panic!("{out}{}", String::from_utf8_lossy(&err)));
    let json = serde_json::from_str(&out[begin..]).unwrap();
    Checked { status: output.status.code(), out: out[..begin].to_owned(), json }
}

fn whole() {
    let once = PREPARED + 3000;
    let cases: [(&str, &[(u64, bool)]); 5] = [
        ("plain 3000", &[(once, true)]),
        ("no-descriptors 3000", &[(once, true)]),
        ("forks 3000", &[(once + 3000, true)]),
        ("background 3000", &[(once, true)]),
        ("daemon 3000", &[(once, true)]),
    ];
    for (program, processes) in cases {
        let found = checked(&Place::new(), program);
        assert_eq!((found.status, &found.processes()[..]), (Some(0), processes), "{program}");
    }
    let found = checked(&Place::new(), "execs 3000");
    let processes = found.processes();
    assert_eq!((processes.len(), processes[1]), (2, (PREPARED + 6000, true)), "{found:?}");
    assert!(!processes[0].1 && found.status == Some(1), "the first has no end: {found:?}");
}

fn close_descriptors() {
    let place = Place::new();
    let found = checked(&place, "close-descriptors 3000");
    assert_eq!(found.processes(), [(PREPARED + 6000, true)]);
    for n in 0..64 {
        assert_eq!(place.read(&format!("own-{n}")), b"own bytes", "file {n}");
    }
}

fn no_memory() {
    let found = checked(&Place::new(), "no-memory 1000");
    assert_eq!(found.out, "alive\n", "{found:?}");
    let lost = found.json["processes"][0]["calls_lost"].as_u64().unwrap();
    assert_eq!(found.processes()[0].0 + lost, PREPARED + 46_000, "{found:?}");
    assert!(lost > 0, "the limit was not reached: {found:?}");
    assert_eq!(found.status, Some(1), "{found:?}");
}

fn file_limit() {
    let found = checked(&Place::new(), "file-limit 100000");
    assert_eq!((found.status, found.out.as_str()), (Some(1), "alive\n"), "{found:?}");
    let (calls, has_end) = found.processes()[0];
    assert!((1000..100_000).contains(&calls) && !has_end, "{found:?}");
}

fn dies() {
    for (program, status) in [("aborts", 128 + 6), ("quits", 1)] {
        let found = checked(&Place::new(), program);
        assert_eq!(found.status, Some(status), "{program}: {found:?}");
        assert!(!found.processes()[0].1, "{program}: {found:?}");
    }
}

fn signals() {
    for (signal, status) in [(Signal::SIGTERM, 3), (Signal::SIGUSR1, 4)] {
        let place = Place::new();
        let mut child = command(&place, "waits-for-signal 1000").spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
        let rest = std::io::read_to_string(out).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(status), "{signal}: {rest}");
        let json: Value = serde_json::from_str(&rest).unwrap();
        assert_eq!(json["processes"][0]["calls"], PREPARED + 1000, "{signal}: {rest}");
        assert_eq!(json["processes"][0]["complete"], true, "{signal}: {rest}");
        assert_eq!(std::fs::read_dir(place.path("tmp")).unwrap().count(), 0, "{signal}");
    }
}

/// Once per second the recorder looks whether its checker runs, so this test takes about a second.
fn killed_checker() {
    let place = Place::new();
    place.kill_while_its_program_runs(&mut command(&place, "waits-for-signal 1000"));
}
