//! Tests of the entries that the library writes into traces: streams, numbers and times.
#![forbid(unsafe_code)]

use super::device::Device;
use super::signal::Signal;
use super::stream::Stream;
use crate::base::error::{ErrorKind, Result};
use crate::base::ledger::{Engine, HostStep, Op, OpKind, SignalStep, StreamWork};
use crate::base::times::{TimeSource, TimesFrom};
use crate::base::units::Bytes;
use crate::check::CheckOptions;
use crate::device::{Executor, Fault, FaultKind, HostConfig, Order, Verb};
use crate::log::Trace;
use crate::trace::queued::queued;
use std::sync::Barrier;

/// Calls `begin` while another thread opens four streams, and returns the streams.
fn open_while(device: &Device, begin: impl FnOnce() -> Result<()>) -> Result<Vec<Stream>> {
    let start = Barrier::new(2);
    std::thread::scope(|scope| {
        let opener = scope.spawn(|| {
            start.wait();
            (0..4).map(|_| device.stream()).collect::<Result<Vec<Stream>>>()
        });
        start.wait();
        begin()?;
        opener.join().expect("no panic")
    })
}

/// A device whose allocations are operations of streams.
fn pooled() -> Result<Device> {
    Ok(Device::host(HostConfig::new().without_ranges())?.remove(0))
}

/// A trace that starts while another thread opens streams has each of these streams once.
#[test]
fn streams_that_open_while_a_trace_starts_are_traced_once() -> Result<()> {
    for round in 0..300 {
        let device = pooled()?;
        let first = device.stream()?;
        let opened = open_while(&device, || device.start_trace(&first))?;
        for stream in &opened {
            stream.alloc::<u8>(16)?;
        }
        device.synchronize()?;
        let ops = device.take_trace()?.ops;
        let allocs = ops.iter().filter(|op| op.kind == OpKind::Work(StreamWork::Alloc));
        let mut lanes: Vec<u32> = allocs.map(|op| op.position.lane.0).collect();
        lanes.sort_unstable();
        let mut expected: Vec<u32> = opened.iter().map(|s| s.lane().id.0).collect();
        expected.sort_unstable();
        assert_eq!(lanes, expected, "round {round}");
    }
    Ok(())
}

/// A checker that starts while another thread opens streams reads each operation of these streams
/// once.
#[test]
fn a_checker_reads_once_what_a_stream_does_that_opens_while_it_starts() -> Result<()> {
    for round in 0..300 {
        let device = pooled()?;
        let mut kept = Vec::new();
        let check = || {
            device.shared().domain.check(CheckOptions::default()).map(|checked| kept.push(checked))
        };
        let opened = open_while(&device, check)?;
        let before = device.verdict().expect("it is checked").accesses;
        for stream in &opened {
            stream.alloc::<u8>(16)?;
        }
        device.synchronize()?;
        // An allocation and its free in each stream.
        let counted = device.verdict().expect("it is checked").accesses - before;
        assert_eq!(counted, 8, "round {round}");
    }
    Ok(())
}

#[test]
fn a_pool_query_that_fails_costs_the_entry_and_not_the_call() -> Result<()> {
    for nth in [1, 2, 3] {
        let refused = Fault { verb: Verb::PoolQuery, nth, kind: FaultKind::Refused };
        let executor = Executor::Virtual(Order::Greedy);
        let config = HostConfig::new().executor(executor).faults(vec![refused]).without_ranges();
        let device = Device::host(config)?.remove(0);
        let stream = device.stream()?;
        device.keep_memory(Bytes(0))?;
        device.start_trace(&stream)?;
        // The buffer is freed at once. The pool returns the memory when a thread waits for the
        // stream.
        stream.alloc::<u8>(1 << 20)?;
        stream.synchronize()?;
        let ops = device.take_trace()?.ops;
        let released = ops.iter().any(|op| op.kind == OpKind::Host(HostStep::Release));
        assert_eq!(released, nth == 3, "{ops:#?}");
    }
    Ok(())
}

