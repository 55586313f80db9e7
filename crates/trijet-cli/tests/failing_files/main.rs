//! `trijet map` while file calls fail, are cut short, or are the last of the process. The final
//! name always means a complete output with right bytes, and a later run finishes the job.
//!
//! `cargo test` lets some calls fail. `TRIJET_FILES=all`, which `cargo xtask files` sets, means
//! all.
#![expect(clippy::unwrap_used, reason = "a helper that fails should fail its test")]

#[path = "../../../trijet-io/tests/common/files.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod files;
mod job;
mod lacking;
mod outputs;

use job::{Ended, Fault, JOBS, Job, Place};
use std::collections::BTreeMap;
use std::path::PathBuf;
use trijet::testing::Prng;

/// The numbers of errors on Linux.
const EINTR: i32 = 4;
const EIO: i32 = 5;
const EACCES: i32 = 13;
const ENOSPC: i32 = 28;
/// The calls that the system may interrupt.
const INTERRUPTED: [&str; 5] = ["open", "read", "write", "sync", "truncate"];

/// One call fails of this many.
fn stride() -> usize {
    if is_thorough() { 1 } else { 31 }
}

fn is_thorough() -> bool {
    std::env::var("TRIJET_FILES").is_ok_and(|value| value == "all")
}

type Bytes = BTreeMap<PathBuf, Vec<u8>>;

/// The output of the job, and the calls of its run.
fn reference(job: Job) -> (Bytes, Vec<String>) {
    let place = Place::new(job);
    let ended = place.run(&[], None);
    assert_eq!(ended.code, Some(0), "{job:?}: {}", ended.error);
    assert!(place.others().is_empty(), "{:?}", place.others());
    assert!(!ended.calls.is_empty(), "{job:?}: no call was watched");
    (place.output().unwrap(), ended.calls)
}

/// Asserts that the final name means a complete output.
#[track_caller]
fn assert_whole(place: &Place, right: &Bytes, case: &str) -> bool {
    let found = place.output();
    assert!(found.as_ref().is_none_or(|found| found == right), "{case}: wrong bytes");
    found.is_some()
}

/// Asserts that the next run of the job, in which nothing fails, ends with its output.
#[track_caller]
fn assert_finished(place: &Place, finishing: &[&str], right: &Bytes, case: &str) {
    let ended = place.run(finishing, None);
    assert_eq!(ended.code, Some(0), "{case}, then {finishing:?}: {}", ended.error);
    assert!(assert_whole(place, right, case), "{case}: {finishing:?} gave no output");
    assert!(place.others().is_empty(), "{case}: left {:?}", place.others());
}

/// Asserts that a run with a fault has an allowed end.
#[track_caller]
fn assert_ended(place: &Place, right: &Bytes, ended: &Ended, fault: Fault, case: &str) {
    let is_there = assert_whole(place, right, case);
    match ended.code {
        Some(0) => assert!(is_there, "{case}: success without an output"),
        Some(1) => assert!(ended.error.contains("error: "), "{case}: {}", ended.error),
        // `timeout` ends as its child does, and has its own status if the child hangs.
        None if fault.kills() => {}
        code => panic!("{case}: status {code:?}: {}", ended.error),
    }
    if ended.code == Some(1) && is_there {
        assert!(ended.error.contains("is complete"), "{case}: {}", ended.error);
    }
}

