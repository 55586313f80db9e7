//! The choice of a prepared pipeline, compared with an exhaustive grid of ways to run the same job
//! and with peers. Times are times of the host, from the call to the end of the last operation.
#![forbid(unsafe_code)]

use crate::peer::{self, Peer};
use crate::results::Results;
use crate::rounds::{Side, Value, round, warm_up};
use crate::setting::Setting;
use serde::Deserialize;
use std::cell::RefCell;
use std::time::{Duration, Instant};
use trijet::pipeline::{Prepared, Schedule};
use trijet::testing::WORK;
use trijet::{Bytes, Device, Error, ErrorKind, PinnedBuffer, Pipeline, Result};
use trijet_tools::progress::Steps;
use trijet_tools::work::hash;

const ROW: usize = 256;
/// The run that measures the kernel alone: its number of rounds and its number of bytes.
const PROBE: (u32, usize) = (256, 16 << 20);
/// Only every `STEP`-th element is compared, if a comparison of all elements would take seconds.
const STEP: usize = 1021;
/// At this number of bytes and above, the grid has few ways and few repeats. With a long kernel, a
/// run then takes a tenth of a second or more.
const LARGE: u64 = 1 << 30;
/// At this number of bytes and above, the job runs with the first kernel only.
const ONE_KERNEL: u64 = 4 << 30;
/// A job of at most this many bytes is also tried in one chunk, in one stream and with the schedule
/// `InPlace`.
const WHOLE_MAX: u64 = 64 << 20;

#[derive(Debug, Deserialize)]
pub(crate) struct Definition {
    sizes_kib: Vec<usize>,
    kernels: Vec<f64>,
    repeats: usize,
    grid_ms: u64,
    finalists: usize,
    #[serde(default)]
    peers: Vec<Peer>,
}

/// A way to run a job. If `chunk` is `None`, the library chooses the chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Way {
    schedule: Schedule,
    chunk: Option<u64>,
    depth: usize,
}

impl Way {
    fn name(&self) -> String {
        let chunk = self.chunk.map_or("?".to_owned(), |chunk| Bytes(chunk).to_string());
        format!("{} chunk={chunk} slots={}", self.schedule.name(), self.depth)
    }
}

/// The data of a job.
struct Data {
    x: PinnedBuffer<u32>,
    y: PinnedBuffer<u32>,
    rounds: u32,
}

impl Data {
    fn new(device: &Device, bytes: usize, rounds: u32) -> Result<Self> {
        let (mut x, y) = (device.pinned::<u32>(bytes / 4)?, device.pinned::<u32>(bytes / 4)?);
        for (word, n) in x.write()?.iter_mut().zip(0u64..) {
            *word = u32::try_from(n & 0xffff_ffff).expect("32 bits").wrapping_mul(0x9e37_79b1);
        }
        Ok(Self { x, y, rounds })
    }

    /// A pipeline that is ready to run this way.
    fn prepared(
        &mut self,
        device: &Device,
        way: Option<Way>,
    ) -> Result<Prepared<'static, u32, u32>> {
        let rounds = self.rounds;
        let mut pipeline =
            Pipeline::on(device).stage::<u32, u32>(move |s, x, y| s.launch(&WORK, (rounds, x, y)));
        if let Some(Way { schedule, chunk, depth }) = way {
            pipeline = pipeline.schedule(schedule).depth(depth);
            pipeline =
                chunk.into_iter().fold(pipeline, |pipeline, chunk| pipeline.chunk(Bytes(chunk)));
        }
        pipeline.prepare(&self.x, &mut self.y, ROW.min(self.x.len()))
    }

    /// The microseconds of a run.
    fn time(&mut self, job: &mut Prepared<'_, u32, u32>) -> Result<f64> {
        let start = Instant::now();
        job.run(&self.x, &mut self.y)?;
        Ok(start.elapsed().as_secs_f64() * 1e6)
    }

    /// Overwrites the result, runs once and compares the result.
    fn verify(&mut self, job: &mut Prepared<'_, u32, u32>) -> Result<()> {
        let step = if self.x.len() > 1 << 16 || self.rounds > 8 { STEP } else { 1 };
        self.y.write()?.iter_mut().step_by(step).for_each(|word| *word = 0xdead_beef);
        job.run(&self.x, &mut self.y)?;
        let (x, y) = (self.x.read()?, self.y.read()?);
        let mut pairs = x.iter().zip(y.iter()).step_by(step);
        if pairs.all(|(x, y)| hash(self.rounds, *x) == *y) {
            return Ok(());
        }
        let cause = format!("{:?}: an element has a wrong value", job.plan());
        Err(Error::new(ErrorKind::InvalidValue, "bench tuner", cause))
    }
}

