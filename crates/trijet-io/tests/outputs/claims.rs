//! Processes that take rows of one output as they are free.

use crate::common::demand;
use crate::workdir::{DATA, Workdir};
use std::fs;
use std::thread;
use std::time::Duration;
use trijet::testing::Prng;
use trijet::{Bytes, Cancel, ErrorKind, Result, Sink};
use trijet_io::{ClaimOptions, ClaimedOutput, Fingerprint, Input, JobStatus, Start, Target};

/// A lease that ends at once, and one that outlasts the test.
const SHORT: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(3600);

fn target(workdir: &Workdir, name: &str) -> Target {
    let target = match name.contains('.') {
        true => workdir.target(name),
        false => workdir.stack(name),
    };
    let granule = target.granule();
    target.with_claims(granule)
}

fn open(workdir: &Workdir, target: &Target, lease: Duration) -> Result<Option<ClaimedOutput>> {
    let run = Fingerprint::new(&workdir.input, "copy", target);
    // A range of one row.
    let options = ClaimOptions { lease, range_min: Bytes(1) };
    ClaimedOutput::open(target, &run, options, &Cancel::new())
}

fn write(output: &ClaimedOutput, rows: &[std::ops::Range<u64>]) -> Result<()> {
    let mut sink = output.sink();
    for rows in rows {
        let place = |row: u64| usize::try_from(row * 4).unwrap();
        sink.write(rows.clone(), &DATA[place(rows.start)..place(rows.end)])?;
    }
    sink.finish()
}

/// Takes part in the job until it is over.
fn work(workdir: &Workdir, target: &Target, lease: Duration) {
    let Some(mut output) = open(workdir, target, lease).unwrap() else { return };
    while let Some(rows) = output.next(&Cancel::new()).unwrap() {
        if let Err(error) = write(&output, &rows) {
            assert!(output.is_over(), "{error}");
            return;
        }
    }
}

#[track_caller]
fn is_complete(workdir: &Workdir, name: &str) {
    let path = workdir.path(name);
    let raw = name.ends_with(".raw").then(|| workdir.input.array().clone());
    let read = Input::open(&path, raw).unwrap();
    let mut bytes = [0; 16];
    trijet::Source::read(&read, 0..4, &mut bytes).unwrap();
    assert_eq!(bytes, DATA);
    let mut wanted = vec!["in.npy".to_owned(), name.to_owned()];
    wanted.sort();
    assert_eq!(workdir.names(), wanted);
}

const NAMES: [&str; 5] = ["out.npy", "out.raw", "images", "out.zarr", "out.tif"];

#[test]
fn one_process_does_the_whole_job_and_then_it_is_finished() {
    for name in NAMES {
        let workdir = Workdir::new();
        let target = target(&workdir, name);
        work(&workdir, &target, LONG);
        is_complete(&workdir, name);
        assert!(open(&workdir, &target, LONG).unwrap().is_none(), "{name} is finished");
    }
}

/// Four processes that begin at once write each output, twenty times.
fn begin_at_once(lease: Duration) {
    for round in 0..20 {
        let name = NAMES[round % NAMES.len()];
        let workdir = Workdir::new();
        let target = target(&workdir, name);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| work(&workdir, &target, lease));
            }
        });
        is_complete(&workdir, name);
    }
}

#[test]
fn processes_that_begin_at_once_write_one_output() {
    begin_at_once(LONG);
}

/// A lease of a millisecond falls back while its owner works, so processes write the same rows at
/// the same time, and one may publish the output while others still write.
#[test]
fn leases_that_fall_back_too_early_change_no_byte() {
    begin_at_once(SHORT);
}

/// The first process has taken rows and is silent, as if its machine were cut off. The second one
/// does the whole job. Then the first one comes back and writes its rows.
#[test]
fn a_process_that_comes_back_after_the_end_changes_no_byte() {
    for name in NAMES {
        let workdir = Workdir::new();
        let target = target(&workdir, name);
        let mut late = open(&workdir, &target, LONG).unwrap().unwrap();
        let rows = late.next(&Cancel::new()).unwrap().unwrap();
        // The claim of the silent process has no sign of life that changes.
        work(&workdir, &target, SHORT);
        is_complete(&workdir, name);
        match write(&late, &rows) {
            Ok(()) => assert_eq!(late.next(&Cancel::new()).unwrap(), None),
            Err(error) => assert!(late.is_over(), "{name}: {error}"),
        }
        drop(late);
        is_complete(&workdir, name);
        assert!(open(&workdir, &target, LONG).unwrap().is_none(), "{name} is finished");
    }
}