/// Runs the job with each fault at some calls. `more` and `begin` prepare a resumed run.
fn faults(job: Job, more: &[&str], begin: impl Fn(&Place)) {
    let (right, _) = reference(job);
    let place = Place::new(job);
    begin(&place);
    let before = place.output();
    let finishing: &[&str] =
        if before.is_some() { &["--resume", "--overwrite"] } else { &["--resume"] };
    let calls = place.run(more, None).calls;
    let errors = [EIO, ENOSPC, EACCES, EINTR].map(Fault::Error);
    let faults = [&errors[..], &[Fault::Short, Fault::Tear, Fault::Before, Fault::After]].concat();
    for (first, fault) in faults.into_iter().enumerate() {
        // Threads make some calls in another order, so a number may mean another call.
        for at in (1 + first..=calls.len()).step_by(stride()) {
            let place = Place::new(job);
            begin(&place);
            let ended = place.run(more, Some((at, fault)));
            let call = ended.calls.get(at - 1).cloned().unwrap_or_default();
            let case = format!("{job:?} {more:?}: {fault:?} of call {at}, {call}");
            if before.is_some() && place.output() == before {
                // The run ended before it started to write over the output.
                assert_ne!(ended.code, Some(0), "{case}: success without an output");
                assert_finished(&place, finishing, &right, &case);
                continue;
            }
            assert_ended(&place, &right, &ended, fault, &case);
            let is_repeated = INTERRUPTED.iter().any(|name| call.starts_with(&format!("{name} ")));
            if fault == Fault::Short || fault == Fault::Error(EINTR) && is_repeated {
                assert_eq!(ended.code, Some(0), "{case}: {}", ended.error);
            }
            if ended.code == Some(0) {
                assert!(place.others().is_empty(), "{case}: left {:?}", place.others());
            } else {
                assert_finished(&place, finishing, &right, &case);
            }
        }
    }
}

#[test]
fn a_file_call_that_fails_gives_no_wrong_bytes() {
    for job in JOBS {
        faults(job, &[], |_| {});
    }
}

#[test]
fn a_file_call_of_a_resumed_run_that_fails_gives_no_wrong_bytes() {
    for job in JOBS {
        let (_, calls) = reference(job);
        let writes = |call: &&String| call.starts_with("write ") && !call.ends_with("journal");
        let third = calls.iter().filter(writes).nth(2).unwrap();
        let at = calls.iter().position(|call| call == third).unwrap() + 1;
        let begin = |place: &Place| {
            let ended = place.run(&[], Some((at + 4, Fault::Before)));
            assert_eq!(ended.code, None, "{job:?}: {}", ended.error);
        };
        faults(job, &["--resume"], begin);
    }
}

/// Before the first row the final name means the old output, and later a complete new one.
#[test]
fn a_file_call_of_a_run_over_an_output_that_fails_gives_no_wrong_bytes() {
    for job in JOBS {
        faults(job, &["--overwrite"], |place| {
            assert_eq!(place.run(&[], None).code, Some(0));
            place.age();
        });
    }
}

/// A library that ignored its settings would let nothing fail, and every test here would pass.
#[test]
fn settings_that_the_library_cannot_read_end_the_program() {
    let place = Place::new(JOBS[0]);
    for (name, value) in [
        ("FAILING_FILES_FAULT", "often"),
        ("FAILING_FILES_FAULT", "error=EIO"),
        ("FAILING_FILES_AT", "first"),
        ("FAILING_FILES_LOG", "/nonexistent/log"),
    ] {
        let log = tempfile::NamedTempFile::new().unwrap();
        let output = place.watched(&[], log.path()).env(name, value).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(99), "{name}={value}: {told}");
        assert!(told.contains(name), "{name}={value}: {told}");
    }
}

/// Data that a loss of power may destroy is on the disk before the next step.
#[test]
fn every_step_is_on_the_disk_before_the_next() {
    for job in JOBS {
        let (_, calls) = reference(job);
        let partial = format!("{}.partial", job.output);
        let journal = format!("{}.journal", job.output);
        let last = |call: &str| {
            let found = calls.iter().rposition(|made| made == call);
            found.unwrap_or_else(|| panic!("{job:?}: no `{call}` in {calls:#?}"))
        };
        let first = |call: &str| calls.iter().position(|made| made == call).unwrap_or(usize::MAX);
        let is_written = |call: &String| call.starts_with(&format!("write {partial}"));
        let created = match job.output {
            "out" => first(&format!("mkdir {partial}")),
            _ => first(&format!("open {partial}")),
        };
        assert!(first(&format!("sync {journal}")) < created, "{job:?}: {calls:#?}");
        let written = calls.iter().rposition(is_written).unwrap();
        let synced = last(&format!("sync {partial}"));
        let renamed = last(&format!("rename {partial}"));
        assert!(written < synced && synced < renamed, "{job:?}: {calls:#?}");
        for call in calls.iter().filter(|call| is_written(call)) {
            let file = call.strip_prefix("write ").unwrap();
            assert!(last(&format!("sync {file}")) < renamed, "{job:?}: {file}: {calls:#?}");
        }
        // The folder that has the final name.
        assert!(renamed < last("sync "), "{job:?}: {calls:#?}");
        assert!(last("sync ") < last(&format!("unlink {journal}")), "{job:?}: {calls:#?}");
    }
}

