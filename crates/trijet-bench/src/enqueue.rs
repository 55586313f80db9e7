//! The host time of one operation, a launch or an upload. The operation is enqueued in several
//! ways: tracked, ordered by hand, traced, and as the bare driver call.
//!
//! The ways are measured one after another, in bursts that fit the queue of the device. If
//! `empty-driver` replaces the driver, the figures are the time of the library alone. The ordering
//! inserts waits and event records, which are driver calls too. Separate figures show the number of
//! waits and event records per operation, and the cost of each. A trace records an event at each
//! end of an operation. The context of the device is current in the thread of the benchmark. In a
//! thread with another current context or with none, each call sets the context and restores the
//! previous state.
#![forbid(unsafe_code)]

use crate::manual::by_hand;
use crate::results::{Results, is_empty_driver};
use serde::Deserialize;
use std::time::Instant;
use trijet::kernels::AXPY;
use trijet::{Buffer, Clock, Device, Error, ErrorKind, PinnedBuffer, Result, Stream};
use trijet_tools::bare::Bare;
use trijet_tools::progress::Steps;
use trijet_tools::stats::Samples;

#[derive(Debug, Deserialize)]
pub(crate) struct Definition {
    burst: u32,
    bursts: usize,
    host_bursts: usize,
    elements: usize,
}

/// The buffers of one way to enqueue.
struct Desk {
    host: PinnedBuffer<f32>,
    x: Buffer<f32>,
    y: Buffer<f32>,
}

impl Desk {
    fn new(device: &Device, s: &Stream, n: usize) -> Result<Self> {
        let (mut x, mut y) = (s.alloc::<f32>(n)?, s.alloc::<f32>(n)?);
        let mut host = device.pinned::<f32>(n)?;
        host.write()?.fill(1.0);
        s.copy(&host, &mut x)?;
        s.fill_bytes(&mut y, 0)?;
        s.synchronize()?;
        Ok(Self { host, x, y })
    }

    fn by_hand(device: &Device, s: &Stream, n: usize) -> Result<Self> {
        let Self { host, x, y } = Self::new(device, s, n)?;
        Ok(Self { host: by_hand(host), x: by_hand(x), y: by_hand(y) })
    }

    fn launches(&mut self, s: &[&Stream], count: u32) -> Result<f64> {
        burst(s, count, |s| s.launch(&AXPY, (1.0f32, &self.x, &mut self.y)))
    }

    fn uploads(&mut self, s: &[&Stream], count: u32) -> Result<f64> {
        burst(s, count, |s| s.copy(&self.host, &mut self.x))
    }
}

/// Calls `op` in a burst and returns the nanoseconds per call. The device is idle before and after
/// the burst.
fn burst(s: &[&Stream], count: u32, mut op: impl FnMut(&Stream) -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    for index in 0..count {
        op(s[index as usize % s.len()])?;
    }
    let time = start.elapsed();
    for stream in s {
        stream.synchronize()?;
    }
    Ok(time.as_secs_f64() * 1e9 / f64::from(count))
}

/// Runs `job` in a separate thread, in which no CUDA context is current.
fn without_context(job: impl FnOnce() -> Result<f64> + Send) -> Result<f64> {
    std::thread::scope(|scope| scope.spawn(job).join().expect("no panic"))
}

/// The figures, in the order of their first samples.
#[derive(Default)]
struct Figures(Vec<(&'static str, &'static str, Samples)>);

impl Figures {
    fn add(&mut self, what: &'static str, unit: &'static str, value: f64) {
        match self.0.iter_mut().find(|figure| figure.0 == what) {
            Some(figure) => figure.2.push(value),
            None => {
                let mut samples = Samples::default();
                samples.push(value);
                self.0.push((what, unit, samples));
            }
        }
    }
}

/// The streams and buffers of a round. A round runs every way once.
struct Round {
    streams: [Stream; 2],
    one: Desk,
    two: Desk,
    traced: Desk,
    apart: Desk,
    hand: Desk,
    /// The calls of the bare driver; `None` on the host device, which has no driver.
    bare: Option<Bare>,
}