/// The ways of the grid.
fn grid(bytes: u64) -> Vec<Way> {
    let large = bytes >= LARGE;
    let whole = Way { schedule: Schedule::OneStream, chunk: Some(bytes), depth: 1 };
    let mut ways = Vec::new();
    if bytes <= WHOLE_MAX {
        ways.extend([whole, Way { schedule: Schedule::InPlace, ..whole }]);
    }
    let smallest = if large { 8 << 20 } else { (bytes / 128).max(32 << 10) };
    let largest = if large { 128 << 20 } else { bytes / 2 };
    let chunks = std::iter::successors(Some(smallest), |chunk| Some(2 * chunk));
    let (schedules, depths): (&[Schedule], &[usize]) = if large {
        (&[Schedule::RoleStreams], &[3])
    } else {
        (&[Schedule::SlotStreams, Schedule::RoleStreams, Schedule::Tuned], &[2, 3, 4])
    };
    for chunk in chunks.take_while(|chunk| *chunk <= largest) {
        for schedule in schedules {
            for depth in depths {
                ways.push(Way { schedule: *schedule, chunk: Some(chunk), depth: *depth });
            }
        }
    }
    ways
}

/// The fastest ways of the grid. Each way runs a few times, and its shortest time counts.
fn fastest(
    device: &Device,
    data: &mut Data,
    definition: &Definition,
) -> Result<Vec<(Way, Prepared<'static, u32, u32>)>> {
    let mut timed = Vec::new();
    for way in grid(data.x.len() as u64 * 4) {
        let mut job = data.prepared(device, Some(way))?;
        data.verify(&mut job)?;
        let start = Instant::now();
        let mut least = f64::INFINITY;
        while least.is_infinite() || start.elapsed() < Duration::from_millis(definition.grid_ms) {
            least = least.min(data.time(&mut job)?);
        }
        timed.push((least, way));
    }
    timed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let best = timed.into_iter().take(definition.finalists);
    best.map(|(_, way)| Ok((way, data.prepared(device, Some(way))?))).collect()
}

