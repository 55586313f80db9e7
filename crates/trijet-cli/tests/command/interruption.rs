//! Runs that are stopped by a signal or killed, and then resumed.

use crate::held::Held;
use crate::reference::{affine, median};
use crate::workdir::{Images, Ran, Workdir, bytes_of, data_of, noise, numbers_of, pixels_of};
use nix::sys::signal::Signal;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const SHAPE: [usize; 3] = [4, 512, 256];
const ROWS: usize = SHAPE[0] * SHAPE[1];
const RUN: [&str; 10] =
    ["map", "in.npy", "-o", "out.npy", "--op", "median", "--radius", "2", "--device", "host"];
/// One row per chunk, so that the run has thousands of chunks and a signal arrives in the middle.
const SMALL_CHUNKS: [&str; 2] = ["--chunk=1", "--depth=2"];

fn workdir() -> (Workdir, Vec<u8>) {
    let workdir = Workdir::new();
    let data = noise(ROWS * SHAPE[2] * 2, 1);
    workdir.npy("in.npy", "<u2", &SHAPE, &data);
    (workdir, data)
}

/// The number of lines of the journal: one for the run, and one for each chunk.
fn lines(workdir: &Workdir) -> usize {
    match fs::read(workdir.path("out.npy.journal")) {
        Ok(journal) => {
            let rows = String::from_utf8_lossy(&journal).matches("{\"rows\":[").count();
            rows + usize::from(journal.contains(&b'\n'))
        }
        Err(_) => 0,
    }
}

/// Starts the run, which stops when its journal has `wanted` lines.
#[track_caller]
fn until(workdir: &Workdir, wanted: usize, more: &[&str]) -> Held {
    of(workdir.command(&[&RUN[..], &SMALL_CHUNKS, more].concat()), workdir, wanted)
}

/// Does the same with another command.
#[track_caller]
fn of(command: Command, workdir: &Workdir, wanted: usize) -> Held {
    let journal = workdir.path("out.npy.journal");
    Held::start(command, &journal).until(|| lines(workdir) >= wanted)
}

/// Asserts that the run stopped in the middle and left a partial output and a journal.
#[track_caller]
fn stopped(workdir: &Workdir) {
    assert_eq!(workdir.names(), ["in.npy", "out.npy.journal", "out.npy.partial"]);
    let written = lines(workdir) - 1;
    assert!(0 < written && written < ROWS, "{written} of {ROWS} rows are written");
}

/// Resumes the run under the checker, which must have no finding. The run must write only the
/// missing rows, and its output must equal the output of a run without a stop.
#[track_caller]
fn finished(workdir: &Workdir, more: &[&str]) {
    let missing = ROWS - (lines(workdir) - 1);
    let report =
        workdir.trijet(&[&RUN[..], &["--resume", "--check", "--json"], more].concat()).json();
    assert_eq!(report["check"]["findings"], serde_json::json!([]), "{report:#}");
    assert_eq!(report["rows"].as_u64(), Some(missing as u64), "{report:#}");
    assert_eq!(workdir.names(), ["in.npy", "out.npy"]);
    let mut whole = RUN;
    whole[3] = "whole.npy";
    workdir.trijet(&whole).done();
    assert!(workdir.read("out.npy") == workdir.read("whole.npy"), "the outputs differ");
}

/// Asserts that the output is the median of `data`.
#[track_caller]
fn right(workdir: &Workdir, data: &[u8]) {
    // All tests have the same input, and without optimisation its median takes seconds.
    static MEDIAN: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    let computed = || [data.to_vec(), bytes_of(&median(&numbers_of(data), SHAPE, 2))];
    let [input, expected] = MEDIAN.get_or_init(computed);
    assert!(input == data, "the median of another input");
    assert!(data_of(&workdir.read("out.npy"), "<u2", "(4, 512, 256)") == *expected, "wrong pixels");
}

