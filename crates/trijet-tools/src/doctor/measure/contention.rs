//! Measures how much longer work takes beside other work than alone. The works are uploads,
//! downloads, a kernel that only computes, and a kernel that is bound by device memory.
//!
//! Each work has its own stream and its own memory, so only the hardware orders the works. All
//! works of a run start together: their streams wait for a kernel that lasts until the host has
//! enqueued everything. The other works have several times as many operations as the measured work,
//! so that they last longer.

use super::bench::Bench;
use super::work::Lane;
use crate::doctor::findings::{Contention, Load};
use crate::stats::Samples;
use crate::work::hash;
use trijet::kernels::AXPY;
use trijet::testing::WORK;
use trijet::{
    Buffer, Bytes, Device, Error, ErrorKind, Event, PinnedBuffer, Readiness, Result, Stream,
    TimedEvent,
};

/// The combinations of works that run together: all pairs, and the works of a pipeline.
const COMBINATIONS: [&[Load]; 8] = [
    &[Load::Upload, Load::Download],
    &[Load::Upload, Load::Computing],
    &[Load::Upload, Load::Memory],
    &[Load::Download, Load::Computing],
    &[Load::Download, Load::Memory],
    &[Load::Computing, Load::Memory],
    &[Load::Upload, Load::Download, Load::Computing],
    &[Load::Upload, Load::Download, Load::Memory],
];

/// The other works have this many times the operations of the measured work.
const LONGER: usize = 4;
/// Maximum number of operations of the measured work. All operations of a stream fit into the queue
/// of a GPU.
const OPERATIONS_MAX: usize = 100;
/// Maximum number of rounds of the kernel that only computes.
const ROUNDS_MAX: f64 = 1e9;
/// The number of rounds of the kernel that only computes, before its calibration.
const ROUNDS_FIRST: u32 = 64;
/// The calibration of this kernel is repeated, because the first kernel is so short that its launch
/// is a large part of its time.
const CALIBRATIONS: usize = 3;
/// The duration of the kernel for which all streams wait, in milliseconds. It doubles as long as
/// the host takes longer to enqueue a run, at most this many times.
const DELAY_MS: f64 = 1.0;
const DOUBLINGS_MAX: u32 = 4;
/// The host compares the results of the kernel that only computes at multiples of this index, a
/// prime.
const SAMPLE: usize = 1021;

/// A run of one work beside other works.
#[derive(Debug, Clone, Copy)]
struct TimedRun {
    us: f64,
    /// Whether the other works ran during the whole time.
    is_whole: bool,
}

/// The streams and the memory of all works.
struct Works {
    device: Device,
    gate: Lane,
    /// The start of all works: an event with a time, and an event for which the streams wait.
    start: TimedEvent,
    opened: Event,
    delay: u32,
    streams: [Stream; 4],
    ends: [TimedEvent; 4],
    /// The number of operations of each work, if it is measured.
    operations: [usize; 4],
    source: PinnedBuffer<u32>,
    uploaded: Buffer<u32>,
    downloaded: Buffer<u32>,
    target: PinnedBuffer<u32>,
    x: Buffer<u32>,
    y: Buffer<u32>,
    rounds: u32,
    ones: Buffer<f32>,
    sums: Buffer<f32>,
    /// The number of kernels that have added to `sums`.
    added: u32,
}

fn value(index: usize) -> u32 {
    hash(1, u32::try_from(index % (1 << 31)).unwrap_or(0) + 1)
}

impl Works {
    fn new(bench: &Bench) -> Result<Self> {
        let (device, info) = (bench.device.clone(), &bench.found.device);
        let words = Bytes(bench.plan.copy_bytes / 4).to_usize();
        let sums = Bytes(bench.plan.array_bytes / 4).to_usize();
        // All threads that the device can run at the same time, in memory that its cache holds.
        let threads = info.multiprocessors as usize * info.multiprocessor_threads_max as usize;
        let inputs: Vec<u32> = (0..threads).map(value).collect();
        let new = || device.stream();
        let streams = [new()?, new()?, new()?, new()?];
        let timed = || device.timed_event();
        let [up, down, compute, memory] = &streams;
        let mut works = Self {
            gate: Lane::new(&device, device.stream()?)?,
            start: timed()?,
            opened: device.event()?,
            delay: bench.rounds(DELAY_MS),
            ends: [timed()?, timed()?, timed()?, timed()?],
            operations: [1; 4],
            source: device.pinned(words)?,
            uploaded: up.alloc(words)?,
            downloaded: down.alloc(words)?,
            target: device.pinned(words)?,
            x: compute.upload(&inputs)?,
            y: compute.alloc(threads)?,
            rounds: ROUNDS_FIRST,
            ones: memory.alloc(sums)?,
            sums: memory.alloc(sums)?,
            added: 0,
            streams,
            device,
        };
        for (index, word) in works.source.write()?.iter_mut().enumerate() {
            *word = value(index);
        }
        works.streams[Load::Download.index()].copy(&works.source, &mut works.downloaded)?;
        works.streams[Load::Memory.index()].fill(&mut works.ones, 1.0)?;
        works.spoil()?;
        Ok(works)
    }

