//! Ends of runs that do not run all of their tasks, and runs without tasks.

use crate::{answers, demand_clean, device};
use trijet::kernels::Update;
use trijet::workers::queens::{QUEENS, root};
use trijet::workers::{Body, Kinds, Policy, Program, ProgramSpec, RunOptions, Work, Worker};
use trijet::{ErrorKind, Result};
use trijet_programs::lengths::LENGTHS;
use trijet_programs::tree::{self, TREE};

#[test]
fn a_run_without_tasks_ends() -> Result<()> {
    let device = device()?;
    for policy in [Policy::Static, Policy::Sharing, Policy::Stealing, Policy::Hybrid] {
        let options = RunOptions::new().policy(policy);
        let report = answers::lengths(&device, &options, 0, 0)?;
        assert_eq!((report.ran, report.spawned), (0, 0));
    }
    for policy in [Policy::Sharing, Policy::Levels] {
        answers::layered(&device, &RunOptions::new().policy(policy), 0, 1)?;
    }
    Ok(())
}

#[test]
fn a_task_without_room_ends_the_run_and_is_named() -> Result<()> {
    let device = device()?;
    let s = device.stream()?;
    let mut sums = s.alloc_zeroed::<u64>(2)?;
    let options = RunOptions::new().queue(2).ring(2).workers(8);
    let first = [tree::root(2)];
    let run = s.run_workers(&TREE, Work::Tasks(&first), &options, (&mut sums, 12u32, 8u32))?;
    let error = run.wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    let told = error.to_string();
    for part in ["had no room for the task `node` with the payload", "a worker's queue holds 2"] {
        assert!(told.contains(part), "{told}");
    }
    demand_clean(&device);
    Ok(())
}

#[test]
fn a_cancelled_run_says_so_and_the_next_one_is_whole() -> Result<()> {
    let device = device()?;
    let s = device.stream()?;
    let mut total = s.alloc_zeroed::<u64>(1)?;
    let first = [root(9)];
    let run =
        s.run_workers(&QUEENS, Work::Tasks(&first), &RunOptions::default(), (&mut total, 4u32))?;
    run.cancel();
    assert_eq!(run.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    answers::queens(&device, &RunOptions::default(), 9, 4)?;
    Ok(())
}

/// A program whose first task waits for the second one, which never runs, because it is queued
/// after the first.
struct Waits;

impl Kinds for Waits {
    const KINDS: &'static [(&'static str, Body)] = &[("wait_for", wait_for), ("set", set)];
}

fn wait_for(w: &mut Worker<'_>, _: u64) {
    let flag = w.shared::<u32>(0);
    w.must_spawn(1, 5);
    while flag.get(0) == 0 && !w.stopped() {}
}

fn set(w: &mut Worker<'_>, _: u64) {
    w.shared::<u32>(0).set(0, 1);
}

static WAITS: Program<Waits, (Update<u32>,)> = {
    let spec = ProgramSpec::new("waits", "", "u32* flag, u64 length");
    // SAFETY: the bodies use the first word, and the test passes one.
    unsafe { Program::declare(spec) }
};

#[test]
fn a_run_that_would_hang_ends_with_the_worker_and_the_task_named() -> Result<()> {
    let device = device()?;
    let s = device.stream()?;
    let mut flag = s.alloc_zeroed::<u32>(1)?;
    let options = RunOptions::new().workers(8);
    let work = Work::Range { kind: 0, count: 1 };
    let error = s.run_workers(&WAITS, work, &options, (&mut flag,))?.wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stalled, "{error}");
    let told = error.to_string();
    assert!(told.contains("ran the task `wait_for` with the payload 0x0 for more than"), "{told}");
    Ok(())
}

#[test]
fn a_body_that_panics_fails_the_run() -> Result<()> {
    struct Panics;
    impl Kinds for Panics {
        const KINDS: &'static [(&'static str, Body)] = &[("panics", |_, _| panic!("on purpose"))];
    }
    static PANICS: Program<Panics, (Update<u32>,)> = {
        let spec = ProgramSpec::new("panics", "", "u32* unused, u64 length");
        // SAFETY: the body uses no memory.
        unsafe { Program::declare(spec) }
    };
    let device = device()?;
    let s = device.stream()?;
    let work = Work::Range { kind: 0, count: 1 };
    let mut word = s.alloc::<u32>(1)?;
    let run = s.run_workers(&PANICS, work, &RunOptions::default(), (&mut word,))?;
    let error = run.wait().unwrap_err();
    assert!(error.to_string().contains("on purpose"), "{error}");
    Ok(())
}

#[test]
fn statistics_count_every_task_of_every_worker() -> Result<()> {
    let device = device()?;
    let options = RunOptions::new().statistics().workers(16);
    let report = answers::lengths(&device, &options, 300, 3)?;
    assert_eq!(report.workers.len(), 16);
    assert_eq!(report.workers.iter().map(|worker| worker.ran).sum::<u64>(), 300);
    let s = device.stream()?;
    let mut out = s.alloc::<u32>(3200)?;
    let fixed = options.policy(Policy::Static);
    let work = Work::Range { kind: 0, count: 100 };
    let report = s.run_workers(&LENGTHS, work, &fixed, (&mut out, 1u32, 0u32))?.wait()?;
    let ran: Vec<u64> = report.workers.iter().map(|worker| worker.ran).collect();
    assert_eq!(ran, [[7; 4].as_slice(), &[6; 12]].concat(), "dealt out in turn");
    Ok(())
}
