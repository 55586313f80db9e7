//! Measures the rates of copies for each size. For each size, new bytes are copied, and the bytes
//! at the destination are compared with the source.

use super::bench::{Bench, samples};
use crate::doctor::findings::{Path, Rate};
use crate::stats::Samples;
use std::ops::Range;
use std::time::Instant;
use trijet::{
    Buffer, Bytes, Device, Error, ErrorKind, Nanos, PageableBuffer, PinnedBuffer, Result, Stream,
};

/// The number of copies within the device in one sample.
const ON_DEVICE_COPIES: u64 = 8;

struct Desk {
    device: Device,
    up: Stream,
    down: Stream,
    source: PinnedBuffer<u64>,
    target: PinnedBuffer<u64>,
    pages: PageableBuffer<u64>,
    pages_back: PageableBuffer<u64>,
    /// The destination of uploads.
    a: Buffer<u64>,
    /// The source of downloads.
    b: Buffer<u64>,
}

/// The number of copies in one sample, and the number of 8-byte elements of each copy.
#[derive(Clone, Copy)]
struct Run {
    elements: usize,
    copies: usize,
}

impl Run {
    fn parts(self) -> impl Iterator<Item = Range<usize>> {
        (0..self.copies).map(move |n| n * self.elements..(n + 1) * self.elements)
    }

    fn all(self) -> Range<usize> {
        0..self.copies * self.elements
    }

    /// The size of one copy.
    fn bytes(self) -> Bytes {
        Bytes(self.elements as u64 * 8)
    }

    /// The rate in 10^9 bytes per second, if all copies took `seconds`.
    fn rate(self, seconds: f64) -> f64 {
        (self.copies * self.elements * 8) as f64 / seconds.max(1e-9) * 1e-9
    }
}

/// The order in which copies of both directions are submitted. On some machines, one order is up to
/// 5 % slower than the other order. So both orders are measured, and the faster order counts.
#[derive(Clone, Copy)]
enum Pattern {
    InTurn,
    OneAfterTheOther,
}

impl Pattern {
    fn name(self) -> &'static str {
        match self {
            Self::InTurn => "in turn",
            Self::OneAfterTheOther => "one direction after the other",
        }
    }
}

impl Desk {
    fn new(device: &Device, elements: usize) -> Result<Self> {
        let (up, down) = (device.stream()?, device.stream()?);
        let mut desk = Self {
            source: device.pinned(elements)?,
            target: device.pinned(elements)?,
            pages: device.pageable(elements)?,
            pages_back: device.pageable(elements)?,
            a: up.alloc(elements)?,
            b: up.alloc(elements)?,
            device: device.clone(),
            up,
            down,
        };
        // Every page is written before the measurement, because a copy of pages that were never
        // written can be faster.
        desk.target.write()?.fill(0);
        desk.pages_back.write()?.fill(0);
        desk.source.write()?.fill(0);
        desk.pages.write()?.fill(0);
        Ok(desk)
    }

