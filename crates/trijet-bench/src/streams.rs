//! Numbers of streams and of host threads: independent kernels and jobs in some streams, and host
//! threads that launch kernels, each thread in a stream of its own.
//!
//! The kernels of different streams use different memory, so nothing but the hardware orders them.
//! The driver assigns streams to hardware queues. Streams that share a queue may wait for each
//! other.
#![forbid(unsafe_code)]

use crate::results::Results;
use crate::rounds::{Side, Value};
use crate::setting::Setting;
use crate::turns;
use serde::Deserialize;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;
use trijet::testing::WORK;
use trijet::{Buffer, Device, Error, ErrorKind, PinnedBuffer, Result, Stream};
use trijet_tools::progress::Steps;
use trijet_tools::work::hash;

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Definition {
    /// The numbers of streams.
    streams: Vec<usize>,
    /// The number of kernels, and the words and the rounds of each.
    kernels: usize,
    words: usize,
    rounds: u32,
    /// The number of jobs, the KiB that each uploads and downloads, and the rounds of its kernel.
    jobs: usize,
    job_kib: usize,
    job_rounds: u32,
    /// The numbers of host threads, and the launches of each thread.
    threads: Vec<usize>,
    launches: usize,
    samples: usize,
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidValue, "bench streams", format!("{what} has a wrong result"))
}

/// The value of word `number` of each input.
fn word(number: usize) -> u32 {
    u32::try_from(number & 0xffff).unwrap_or(0).wrapping_mul(0x9e37_79b1)
}

fn input(device: &Device, words: usize) -> Result<PinnedBuffer<u32>> {
    let mut x = device.pinned::<u32>(words)?;
    x.write()?.iter_mut().enumerate().for_each(|(number, x)| *x = word(number));
    Ok(x)
}

/// Some words of a result that are compared, with the values that they must have.
struct Expected(Vec<(usize, u32)>);

impl Expected {
    fn of(words: usize, rounds: u32) -> Self {
        let some = (0..words).step_by((words / 16).max(1));
        Self(some.map(|at| (at, hash(rounds, word(at)))).collect())
    }

    fn demand(&self, result: &[u32], what: &str) -> Result<()> {
        let is_right = self.0.iter().all(|(at, value)| result[*at] == *value);
        is_right.then_some(()).ok_or_else(|| wrong(what))
    }
}

fn streams(device: &Device, count: usize) -> Result<Vec<Stream>> {
    (0..count).map(|_| device.stream()).collect()
}

/// A program that runs with some number of streams or threads.
trait Sampled: Sized {
    fn new(device: &Device, of: &Definition, count: usize) -> Result<Self>;
    fn sample(&mut self) -> Result<Vec<Value>>;
}

/// Independent kernels in some streams.
struct StreamKernels {
    device: Device,
    streams: Vec<Stream>,
    x: Buffer<u32>,
    results: Vec<Buffer<u32>>,
    rounds: u32,
    expected: Expected,
}

impl Sampled for StreamKernels {
    fn new(device: &Device, of: &Definition, count: usize) -> Result<Self> {
        let streams = streams(device, count)?;
        let home = &streams[0];
        let mut x = home.alloc(of.words)?;
        home.copy(&input(device, of.words)?, &mut x)?;
        let results = (0..of.kernels).map(|_| home.alloc(of.words)).collect::<Result<_>>()?;
        let expected = Expected::of(of.words, of.rounds);
        Ok(Self { device: device.clone(), streams, x, results, rounds: of.rounds, expected })
    }

    fn sample(&mut self) -> Result<Vec<Value>> {
        self.results.iter_mut().try_for_each(|y| self.streams[0].fill_bytes(y, 0))?;
        self.device.synchronize()?;
        let start = Instant::now();
        for (number, y) in self.results.iter_mut().enumerate() {
            let stream = &self.streams[number % self.streams.len()];
            stream.launch(&WORK, (self.rounds, &self.x, y))?;
        }
        self.device.synchronize()?;
        let ms = start.elapsed().as_secs_f64() * 1e3;
        for y in &self.results {
            self.expected.demand(&self.streams[0].download(y)?, "a kernel")?;
        }
        Ok(vec![Value::new("all", "ms", ms)])
    }
}

