//! The speed of the virtual executor. One figure is the real time of an operation from its call
//! until it is complete. Another figure is the real time of the search through every order of a
//! program.
#![forbid(unsafe_code)]

use crate::manual::by_hand;
use crate::results::Results;
use serde::Deserialize;
use std::time::Instant;
use trijet::explore::{Exploration, Strategy, explore};
use trijet::sim::{Executor, HostConfig, Order};
use trijet::testing::MIX;
use trijet::{Buffer, Device, Error, ErrorKind, Result, Stream};
use trijet_tools::progress::Steps;
use trijet_tools::stats::Samples;

#[derive(Debug, Deserialize)]
pub(crate) struct Definition {
    streams: usize,
    operations: u64,
    crossing: u64,
    elements: usize,
    samples: usize,
    orders_max: u64,
    exhaustions: usize,
}

fn device(executor: Executor) -> Result<Device> {
    Ok(Device::host(HostConfig::new().executor(executor))?.remove(0))
}

/// The memory of the streams. Each stream has a buffer that its kernels change, and a source that
/// its kernels only read.
struct Desk {
    device: Device,
    streams: Vec<Stream>,
    buffers: Vec<Buffer<u64>>,
    sources: Vec<Buffer<u64>>,
    enqueued: u64,
}

impl Desk {
    fn new(device: Device, definition: &Definition) -> Result<Self> {
        let streams: Vec<Stream> =
            (0..definition.streams).map(|_| device.stream()).collect::<Result<_>>()?;
        let fresh = |s: &Stream| {
            let mut x = s.alloc::<u64>(definition.elements)?;
            s.fill_bytes(&mut x, 1)?;
            Ok(x)
        };
        let sources = streams.iter().map(fresh).collect::<Result<_>>()?;
        let buffers = streams.iter().map(fresh).collect::<Result<_>>()?;
        Ok(Self { device, streams, buffers, sources, enqueued: 0 })
    }

    /// Runs all operations and waits for them. Returns the nanoseconds per operation.
    fn run(&mut self, definition: &Definition) -> Result<f64> {
        let count = self.streams.len();
        let start = Instant::now();
        for (index, own) in (0..definition.operations).zip((0..count).cycle()) {
            let salt = self.enqueued + index;
            if index % definition.crossing == 0 {
                let pair = [own, (own + 1) % count];
                let [y, other] = self.buffers.get_disjoint_mut(pair).map_err(|cause| {
                    let text = "the definition needs at least two streams";
                    Error::new(ErrorKind::InvalidValue, "bench virtual", text).caused_by(cause)
                })?;
                self.streams[own].launch(&MIX, (salt, &*other, y))?;
            } else {
                self.streams[own]
                    .launch(&MIX, (salt, &self.sources[own], &mut self.buffers[own]))?;
            }
        }
        self.device.synchronize()?;
        self.enqueued += definition.operations;
        Ok(start.elapsed().as_secs_f64() * 1e9 / definition.operations as f64)
    }

    /// The contents of all buffers.
    fn result(&self) -> Result<Vec<u64>> {
        let mut words = Vec::new();
        for buffer in &self.buffers {
            let mut back = self.device.pinned::<u64>(buffer.len())?;
            self.streams[0].copy(buffer, &mut back)?;
            words.extend_from_slice(&back.read()?);
        }
        Ok(words)
    }
}

/// The programs whose orders are all tried. Each program has streams with four kernels each. The
/// number states how many of the four kernels change the buffer that all streams share.
const SHARED: [(usize, &str); 5] = [
    (0, "3 streams of 4 kernels, no conflict"),
    (1, "3 streams of 4 kernels, one of each in conflict"),
    (2, "3 streams of 4 kernels, two of each in conflict"),
    (3, "3 streams of 4 kernels, three of each in conflict"),
    (4, "3 streams of 4 kernels, all twelve in conflict"),
];

/// A program of three streams with four kernels each. The last `shared` kernels of each stream
/// change one common buffer.
fn program(devices: &[Device], shared: usize) -> Result<u64> {
    let device = &devices[0];
    let streams = [device.stream()?, device.stream()?, device.stream()?];
    let source = streams[0].alloc::<u64>(1)?;
    let mut common = by_hand(streams[0].alloc::<u64>(1)?);
    let mut own =
        [streams[0].alloc::<u64>(1)?, streams[1].alloc::<u64>(1)?, streams[2].alloc::<u64>(1)?];
    device.synchronize()?;
    for index in 0..4 {
        for ((salt, stream), own) in (0u64..).zip(&streams).zip(&mut own) {
            let y = if index + shared >= 4 { &mut common } else { own };
            stream.launch(&MIX, (salt, &source, y))?;
        }
    }
    device.synchronize()?;
    let mut back = device.pinned::<u64>(1)?;
    streams[0].copy(&common, &mut back)?;
    Ok(back.read()?[0])
}

