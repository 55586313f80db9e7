//! Panics of functions of the program that the library calls between the begin and the end of a state.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use trijet::explore::{Strategy, explore};
use trijet::graph::Recording;
use trijet::sim::{Executor, HostConfig, Order, Script};
use trijet::{Device, ErrorKind, Result, Stream};

use super::open;

fn greedy() -> Result<Device> {
    open(HostConfig { executor: Executor::Virtual(Order::Greedy), ..HostConfig::default() })
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

/// The script of a simulation ends, too, when one of its threads panics: later calls have their turns.
#[test]
fn a_script_whose_thread_panics_ends() -> Result<()> {
    let run = |devices: &[Device]| {
        let run = || -> Result<Vec<u32>> {
            let device = &devices[0];
            let threads: Vec<Script<'_>> =
                vec![Box::new(|| panic!("on purpose")), Box::new(|| drop(device.stream()))];
            assert!(catch_unwind(AssertUnwindSafe(|| device.script(threads))).is_err());
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
        let device = open(HostConfig { executor, ..HostConfig::default() })?;
        let thread: Script<'_> = Box::new(|| resume_unwind(Box::new(PanicsWhenDropped)));
        let outcome = catch_unwind(AssertUnwindSafe(|| device.script(vec![thread])));
        assert!(outcome.map_err(std::mem::forget).is_err());
    }
    Ok(())
}