/// The run with small chunks. Another program starts it, and may ignore a signal for it.
fn started_by(workdir: &Workdir, program: &str, args: &[&str]) -> Command {
    let trijet = workdir.command(&[&RUN[..], &SMALL_CHUNKS].concat());
    let mut command = Command::new(program);
    command.args(args).arg(trijet.get_program()).args(trijet.get_args());
    command.current_dir(workdir.path(".")).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The first rows of the partial output are zero, as after a loss of power.
#[test]
fn rows_that_were_lost_are_named_and_computed_again() {
    let (workdir, data) = workdir();
    drop(until(&workdir, 3, &[]));
    stopped(&workdir);
    let mut partial = workdir.read("out.npy.partial");
    let first = partial.len() - data.len();
    assert!(partial[first..first + SHAPE[2] * 2].iter().any(|&byte| byte != 0));
    partial[first..first + SHAPE[2] * 2].fill(0);
    fs::write(workdir.path("out.npy.partial"), partial).unwrap();
    let ran = workdir.trijet(&[&RUN[..], &["--resume"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(
        ran.err.contains("out.npy: rows 0..1 were written, but the file has other bytes now"),
        "{}",
        ran.err
    );
    right(&workdir, &data);
}

/// SIGTERM and SIGHUP once ended the run without a message.
#[test]
fn a_signal_ends_with_its_status_and_the_run_can_be_resumed() {
    for (signal, status) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 75), (Signal::SIGHUP, 129)] {
        let (workdir, data) = workdir();
        let command = started_by(&workdir, "env", &["--default-signal=HUP"]);
        let run = of(command, &workdir, 3);
        run.signal(signal);
        run.end().refused(status, &["stopping", "out.npy is not finished", "--resume"]);
        stopped(&workdir);
        finished(&workdir, &SMALL_CHUNKS);
        right(&workdir, &data);
    }
}

#[test]
fn a_run_without_a_terminal_outlives_its_hangup() {
    let (workdir, _) = workdir();
    let ignoring = ["-c", "trap '' HUP; exec \"$0\" \"$@\""];
    let run = of(started_by(&workdir, "sh", &ignoring), &workdir, 3);
    run.signal(Signal::SIGHUP);
    run.signal(Signal::SIGINT);
    run.end().refused(130, &["stopping", "out.npy is not finished", "--resume"]);
}

/// The message of the handler cannot be printed, and the run stops all the same.
#[test]
fn ctrl_c_without_a_terminal_stops_the_run_too() {
    let (workdir, _) = workdir();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = workdir.command(&[&RUN[..], &SMALL_CHUNKS].concat());
    command.stderr(writer);
    let run = of(command, &workdir, 3);
    run.signal(Signal::SIGINT);
    assert_eq!(run.end().code, Some(130));
    stopped(&workdir);
}

#[test]
fn a_killed_run_can_be_resumed() {
    let (workdir, data) = workdir();
    let run = until(&workdir, 3, &[]);
    run.signal(Signal::SIGKILL);
    assert_eq!(run.end().code, None, "killed");
    stopped(&workdir);
    finished(&workdir, &SMALL_CHUNKS);
    right(&workdir, &data);
}

#[test]
fn a_run_can_be_stopped_and_resumed_several_times() {
    let (workdir, _) = workdir();
    let mut seen = 0;
    for signal in [Signal::SIGINT, Signal::SIGKILL, Signal::SIGINT] {
        let run = until(&workdir, seen + 3, &["--resume"]);
        run.signal(signal);
        drop(run.end());
        stopped(&workdir);
        assert!(lines(&workdir) > seen, "it wrote more rows");
        seen = lines(&workdir);
    }
    finished(&workdir, &["--chunk=16KiB", "--depth=4"]);
}

#[test]
fn another_run_is_not_resumed_and_the_difference_is_named() {
    let (workdir, _) = workdir();
    let run = until(&workdir, 3, &[]);
    run.signal(Signal::SIGKILL);
    drop(run.end());
    let kept = || (workdir.read("out.npy.journal"), workdir.read("out.npy.partial"));
    let before = kept();
    let mut other = RUN;
    other[7] = "3";
    let resumed = workdir.trijet(&[&other[..], &["--resume"]].concat());
    resumed.refused(1, &["out.npy.journal", "another job", "radius=2", "radius=3"]);
    let resumed = workdir.map(&["in.npy", "-o", "out.npy", "--op", "affine", "--resume"]);
    resumed.refused(1, &["out.npy.journal", "another job", "radius=2", "affine"]);
    assert!(before == kept(), "a refusal changed what was kept");
    stopped(&workdir);
    finished(&workdir, &["--chunk=64KiB"]);
}

/// A chain is a separate job, and other operations or another order do not continue it.
#[test]
fn a_killed_chain_can_be_resumed() {
    let (workdir, data) = workdir();
    let ops = ["--op", "median:2", "--op", "affine:0.5,3", "--op", "median:1"];
    let run = |output: &'static str, ops: &[&'static str]| {
        [&["map", "in.npy", "-o", output, "--device", "host"], ops].concat()
    };
    let started = workdir.command(&[&run("out.npy", &ops)[..], &SMALL_CHUNKS].concat());
    let killed = of(started, &workdir, 3);
    killed.signal(Signal::SIGKILL);
    assert_eq!(killed.end().code, None, "killed");
    stopped(&workdir);
    for other in [&ops[..2], &ops[..4], &[ops[0], ops[5], ops[2], ops[3], ops[4], ops[1]]] {
        let resumed = workdir.trijet(&[&run("out.npy", other)[..], &["--resume"]].concat());
        resumed.refused(1, &["out.npy.journal", "another job", "radius=2, then affine"]);
    }
    let missing = ROWS - (lines(&workdir) - 1);
    let more = ["--resume", "--check", "--json", "--chunk=16KiB"];
    let report = workdir.trijet(&[&run("out.npy", &ops)[..], &more].concat()).json();
    assert_eq!(report["check"]["findings"], serde_json::json!([]), "{report:#}");
    assert_eq!(report["rows"].as_u64(), Some(missing as u64), "{report:#}");
    let expected = affine(&median(&numbers_of(&data), SHAPE, 2), 0.5, 3.0, 65_535);
    let expected = bytes_of(&median(&expected, SHAPE, 1));
    assert!(data_of(&workdir.read("out.npy"), "<u2", "(4, 512, 256)") == expected, "wrong pixels");
}

#[test]
fn a_changed_input_is_not_resumed() {
    let (workdir, data) = workdir();
    let run = until(&workdir, 3, &[]);
    run.signal(Signal::SIGKILL);
    drop(run.end());
    fs::remove_file(workdir.path("in.npy")).unwrap();
    workdir.npy("in.npy", "<u2", &[2, 1024, 256], &data);
    let resumed = workdir.trijet(&[&RUN[..], &["--resume"]].concat());
    let words = ["out.npy", "cannot be resumed", "[4, 512, 256]", "[2, 1024, 256]"];
    resumed.refused(1, &words);
    stopped(&workdir);
}

/// A repaired image once changed the input as a whole, so that the resume that the error promises
/// was refused.
#[test]
fn a_run_continues_when_its_damaged_image_is_repaired() {
    let workdir = Workdir::new();
    let stack = noise(4 * 4096, 5);
    workdir.images("in", [64, 64], &Images::U8(&stack));
    let good = workdir.read("in/2.png");
    let mut damaged = good.clone();
    damaged[good.len() / 2] ^= 0x55;
    workdir.file("in/2.png", &damaged);
    let run = ["in", "-o", "out", "--op", "affine", "--chunk", "1", "--depth", "1"];
    workdir.map(&run).refused(1, &["in/2.png", "damaged PNG", "128 of 256 rows", "--resume"]);
    fs::remove_file(workdir.path("in/2.png")).unwrap();
    workdir.file("in/2.png", &good);
    let report = workdir.map(&[&run[..], &["--resume", "--json"]].concat()).json();
    assert_eq!(report["rows"].as_u64(), Some(128));
    let expected: Vec<u16> = stack.into_iter().map(u16::from).collect();
    assert!(pixels_of(&workdir.path("out")) == expected, "wrong pixels");
}

#[test]
fn a_relative_and_an_absolute_path_of_an_input_resume_each_other() {
    let (workdir, data) = workdir();
    let run = until(&workdir, 3, &[]);
    run.signal(Signal::SIGKILL);
    drop(run.end());
    let absolute = workdir.path("in.npy").to_str().unwrap().to_owned();
    let mut run = RUN;
    run[1] = &absolute;
    workdir.trijet(&[&run[..], &["--resume"]].concat()).done();
    right(&workdir, &data);
}

/// The first run is stopped, so that it keeps its lock while the second run tries to take it.
#[test]
fn a_second_run_for_the_same_output_is_refused() {
    let (workdir, _) = workdir();
    let run = until(&workdir, 3, &[]);
    for more in [&[][..], &["--resume"], &["--restart"]] {
        let second = workdir.trijet(&[&RUN[..], more].concat());
        second.refused(1, &["out.npy.journal", "another run is writing"]);
    }
    run.signal(Signal::SIGINT);
    assert_eq!(run.end().code, Some(130));
    finished(&workdir, &["--chunk=64KiB"]);
}

/// Losers of such a race once got the message that their rows were kept.
#[test]
fn of_several_runs_at_once_one_writes_the_output_and_the_others_are_refused() {
    for _ in 0..8 {
        let workdir = Workdir::new();
        workdir.npy("in.npy", "|u1", &[64, 64], &noise(64 * 64, 3));
        let run = ["map", "in.npy", "-o", "out.npy", "--op", "affine:2", "--device=host", "--json"];
        let runs: Vec<_> = (0..4).map(|_| workdir.command(&run).spawn().unwrap()).collect();
        let mut done = 0;
        for run in runs {
            let ran = Ran::from(run.wait_with_output().unwrap());
            if ran.code == Some(0) {
                done += 1;
                continue;
            }
            let said = ["already exists", "another run is writing"];
            assert!(said.iter().any(|words| ran.err.contains(words)), "{}", ran.err);
            assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{}", ran.err);
            assert!(!ran.err.contains("kept"), "{}", ran.err);
        }
        assert_eq!(done, 1);
        assert_eq!(workdir.names(), ["in.npy", "out.npy"]);
    }
}

/// Such a run once started over without a message.
#[test]
fn the_work_of_a_stopped_run_is_kept_until_the_user_decides() {
    let (workdir, data) = workdir();
    let run = until(&workdir, 3, &[]);
    run.signal(Signal::SIGKILL);
    drop(run.end());
    let kept = || (workdir.read("out.npy.journal"), workdir.read("out.npy.partial"));
    let before = kept();
    let done = format!("{} of {ROWS} rows", lines(&workdir) - 1);
    let words = [&done, "median radius=2", "out.npy.partial", "--resume", "--restart"];
    workdir.trijet(&RUN).refused(1, &words);
    assert!(before == kept(), "a refusal changed what was kept");
    let both = [&RUN[..], &["--resume", "--restart"]].concat();
    workdir.trijet(&both).refused(2, &["--resume", "--restart", "cannot be used"]);
    let report = workdir.trijet(&[&RUN[..], &["--restart", "--json"]].concat()).json();
    assert_eq!(report["rows"].as_u64(), Some(ROWS as u64));
    assert_eq!(workdir.names(), ["in.npy", "out.npy"]);
    right(&workdir, &data);
}

#[test]
fn the_report_of_a_resumed_run_says_what_was_kept() {
    let workdir = Workdir::new();
    workdir.images("in", [8, 8], &Images::U8(&noise(4 * 64, 51)));
    let sound = workdir.read("in/3.png");
    workdir.file("in/3.png", &sound[..50]);
    let run = ["in", "-o", "out.npy", "--op", "affine", "--chunk=1", "--depth=1"];
    for json in [false, true] {
        workdir.file("in/3.png", &sound[..50]);
        workdir.map(&run).refused(1, &["24 of 32 rows are kept"]);
        workdir.file("in/3.png", &sound);
        let resume = [&run[..], &["--resume"]].concat();
        if json {
            let report = workdir.map(&[&resume[..], &["--json"]].concat()).json();
            assert_eq!((&report["kept_rows"], &report["rows"]), (&24.into(), &8.into()));
            assert_eq!(report["complete"], true);
            let again = workdir.map(&[&resume[..], &["--json"]].concat()).json();
            assert_eq!((&again["kept_rows"], &again["rows"]), (&32.into(), &0.into()));
            assert_eq!(again["complete"], true);
        } else {
            let report = workdir.map(&resume).done();
            let line = "resumed: an earlier run has done 24 of 32 rows";
            assert!(report.contains(line), "{report}");
        }
        fs::remove_file(workdir.path("out.npy")).unwrap();
    }
}

#[test]
fn resume_without_a_partial_output_starts_a_run_and_says_so() {
    let (workdir, data) = workdir();
    let ran = workdir.trijet(&[&RUN[..], &["--resume"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(ran.err, "there is nothing to resume: the run starts from the beginning\n");
    right(&workdir, &data);
}
