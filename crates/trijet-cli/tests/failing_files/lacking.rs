//! `trijet map` on file systems that lack a call: locks, a rename that replaces nothing, hard
//! links, or upper case.

use crate::job::{Ended, Fault, JOBS, Job, Place};
use crate::{EIO, faults, reference};
use std::fs;

/// The jobs on a file system without these calls.
fn without(calls: &'static str) -> [Job; 4] {
    JOBS.map(|job| Job { without: calls, ..job })
}

/// The errors of Lustre without `flock`, of NFS without a lock daemon, and of others.
#[test]
fn without_locks_a_run_goes_on_and_says_so_once() {
    for calls in ["lock=38", "lock=37", "lock=95", "lock=524"] {
        for (job, plain) in without(calls).into_iter().zip(JOBS) {
            let place = Place::new(job);
            let ended = place.run(&[], None);
            assert_eq!(ended.code, Some(0), "{job:?}: {}", ended.error);
            assert_eq!(ended.error.matches("has no locks").count(), 1, "{}", ended.error);
            assert_eq!(place.output(), Some(reference(plain).0), "{job:?}");
            assert!(place.others().is_empty(), "{job:?}: left {:?}", place.others());
        }
    }
}

/// Each of several processes would take the partial output of the others for an old one.
#[test]
fn without_locks_several_processes_are_refused_and_leave_nothing() {
    for job in without("lock=38") {
        let place = Place::new(job);
        let ended = place.run(&["--shard", "0/2"], None);
        assert_eq!(ended.code, Some(1), "{job:?}: {}", ended.error);
        assert!(ended.error.contains("has no locks"), "{}", ended.error);
        assert!(place.output().is_none() && place.others().is_empty(), "{:?}", place.others());
        let ended = place.run(&["--shard", "0/1"], None);
        assert_eq!(ended.code, Some(0), "{job:?}: {}", ended.error);
        assert!(place.others().is_empty(), "{job:?}: left {:?}", place.others());
    }
}

/// If a lock fails for another reason, locks are not missing.
#[test]
fn a_lock_that_fails_leaves_no_journal() {
    for job in without("lock=5") {
        let place = Place::new(job);
        let ended = place.run(&[], None);
        assert_eq!(ended.code, Some(1), "{job:?}: {}", ended.error);
        assert!(place.output().is_none() && place.others().is_empty(), "{:?}", place.others());
    }
}

#[test]
fn an_output_gets_its_name_where_no_rename_refuses_to_replace() {
    for calls in ["noreplace=22", "noreplace=38", "noreplace=95", "noreplace=1"] {
        assert_finishes(calls);
    }
    for calls in ["noreplace=95,link=1", "noreplace=22,link=95", "noreplace=38,link=38"] {
        assert_finishes(calls);
    }
}

#[track_caller]
fn assert_finishes(calls: &'static str) {
    for (job, plain) in without(calls).into_iter().zip(JOBS) {
        let place = Place::new(job);
        for more in [&[][..], &["--overwrite"]] {
            let ended = place.run(more, None);
            assert_eq!(ended.code, Some(0), "{job:?} {more:?}: {}", ended.error);
            assert_eq!(place.output(), Some(reference(plain).0), "{job:?}");
            assert!(place.others().is_empty(), "{job:?}: left {:?}", place.others());
        }
    }
}

/// The command once looked for the file, and then replaced it.
#[test]
fn a_file_that_appears_before_the_final_name_is_kept() {
    let [job, ..] = without("noreplace=95");
    let (right, calls) = reference(job);
    let mut kept = 0;
    for at in 1..=calls.len() {
        let place = Place::new(job);
        let ended = place.run(&[], Some((at, Fault::Appear)));
        let case = format!("{job:?}: a file appears after call {at}: {}", ended.error);
        let found = place.output().unwrap();
        if found.values().any(|bytes| bytes == b"mine") {
            assert_eq!(ended.code, Some(1), "{case}");
            assert!(ended.error.contains("already exists"), "{case}");
            kept += 1;
        } else {
            assert_eq!(ended.code, Some(0), "{case}");
            assert_eq!(found, right, "{case}");
        }
    }
    assert!(kept > 5, "only {kept} calls came before the final name");
}

/// Between the two calls, a file has two names.
#[test]
fn a_file_call_that_fails_gives_no_wrong_bytes_where_names_are_links() {
    let [job, ..] = without("noreplace=95");
    faults(job, &[], |_| {});
    faults(job, &["--overwrite"], |place| {
        assert_eq!(place.run(&[], None).code, Some(0));
        place.age();
    });
}

/// The partial output, a second name of the output, was once left without a journal. Every later
/// run refused it.
#[test]
fn an_output_that_cannot_be_taken_over_keeps_one_name() {
    let [job, ..] = without("noreplace=95");
    let place = Place::new(job);
    assert_eq!(place.run(&[], None).code, Some(0));
    place.age();
    let fails = ("unlink out.npy", Fault::Error(EIO));
    let ended = place.run_with(&["--overwrite"], Some(fails));
    assert_eq!(ended.code, Some(1), "{}", ended.error);
    let made = ended.calls.iter().any(|call| call == fails.0);
    assert!(made, "the output loses its name: {:?}", ended.calls);
    assert!(place.others().is_empty(), "left {:?}", place.others());
    let ended = place.run(&["--resume", "--overwrite"], None);
    assert_eq!(ended.code, Some(0), "{}", ended.error);
}

/// The second image was once taken for a leftover of an earlier run, and replaced the first one.
#[test]
fn images_whose_names_are_one_for_the_file_system_are_an_error_that_names_both() {
    let place = Place::new(JOBS[2]);
    for (old, new) in [("0.png", "a.png"), ("1.png", "A.png")] {
        fs::rename(place.path("in").join(old), place.path("in").join(new)).unwrap();
    }
    for more in [&[][..], &["--resume"]] {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut command = place.watched(more, log.path());
        command.env("FAILING_FILES_FOLDED", place.path("out.partial"));
        let ended = Ended::of(&mut command, log.path());
        assert_eq!(ended.code, Some(1), "{more:?}: {}", ended.error);
        for word in ["a.png", "A.png", "as the same name", "is not finished"] {
            assert!(ended.error.contains(word), "{more:?}: {}", ended.error);
        }
        assert!(place.output().is_none(), "{more:?}");
    }
}