#[test]
fn the_rows_of_a_process_that_stops_are_taken_over_at_once() {
    let workdir = Workdir::new();
    let target = target(&workdir, "out.npy");
    let mut first = open(&workdir, &target, LONG).unwrap().unwrap();
    let rows = first.next(&Cancel::new()).unwrap().unwrap();
    write(&first, &rows).unwrap();
    assert_eq!(first.rows_done(), 1);
    first.next(&Cancel::new()).unwrap().unwrap();
    first.stop(None);
    work(&workdir, &target, LONG);
    is_complete(&workdir, "out.npy");
}

#[test]
fn a_process_that_is_cancelled_says_so() {
    let workdir = Workdir::new();
    let mut output = open(&workdir, &target(&workdir, "out.npy"), LONG).unwrap().unwrap();
    let cancel = Cancel::new();
    cancel.cancel();
    assert_eq!(output.next(&cancel).unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn the_state_names_processes_rows_and_failures() {
    let workdir = Workdir::new();
    let target = target(&workdir, "out.npy");
    assert_eq!(JobStatus::read(target.path(), None).unwrap(), None);
    let mut first = open(&workdir, &target, LONG).unwrap().unwrap();
    let rows = first.next(&Cancel::new()).unwrap().unwrap();
    write(&first, &rows).unwrap();
    let mut second = open(&workdir, &target, LONG).unwrap().unwrap();
    let taken = second.next(&Cancel::new()).unwrap().unwrap();
    first.stop(Some(&trijet::Error::new(ErrorKind::Io, "write", "the disk is full")));
    let status = JobStatus::read(target.path(), None).unwrap().unwrap();
    assert_eq!((status.rows, status.rows_done, status.rows_taken), (4, 1, 1));
    assert_eq!(status.operation, "copy");
    let failed = status.processes.iter().find(|one| one.activity == "failed").unwrap();
    assert!(failed.error.as_ref().unwrap().contains("the disk is full"), "{failed:?}");
    assert_eq!((failed.rows_done, failed.process), (1, std::process::id()));
    drop(second);
    let _ = taken;
}

#[test]
fn files_of_another_job_are_kept_and_named() {
    let workdir = Workdir::new();
    let other = target(&workdir, "out.npy");
    let run = Fingerprint::new(&workdir.input, "median", &other);
    let kept = ClaimedOutput::open(&other, &run, ClaimOptions::default(), &Cancel::new());
    drop(kept.unwrap().unwrap());
    let before = workdir.names();
    let refused = open(&workdir, &other, LONG);
    let words = ["belong to another job", "median"];
    demand(refused, ErrorKind::InvalidValue, "out.npy.claims/job", &words);
    assert_eq!(workdir.names(), before);
}

#[test]
fn a_partial_output_without_claims_is_kept() {
    let workdir = Workdir::new();
    let own = workdir.target("out.npy");
    let mut output = workdir.begin(&own, "copy", Start::New).unwrap();
    output.write(0..1, &DATA[..4]).unwrap();
    drop(output);
    let before = fs::read(workdir.path("out.npy.partial")).unwrap();
    let refused = open(&workdir, &target(&workdir, "out.npy"), LONG);
    let words = ["no claims that name its job"];
    demand(refused, ErrorKind::InvalidValue, "out.npy.partial", &words);
    assert_eq!(fs::read(workdir.path("out.npy.partial")).unwrap(), before);
    assert!(!workdir.path("out.npy.claims").exists());
}

/// Where no rename refuses to replace, the partial output has two names for a moment, and keeps
/// them if its creator dies then.
#[test]
fn a_partial_output_with_the_name_of_its_creator_is_opened() {
    let workdir = Workdir::new();
    let target = target(&workdir, "out.npy");
    drop(open(&workdir, &target, LONG).unwrap().unwrap());
    let second = workdir.path("out.npy.claims").join("new-0000000000000001-partial");
    fs::hard_link(workdir.path("out.npy.partial"), second).unwrap();
    work(&workdir, &target, LONG);
    is_complete(&workdir, "out.npy");
}

#[test]
fn an_input_that_changes_is_an_error_and_its_rows_are_not_done() {
    let workdir = Workdir::new();
    let target = target(&workdir, "out.npy");
    let mut output = open(&workdir, &target, LONG).unwrap().unwrap();
    let rows = output.next(&Cancel::new()).unwrap().unwrap();
    let mut bytes = fs::read(workdir.path("in.npy")).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(workdir.path("in.npy"), bytes).unwrap();
    let words = ["the input has changed during the run"];
    demand(write(&output, &rows), ErrorKind::Io, "out.npy", &words);
    let status = JobStatus::read(target.path(), None).unwrap().unwrap();
    assert_eq!(status.rows_done, 0);
    let changed = Input::open(&workdir.path("in.npy"), None).unwrap();
    let run = Fingerprint::new(&changed, "copy", &target);
    let refused = ClaimedOutput::open(&target, &run, ClaimOptions::default(), &Cancel::new());
    let words = ["the input has changed since the job began"];
    demand(refused, ErrorKind::InvalidValue, "out.npy.claims/job", &words);
}

/// Damaged files of claims give an error that names the file, or cost nothing but time.
#[test]
fn damaged_claims_give_an_error_or_the_right_bytes() {
    for seed in 0..60 {
        let mut draw = Prng::new(seed);
        let workdir = Workdir::new();
        let target = target(&workdir, "out.npy");
        let mut output = open(&workdir, &target, SHORT).unwrap().unwrap();
        let rows = output.next(&Cancel::new()).unwrap().unwrap();
        write(&output, &rows).unwrap();
        output.next(&Cancel::new()).unwrap().unwrap();
        output.stop(None);
        let claims = workdir.path("out.npy.claims");
        let mut paths: Vec<_> =
            fs::read_dir(&claims).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let path = &paths[usize::try_from(draw.below(paths.len() as u64)).unwrap()];
        let mut bytes = fs::read(path).unwrap();
        let at = usize::try_from(draw.below(bytes.len() as u64 + 1)).unwrap();
        match draw.below(3) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, draw.next_u64().to_le_bytes()[0]),
            _ => bytes.iter_mut().skip(at).for_each(|byte| *byte = 0),
        }
        fs::write(path, bytes).unwrap();
        let run = Fingerprint::new(&workdir.input, "copy", &target);
        let options = ClaimOptions { lease: SHORT, range_min: Bytes(1) };
        let opened = ClaimedOutput::open(&target, &run, options, &Cancel::new());
        let ended = opened.and_then(|opened| {
            let Some(mut output) = opened else { return Ok(()) };
            while let Some(rows) = output.next(&Cancel::new())? {
                write(&output, &rows)?;
            }
            Ok(())
        });
        match ended {
            Ok(()) => is_complete(&workdir, "out.npy"),
            Err(error) => {
                let name = path.file_name().unwrap().to_str().unwrap();
                assert!(error.to_string().contains(name), "seed {seed}: {name}: {error}");
                assert!(!workdir.path("out.npy").exists(), "seed {seed}");
            }
        }
    }
}

#[test]
fn the_state_of_a_job_may_be_in_another_folder() {
    let workdir = Workdir::new();
    for folder in ["state", "first", "second"] {
        fs::create_dir(workdir.path(folder)).unwrap();
    }
    let target = |out: &str| {
        let target = workdir.target(out).in_state(&workdir.path("state")).unwrap();
        target.with_claims(1)
    };
    let mut output = open(&workdir, &target("first/out.npy"), LONG).unwrap().unwrap();
    let rows = output.next(&Cancel::new()).unwrap().unwrap();
    write(&output, &rows).unwrap();
    output.stop(None);
    assert_eq!(workdir.path("first").read_dir().unwrap().count(), 0);
    // An engine starts the job again in another folder.
    let again = target("second/out.npy");
    assert_eq!(
        JobStatus::read(again.path(), Some(&workdir.path("state"))).unwrap().unwrap().rows_done,
        1
    );
    work(&workdir, &again, LONG);
    assert_eq!(workdir.path("second").read_dir().unwrap().count(), 1);
    let written = fs::read(workdir.path("second/out.npy")).unwrap();
    assert!(written.ends_with(&DATA));
    assert_eq!(workdir.path("state").read_dir().unwrap().count(), 0);
}
