//! Runs that are stopped: by Ctrl-C, by force, and gone on with.

use crate::desk::{Desk, Ran, bytes_of, data_of, noise, numbers_of};
use crate::reference::median;
use std::fs;
use std::process::{Child, Command};

const SHAPE: [usize; 3] = [4, 512, 256];
const ROWS: usize = SHAPE[0] * SHAPE[1];
const RUN: [&str; 10] =
    ["map", "in.npy", "-o", "out.npy", "--op", "median", "--radius", "2", "--device", "host"];
/// One row per chunk: the run lasts thousands of chunks, and a signal comes in the middle.
const SLOWLY: [&str; 2] = ["--chunk=1", "--depth=2"];
/// Looks at the journal before a run is taken for hung; the run itself ends long before.
const LOOKS_MAX: usize = 50_000_000;

fn desk() -> (Desk, Vec<u8>) {
    let desk = Desk::new();
    let data = noise(ROWS * SHAPE[2] * 2, 1);
    desk.npy("in.npy", "<u2", &SHAPE, &data);
    (desk, data)
}

/// The lines of the journal: one says which run it is, and one follows for each chunk.
fn lines(desk: &Desk) -> usize {
    match fs::read(desk.path("out.npy.journal")) {
        Ok(journal) => journal.iter().filter(|&&byte| byte == b'\n').count(),
        Err(_) => 0,
    }
}

/// A run that is killed with its test.
struct Running(Option<Child>);

impl Running {
    /// Starts the run and waits until its journal has `wanted` lines.
    #[track_caller]
    fn until(desk: &Desk, wanted: usize, more: &[&str]) -> Self {
        Self::of(desk.command(&[&RUN[..], &SLOWLY, more].concat()), desk, wanted)
    }

    /// The same for a command of the caller's.
    #[track_caller]
    fn of(mut command: Command, desk: &Desk, wanted: usize) -> Self {
        let mut child = command.spawn().unwrap();
        for _ in 0..LOOKS_MAX {
            if lines(desk) >= wanted {
                return Self(Some(child));
            }
            if let Some(status) = child.try_wait().unwrap() {
                panic!("it ended before line {wanted}, {status}: {:?}", Self(Some(child)).end());
            }
            std::thread::yield_now();
        }
        drop(Self(Some(child)));
        panic!("line {wanted} never came");
    }

    fn signal(&self, name: &str) {
        let process = self.0.as_ref().unwrap().id().to_string();
        let kill = ["-c", "kill -s \"$0\" \"$1\"", name, &process];
        assert!(Command::new("sh").args(kill).status().unwrap().success());
    }