impl Round {
    fn run(&mut self, device: &Device, count: u32, out: &mut Figures) -> Result<()> {
        let [a, b] = &self.streams;
        let before = device.ordering();
        out.add("launch, tracked, one stream", "ns", self.one.launches(&[a], count)?);
        out.add("upload, tracked, one stream", "ns", self.one.uploads(&[a], count)?);
        let one = device.ordering();
        let launch = self.two.launches(&[a, b], count)?;
        let two = device.ordering();
        let upload = self.two.uploads(&[a, b], count)?;
        let end = device.ordering();
        out.add("launch, tracked, two streams in turn", "ns", launch);
        out.add("upload, tracked, two streams in turn", "ns", upload);
        device.start_trace(a)?;
        out.add("launch, tracked, recorded with times", "ns", self.traced.launches(&[a], count)?);
        out.add("upload, tracked, recorded with times", "ns", self.traced.uploads(&[a], count)?);
        let entries = device.take_trace()?.ops;
        let work = entries.iter().filter(|op| op.kind.is_work() && op.times.is_some()).count();
        if work != 2 * count as usize {
            let cause = format!("the trace has {work} operations with times, not {}", 2 * count);
            return Err(Error::new(ErrorKind::InvalidValue, "bench enqueue", cause));
        }
        let launch = without_context(|| self.apart.launches(&[a], count))?;
        let upload = without_context(|| self.apart.uploads(&[a], count))?;
        out.add("launch, tracked, in a thread without a context", "ns", launch);
        out.add("upload, tracked, in a thread without a context", "ns", upload);
        out.add("launch, manual", "ns", self.hand.launches(&[a], count)?);
        out.add("upload, manual", "ns", self.hand.uploads(&[a], count)?);
        if let Some(bare) = &mut self.bare {
            out.add("launch, bare call", "ns", bare.launches(count)?);
            out.add("upload, bare call", "ns", bare.uploads(count)?);
            out.add("event record, bare call", "ns", bare.records(count)?);
            out.add("event wait, bare call", "ns", bare.waits(count)?);
            out.add("context query, bare call", "ns", bare.contexts(count)?);
        }
        let per = |later: u64, earlier: u64| (later - earlier) as f64 / f64::from(count);
        let (waits, records) = (one.waits + one.records, before.waits + before.records);
        out.add("waits and records per operation, one stream", "count", per(waits, records) / 2.0);
        out.add("waits per launch, two streams", "count", per(two.waits, one.waits));
        out.add("records per launch, two streams", "count", per(two.records, one.records));
        out.add("waits per upload, two streams", "count", per(end.waits, two.waits));
        out.add("records per upload, two streams", "count", per(end.records, two.records));
        Ok(())
    }
}

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` for a wrong result; every error of the device.
pub(crate) fn run(
    device: &Device,
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    let (a, b) = (device.stream()?, device.stream()?);
    let n = definition.elements;
    let is_gpu = device.info().clock == Clock::Device;
    let mut round = Round {
        one: Desk::new(device, &a, n)?,
        two: Desk::new(device, &a, n)?,
        traced: Desk::new(device, &a, n)?,
        apart: Desk::new(device, &a, n)?,
        hand: Desk::by_hand(device, &a, n)?,
        bare: if is_gpu { Some(Bare::new(n as u64)?) } else { None },
        streams: [a, b],
    };
    let bursts = if is_gpu { definition.bursts } else { definition.host_bursts };
    let mut figures = Figures::default();
    steps.expect(2);
    for warm_up in [true, false] {
        steps.begin(if warm_up { "warming up" } else { "timing calls" });
        figures = Figures::default();
        for _ in 0..if warm_up { 2 } else { bursts } {
            round.run(device, definition.burst, &mut figures)?;
        }
    }
    let launches = f64::from(definition.burst) * (bursts + 2) as f64;
    let mut results = Results::of_device(device);
    results.note("verified", verify(device, &round, launches)?);
    if !is_gpu {
        results.note("bare calls", "not run: the host device has no driver; they need a GPU");
    }
    for (what, unit, samples) in figures.0 {
        results.push(what, unit, samples, None);
    }
    Ok(results)
}

/// Checks that every launch added 1 to each element. A float counts without rounding up to 2^24.
fn verify(device: &Device, round: &Round, launches: f64) -> Result<String> {
    if is_empty_driver(device.info()) {
        return Ok("nothing: the functions of this driver are empty".to_owned());
    }
    let stream = &round.streams[0];
    for desk in [&round.one, &round.two, &round.traced, &round.apart, &round.hand] {
        let mut back = device.pinned::<f32>(desk.y.len())?;
        stream.copy(&desk.y, &mut back)?;
        let wrong = back.read()?.iter().find(|v| f64::from(**v) != launches).copied();
        if let Some(v) = wrong {
            let cause = format!("the kernel counted {v} launches, not {launches}");
            return Err(Error::new(ErrorKind::InvalidValue, "bench enqueue", cause));
        }
    }
    Ok(format!("{launches} launches of each kind, counted by the kernel"))
}
