//! Hardware queues of a host device: streams that share a queue may hold each other back (law A47).
//! The sharing is never an order, and it never keeps a program from ending.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use trijet::explore::{Strategy, explore};
use trijet::sim::{CostModel, Executor, HostConfig, Order};
use trijet::{Buffer, Device, Nanos, PinnedBuffer, Readiness, Result, Stream, TimedEvent};

/// The number of elements of a fill that takes about a millisecond.
const ELEMENTS: usize = 1 << 10;
const FILL: Nanos = Nanos(1_000_000);
const SEEDS: u64 = 60;

fn config(order: Order, queues: Option<u32>) -> HostConfig {
    let cost = CostModel {
        memory_rate: ELEMENTS as f64 * 1e3,
        host_fn: Nanos(50 * FILL.0),
        ..CostModel::default()
    };
    let hardware_queues = queues.map(|count| NonZeroU32::new(count).expect("it is not 0"));
    let executor = Executor::Virtual(order);
    HostConfig::new().executor(executor).cost(cost).hardware_queues(hardware_queues)
}

/// A stream with its own memory, and an event for the end of its work.
struct Line {
    stream: Stream,
    x: Buffer<u8>,
    end: TimedEvent,
}

/// Lines on one device, and the event from which times are measured.
struct Lines {
    device: Device,
    begin: TimedEvent,
    lines: Vec<Line>,
    host: PinnedBuffer<u8>,
}

impl Lines {
    fn new(order: Order, queues: Option<u32>, count: usize) -> Result<Self> {
        let device = Device::host(config(order, queues))?.remove(0);
        let line = |_| {
            let stream = device.stream()?;
            Ok(Line { x: stream.alloc(ELEMENTS)?, end: device.timed_event()?, stream })
        };
        let lines = (0..count).map(line).collect::<Result<Vec<_>>>()?;
        device.synchronize()?;
        let (begin, host) = (device.timed_event()?, device.pinned(ELEMENTS)?);
        begin.record(&lines[0].stream)?;
        device.synchronize()?;
        Ok(Self { device, begin, lines, host })
    }

    fn fill(&mut self, line: usize) -> Result<()> {
        let Line { stream, x, .. } = &mut self.lines[line];
        stream.fill_bytes(x, 1)
    }

    /// Records the end of a line.
    fn end(&mut self, line: usize) -> Result<()> {
        let Line { stream, end, .. } = &self.lines[line];
        end.record(stream)
    }

    /// The time until the recorded end of a line, as a number of fills.
    fn fills_until(&self, line: usize) -> Result<u64> {
        self.device.synchronize()?;
        Ok(self.lines[line].end.elapsed_since(&self.begin)?.0 / FILL.0)
    }
}

fn greedy(queues: u32) -> Result<Lines> {
    Lines::new(Order::Greedy, Some(queues), queues as usize + 1)
}

/// The event of the last stream is in the same queue as the first stream.
#[test]
fn a_second_kernel_holds_back_what_shares_its_queue() -> Result<()> {
    let mut lines = greedy(2)?;
    lines.fill(0)?;
    lines.fill(0)?;
    (1..3).try_for_each(|line| lines.end(line))?;
    assert_eq!((lines.fills_until(1)?, lines.fills_until(2)?), (0, 1));
    Ok(())
}

/// A stream that is itself held back also holds back the later operations of its queue.
#[test]
fn what_is_held_back_holds_back_what_follows_it() -> Result<()> {
    let mut lines = Lines::new(Order::Greedy, Some(1), 3)?;
    lines.fill(0)?;
    lines.end(0)?;
    lines.fill(1)?;
    lines.end(1)?;
    lines.end(2)?;
    assert_eq!((lines.fills_until(1)?, lines.fills_until(2)?), (2, 2));
    Ok(())
}

