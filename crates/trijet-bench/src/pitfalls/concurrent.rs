//! Verdicts on whether two kernels really ran concurrently. A verdict is right if the times agree
//! with it: the time of each kernel alone, and the time of both together.
//!
//! A common formula is judged as well. Let the elapsed time be the time from the start of the first
//! kernel to the end of the second kernel. The formula calls the kernels concurrent if the elapsed
//! time is below 0.9 of the sum of their times. The formula is often wrong.
#![forbid(unsafe_code)]

use crate::results::Results;
use trijet::testing::WORK;
use trijet::trace::concurrency::{Concurrency, TracedRun};
use trijet::trace::dag::{Dag, Kernels};
use trijet::trace::{Engine, OpKind, StreamWork, TimeSource};
use trijet::{Buffer, Nanos, Result, Stream};
use trijet_lessons::{Ground, work_ms};
use trijet_tools::stats::Samples;

/// Two kernels are concurrent if they save at least this fraction of the time of the shorter
/// kernel.
const SHARE_MIN: f64 = 0.5;
/// The factor 0.9 of the formula.
const FORMULA: f64 = 0.9;

/// One pair of kernels. `tenths` has the length of each kernel, in tenths of the length of the
/// longest kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) streams: usize,
    tenths: [u32; 2],
    /// Whether each kernel fills the device. Otherwise each kernel has a few blocks.
    fills: bool,
}

const fn case(name: &'static str, streams: usize, tenths: [u32; 2], fills: bool) -> Case {
    Case { name, streams, tenths, fills }
}

const CASES: [Case; 7] = [
    case("one stream, 10 and 1", 1, [10, 1], false),
    case("one stream, 1 and 10", 1, [1, 10], false),
    case("one stream, 10 and 10", 1, [10, 10], false),
    case("two streams, 10 and 1", 2, [10, 1], false),
    case("two streams, 1 and 10", 2, [1, 10], false),
    case("two streams, 10 and 10", 2, [10, 10], false),
    case("two streams, 10 and 10, each fills the device", 2, [10, 10], true),
];

/// The outcome of a case.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) case: Case,
    pub(super) verdict: Concurrency,
    /// The time that both kernels together save, as a fraction of the time of the shorter kernel.
    pub(super) saved: f64,
    /// Whether the formula calls the kernels concurrent.
    pub(super) formula: bool,
    both_ms: Samples,
}

/// A kernel with its memory.
struct Work {
    x: Buffer<u32>,
    y: Buffer<u32>,
    rounds: u32,
}

impl Work {
    fn launch(&mut self, stream: &Stream) -> Result<()> {
        stream.launch(&WORK, (self.rounds, &self.x, &mut self.y))
    }

    /// The time of the kernel alone, in milliseconds, measured in two ways: by the clock around the
    /// run, and by a trace of the run.
    fn alone(&mut self, ground: &Ground, stream: &Stream) -> Result<(f64, f64)> {
        let (mut outside, mut inside) = (Samples::default(), Samples::default());
        for _ in 0..ground.size.repeats {
            outside.push(ground.time_ms(|| self.launch(stream))?);
            let trace = ground.trace(|| self.launch(stream))?;
            inside.push(work_ms(&trace, Engine::Compute)?);
        }
        Ok((outside.quantile(0.5), inside.quantile(0.5)))
    }
}

impl Found {
    /// Whether the verdict calls the kernels concurrent; `None` if the trace allows no verdict.
    fn says(&self) -> Option<bool> {
        match &self.verdict {
            Concurrency::Overlap { share, .. } => Some(*share >= SHARE_MIN),
            Concurrency::Unusable { .. } => None,
            _ => Some(false),
        }
    }

    /// Whether the kernels were concurrent, judged by the time of each kernel alone and by the time
    /// of both kernels together.
    pub(super) fn were(&self) -> bool {
        self.saved >= SHARE_MIN
    }

