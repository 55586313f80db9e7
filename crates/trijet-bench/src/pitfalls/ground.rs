//! What all pairs stand on: a device, sizes, kernels of a known length, and a clock.
#![forbid(unsafe_code)]

use crate::overlap::hash;
use crate::stats::Samples;
use serde::Deserialize;
use std::ops::Range;
use std::time::Instant;
use trijet::testing::WORK;
use trijet::trace::{Engine, Op, TimeSource};
use trijet::{Device, Error, ErrorKind, Result, Trace};

/// Rounds that a calibration begins with and ends at.
const ROUNDS_MIN: u32 = 1 << 6;
const ROUNDS_MAX: u32 = 1 << 24;
/// Measurements of a calibration; the shortest counts.
const TRIES: usize = 5;
/// Recomputing more rounds than this for a whole result, after every run, takes the host too long:
/// then a sample is compared, of every word whose number this prime divides.
const ROUNDS_CHEAP: u64 = 1 << 21;
const SAMPLE: usize = 1021;

/// How large the programs are.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Size {
    pub(super) repeats: usize,
    pub(super) words: usize,
    pub(super) chunks: usize,
    pub(super) slots: usize,
    pub(super) kernel: f64,
    pub(super) long: u32,
    pub(super) race_words: usize,
    pub(super) small_words: usize,
    pub(super) streams: usize,
    pub(super) many_streams: usize,
    pub(super) pieces: usize,
    pub(super) piece_words: usize,
    pub(super) scratch_words: usize,
}

/// Where the time of a run comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    Host,
    /// That of the model: it stands still while the program's own code runs.
    Model,
}

/// What a program is made from.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) device: Device,
    pub(super) size: Size,
    /// Rounds of a kernel over a chunk.
    pub(super) rounds: u32,
    /// Rounds that take a kernel of a few blocks as long.
    pub(super) small_rounds: u32,
    clock: Clock,
}

/// From the begin of the first call to the last end, in milliseconds.
fn length_ms(ops: &[Op]) -> f64 {
    let spans = || ops.iter().flat_map(|op| [op.call, op.times]).flatten();
    let begin = spans().map(|times| times.begin.0).min().unwrap_or(0);
    let end = spans().map(|times| times.end.0).max().unwrap_or(0);
    end.saturating_sub(begin) as f64 * 1e-6
}

/// How long the only operation of `engine` took, in milliseconds.
pub(super) fn work_ms(recording: &Trace, engine: Engine) -> Result<f64> {
    let mut work = recording.ops.iter().filter(|op| op.engine == engine);
    match (work.next().and_then(|op| op.times), work.next()) {
        (Some(times), None) => Ok(times.end.0.saturating_sub(times.begin.0) as f64 * 1e-6),
        _ => Err(wrong("an operation that runs alone has no time of its own")),
    }
}

impl Ground {
    /// # Errors
    /// What the device reports.
    pub(super) fn new(device: &Device, size: Size) -> Result<Self> {
        device.load(&WORK)?;
        let mut ground =
            Self { device: device.clone(), size, rounds: 0, small_rounds: 0, clock: Clock::Host };
        let stream = device.stream()?;
        let h = device.pinned::<u32>(size.words)?;
        let mut x = stream.alloc::<u32>(size.words)?;
        let mut upload = f64::INFINITY;
        for _ in 0..TRIES {
            let recording = ground.record(|| stream.copy(&h, &mut x))?;
            if recording.times == TimeSource::Model {
                ground.clock = Clock::Model;
            }
            upload = upload.min(work_ms(&recording, Engine::Upload)?);
        }
        let target = upload * size.kernel;
        ground.rounds = ground.rounds_for(size.words, target)?;
        ground.small_rounds = ground.rounds_for(size.small_words, target)?;
        Ok(ground)
    }

    /// Rounds that take a kernel over so many words so long.
    #[expect(clippy::cast_possible_truncation, reason = "float casts saturate, and are clamped")]
    fn rounds_for(&self, words: usize, target_ms: f64) -> Result<u32> {
        let stream = self.device.stream()?;
        let (mut x, mut y) = (stream.alloc::<u32>(words)?, stream.alloc::<u32>(words)?);
        stream.fill_bytes(&mut x, 1)?;
        let mut best = |rounds: u32| -> Result<f64> {
            let mut best = f64::INFINITY;
            for _ in 0..TRIES {
                let recording = self.record(|| stream.launch(&WORK, (rounds, &x, &mut y)))?;
                best = best.min(work_ms(&recording, Engine::Compute)?);
            }
            Ok(best)
        };
        let none = best(0)?;
        let (mut rounds, mut time) = (ROUNDS_MIN, best(ROUNDS_MIN)?);
        while time < target_ms && rounds < ROUNDS_MAX {
            rounds *= 4;
            time = best(rounds)?;
        }
        let per_round = (time - none).max(f64::MIN_POSITIVE) / f64::from(rounds);
        Ok(((target_ms - none) / per_round).clamp(1.0, f64::from(ROUNDS_MAX)) as u32)
    }

    /// The record of what `run` does.
    pub(super) fn record(&self, run: impl FnOnce() -> Result<()>) -> Result<Trace> {
        let origin = self.device.stream()?;
        self.device.start_trace(&origin)?;
        run()?;
        self.device.synchronize()?;
        self.device.take_trace()
    }

    /// How long `run` takes, to the end of its last operation, in milliseconds.
    pub(super) fn time_ms(&self, run: impl FnOnce() -> Result<()>) -> Result<f64> {
        if self.clock == Clock::Model {
            return self.record(run).map(|recording| length_ms(&recording.ops));
        }
        self.device.synchronize()?;
        let start = Instant::now();
        run()?;
        self.device.synchronize()?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    }
}

/// The words of a chunk within its array.
pub(super) fn part(chunk: usize, words: usize) -> Range<usize> {
    let at = chunk * words;
    at..at + words
}

/// What the source of every program holds.
pub(super) fn source(index: usize) -> u32 {
    hash(1, u32::try_from(index % (1 << 31)).unwrap_or(0) + 1)
}

/// The words that are compared, of a result of so many that took so many rounds each.
fn sample(len: usize, rounds: u32) -> impl Iterator<Item = usize> {
    // The source is a round more.
    let cheap = len as u64 * (u64::from(rounds) + 1) <= ROUNDS_CHEAP;
    (0..len).step_by(if cheap { 1 } else { SAMPLE })
}

/// Overwrites the words that will be compared, so that an earlier result does not pass.
pub(super) fn spoil(result: &mut [u32], rounds: u32) {
    for index in sample(result.len(), rounds) {
        result[index] = 0xdead_beef;
    }
}

/// The first word that is not `rounds` rounds of the source's, where `from` says which word of the
/// source each one comes from.
pub(super) fn differs(
    result: &[u32],
    rounds: u32,
    from: impl Fn(usize) -> usize,
) -> Option<String> {
    let expected = |index: usize| hash(rounds, source(from(index)));
    let wrong = sample(result.len(), rounds).find(|index| result[*index] != expected(*index))?;
    let (found, right) = (result[wrong], expected(wrong));
    Some(format!("word {wrong} of {} is {found:08x}, not {right:08x}", result.len()))
}

pub(super) fn one(value: f64) -> Samples {
    let mut samples = Samples::default();
    samples.push(value);
    samples
}

pub(super) fn wrong(cause: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidValue, "bench pitfalls", cause.into())
}