    fn end(mut self) -> Ran {
        Ran::from(self.0.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // An error means that it has ended by itself.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// The run stopped in the middle and can go on.
#[track_caller]
fn stopped(desk: &Desk) {
    assert_eq!(desk.names(), ["in.npy", "out.npy.journal", "out.npy.partial"]);
    let written = lines(desk) - 1;
    assert!(0 < written && written < ROWS, "{written} of {ROWS} rows are written");
}

/// Going on writes the missing rows and no other, and gives what a run without a stop gives.
#[track_caller]
fn finished(desk: &Desk, more: &[&str]) {
    let missing = ROWS - (lines(desk) - 1);
    let report = desk.trijet(&[&RUN[..], &["--resume", "--json"], more].concat()).json();
    assert_eq!(report["rows"].as_u64(), Some(missing as u64), "{report:#}");
    assert_eq!(desk.names(), ["in.npy", "out.npy"]);
    let mut whole = RUN;
    whole[3] = "whole.npy";
    desk.trijet(&whole).done();
    assert!(desk.read("out.npy") == desk.read("whole.npy"), "the outputs differ");
}

/// The output is the median of `data`.
#[track_caller]
fn right(desk: &Desk, data: &[u8]) {
    let expected = bytes_of(&median(&numbers_of(data), SHAPE, 2));
    assert!(data_of(&desk.read("out.npy"), "<u2", "(4, 512, 256)") == expected, "wrong pixels");
}

#[test]
fn ctrl_c_ends_with_130_and_resume_goes_on() {
    let (desk, data) = desk();
    let run = Running::until(&desk, 3, &[]);
    run.signal("INT");
    run.end().refused(130, &["stopping", "out.npy is not finished", "--resume"]);
    stopped(&desk);
    finished(&desk, &SLOWLY);
    right(&desk, &data);
}

/// The terminal is gone: the words of the handler find no reader, and the run stops all the same.
#[test]
fn ctrl_c_without_a_terminal_stops_the_run_too() {
    let (desk, _) = desk();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = desk.command(&[&RUN[..], &SLOWLY].concat());
    command.stderr(writer);
    let run = Running::of(command, &desk, 3);
    run.signal("INT");
    assert_eq!(run.end().code, Some(130));
    stopped(&desk);
}

#[test]
fn a_killed_run_goes_on_too() {
    let (desk, data) = desk();
    let run = Running::until(&desk, 3, &[]);
    run.signal("KILL");
    assert_eq!(run.end().code, None, "killed");
    stopped(&desk);
    finished(&desk, &SLOWLY);
    right(&desk, &data);
}

#[test]
fn a_run_may_be_stopped_again_and_again() {
    let (desk, _) = desk();
    let mut seen = 0;
    for signal in ["INT", "KILL", "INT"] {
        let run = Running::until(&desk, seen + 3, &["--resume"]);
        run.signal(signal);
        drop(run.end());
        stopped(&desk);
        assert!(lines(&desk) > seen, "it went on from where it was");
        seen = lines(&desk);
    }
    finished(&desk, &["--chunk=16KiB", "--depth=4"]);
}

#[test]
fn another_run_is_not_resumed_and_the_difference_is_named() {
    let (desk, _) = desk();
    let run = Running::until(&desk, 3, &[]);
    run.signal("KILL");
    drop(run.end());
    let kept = || (desk.read("out.npy.journal"), desk.read("out.npy.partial"));
    let before = kept();
    let mut other = RUN;
    other[7] = "3";
    let resumed = desk.trijet(&[&other[..], &["--resume"]].concat());
    resumed.refused(1, &["out.npy.journal", "another run", "radius=2", "radius=3"]);
    let resumed = desk.map(&["in.npy", "-o", "out.npy", "--op", "affine", "--resume"]);
    resumed.refused(1, &["out.npy.journal", "another run", "radius=2", "affine"]);
    assert!(before == kept(), "a refusal changed what was kept");
    stopped(&desk);
    finished(&desk, &["--chunk=64KiB"]);
}

#[test]
fn a_changed_input_is_not_resumed() {
    let (desk, data) = desk();
    let run = Running::until(&desk, 3, &[]);
    run.signal("KILL");
    drop(run.end());
    fs::remove_file(desk.path("in.npy")).unwrap();
    desk.npy("in.npy", "<u2", &[2, 1024, 256], &data);
    let resumed = desk.trijet(&[&RUN[..], &["--resume"]].concat());
    resumed.refused(1, &["out.npy.journal", "another run", "input"]);
    stopped(&desk);
}

/// The first run is halted, so that it holds its output for as long as the second one looks.
#[test]
fn a_second_run_for_the_same_output_is_refused() {
    let (desk, _) = desk();
    let run = Running::until(&desk, 3, &[]);
    run.signal("STOP");
    for more in [&[][..], &["--resume"]] {
        let second = desk.trijet(&[&RUN[..], more].concat());
        second.refused(1, &["out.npy.journal", "another run is writing"]);
    }
    run.signal("INT");
    run.signal("CONT");
    assert_eq!(run.end().code, Some(130));
    finished(&desk, &["--chunk=64KiB"]);
}

#[test]
fn without_resume_a_stopped_run_starts_over() {
    let (desk, data) = desk();
    let run = Running::until(&desk, 3, &[]);
    run.signal("KILL");
    drop(run.end());
    let report = desk.trijet(&[&RUN[..], &["--json"]].concat()).json();
    assert_eq!(report["rows"].as_u64(), Some(ROWS as u64));
    assert_eq!(desk.names(), ["in.npy", "out.npy"]);
    right(&desk, &data);
}

#[test]
fn resume_with_nothing_to_resume_is_a_run() {
    let (desk, data) = desk();
    desk.trijet(&[&RUN[..], &["--resume"]].concat()).done();
    right(&desk, &data);
}