/// The numbers of threads and allocations in a trace do not depend on earlier calls of the process.
#[test]
fn a_trace_numbers_threads_and_allocations_by_appearance() -> Result<()> {
    for round in 0..3 {
        let executor = Executor::Virtual(Order::Greedy);
        let device = Device::host(HostConfig::new().executor(executor))?.remove(0);
        let stream = device.stream()?;
        let earlier = stream.alloc::<u8>(8 + round)?;
        device.start_trace(&stream)?;
        let mut x = stream.alloc::<u8>(8)?;
        std::thread::scope(|scope| {
            let fill = || stream.fill_bytes(&mut x, 1);
            scope.spawn(fill).join().expect("no panic")
        })?;
        drop((x, earlier));
        device.synchronize()?;
        let ops = device.take_trace()?.ops;
        let seen = ops.iter().flat_map(|op| op.accesses.iter().map(|a| (op.thread, a.block.0)));
        assert_eq!(seen.collect::<Vec<_>>(), [(1, 1), (2, 1), (1, 1), (1, 2)], "{round}");
    }
    Ok(())
}

#[test]
fn a_trace_numbers_signals_by_appearance() -> Result<()> {
    for round in 0..3 {
        let device = Device::host(HostConfig::default())?.remove(0);
        let stream = device.stream()?;
        device.start_trace(&stream)?;
        let signals = [device.signal(), device.signal()];
        signals.iter().rev().for_each(Signal::set);
        let ops = device.take_trace()?.ops;
        let signal_of = |op: &Op| {
            let OpKind::Signal(step) = op.kind else { return None };
            let (SignalStep::Use { signal, .. } | SignalStep::Handle { signal, .. }) = step else {
                return None;
            };
            Some(signal)
        };
        let seen = ops.iter().filter_map(signal_of);
        // Both handles are made, and each is used just before it sets its signal.
        assert_eq!(seen.collect::<Vec<_>>(), [1, 2, 2, 2, 1, 1], "{round}");
    }
    Ok(())
}

const BYTES: usize = 1 << 20;

fn device(faults: Vec<Fault>) -> Device {
    let executor = Executor::Virtual(Order::Greedy);
    let config = HostConfig::new().executor(executor).faults(faults);
    Device::host(config).expect("a host device").remove(0)
}

/// Three streams upload at the same time, and one stream computes.
fn queueing(device: &Device, from: TimesFrom) -> Result<Trace> {
    let streams = (0..3).map(|_| device.stream()).collect::<Result<Vec<_>>>()?;
    let h = device.pinned::<u8>(BYTES)?;
    let mut x: Vec<_> = streams.iter().map(|s| s.alloc::<u8>(BYTES)).collect::<Result<_>>()?;
    device.synchronize()?;
    device.start_trace_from(&streams[0], from)?;
    for (stream, x) in streams.iter().zip(&mut x) {
        stream.copy(&h, x)?;
    }
    streams[2].fill_bytes(&mut x[2], 1)?;
    device.synchronize()?;
    device.take_trace()
}

fn uploads(trace: &Trace) -> Vec<(u64, u64)> {
    let uploads = trace.ops.iter().filter(|op| op.engine == Engine::Upload);
    let times = uploads.map(|op| op.times.expect("it was traced"));
    times.map(|times| (times.begin.0, times.end.0)).collect()
}