    /// Enqueues `times` as many operations of a work as a measured work has.
    fn enqueue(&mut self, load: Load, times: usize) -> Result<()> {
        let stream = &self.streams[load.index()];
        for _ in 0..times * self.operations[load.index()] {
            match load {
                Load::Upload => stream.copy(&self.source, &mut self.uploaded)?,
                Load::Download => stream.copy(&self.downloaded, &mut self.target)?,
                Load::Computing => stream.launch(&WORK, (self.rounds, &self.x, &mut self.y))?,
                Load::Memory => {
                    stream.launch(&AXPY, (1.0, &self.ones, &mut self.sums))?;
                    self.added += 1;
                }
            }
        }
        Ok(())
    }

    /// Runs `load` beside `others`. Returns the time from the common start to the end of `load`.
    fn run(&mut self, load: Load, others: &[Load]) -> Result<TimedRun> {
        let mut doublings = 0;
        loop {
            let (run, is_common) = self.try_run(load, others)?;
            if is_common || doublings == DOUBLINGS_MAX {
                return Ok(TimedRun { is_whole: run.is_whole && is_common, ..run });
            }
            self.delay = self.delay.saturating_mul(2);
            doublings += 1;
        }
    }

    /// The second value is whether the host had enqueued everything before the start.
    fn try_run(&mut self, load: Load, others: &[Load]) -> Result<(TimedRun, bool)> {
        self.device.synchronize()?;
        self.gate.launch(self.delay)?;
        self.start.record(&self.gate.stream)?;
        self.opened.record(&self.gate.stream)?;
        let measured = [(load, 1)].into_iter();
        for (load, times) in measured.chain(others.iter().map(|other| (*other, LONGER))) {
            self.streams[load.index()].wait(&self.opened)?;
            self.enqueue(load, times)?;
            self.ends[load.index()].record(&self.streams[load.index()])?;
        }
        let is_common = self.opened.query()? == Readiness::NotReady;
        self.device.synchronize()?;
        let time = |load: Load| self.ends[load.index()].elapsed_since(&self.start);
        let own = time(load)?;
        let mut is_whole = true;
        for other in others {
            is_whole &= time(*other)? >= own;
        }
        Ok((TimedRun { us: own.seconds() * 1e6, is_whole }, is_common))
    }

    /// The time of one operation of a work in microseconds. The first run is not timed.
    fn operation_us(&mut self, load: Load) -> Result<f64> {
        self.run(load, &[])?;
        Ok(self.run(load, &[])?.us.max(1.0))
    }

    /// Finds the number of operations with which each work takes about `ms` milliseconds alone. A
    /// kernel that only computes takes about as long as a kernel that is bound by memory, because
    /// kernels of different lengths that take turns would get different parts of the time.
    fn calibrate(&mut self, ms: f64) -> Result<()> {
        let memory_us = self.operation_us(Load::Memory)?;
        for _ in 0..CALIBRATIONS {
            let longer = memory_us / self.operation_us(Load::Computing)?;
            let rounds = f64::from(self.rounds) * longer;
            self.rounds = whole(rounds.clamp(f64::from(ROUNDS_FIRST), ROUNDS_MAX));
        }
        for load in Load::ALL {
            let operations = ms * 1e3 / self.operation_us(load)?;
            let most = OPERATIONS_MAX as f64;
            self.operations[load.index()] = whole(operations.clamp(1.0, most)) as usize;
        }
        Ok(())
    }

    /// Overwrites all results.
    fn spoil(&mut self) -> Result<()> {
        self.target.write()?.fill(0);
        self.streams[Load::Upload.index()].fill(&mut self.uploaded, 0)?;
        self.streams[Load::Computing.index()].fill(&mut self.y, 0)?;
        self.streams[Load::Memory.index()].fill(&mut self.sums, 0.0)?;
        self.added = 0;
        self.device.synchronize()
    }