/// The memory of a job.
struct JobData {
    on_device: [Buffer<u32>; 2],
    y: PinnedBuffer<u32>,
}

/// Jobs of an upload, a kernel and a download, in some streams.
struct Jobs {
    device: Device,
    streams: Vec<Stream>,
    x: PinnedBuffer<u32>,
    jobs: Vec<JobData>,
    rounds: u32,
    expected: Expected,
}

impl Sampled for Jobs {
    fn new(device: &Device, of: &Definition, count: usize) -> Result<Self> {
        let (streams, words) = (streams(device, count)?, of.job_kib << 8);
        let job = |_| -> Result<JobData> {
            let on_device = [streams[0].alloc(words)?, streams[0].alloc(words)?];
            Ok(JobData { on_device, y: device.pinned(words)? })
        };
        let jobs = (0..of.jobs).map(job).collect::<Result<_>>()?;
        let (x, expected) = (input(device, words)?, Expected::of(words, of.job_rounds));
        Ok(Self { device: device.clone(), streams, x, jobs, rounds: of.job_rounds, expected })
    }

    fn sample(&mut self) -> Result<Vec<Value>> {
        for job in &mut self.jobs {
            job.y.write()?.fill(0);
        }
        self.device.synchronize()?;
        let start = Instant::now();
        for (number, JobData { on_device: [x, y], y: result }) in self.jobs.iter_mut().enumerate() {
            let stream = &self.streams[number % self.streams.len()];
            stream.copy(&self.x, x)?;
            stream.launch(&WORK, (self.rounds, &*x, &mut *y))?;
            stream.copy(y, result)?;
        }
        self.device.synchronize()?;
        let ms = start.elapsed().as_secs_f64() * 1e3;
        self.jobs.iter().try_for_each(|job| self.expected.demand(&job.y.read()?, "a job"))?;
        Ok(vec![Value::new("all", "ms", ms)])
    }
}

/// A host thread with its stream and its memory.
struct LaunchThread {
    stream: Stream,
    x: Buffer<u32>,
    y: Buffer<u32>,
}

impl LaunchThread {
    /// Launches kernels, after all threads have reached the barrier. Returns the times at which the
    /// launches began and ended.
    fn run(&mut self, launches: usize, ready: &Barrier) -> Result<(Instant, Instant)> {
        ready.wait();
        let start = Instant::now();
        for round in 1..=launches {
            let rounds = u32::try_from(round % 4).unwrap_or(0) + 1;
            self.stream.launch(&WORK, (rounds, &self.x, &mut self.y))?;
        }
        Ok((start, Instant::now()))
    }
}

/// Host threads that launch kernels.
struct LaunchThreads {
    each: Vec<LaunchThread>,
    launches: usize,
    expected: Expected,
}

/// The words of each kernel of a thread, which are one block.
const LAUNCH_WORDS: usize = 256;

impl Sampled for LaunchThreads {
    fn new(device: &Device, of: &Definition, count: usize) -> Result<Self> {
        let one = |_| -> Result<LaunchThread> {
            let stream = device.stream()?;
            let (mut x, y) = (stream.alloc(LAUNCH_WORDS)?, stream.alloc(LAUNCH_WORDS)?);
            stream.copy(&input(device, LAUNCH_WORDS)?, &mut x)?;
            Ok(LaunchThread { stream, x, y })
        };
        let rounds = u32::try_from(of.launches % 4).unwrap_or(0) + 1;
        let expected = Expected::of(LAUNCH_WORDS, rounds);
        let each = (0..count).map(one).collect::<Result<_>>()?;
        Ok(Self { each, launches: of.launches, expected })
    }