#[test]
fn pairs_of_events_count_the_queue_and_engines_do_not() -> Result<()> {
    let pairs = queueing(&device(vec![]), TimesFrom::Events)?;
    let engines = queueing(&device(vec![]), TimesFrom::Activity)?;
    let (queue, work) = (uploads(&pairs), uploads(&engines));
    let length = |(begin, end): &(u64, u64)| end - begin;
    // By the times of the activities, the uploads run one after another and take equally long.
    assert!(work.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{work:?}");
    assert!(length(&work[0]) > 0, "{work:?}");
    assert!(work.iter().all(|one| length(one) == length(&work[0])), "{work:?}");
    // The third pair of events also spans the two uploads before it.
    assert!(length(&queue[2]) > 2 * length(&work[2]), "{queue:?} {work:?}");
    assert!(!queued(&pairs.ops).is_empty() && queued(&engines.ops).is_empty());
    Ok(())
}

#[test]
fn a_trace_says_where_its_times_come_from() -> Result<()> {
    let engines = queueing(&device(vec![]), TimesFrom::ActivityIfThere)?;
    assert_eq!((engines.times, engines.untimed, engines.lost), (TimeSource::Activity, 0, 0));
    assert_eq!(engines.instead, None);
    assert_eq!(engines.about("a test").times, TimeSource::Activity);
    assert_eq!(engines.about("a test").devices[0].name, "host device (modelled H200)");
    let pairs = queueing(&device(vec![]), TimesFrom::Events)?;
    assert_eq!(pairs.times, TimeSource::Model);
    Ok(())
}

#[test]
fn engines_and_the_host_are_on_one_clock() -> Result<()> {
    let engines = queueing(&device(vec![]), TimesFrom::Activity)?;
    for op in engines.ops.iter().filter(|op| op.engine != Engine::None) {
        let (call, times) = (op.call.expect("traced"), op.times.expect("traced"));
        assert!(call.begin <= times.begin, "{op:?}");
    }
    let waits =
        engines.ops.iter().filter(|op| matches!(op.kind, OpKind::Host(HostStep::Sync { .. })));
    let last = waits.filter_map(|op| op.call).map(|call| call.end).max();
    let end = engines.ops.iter().filter_map(|op| op.times).map(|times| times.end).max();
    assert!(end.is_some() && end <= last, "{end:?} {last:?}");
    Ok(())
}

/// Only one trace at a time can have activities. Another trace may fall back to pairs of events,
/// and then states why.
#[test]
fn a_second_trace_gets_pairs_or_an_error_as_requested() -> Result<()> {
    let device = device(vec![]);
    let stream = device.stream()?;
    let profiler = device.shared().domain.driver().profiler().expect("host devices have one");
    profiler.activity_begin()?;
    let error = device.start_trace_from(&stream, TimesFrom::Activity).expect_err("they are in use");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let pairs = queueing(&device, TimesFrom::ActivityIfThere)?;
    assert_eq!((pairs.times, pairs.untimed), (TimeSource::Model, 0));
    let why = pairs.instead.expect("activities were requested");
    assert!(why.contains("another trace"), "{why}");
    profiler.activity_take().map(drop)
}

#[test]
fn a_trace_that_was_never_taken_ends_when_another_starts() -> Result<()> {
    let device = device(vec![]);
    let stream = device.stream()?;
    device.start_trace_from(&stream, TimesFrom::Activity)?;
    device.start_trace_from(&stream, TimesFrom::Activity)?;
    device.take_trace()?;
    let profiler = device.shared().domain.driver().profiler().expect("host devices have one");
    let error = profiler.activity_take().expect_err("it has ended");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    Ok(())
}

/// The next operation does not get the tag of a refused operation.
#[test]
fn a_refused_operation_leaves_no_tag() -> Result<()> {
    let refused = Fault { verb: Verb::Fill, nth: 1, kind: FaultKind::Refused };
    let device = device(vec![refused]);
    let stream = device.stream()?;
    let mut x = stream.alloc::<u8>(BYTES)?;
    device.start_trace_from(&stream, TimesFrom::Activity)?;
    assert!(stream.fill_bytes(&mut x, 1).is_err());
    device.take_trace()?;
    let profiler = device.shared().domain.driver().profiler().expect("host devices have one");
    profiler.activity_begin()?;
    // No trace is running, so nothing is tagged.
    stream.fill_bytes(&mut x, 1)?;
    device.synchronize()?;
    assert_eq!(profiler.activity_take()?.work, []);
    Ok(())
}

#[test]
fn on_threads_operations_have_the_times_of_their_threads() -> Result<()> {
    let device = Device::host(HostConfig::default())?.remove(0);
    let engines = queueing(&device, TimesFrom::Activity)?;
    let work = uploads(&engines);
    // One thread uploads, so each upload ends before the next one begins.
    assert!(work.len() == 3 && work.iter().all(|(begin, end)| begin <= end), "{work:?}");
    let mut sorted = work.clone();
    sorted.sort_unstable();
    assert!(sorted.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{work:?}");
    Ok(())
}