    pub(super) fn is_right(&self) -> bool {
        self.says() == Some(self.were())
    }

    fn note(&self) -> String {
        let Self { verdict, saved, .. } = self;
        let right = |right: bool| if right { "right" } else { "WRONG" };
        format!(
            "{verdict}: {}; both together saved {:.0} % of the shorter one's time; \
             the formula is {}",
            right(self.is_right()),
            100.0 * saved,
            right(self.formula == self.were()).to_lowercase(),
        )
    }

    pub(super) fn add_to(self, results: &mut Results) {
        let what = format!("concurrent? {}", self.case.name);
        results.note(what.clone(), self.note());
        results.push(format!("{what}, both"), "ms", self.both_ms, None);
    }
}

/// Whether the formula calls the kernels concurrent. The times come from a pair of events around
/// each kernel.
fn formula(ground: &Ground, works: &mut [Work; 2], streams: [&Stream; 2]) -> Result<bool> {
    let event = || ground.device.timed_event();
    let events = [[event()?, event()?], [event()?, event()?]];
    for ((work, stream), [begin, end]) in works.iter_mut().zip(streams).zip(&events) {
        begin.record(stream)?;
        work.launch(stream)?;
        end.record(stream)?;
    }
    ground.device.synchronize()?;
    let [[first, first_end], [second, second_end]] = &events;
    let sum = first_end.elapsed_since(first)?.0 + second_end.elapsed_since(second)?.0;
    Ok((second_end.elapsed_since(first)?.0 as f64) < FORMULA * sum as f64)
}

fn one(ground: &Ground, case: Case) -> Result<Found> {
    let (device, size) = (&ground.device, ground.size);
    let home = [device.stream()?, device.stream()?];
    let streams = [&home[0], &home[case.streams - 1]];
    let (words, rounds) = match case.fills {
        true => (size.words, ground.rounds),
        false => (size.small_words, ground.small_rounds),
    };
    let work = |tenths: u32| -> Result<Work> {
        let (mut x, y) = (home[0].alloc(words)?, home[0].alloc(words)?);
        home[0].fill_bytes(&mut x, 1)?;
        Ok(Work { x, y, rounds: (rounds / 10).max(1) * tenths * size.long })
    };
    let mut works = [work(case.tenths[0])?, work(case.tenths[1])?];
    device.synchronize()?;
    let (a, alone_a) = works[0].alone(ground, streams[0])?;
    let (b, alone_b) = works[1].alone(ground, streams[1])?;
    let mut both_ms = Samples::default();
    let both = |works: &mut [Work; 2]| {
        works[0].launch(streams[0])?;
        works[1].launch(streams[1])
    };
    for _ in 0..size.repeats {
        both_ms.push(ground.time_ms(|| both(&mut works))?);
    }
    let trace = ground.trace(|| both(&mut works))?;
    let kernels = match trace.times {
        TimeSource::Model => Kernels::OneAtATime,
        _ => Kernels::Several,
    };
    let times = trace.times;
    let ops = &trace.ops;
    let dag = Dag::with_times(ops, kernels, times);
    let mut launched =
        (0..ops.len()).filter(|op| ops[*op].kind == OpKind::Work(StreamWork::Kernel));
    let (first, second) = (launched.next().unwrap_or(0), launched.next().unwrap_or(0));
    let alone = [alone_a, alone_b].map(|ms| Nanos::from_seconds(ms * 1e-3));
    let verdict = TracedRun { ops, dag: &dag, times }.concurrency(first, second, Some(alone));
    let saved = (a + b - both_ms.quantile(0.5)) / a.min(b);
    let formula = formula(ground, &mut works, streams)?;
    Ok(Found { case, verdict, saved, formula, both_ms })
}

/// Runs all cases.
pub(super) fn measure(ground: &Ground) -> Result<Vec<Found>> {
    CASES.into_iter().map(|case| one(ground, case)).collect()
}