    fn prepare(&mut self, run: Run) -> Result<()> {
        let value = |index: u64| (index ^ run.elements as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let words = run.all();
        for (word, n) in self.source.write()?[words.clone()].iter_mut().zip(0..) {
            *word = value(n);
        }
        self.pages.write()?[words.clone()].copy_from_slice(&self.source.read()?[words]);
        self.spoil(run)
    }

    fn spoil(&mut self, run: Run) -> Result<()> {
        self.target.write()?[run.all()].fill(0);
        Ok(())
    }

    fn verify(&self, what: &'static str, run: Run, back: &[u64]) -> Result<()> {
        let words = run.all();
        if self.source.read()?[words.clone()] == back[words] {
            return Ok(());
        }
        let cause = format!("{what} of {} gave wrong bytes", run.bytes());
        Err(Error::new(ErrorKind::InvalidValue, "copy", cause))
    }

    /// The device time of the copies in one direction, in seconds. The second value is the fraction
    /// of this time that the host spent in the copy calls.
    fn one_way(&mut self, run: Run, path: Path) -> Result<(f64, f64)> {
        let stream = if path == Path::Upload { &self.up } else { &self.down };
        let (begin, end) = (self.device.timed_event()?, self.device.timed_event()?);
        begin.record(stream)?;
        let start = Instant::now();
        for part in run.parts() {
            if path == Path::Upload {
                stream.copy(&self.source.slice(part.clone()), &mut self.a.slice_mut(part))?;
            } else {
                stream.copy(&self.b.slice(part.clone()), &mut self.target.slice_mut(part))?;
            }
        }
        let host = start.elapsed().as_secs_f64();
        end.record(stream)?;
        end.synchronize()?;
        let seconds = end.elapsed_since(&begin)?.seconds();
        Ok((seconds, (host / seconds.max(1e-9)).min(1.0)))
    }

    fn up_part(&mut self, part: Range<usize>) -> Result<()> {
        self.up.copy(&self.source.slice(part.clone()), &mut self.a.slice_mut(part))
    }

    fn down_part(&mut self, part: Range<usize>) -> Result<()> {
        self.down.copy(&self.b.slice(part.clone()), &mut self.target.slice_mut(part))
    }

    fn duplex(&mut self, run: Run, pattern: Pattern) -> Result<f64> {
        let (begin, start) = (self.device.timed_event()?, self.device.event()?);
        begin.record(&self.up)?;
        start.record(&self.up)?;
        self.down.wait(&start)?;
        match pattern {
            Pattern::InTurn => {
                for part in run.parts() {
                    self.up_part(part.clone())?;
                    self.down_part(part)?;
                }
            }
            Pattern::OneAfterTheOther => {
                run.parts().try_for_each(|part| self.up_part(part))?;
                run.parts().try_for_each(|part| self.down_part(part))?;
            }
        }
        let mut longest = Nanos(0);
        for stream in [&self.up, &self.down] {
            let end = self.device.timed_event()?;
            end.record(stream)?;
            end.synchronize()?;
            longest = longest.max(end.elapsed_since(&begin)?);
        }
        Ok(longest.seconds())
    }

    /// The host time until the copies from or to pageable memory are complete, in seconds. The
    /// second value is the fraction of this time that the host spent in the copy calls.
    fn pageable(&mut self, run: Run, path: Path) -> Result<(f64, f64)> {
        let start = Instant::now();
        for part in run.parts() {
            if path == Path::PageableUpload {
                self.up.copy(&self.pages.slice(part.clone()), &mut self.a.slice_mut(part))?;
            } else {
                self.up.copy(&self.a.slice(part.clone()), &mut self.pages_back.slice_mut(part))?;
            }
        }
        let host = start.elapsed().as_secs_f64();
        self.up.synchronize()?;
        let seconds = start.elapsed().as_secs_f64();
        Ok((seconds, (host / seconds.max(1e-9)).min(1.0)))
    }

    fn on_device(&mut self, run: Run) -> Result<f64> {
        let (begin, end) = (self.device.timed_event()?, self.device.timed_event()?);
        begin.record(&self.up)?;
        for _ in 0..ON_DEVICE_COPIES {
            self.up.copy(&self.a.slice(run.all()), &mut self.b.slice_mut(run.all()))?;
        }
        end.record(&self.up)?;
        end.synchronize()?;
        Ok(end.elapsed_since(&begin)?.seconds() / ON_DEVICE_COPIES as f64)
    }
}

/// Measures the rates of all paths for one size.
fn size(desk: &mut Desk, run: Run, repeats: usize) -> Result<Vec<Rate>> {
    let rate = |path, gb_per_s, host_busy, pattern| Rate {
        path,
        bytes: run.bytes(),
        copies: run.copies as u64,
        gb_per_s,
        host_busy,
        pattern,
    };
    let mut rates = Vec::new();
    desk.prepare(run)?;
    for path in [Path::Upload, Path::Download] {
        if path == Path::Download {
            // A copy within the device makes the uploaded bytes the source of the downloads.
            desk.up.copy(&desk.a.slice(run.all()), &mut desk.b.slice_mut(run.all()))?;
            desk.up.synchronize()?;
        }
        let mut busy = Samples::default();
        let speed = samples(repeats, || {
            let (seconds, share) = desk.one_way(run, path)?;
            busy.push(share);
            Ok(run.rate(seconds))
        })?;
        rates.push(rate(path, speed, busy, None));
    }
    desk.verify("an upload and a download", run, &desk.target.read()?)?;
    desk.spoil(run)?;
    let mut best: Option<(Samples, Pattern)> = None;
    for pattern in [Pattern::InTurn, Pattern::OneAfterTheOther] {
        let speed = samples(repeats, || desk.duplex(run, pattern).map(|s| run.rate(s)))?;
        if best.as_ref().is_none_or(|(other, _)| other.quantile(0.5) < speed.quantile(0.5)) {
            best = Some((speed, pattern));
        }
    }
    desk.verify("copies both ways", run, &desk.target.read()?)?;
    if let Some((speed, pattern)) = best {
        rates.push(rate(Path::Duplex, speed, Samples::default(), Some(pattern.name())));
    }
    desk.up.fill_bytes(&mut desk.a, 0)?;
    desk.pages_back.write()?[run.all()].fill(0);
    for path in [Path::PageableUpload, Path::PageableDownload] {
        let mut busy = Samples::default();
        let speed = samples(repeats, || {
            let (seconds, share) = desk.pageable(run, path)?;
            busy.push(share);
            Ok(run.rate(seconds))
        })?;
        rates.push(rate(path, speed, busy, None));
    }
    desk.verify("pageable copies", run, &desk.pages_back.read()?)?;
    Ok(rates)
}

pub(super) fn measure(bench: &mut Bench) -> Result<()> {
    let plan = bench.plan.clone();
    let elements = Bytes(plan.largest() / 8).to_usize();
    let mut desk = Desk::new(&bench.device, elements)?;
    for bytes in plan.sizes {
        let elements = Bytes(bytes / 8).to_usize();
        let run = Run { elements, copies: plan.copies(*bytes) };
        bench.found.rates.extend(size(&mut desk, run, plan.repeats)?);
    }
    let run = Run { elements, copies: 1 };
    let speed = samples(plan.repeats, || desk.on_device(run).map(|s| 2.0 * run.rate(s)))?;
    bench.found.rates.push(Rate {
        path: Path::OnDevice,
        bytes: Bytes(plan.largest()),
        copies: ON_DEVICE_COPIES,
        gb_per_s: speed,
        host_busy: Samples::default(),
        pattern: None,
    });
    Ok(())
}