    fn sample(&mut self) -> Result<Vec<Value>> {
        for one in &mut self.each {
            one.stream.fill_bytes(&mut one.y, 0)?;
            one.stream.synchronize()?;
        }
        let (ready, launches) = (Barrier::new(self.each.len()), self.launches);
        let times = thread::scope(|scope| {
            let start = |one| scope.spawn(|| LaunchThread::run(one, launches, &ready));
            let threads: Vec<_> = self.each.iter_mut().map(start).collect();
            let panicked =
                |_| Err(Error::new(ErrorKind::Panicked, "bench streams", "a thread panicked"));
            threads
                .into_iter()
                .map(|one| one.join().unwrap_or_else(panicked))
                .collect::<Result<Vec<_>>>()
        })?;
        let began = times.iter().map(|(start, _)| *start).min().unwrap_or_else(Instant::now);
        let ended = times.iter().map(|(_, end)| *end).max().unwrap_or(began);
        for one in &self.each {
            self.expected.demand(&one.stream.download(&one.y)?, "the last launch")?;
        }
        let launched = (self.each.len() * launches) as f64;
        let us = ended.duration_since(began).as_secs_f64() * 1e6 / launched;
        Ok(vec![Value::new("a launch, all threads together", "us", us)])
    }
}

/// The numbers of streams or threads with which a program is measured, and the word for one of
/// them.
struct Numbers<'a> {
    counts: &'a [usize],
    unit: &'static str,
}

/// Measures a program with each of the numbers. The numbers take turns. `what` names the work.
fn measure<S: Sampled>(
    setting: &Setting<'_>,
    of: &Definition,
    numbers: &Numbers<'_>,
    what: &str,
    results: &mut Results,
) -> Result<()> {
    let make = |count: &usize| S::new(setting.device, of, *count);
    let Numbers { counts, unit } = *numbers;
    let mut each = counts.iter().map(make).collect::<Result<Vec<S>>>()?;
    let mut sides = Vec::new();
    for (one, count) in each.iter_mut().zip(counts) {
        let plural = if *count == 1 { "" } else { "s" };
        sides.push(Side::new(format!("{count} {unit}{plural}"), || one.sample()));
    }
    turns::record(setting, &mut sides, of.samples, |name| format!("{what}, {name}"), results)
}

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` for a wrong result; `OutOfMemory`; `Cancelled`; every error of the device.
pub(crate) fn run(
    setting: &Setting<'_>,
    of: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    steps.expect(3);
    let mut results = Results::of_device(setting.device);
    let queues = setting.device.info().hardware_queues;
    let queues = queues.map_or("of the driver".to_owned(), |number| number.to_string());
    results.note("verified", "some words of each kernel, of each job and of each last launch");
    steps.begin("kernels in streams");
    let streams = Numbers { counts: &of.streams, unit: "stream" };
    let what = format!("queues {queues}: {} kernels", of.kernels);
    measure::<StreamKernels>(setting, of, &streams, &what, &mut results)?;
    steps.begin("jobs in streams");
    let what = format!("queues {queues}: {} jobs", of.jobs);
    measure::<Jobs>(setting, of, &streams, &what, &mut results)?;
    steps.begin("launches of threads");
    let what = format!("queues {queues}: {} launches of each thread", of.launches);
    let threads = Numbers { counts: &of.threads, unit: "thread" };
    measure::<LaunchThreads>(setting, of, &threads, &what, &mut results)?;
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::{assert_no_finding, checked_device};
    use trijet_tools::progress::Step;

    fn small() -> Definition {
        Definition {
            streams: vec![1, 2],
            kernels: 4,
            words: 64,
            rounds: 2,
            jobs: 3,
            job_kib: 1,
            job_rounds: 1,
            threads: vec![1, 2],
            launches: 5,
            samples: 2,
        }
    }

    #[test]
    fn each_number_of_streams_and_threads_has_a_row_and_no_race() -> Result<()> {
        let device = checked_device(trijet::sim::Order::Seeded(3))?;
        let mut show = |_: Step<'_>| ();
        let setting = Setting::for_tests(&device);
        let printed = run(&setting, &small(), &mut Steps::new(&mut show))?.to_string();
        for row in
            ["4 kernels, 1 stream: all", "3 jobs, 2 streams: all", "each thread, 2 threads: a"]
        {
            assert!(printed.contains(row), "{row}: {printed}");
        }
        assert_no_finding(&device, 50);
        Ok(())
    }

    #[test]
    fn a_wrong_word_is_found() {
        let expected = Expected::of(64, 2);
        let mut right: Vec<u32> = (0..64).map(|number| hash(2, word(number))).collect();
        assert!(expected.demand(&right, "x").is_ok());
        right[0] ^= 1;
        assert!(expected.demand(&right, "x").unwrap_err().to_string().contains("wrong result"));
    }
}