/// For each of `parts`, the number of rounds with which the kernel takes `part` times as long as a
/// copy at 55 GB/s.
fn rounds_for(device: &Device, parts: &[f64]) -> Result<Vec<u32>> {
    if parts.iter().all(|part| *part == 0.0) {
        return Ok(vec![0; parts.len()]);
    }
    let (rounds, bytes) = PROBE;
    let mut data = Data::new(device, bytes, rounds)?;
    let mut least = f64::INFINITY;
    for _ in 0..3 {
        let report = Pipeline::on(device)
            .pinned_source(&data.x, ROW)
            .stage::<u32, u32>(|s, x, y| s.launch(&WORK, (rounds, x, y)))
            .pinned_sink(&mut data.y)
            .schedule(Schedule::OneStream)
            .chunk(Bytes(bytes as u64))
            .run()?;
        let busy = report.engine("compute").map_or(0.0, |engine| engine.busy.seconds());
        least = least.min(busy);
    }
    let of_a_round = least / f64::from(rounds);
    #[expect(clippy::cast_possible_truncation, reason = "a few thousand rounds")]
    #[expect(clippy::cast_sign_loss, reason = "it is not negative")]
    let rounds = |part: &f64| (part * bytes as f64 / 55e9 / of_a_round).round() as u32;
    Ok(parts.iter().map(rounds).collect())
}

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` for a wrong result; `OutOfMemory`; `Cancelled`; every error of the device.
pub(crate) fn run(
    setting: &Setting<'_>,
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    steps.expect((definition.sizes_kib.len() * definition.kernels.len() + 1) as u64);
    let mut results = Results::of_device(setting.device);
    results.note("verified", "the result of every way, and of the peers");
    let rounds = rounds_for(setting.device, &definition.kernels)?;
    for kib in &definition.sizes_kib {
        // With a long kernel, every way of a large job takes seconds.
        let kernels = if (*kib as u64) << 10 >= ONE_KERNEL { 1 } else { rounds.len() };
        for (part, rounds) in definition.kernels.iter().zip(&rounds).take(kernels) {
            let name = format!("{}, kernel {part} x a copy", Bytes((*kib as u64) << 10));
            steps.begin(&name);
            let case = TunerCase { name: &name, bytes: kib << 10, rounds: *rounds };
            job(setting, definition, case, &mut results)?;
        }
    }
    steps.begin("peers");
    peer::figures(&definition.peers, 101, &[], &mut results)?;
    Ok(results)
}

/// A job to measure.
#[derive(Debug, Clone, Copy)]
struct TunerCase<'a> {
    name: &'a str,
    bytes: usize,
    /// The number of rounds of the kernel.
    rounds: u32,
}

/// Measures one job: the choice of the library and the fastest ways of the grid, which take turns.
fn job(
    setting: &Setting<'_>,
    definition: &Definition,
    case: TunerCase<'_>,
    results: &mut Results,
) -> Result<()> {
    let (device, TunerCase { name, bytes, rounds }) = (setting.device, case);
    let data = RefCell::new(Data::new(device, bytes, rounds)?);
    let start = Instant::now();
    let mut chosen = data.borrow_mut().prepared(device, None)?;
    let tuned = start.elapsed().as_secs_f64();
    data.borrow_mut().verify(&mut chosen)?;
    let plan = chosen.plan();
    let way = Way {
        schedule: plan.schedule,
        chunk: Some(
            plan.chunk_rows.saturating_mul((ROW.min(bytes / 4) * 4) as u64).min(bytes as u64),
        ),
        depth: plan.depth,
    };
    let mut fastest = fastest(device, &mut data.borrow_mut(), definition)?;
    let us = |value| vec![Value { what: String::new(), unit: "us".to_owned(), value }];
    let mut sides = vec![Side::new("chosen", || Ok(us(data.borrow_mut().time(&mut chosen)?)))];
    for (way, job) in &mut fastest {
        sides.push(Side::new(way.name(), || Ok(us(data.borrow_mut().time(job)?))));
    }
    warm_up(&mut sides, &setting.cancel)?;
    let repeats = if bytes as u64 >= LARGE { 3 } else { definition.repeats };
    for number in 0..repeats {
        round(&mut sides, number, &setting.cancel)?;
    }
    let best = sides[1..].iter().min_by(|a, b| a.median("").total_cmp(&b.median("")));
    let Some(best) = best else { return Ok(()) };
    let samples = |side: &Side<'_>| side.figures[0].samples.clone();
    let note = format!("{}; found in {tuned:.3} s", way.name());
    let bound = Some(best.median(""));
    results.push_with(format!("{name}: chosen"), "us", samples(&sides[0]), bound, note);
    let what = format!("{name}: best of the grid");
    results.push_with(what, "us", samples(best), None, best.name.clone());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::{assert_no_finding, checked_device};
    use trijet::sim::Order;
    use trijet_tools::progress::Step;

    #[test]
    fn each_job_has_a_choice_beside_the_best_of_the_grid() -> Result<()> {
        let device = checked_device(Order::Greedy)?;
        let definition = Definition {
            sizes_kib: vec![16, 256],
            kernels: vec![0.0],
            repeats: 2,
            grid_ms: 0,
            finalists: 2,
            peers: Vec::new(),
        };
        let mut show = |_: Step<'_>| ();
        let setting = Setting::for_tests(&device);
        let printed = run(&setting, &definition, &mut Steps::new(&mut show))?.to_string();
        for name in ["16 KiB, kernel 0 x a copy: chosen", "256 KiB, kernel 0 x a copy: chosen"] {
            let row = printed.lines().find(|row| row.contains(name)).expect("a row");
            assert!(row.contains("found in"), "{row}");
        }
        assert_no_finding(&device, 100);
        Ok(())
    }

    #[test]
    fn the_grid_of_a_small_job_has_every_schedule_and_that_of_a_large_one_is_short() {
        let ways = grid(1 << 20);
        for schedule in
            [Schedule::OneStream, Schedule::InPlace, Schedule::SlotStreams, Schedule::Tuned]
        {
            assert!(ways.iter().any(|way| way.schedule == schedule), "{schedule:?}");
        }
        assert!(ways.len() > 40 && grid(16 << 30).len() < 6);
        assert_eq!(grid(4 << 10).len(), 2, "no chunk is smaller than 32 KiB");
    }
}
