//! Panics of the program's functions that the library calls between the start and the end of a
//! state.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use trijet::explore::{Strategy, explore};
use trijet::graph::Recording;
use trijet::pipeline::StageCx;
use trijet::sim::{Executor, HostConfig, Order};
use trijet::testing::{self, Script};
use trijet::{Device, Error, ErrorKind, Pipeline, Result, Stream, View, ViewMut};

use super::open;

fn greedy() -> Result<Device> {
    open(HostConfig::new().executor(Executor::Virtual(Order::Greedy)))
}

/// A stream that leaves the code of a recording, which panics.
fn escaped(record: impl FnOnce(&mut Option<Stream>)) -> Stream {
    let mut kept = None;
    let panicked = catch_unwind(AssertUnwindSafe(|| record(&mut kept)));
    assert!(panicked.is_err());
    kept.expect("the stream left before the panic")
}

/// S3: an operation runs, or its call is an error.
#[test]
fn a_stream_of_a_recording_that_panicked_refuses_operations() -> Result<()> {
    let device = greedy()?;
    let s = device.stream()?;
    let mut x = s.alloc_zeroed::<u32>(4)?;
    let mut graph = device.record(|g| {
        g.argument(&x)?;
        g.stream()?.fill(&mut x, 1)
    })?;
    let leaves = |g: &Recording, kept: &mut Option<Stream>| -> Result<()> {
        g.argument(&x)?;
        *kept = Some(g.stream()?);
        panic!("on purpose")
    };
    let first = escaped(|kept| drop(device.record(|g| leaves(g, kept))));
    let again = escaped(|kept| drop(device.record_again(&mut graph, |g| leaves(g, kept))));
    for (what, stream) in [("recorded", first), ("recorded again", again)] {
        let filled = stream.fill(&mut x, 7);
        assert_eq!(filled.map_err(|error| error.kind()), Err(ErrorKind::InvalidValue), "{what}");
        let memory = stream.alloc::<u32>(4).map(drop);
        assert_eq!(memory.map_err(|error| error.kind()), Err(ErrorKind::InvalidValue), "{what}");
    }
    assert_eq!(s.download(&x)?, [0; 4]);
    Ok(())
}

/// The script of a simulation ends even when one of its threads panics: later calls have their
/// turns.
#[test]
fn a_script_whose_thread_panics_ends() -> Result<()> {
    let run = |devices: &[Device]| {
        let run = || -> Result<Vec<u32>> {
            let device = &devices[0];
            let threads: Vec<Script<'_>> =
                vec![Box::new(|| panic!("on purpose")), Box::new(|| drop(device.stream()))];
            assert!(catch_unwind(AssertUnwindSafe(|| testing::script(device, threads))).is_err());
            let s = device.stream()?;
            let mut x = s.alloc::<u32>(2)?;
            s.fill(&mut x, 3)?;
            s.download(&x)
        };
        run().expect("nothing failed")
    };
    let strategies = [Strategy::Exhaustive { runs_max: 50 }, Strategy::Seeded { runs: 5, seed: 1 }];
    for strategy in strategies {
        let found = explore(&HostConfig::default(), strategy, run)?;
        let values: Vec<Vec<u32>> = found.outcomes.into_iter().map(|one| one.value).collect();
        assert_eq!(values, [[3, 3]], "{strategy:?}");
    }
    Ok(())
}

/// A payload whose drop panics.
struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        resume_unwind(Box::new("on purpose"));
    }
}

/// The process once ended, because the scope of the threads dropped the payload.
#[test]
fn a_script_whose_thread_panics_with_any_payload_panics_itself() -> Result<()> {
    for executor in [Executor::Threads, Executor::Virtual(Order::Seeded(1))] {
        let device = open(HostConfig::new().executor(executor))?;
        let thread: Script<'_> = Box::new(|| resume_unwind(Box::new(PanicsWhenDropped)));
        let outcome = catch_unwind(AssertUnwindSafe(|| testing::script(&device, vec![thread])));
        assert!(outcome.map_err(std::mem::forget).is_err());
    }
    Ok(())
}

/// A call that returns one error once lost other errors: `finish` waits for several streams.
#[test]
fn a_wait_for_tasks_returns_one_error_and_the_next_wait_the_next_one() -> Result<()> {
    let device = greedy()?;
    let s = device.stream()?;
    let tasks = device.tasks();
    let x = tasks.alloc::<u32>(4)?;
    tasks.task(x.write()).run(|s, mut x| s.fill(&mut x, 1))?;
    tasks.finish()?;
    tasks.task(x.update()).run(|_, _| Err(Error::new(ErrorKind::Io, "drawn", "an error")))?;
    for words in ["first", "second", "third"] {
        s.host_fn(move || panic!("{words}"))?;
    }
    s.synchronize().expect_err("the first one");
    let mut told = Vec::new();
    while let Err(error) = tasks.finish() {
        told.push(error.to_string());
    }
    assert_eq!(told.len(), 3, "{told:?}");
    for (told, word) in told.iter().zip(["an error", "second", "third"]) {
        assert!(told.contains(word), "{told} has {word}");
    }
    Ok(())
}

/// A run that fails waits for its work, and leaves the panic of a host function to the next call.
#[test]
fn a_failed_run_of_a_pipeline_takes_no_other_error_with_it() -> Result<()> {
    let device = greedy()?;
    let fails = Cell::new(false);
    let copy = |cx: &StageCx<'_>, x: View<'_, u8>, mut y: ViewMut<'_, u8>| {
        if fails.get() {
            cx.host_fn(|| panic!("on purpose"))?;
            return Err(Error::new(ErrorKind::Io, "drawn", "an error"));
        }
        cx.copy(&x, &mut y)
    };
    let (x, mut y) = (device.pinned::<u8>(64)?, device.pinned::<u8>(64)?);
    let mut job = Pipeline::on(&device).stage(copy).prepare(&x, &mut y, 4)?;
    job.run(&x, &mut y)?;
    fails.set(true);
    let error = job.run(&x, &mut y).expect_err("the stage fails");
    assert!(error.to_string().contains("an error"), "{error}");
    let error = device.synchronize().expect_err("the panic was not told");
    assert!(error.to_string().contains("on purpose"), "{error}");
    device.synchronize()
}
