//! A program that cannot run is refused before the launch.

use crate::device;
use trijet::workers::queens::{QUEENS, root};
use trijet::workers::{Policy, RunOptions, TaskGraph, Work, WorkerTask};
use trijet::{ErrorKind, Result};
use trijet_programs::layered::{LAYERED, Layered};
use trijet_programs::lengths::LENGTHS;

#[test]
fn a_kind_that_the_program_lacks_is_refused() -> Result<()> {
    let s = device()?.stream()?;
    let mut total = s.alloc_zeroed::<u64>(1)?;
    let tasks = [root(4), WorkerTask::new(1, 0)];
    let mut run = |work: Work<'_>| {
        s.run_workers(&QUEENS, work, &RunOptions::default(), (&mut total, 1u32)).unwrap_err()
    };
    let last = [WorkerTask::new(255, 0)];
    let rows = [
        (Work::Tasks(&tasks), 1),
        (Work::Range { kind: 1, count: 1 }, 1),
        (Work::Tasks(&last), 255),
        (Work::Range { kind: 255, count: 1 }, 255),
    ];
    for (work, kind) in rows {
        let refused = run(work);
        assert_eq!(refused.kind(), ErrorKind::InvalidValue);
        let words = format!("there is no kind {kind}; the program has 1 kinds");
        assert!(refused.to_string().contains(&words), "{refused}");
    }
    Ok(())
}

#[test]
fn more_tasks_than_a_counter_can_pass_are_refused() -> Result<()> {
    let s = device()?.stream()?;
    let mut out = s.alloc::<u32>(32)?;
    let work = Work::Range { kind: 0, count: (1 << 31) + 1 };
    let run = s.run_workers(&LENGTHS, work, &RunOptions::default(), (&mut out, 1u32, 0u32));
    let refused = run.unwrap_err();
    assert!(refused.to_string().contains("2147483649 initial tasks are too many"), "{refused}");
    Ok(())
}

#[test]
fn a_policy_that_the_tasks_do_not_allow_is_refused() -> Result<()> {
    let s = device()?.stream()?;
    let mut out = s.alloc::<u32>(32)?;
    let levels = RunOptions::new().policy(Policy::Levels);
    let work = Work::Range { kind: 0, count: 1 };
    let refused = s.run_workers(&LENGTHS, work, &levels, (&mut out, 1u32, 0u32)).unwrap_err();
    assert!(refused.to_string().contains("needs a graph"), "{refused}");
    let graph = Layered::new(2, 2);
    let loaded = s.load_graph(&graph.tasks()?)?;
    let (ends, before) = (s.upload(&graph.ends)?, s.upload(&graph.before)?);
    let mut values = s.alloc::<u32>(graph.len())?;
    let fixed = RunOptions::new().policy(Policy::Static);
    let args = (&ends, &before, &mut values);
    let refused = s.run_workers(&LAYERED, Work::Graph(&loaded), &fixed, args).unwrap_err();
    assert!(refused.to_string().contains("a graph needs an order between workers"), "{refused}");
    Ok(())
}

/// The words that the host shares with the workers belong to the run, and a graph outlives it.
#[test]
fn a_run_in_a_recording_is_refused() -> Result<()> {
    let device = device()?;
    let s = device.stream()?;
    let mut out = s.alloc::<u32>(32)?;
    let graph = device.record(|g| {
        g.argument(&out)?;
        let work = Work::Range { kind: 0, count: 1 };
        let run =
            g.stream()?.run_workers(&LENGTHS, work, &RunOptions::default(), (&mut out, 1u32, 0u32));
        assert_eq!(run.unwrap_err().kind(), ErrorKind::Capturing);
        Ok(())
    })?;
    assert!(graph.is_empty());
    Ok(())
}

#[test]
fn workers_without_room_are_refused() -> Result<()> {
    let device = device()?;
    let s = device.stream()?;
    let mut out = s.alloc::<u32>(32)?;
    let work = Work::Range { kind: 0, count: 1 };
    let all = device.info().multiprocessors;
    for options in [
        RunOptions::new().reserve(all),
        RunOptions::new().reserve(u32::MAX),
        RunOptions::new().workers(0),
    ] {
        let refused = s.run_workers(&LENGTHS, work, &options, (&mut out, 1u32, 0u32)).unwrap_err();
        assert!(refused.to_string().contains("no room for a block of workers"), "{refused}");
    }
    let options = RunOptions::new().queue(u32::MAX / 2);
    let refused = s.run_workers(&LENGTHS, work, &options, (&mut out, 1u32, 0u32)).unwrap_err();
    assert!(refused.to_string().contains("too large"), "{refused}");
    Ok(())
}

#[test]
fn a_graph_with_a_cycle_or_with_tasks_that_conflict_is_refused() -> Result<()> {
    let s = device()?.stream()?;
    let mut graph = TaskGraph::new();
    let [a, b] = [0, 0].map(|kind| graph.node(kind));
    graph.writes(a, 7, 0..4).reads(b, 7, 3..9);
    let refused = s.load_graph(&graph).unwrap_err();
    assert!(refused.to_string().contains("nodes 0 and 1 use the same memory"), "{refused}");
    graph.edge(b, a);
    s.load_graph(&graph)?;
    graph.edge(a, b);
    let refused = s.load_graph(&graph).unwrap_err();
    assert!(refused.to_string().contains("nodes wait for each other: "), "{refused}");
    Ok(())
}

#[test]
fn arguments_that_the_program_refuses_are_named() -> Result<()> {
    let s = device()?.stream()?;
    let mut out = s.alloc::<u32>(33)?;
    let work = Work::Range { kind: 0, count: 1 };
    let run = s.run_workers(&LENGTHS, work, &RunOptions::default(), (&mut out, 1u32, 0u32));
    let refused = run.unwrap_err().to_string();
    assert!(refused.contains("`lengths`: out has 33 words"), "{refused}");
    Ok(())
}