/// The number of orders of three streams with `shared` kernels each. Each order leads to a
/// different result.
fn orders(shared: usize) -> usize {
    let factorial = |n: usize| (1..=n).product::<usize>();
    factorial(3 * shared) / factorial(shared).pow(3)
}

/// Tries every order of the program. Returns the outcomes and the time in seconds.
fn exhaust(definition: &Definition, shared: usize) -> Result<(Exploration<u64>, f64)> {
    let strategy = Strategy::Exhaustive { runs_max: definition.orders_max };
    let start = Instant::now();
    let found = explore(&HostConfig::default(), strategy, |devices| {
        program(devices, shared).expect("no fault is injected")
    })?;
    let time = start.elapsed().as_secs_f64();
    if !found.complete {
        let cause = format!("{} runs did not try every order; raise orders_max", found.runs);
        return Err(Error::new(ErrorKind::InvalidValue, "bench virtual", cause));
    }
    if found.outcomes.len() != orders(shared) {
        let cause = format!("{} outcomes were found, not {}", found.outcomes.len(), orders(shared));
        return Err(Error::new(ErrorKind::InvalidValue, "bench virtual", cause));
    }
    Ok((found, time))
}

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` for a wrong result or a search that does not end.
pub(crate) fn run(definition: &Definition, steps: &mut Steps<'_>) -> Result<Results> {
    let mut reference = Desk::new(device(Executor::Threads)?, definition)?;
    let mut desks = [
        ("greedy order", Desk::new(device(Executor::Virtual(Order::Greedy))?, definition)?),
        ("drawn order", Desk::new(device(Executor::Virtual(Order::Seeded(1)))?, definition)?),
    ];
    let mut figures: Vec<Samples> = vec![Samples::default(); 2];
    steps.expect(1 + SHARED.len() as u64);
    steps.begin("operations in a greedy and in a drawn order");
    for sample in 0..=definition.samples {
        reference.run(definition)?;
        for ((_, desk), samples) in desks.iter_mut().zip(&mut figures) {
            let time = desk.run(definition)?;
            // The first run warms up.
            if sample > 0 {
                samples.push(time);
            }
        }
    }
    let expected = reference.result()?;
    for (name, desk) in &desks {
        if desk.result()? != expected {
            let cause = format!("the {name} computed other bytes than CPU threads");
            return Err(Error::new(ErrorKind::InvalidValue, "bench virtual", cause));
        }
    }
    let verified = "the bytes of both orders equal those of CPU threads; every search was complete \
                    and found as many outcomes as there are orders";
    let mut results = Results::of_host("the virtual executor on one thread");
    results.note("verified", verified);
    for ((name, _), samples) in desks.iter().zip(figures) {
        results.push(format!("operation, {name}"), "ns", samples, None);
    }
    for (shared, name) in SHARED {
        steps.begin(name);
        let mut samples = Samples::default();
        let mut counts = (Samples::default(), Samples::default());
        for _ in 0..definition.exhaustions {
            let (found, time) = exhaust(definition, shared)?;
            samples.push(time);
            counts.0.push(found.runs as f64);
            counts.1.push(found.outcomes.len() as f64);
        }
        results.push(format!("{name}: every order"), "s", samples, None);
        results.push(format!("{name}: runs"), "count", counts.0, None);
        results.push(format!("{name}: outcomes"), "count", counts.1, None);
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::{assert_no_finding, checked_device};

    #[test]
    fn the_operations_that_are_timed_have_no_finding() -> Result<()> {
        let small = Definition {
            streams: 3,
            operations: 60,
            crossing: 4,
            elements: 8,
            samples: 1,
            orders_max: 1,
            exhaustions: 1,
        };
        for order in [Order::Greedy, Order::Seeded(1)] {
            let mut desk = Desk::new(checked_device(order)?, &small)?;
            desk.run(&small)?;
            desk.result()?;
            assert_no_finding(&desk.device, small.operations);
        }
        Ok(())
    }
}
