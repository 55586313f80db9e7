//! A job that any number of processes share by `--claim`, and its state by `trijet status`.

use crate::built::library;
use crate::held::Held;
use crate::workdir::{Images, Ran, Workdir, noise};
use nix::sys::signal::Signal;
use std::fs;
use std::process::{Child, Command, Stdio};

const CALL: [&str; 9] = [
    "map",
    "in.npy",
    "-o",
    "out.npy",
    "--op",
    "median:2",
    "--device=host",
    "--chunk=1KiB",
    "--claim",
];

fn workdir() -> Workdir {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "<u2", &[6, 40, 32], &noise(6 * 40 * 32 * 2, 21));
    workdir
}

/// The output of one process without claims.
fn alone() -> Vec<u8> {
    let workdir = workdir();
    workdir.map(&["in.npy", "-o", "out.npy", "--op", "median:2"]).done();
    workdir.read("out.npy")
}

fn started(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[track_caller]
fn ended(child: Child) -> Ran {
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    ran
}

#[test]
fn processes_share_a_job_and_a_finished_job_succeeds_at_once() {
    let workdir = workdir();
    let children: Vec<Child> =
        (0..4).map(|_| started(workdir.command(&[&CALL[..], &["--json"]].concat()))).collect();
    let rows = children.into_iter().map(|child| ended(child).json()["rows"].as_u64().unwrap());
    // A process that begins after the end finds the output complete, and has done no row.
    assert_eq!(rows.sum::<u64>(), 240);
    assert_eq!(workdir.read("out.npy"), alone());
    assert_eq!(workdir.names(), ["in.npy", "out.npy"]);
    let again = workdir.trijet(&CALL);
    assert!(again.done().contains("an earlier run of this job has finished it"));
    // Fixed processes and the claims know one mark.
    workdir.map(&["in.npy", "-o", "out.npy", "--op", "median:2", "--resume"]).done();
}

/// The clocks of two machines differ by an hour, in either direction.
#[test]
fn clocks_that_differ_by_an_hour_change_nothing() {
    let workdir = workdir();
    let start = |seconds: &str| {
        let mut command = workdir.command(&CALL);
        command.env("LD_PRELOAD", library("libfailing_files.so"));
        command.env("FAILING_FILES_CLOCK", seconds);
        started(command)
    };
    let children = ["3600", "-3600", "0"].map(start);
    children.into_iter().for_each(|child| drop(ended(child)));
    assert_eq!(workdir.read("out.npy"), alone());
}

/// The lease of a stopped process runs out, and another process does its rows. Then it comes back.
#[test]
fn a_process_that_is_cut_off_costs_its_rows_and_not_the_job() {
    let workdir = workdir();
    let lease = [&CALL[..], &["--lease=1"]].concat();
    let done = workdir.path("out.npy.claims");
    let is_begun = || {
        let names = fs::read_dir(&done).into_iter().flatten().flatten();
        names.filter(|name| name.file_name().to_string_lossy().starts_with("done-")).count() > 2
    };
    // It stops before its calls on the partial output.
    let held = Held::start(workdir.command(&lease), &workdir.path("out.npy.partial"));
    let held = held.until(is_begun);
    let state = workdir.trijet(&["status", "out.npy", "--json"]).json();
    assert!(state["rows_done"].as_u64().unwrap() > 0, "{state:#}");
    assert_eq!(state["processes"].as_array().map(Vec::len), Some(1), "{state:#}");
    assert!(workdir.trijet(&["status", "out.npy"]).done().contains("of 240 rows are done"));
    workdir.trijet(&lease).done();
    assert_eq!(workdir.read("out.npy"), alone());
    let late = held.end();
    assert_eq!(late.code, Some(0), "{}", late.err);
    assert_eq!(workdir.read("out.npy"), alone());
    assert_eq!(workdir.names(), ["in.npy", "out.npy"]);
    workdir.trijet(&CALL).done();
}

#[test]
fn sigterm_gives_the_rows_back_and_asks_to_be_started_again() {
    let workdir = workdir();
    let claims = workdir.path("out.npy.claims");
    let held = Held::start(workdir.command(&CALL), &workdir.path("out.npy.partial"));
    let held = held.until(|| {
        claims.join("done-0").exists() || claims.read_dir().is_ok_and(|names| names.count() > 4)
    });
    held.signal(Signal::SIGTERM);
    let ran = held.end();
    ran.refused(75, &["stopping", "out.npy is not finished", "the same command continues"]);
    let state = workdir.trijet(&["status", "out.npy"]).done();
    assert!(state.contains("stopped"), "{state}");
    // The lease of half a minute is not waited for.
    workdir.trijet(&CALL).done();
    assert_eq!(workdir.read("out.npy"), alone());
}

#[test]
fn a_folder_of_images_is_shared_too() {
    let workdir = Workdir::new();
    workdir.images("scans", [8, 8], &Images::U8(&noise(64 * 40, 5)));
    let call =
        ["map", "scans", "-o", "clean", "--op", "median", "--device=host", "--claim", "--chunk=64"];
    let children: Vec<Child> = (0..3).map(|_| started(workdir.command(&call))).collect();
    children.into_iter().for_each(|child| drop(ended(child)));
    workdir.map(&["scans", "-o", "one", "--op", "median"]).done();
    for number in 0..40 {
        let name = |folder: &str| format!("{folder}/{number}.png");
        assert_eq!(workdir.read(&name("clean")), workdir.read(&name("one")), "{number}");
    }
    assert_eq!(fs::read_dir(workdir.path("clean")).unwrap().count(), 40);
}

/// A file system without locks and attributes, and with no rename that refuses to replace.
#[test]
fn a_poor_file_system_is_enough() {
    for without in ["lock=37,mark=95,noreplace=22", "lock=524,mark=95,noreplace=22,link=1"] {
        let workdir = workdir();
        let folder = workdir.path(".").canonicalize().unwrap();
        let command = || {
            let mut command = workdir.command(&CALL);
            command.env("LD_PRELOAD", library("libfailing_files.so"));
            command.env("FAILING_FILES_ROOT", &folder).env("FAILING_FILES_LOG", "/dev/null");
            command.env("FAILING_FILES_WITHOUT", without);
            command
        };
        let children: Vec<Child> = (0..3).map(|_| started(command())).collect();
        children.into_iter().for_each(|child| drop(ended(child)));
        assert_eq!(workdir.read("out.npy"), alone());
        assert_eq!(workdir.names(), ["in.npy", "out.npy", "out.npy.finished"]);
        // Finished is known without attributes.
        let again = ended(started(command()));
        assert!(again.out.contains("has finished it"), "{}", again.out);
    }
}

/// A network file system reports a folder that another machine has deleted as stale, and not as
/// missing, to a process that has it open.
#[test]
fn a_process_whose_folder_of_claims_is_stale_ends_with_the_job() {
    let workdir = workdir();
    let folder = workdir.path(".").canonicalize().unwrap();
    let mut command = workdir.command(&CALL);
    command.env("LD_PRELOAD", library("libfailing_files.so"));
    command.env("FAILING_FILES_ROOT", folder.join("out.npy.claims"));
    command.env("FAILING_FILES_LOG", "/dev/null").env("FAILING_FILES_WITHOUT", "list=116");
    let stale = started(command);
    workdir.trijet(&CALL).done();
    ended(stale);
    assert_eq!(workdir.read("out.npy"), alone());
}

/// A full disk is an error, and the next process finishes the job.
#[test]
fn a_full_disk_is_an_error_and_no_row_is_done_that_is_not_there() {
    for at in ["write out.npy.partial", "sync out.npy.partial", "write out.npy.claims/job"] {
        let workdir = workdir();
        let folder = workdir.path(".").canonicalize().unwrap();
        let mut command = workdir.command(&CALL);
        command.env("LD_PRELOAD", library("libfailing_files.so"));
        command.env("FAILING_FILES_ROOT", &folder).env("FAILING_FILES_LOG", "/dev/null");
        command.env("FAILING_FILES_AT", at).env("FAILING_FILES_FAULT", "error=28");
        let ran = Ran::from(command.output().unwrap());
        if at.ends_with("partial") {
            ran.refused(1, &["no space left", "out.npy"]);
            assert!(workdir.trijet(&["status", "out.npy"]).done().contains("no space left"));
        }
        workdir.trijet(&CALL).done();
        assert_eq!(workdir.read("out.npy"), alone(), "{at}");
    }
}

#[test]
fn an_array_does_the_whole_job_and_says_so() {
    let workdir = workdir();
    let array = [
        ("SLURM_ARRAY_TASK_ID", "1"),
        ("SLURM_ARRAY_TASK_COUNT", "2"),
        ("SLURM_ARRAY_TASK_MIN", "0"),
        ("SLURM_ARRAY_TASK_MAX", "1"),
    ];
    let run = |more: &[&str], variables: &[(&str, &str)]| {
        let call = ["map", "in.npy", "-o", "out.npy", "--op", "median:2", "--device=host"];
        let mut command = workdir.command(&[&call[..], more].concat());
        command.envs(array).envs(variables.iter().copied());
        Ran::from(command.output().unwrap())
    };
    let whole = run(&[], &[]);
    assert!(whole.err.contains("the whole job, although it is rank 1 of 2 (Slurm array)"));
    assert_eq!(workdir.read("out.npy"), alone());
    fs::remove_file(workdir.path("out.npy")).unwrap();
    let part = run(&["--shard=auto"], &[]);
    assert!(part.err.contains("rank 1 of 2 (Slurm array): rows 120..240"), "{}", part.err);
    let first = run(&["--shard=0/2"], &[]);
    assert_eq!(first.code, Some(0), "{}", first.err);
    assert_eq!(workdir.read("out.npy"), alone());
    let both = run(&["--shard=auto"], &[("PMI_RANK", "0"), ("PMI_SIZE", "2")]);
    both.refused(1, &["conflicting variables: rank 0 of 2 (MPI), but also rank 1 of 2"]);
    let claim = run(&["--claim"], &[("PMI_RANK", "0"), ("PMI_SIZE", "2")]);
    assert_eq!(claim.code, Some(0), "{}", claim.err);
}

#[test]
fn the_state_of_fixed_shards_comes_from_their_journals() {
    let workdir = workdir();
    let call = ["in.npy", "-o", "out.npy", "--op", "median:2", "--shard", "1/3"];
    let ran = workdir.map(&call);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let state = workdir.trijet(&["status", "out.npy"]).done();
    assert!(state.contains("shard 1 of 3") && state.contains("80 rows done"), "{state}");
    workdir.trijet(&["status", "nothing.npy"]).refused(1, &["neither the output nor a job"]);
}