#[test]
fn a_single_kernel_a_copy_and_an_untimed_event_hold_nothing_back() -> Result<()> {
    let mut lines = greedy(2)?;
    lines.fill(0)?;
    lines.device.event()?.record(&lines.lines[0].stream)?;
    lines.lines[0].stream.copy(&lines.lines[0].x, &mut lines.host)?;
    lines.end(2)?;
    assert_eq!(lines.fills_until(2)?, 0);
    Ok(())
}

#[test]
fn a_copy_is_not_held_back() -> Result<()> {
    let mut lines = greedy(2)?;
    lines.fill(0)?;
    lines.fill(0)?;
    let done = lines.device.event()?;
    let Line { stream, x, .. } = &mut lines.lines[2];
    stream.copy(&lines.host, x)?;
    done.record(stream)?;
    done.synchronize()?;
    // The host waited for the copy only, so the first fill still runs.
    assert_eq!(lines.lines[0].stream.query()?, Readiness::NotReady);
    Ok(())
}

/// If a host function needs a value from the program, it starts after the program has provided the
/// value. This is also the case if the program waited before for another stream of the same queue.
#[test]
fn a_stream_that_waits_for_a_host_function_holds_nothing_back() -> Result<()> {
    for order in std::iter::once(Order::Greedy).chain((0..SEEDS).map(Order::Seeded)) {
        let mut lines = Lines::new(order.clone(), Some(1), 3)?;
        let (given, found) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (gives, finds) = (Arc::clone(&given), Arc::clone(&found));
        let host_fn = move || finds.store(gives.load(Ordering::Relaxed), Ordering::Relaxed);
        lines.lines[0].stream.host_fn(host_fn)?;
        [0, 0, 1, 1].into_iter().try_for_each(|line| lines.fill(line))?;
        lines.lines[1].stream.synchronize()?;
        given.store(true, Ordering::Relaxed);
        lines.device.synchronize()?;
        assert!(found.load(Ordering::Relaxed), "{order}: the host function was too early");
    }
    Ok(())
}

#[test]
fn as_many_streams_as_queues_wait_for_nothing_but_their_order() -> Result<()> {
    let orders = || std::iter::once(Order::Greedy).chain((0..SEEDS).map(Order::Seeded));
    for order in orders() {
        let run = |queues| {
            let mut lines = Lines::new(order.clone(), queues, 8)?;
            (0..24).try_for_each(|at| {
                lines.fill(at % 8)?;
                lines.end(at % 8)
            })?;
            lines.device.synchronize()?;
            (0..8).map(|line| lines.lines[line].end.elapsed_since(&lines.begin)).collect()
        };
        let (eight, many): (Result<Vec<_>>, Result<Vec<_>>) = (run(Some(8)), run(Some(32)));
        assert_eq!(eight?, many?, "{order}");
        assert_eq!(run(None)?, run(Some(8))?, "{order}");
    }
    Ok(())
}

/// The second queue is free again, so the new stream does not share the first one.
#[test]
fn a_stream_gets_the_queue_of_a_stream_that_is_gone() -> Result<()> {
    let mut lines = greedy(3)?;
    lines.lines.drain(1..2);
    let device = &lines.device;
    let (stream, end) = (device.stream()?, device.timed_event()?);
    lines.lines.push(Line { x: lines.lines[0].stream.alloc(ELEMENTS)?, end, stream });
    device.synchronize()?;
    lines.fill(0)?;
    lines.fill(0)?;
    (1..4).try_for_each(|line| lines.end(line))?;
    // The fourth stream shares the queue of the first one, as before.
    let held = (1..4).map(|line| lines.fills_until(line)).collect::<Result<Vec<_>>>()?;
    let first = lines.fills_until(1)?;
    assert_eq!(held, [first, first + 1, first]);
    Ok(())
}