    /// Compares the results of a work with the values that the host computes.
    fn verify(&self, load: Load) -> Result<()> {
        let stream = &self.streams[load.index()];
        let is_right = match load {
            Load::Upload => stream.download(&self.uploaded)?[..] == *self.source.read()?,
            Load::Download => self.target.read()?[..] == *self.source.read()?,
            Load::Computing => {
                let found = stream.download(&self.y)?;
                let of = |index| hash(self.rounds, value(index));
                found.iter().enumerate().step_by(SAMPLE).all(|(index, word)| *word == of(index))
            }
            Load::Memory => {
                let sum = self.added as f32;
                stream.download(&self.sums)?.iter().all(|found| *found == sum)
            }
        };
        if is_right {
            return Ok(());
        }
        let cause = format!("work beside other work gave wrong results: {}", load.name());
        Err(Error::new(ErrorKind::InvalidValue, "contention", cause))
    }

    /// Measures one work beside the other works of a combination. Each sample beside them follows a
    /// sample alone, because the clock rate of a device changes with its load.
    fn measure(
        &mut self,
        at_once: &'static [Load],
        load: Load,
        repeats: usize,
    ) -> Result<Contention> {
        let others: Vec<Load> = at_once.iter().copied().filter(|other| *other != load).collect();
        let (mut alone_us, mut beside_us) = (Samples::default(), Samples::default());
        let (mut longer_percent, mut is_whole) = (Samples::default(), true);
        for repeat in 0..=repeats {
            let (alone, beside) = (self.run(load, &[])?, self.run(load, &others)?);
            if repeat == 0 {
                continue;
            }
            alone_us.push(alone.us);
            beside_us.push(beside.us);
            longer_percent.push((beside.us / alone.us - 1.0) * 100.0);
            is_whole &= beside.is_whole;
        }
        let longer_percent = longer_percent.quantile(0.5);
        Ok(Contention { at_once, load, alone_us, beside_us, longer_percent, is_whole })
    }
}

/// The nearest whole number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped by callers")]
fn whole(number: f64) -> u32 {
    number.round() as u32
}

pub(super) fn measure(bench: &mut Bench) -> Result<()> {
    let repeats = bench.plan.repeats;
    let mut works = Works::new(bench)?;
    works.calibrate(bench.plan.beside_ms)?;
    for at_once in COMBINATIONS {
        works.spoil()?;
        let rows = at_once.iter().map(|load| works.measure(at_once, *load, repeats));
        let rows = rows.collect::<Result<Vec<_>>>()?;
        at_once.iter().try_for_each(|load| works.verify(*load))?;
        bench.found.contention.extend(rows);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::findings::Findings;
    use crate::doctor::plan::Plan;
    use trijet::Select;

    fn bench() -> Bench {
        let device = Device::open(Select::Host(0)).expect("a host device");
        let info = device.info().clone();
        let plan = Plan { repeats: 1, beside_ms: 0.2, ..Plan::of(&info) };
        let found = Findings::new(info, 0);
        Bench { device, plan, lab: None, rounds_per_ms: 10.0, found }
    }

    #[test]
    fn every_pair_and_both_triples_of_a_pipeline_are_measured() -> Result<()> {
        let mut bench = bench();
        measure(&mut bench)?;
        let rows = &bench.found.contention;
        for (place, first) in Load::ALL.iter().enumerate() {
            for second in &Load::ALL[place + 1..] {
                let pair = [*first, *second];
                let loads: Vec<_> =
                    rows.iter().filter(|row| row.at_once == pair).map(|row| row.load).collect();
                assert_eq!(loads, pair);
            }
        }
        assert_eq!(rows.iter().filter(|row| row.at_once.len() == 3).count(), 6);
        assert!(rows.iter().all(|row| row.alone_us.quantile(0.0) > 0.0), "{rows:?}");
        assert!(rows.iter().all(|row| row.longer_percent.is_finite()), "{rows:?}");
        Ok(())
    }

    /// A work that was not done leaves the values that `spoil` has written.
    #[test]
    fn work_that_was_not_done_is_an_error() -> Result<()> {
        let mut works = Works::new(&bench())?;
        works.spoil()?;
        // No kernel has added, and one kernel must have added.
        works.added = 1;
        for load in Load::ALL {
            let error = works.verify(load).expect_err(load.name());
            assert!(error.to_string().contains(load.name()), "{error}");
        }
        works.spoil()?;
        for load in Load::ALL {
            works.run(load, &[])?;
            works.verify(load)?;
        }
        Ok(())
    }
}
