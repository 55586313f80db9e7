//! Are two kernels really at work at once? The verdict on their records, beside what the times of each
//! alone and of both say, and beside a formula that is often used and often wrong: that they are
//! when the time from the first begin to the second's end is below 0.9 of the sum of both times.
#![forbid(unsafe_code)]

use super::ground::{Ground, work_ms};
use crate::results::Results;
use crate::stats::Samples;
use trijet::testing::WORK;
use trijet::trace::concurrency::{Concurrency, TracedRun};
use trijet::trace::dag::{Dag, Kernels};
use trijet::trace::{Engine, OpKind, TimeSource};
use trijet::{Buffer, Nanos, Result, Stream};

/// From this share of the shorter one on, two are called concurrent.
const SHARE_MIN: f64 = 0.5;
/// What the formula asks for.
const FORMULA: f64 = 0.9;

/// Whether the two are in one stream, and how long each is, in tenths of the longest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) streams: usize,
    tenths: [u32; 2],
    /// They fill the device; otherwise they are of a few blocks.
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

/// What became of a case.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) case: Case,
    pub(super) verdict: Concurrency,
    /// What the times of both say: the time that was saved, as a share of the shorter one's.
    pub(super) saved: f64,
    /// The formula's answer.
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

    /// How long it takes alone, in milliseconds: on the clock of the runs, and in its record.
    fn alone(&mut self, ground: &Ground, stream: &Stream) -> Result<(f64, f64)> {
        let (mut outside, mut inside) = (Samples::default(), Samples::default());
        for _ in 0..ground.size.repeats {
            outside.push(ground.time_ms(|| self.launch(stream))?);
            let recording = ground.record(|| self.launch(stream))?;
            inside.push(work_ms(&recording, Engine::Compute)?);
        }
        Ok((outside.quantile(0.5), inside.quantile(0.5)))
    }
}

impl Found {
    /// What the verdict amounts to: `None` where it is open.
    fn says(&self) -> Option<bool> {
        match &self.verdict {
            Concurrency::Overlap { share, .. } => Some(*share >= SHARE_MIN),
            Concurrency::Unusable { .. } => None,
            _ => Some(false),
        }
    }

    /// Whether they were, by the times of each alone and of both.
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

/// The formula's answer, from pairs of events around each kernel.
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
    let recording = ground.record(|| both(&mut works))?;
    let kernels = match recording.times {
        TimeSource::Model => Kernels::OneAtATime,
        _ => Kernels::Several,
    };
    let times = recording.times;
    let ops = &recording.ops;
    let dag = Dag::with_times(ops, kernels, times);
    let mut launched = (0..ops.len()).filter(|op| ops[*op].kind == OpKind::Kernel);
    let (first, second) = (launched.next().unwrap_or(0), launched.next().unwrap_or(0));
    let alone = [alone_a, alone_b].map(|ms| Nanos::from_seconds(ms * 1e-3));
    let verdict = TracedRun { ops, dag: &dag, times }.concurrency(first, second, Some(alone));
    let saved = (a + b - both_ms.quantile(0.5)) / a.min(b);
    let formula = formula(ground, &mut works, streams)?;
    Ok(Found { case, verdict, saved, formula, both_ms })
}

/// Asks of all cases.
pub(super) fn measure(ground: &Ground) -> Result<Vec<Found>> {
    CASES.into_iter().map(|case| one(ground, case)).collect()
}