#[test]
fn without_synchronization_nothing_waits_for_the_disk() {
    for job in JOBS {
        let place = Place::new(job);
        let ended = place.run(&["--no-sync"], None);
        assert_eq!(ended.code, Some(0), "{}", ended.error);
        let syncs: Vec<_> = ended.calls.iter().filter(|call| call.starts_with("sync ")).collect();
        assert!(syncs.is_empty(), "{job:?}: {syncs:?}");
    }
}

/// A kernel of the host device once panicked there. The chunks are large enough for several
/// threads.
#[test]
fn a_thread_that_cannot_be_started_is_no_panic() {
    let place = Place::large();
    let mut refused = 0;
    for first in 1..40 {
        let ended = place.run_with_threads(first, &[]);
        let case = format!("thread {first} cannot be started");
        assert!(!ended.error.contains("panicked"), "{case}: {}", ended.error);
        match ended.code {
            // The other threads have done its work.
            Some(0) => {}
            Some(1) => {
                assert!(ended.error.contains("error: "), "{case}: {}", ended.error);
                assert!(place.output().is_none(), "{case}");
                let again = place.run_with_threads(1000, &["--resume"]);
                assert_eq!(again.code, Some(0), "{case}, then --resume: {}", again.error);
                refused += 1;
            }
            code => panic!("{case}: status {code:?}: {}", ended.error),
        }
        let written = place.output().unwrap();
        assert!(written.values().all(|bytes| bytes.iter().all(|byte| *byte == 14)), "{case}");
        assert!(place.others().is_empty(), "{case}: left {:?}", place.others());
        place.remove_output();
    }
    assert!(refused > 3, "only {refused} runs had too few threads");
}

/// Kills runs at random moments, and resumes them, until `kills` runs were killed.
#[test]
fn a_run_that_is_killed_at_any_moment_is_resumed_to_the_right_bytes() {
    let kills = if is_thorough() { 200 } else { 10 };
    for (seed, job) in (1..).zip(JOBS) {
        let (right, _) = reference(job);
        let place = Place::new(job);
        let mut whole = 0_u64;
        let mut child = place.start(&[]);
        while child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
            whole += 1;
        }
        let mut draw = Prng::new(seed);
        let mut place = Place::new(job);
        for kill in 0..kills {
            let case = format!("{job:?}, seed {seed}, kill {kill}");
            let mut child = place.start(&["--resume"]);
            for _ in 0..draw.next_u64() % (whole + 1) {
                std::thread::yield_now();
            }
            // The signal goes to the command, which is the child of `timeout`.
            kill_children(child.id());
            child.wait().unwrap();
            if assert_whole(&place, &right, &case) || kill % 4 == 3 {
                assert_finished(&place, &["--resume"], &right, &case);
                place = Place::new(job);
            }
        }
    }
}

/// Kills the processes that a process has started.
fn kill_children(process: u32) {
    let path = format!("/proc/{process}/task/{process}/children");
    let children = std::fs::read_to_string(path).unwrap();
    for child in children.split_whitespace() {
        let child = nix::unistd::Pid::from_raw(child.parse().unwrap());
        match nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL) {
            Ok(()) | Err(nix::errno::Errno::ESRCH) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