/// The only live stream may have the last queue.
#[test]
fn streams_may_go_in_any_order() -> Result<()> {
    for order in std::iter::once(Order::Greedy).chain((0..SEEDS).map(Order::Seeded)) {
        for stays in [0, 5, 7, 11] {
            let mut lines = Lines::new(order.clone(), Some(8), 12)?;
            lines.lines = vec![lines.lines.swap_remove(stays)];
            lines.device.synchronize()?;
            let more = (0..12).map(|_| lines.device.stream()).collect::<Result<Vec<_>>>()?;
            lines.fill(0)?;
            lines.fill(0)?;
            more.iter().try_for_each(|stream| stream.host_fn(|| ()))?;
            lines.device.synchronize()?;
        }
    }
    Ok(())
}

/// Returns whether the ninth stream had to wait for the first fill of another stream.
fn held_back(order: Order) -> Result<bool> {
    let mut lines = Lines::new(order, None, 9)?;
    for line in 0..8 {
        lines.fill(line)?;
        lines.fill(line)?;
    }
    lines.end(8)?;
    lines.device.synchronize()?;
    Ok(lines.lines[8].end.elapsed_since(&lines.begin)?.0 > FILL.0 / 10)
}

#[test]
fn some_seeds_share_queues_and_some_do_not() -> Result<()> {
    let held = (0..SEEDS).map(|seed| held_back(Order::Seeded(seed)));
    let held = held.collect::<Result<Vec<bool>>>()?.into_iter().filter(|held| *held).count();
    assert!((10..50).contains(&held), "{held} of {SEEDS} seeds");
    assert!(!held_back(Order::Greedy)?, "a model without a number of queues has enough of them");
    Ok(())
}

/// The program has kernels in a row, host functions, and events between streams in all directions.
#[test]
fn a_program_that_ends_without_sharing_ends_with_it() -> Result<()> {
    for seed in 0..SEEDS {
        for queues in [1, 2, 3] {
            let mut lines = Lines::new(Order::Seeded(seed), Some(queues), 6)?;
            for round in 0..3 {
                for line in 0..6 {
                    lines.fill(line)?;
                    if (line + round) % 3 == 0 {
                        lines.lines[line].stream.host_fn(|| ())?;
                    }
                    lines.fill(line)?;
                    let after = lines.device.event()?;
                    after.record(&lines.lines[line].stream)?;
                    lines.lines[(line * 5 + 1) % 6].stream.wait(&after)?;
                    lines.end(line)?;
                }
                lines.lines[5 - round].stream.synchronize()?;
            }
            lines.device.synchronize()?;
        }
    }
    Ok(())
}

/// A host function shares a queue with a fill and another host function after it. It can still run
/// first.
#[test]
fn an_exploration_finds_the_same_outcomes_with_any_number_of_queues() -> Result<()> {
    let program = |devices: &[Device]| -> Result<String> {
        let (a, b) = (devices[0].stream()?, devices[0].stream()?);
        let mut x = a.alloc::<u8>(4)?;
        let calls = Arc::new(Mutex::new(String::new()));
        let call = |name| {
            let calls = Arc::clone(&calls);
            move || calls.lock().expect("no panic").push(name)
        };
        a.fill_bytes(&mut x, 1)?;
        a.host_fn(call('a'))?;
        b.host_fn(call('b'))?;
        devices[0].synchronize()?;
        Ok(calls.lock().expect("no panic").clone())
    };
    let found = |queues| {
        let strategy = Strategy::Exhaustive { runs_max: 1000 };
        let run = |devices: &[Device]| program(devices).expect("nothing fails");
        let found = explore(&config(Order::Greedy, queues), strategy, run)?;
        assert!(found.complete);
        let mut values: Vec<_> = found.outcomes.into_iter().map(|outcome| outcome.value).collect();
        values.sort_unstable();
        Ok::<_, trijet::Error>(values)
    };
    assert_eq!(found(Some(1))?, ["ab", "ba"]);
    assert_eq!(found(None)?, ["ab", "ba"]);
    Ok(())
}
