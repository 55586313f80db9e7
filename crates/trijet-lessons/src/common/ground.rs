//! The parts that all lessons share: a device, sizes, kernels of a known length, and a
//! clock.
#![forbid(unsafe_code)]

use serde::Deserialize;
use std::ops::Range;
use std::time::Instant;
use trijet::sim::{Executor, HostConfig, Order};
use trijet::testing::WORK;
use trijet::trace::{Engine, Op, TimeSource};
use trijet::{Buffer, Device, Error, ErrorKind, PinnedBuffer, PoolChoice, Result, Select, Trace};
use trijet_tools::work::hash;

/// The calibration of a kernel starts with `ROUNDS_MIN` rounds, and uses at most `ROUNDS_MAX`.
const ROUNDS_MIN: u32 = 1 << 6;
const ROUNDS_MAX: u32 = 1 << 24;
/// A calibration measures each time this many times, and uses the shortest.
const TRIES: usize = 5;
/// Maximum number of rounds that the host computes to check a run, summed over all words. If a full
/// check needs more, the host compares only the words whose index is a multiple of `SAMPLE`, a
/// prime.
const ROUNDS_CHEAP: u64 = 1 << 21;
const SAMPLE: usize = 1021;

/// The sizes of the programs of all lessons. A word has 32 bits.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Size {
    /// The number of timed runs of each form.
    pub repeats: usize,
    /// The number of words of a chunk.
    pub words: usize,
    /// The number of chunks.
    pub chunks: usize,
    /// The number of slots of a program. The chunks use the slots in turn.
    pub slots: usize,
    /// The time of a kernel over a chunk, as a multiple of the time of the upload of the chunk.
    pub kernel: f64,
    /// A long kernel takes this many times as long as the kernel over a chunk.
    pub long: u32,
    /// The number of words of a smaller chunk, for lessons about races and about warps.
    pub race_words: usize,
    /// The number of words of a kernel that has only a few blocks.
    pub small_words: usize,
    /// The number of streams of a program with a few streams.
    pub streams: usize,
    /// The number of streams of a program with too many streams.
    pub many_streams: usize,
    /// The number of small pieces of host memory that are copied one by one or together.
    pub pieces: usize,
    /// The number of words of a small piece.
    pub piece_words: usize,
    /// The number of words of the scratch memory of a step.
    pub scratch_words: usize,
}

impl Size {
    /// The sizes on a GPU.
    pub const GPU: Self = Self {
        repeats: 7,
        words: 1 << 22,
        chunks: 12,
        slots: 3,
        kernel: 0.9,
        long: 10,
        race_words: 1 << 20,
        small_words: 2048,
        streams: 4,
        many_streams: 256,
        pieces: 2048,
        piece_words: 1024,
        scratch_words: 1 << 25,
    };

    /// The sizes on a host device with modelled times. Modelled times do not vary, so one run of
    /// each form suffices. The host computes the kernels, so the arrays are small.
    pub const MODEL: Self = Self {
        repeats: 1,
        words: 1 << 15,
        chunks: 6,
        long: 1,
        race_words: 1 << 14,
        many_streams: 64,
        pieces: 256,
        piece_words: 256,
        scratch_words: 1 << 18,
        ..Self::GPU
    };
}

/// The clock that times a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    Host,
    /// The clock of the model of a host device. This clock stands still while code of the program
    /// runs on the host.
    Model,
}

/// The device, the sizes and the calibrated kernels that the programs of all lessons use.
#[derive(Debug)]
pub struct Ground {
    /// The device on which the programs run.
    pub device: Device,
    /// The devices for lessons about several devices: `device`, and the next GPU if there is one.
    /// If `device` is a host device with modelled times, there is a second host device.
    pub devices: Vec<Device>,
    /// The sizes of the programs.
    pub size: Size,
    /// The number of rounds of a kernel over a chunk.
    pub rounds: u32,
    /// The number of rounds with which a kernel of a few blocks takes as long as a kernel over a
    /// chunk.
    pub small_rounds: u32,
    clock: Clock,
}

/// The time from the start of the first call or operation to the end of the last call or operation,
/// in milliseconds.
fn length_ms(ops: &[Op]) -> f64 {
    let spans = || ops.iter().flat_map(|op| [op.call, op.times]).flatten();
    let begin = spans().map(|times| times.begin.0).min().unwrap_or(0);
    let end = spans().map(|times| times.end.0).max().unwrap_or(0);
    end.saturating_sub(begin) as f64 * 1e-6
}

/// The time of the only operation of `engine`, in milliseconds.
pub fn work_ms(trace: &Trace, engine: Engine) -> Result<f64> {
    let mut work = trace.ops.iter().filter(|op| op.engine == engine);
    match (work.next().and_then(|op| op.times), work.next()) {
        (Some(times), None) => Ok(times.end.0.saturating_sub(times.begin.0) as f64 * 1e-6),
        _ => Err(wrong(format!("the trace lacks the time of a single {engine:?} operation"))),
    }
}

impl Ground {
    /// Opens a GPU, and the next GPU if there is one. The devices allocate from pools of the
    /// driver, because some lessons are about pools.
    ///
    /// # Errors
    /// Every error of a device.
    pub fn on_gpu(ordinal: u32, size: Size) -> Result<Self> {
        let open =
            |ordinal| Device::builder().select(Select::Cuda(ordinal)).pool(PoolChoice::Own).open();
        let mut devices = vec![open(ordinal)?];
        let count = u32::try_from(Device::cuda_devices()?.len()).unwrap_or(1);
        if count > 1 {
            devices.push(open((ordinal + 1) % count)?);
        }
        Self::new(&devices, size)
    }

    /// Opens two host devices with modelled times, which allocate from pools.
    ///
    /// # Errors
    /// Every error of a device.
    pub fn on_model(size: Size) -> Result<Self> {
        let config = HostConfig::new().executor(Executor::Virtual(Order::Greedy)).devices(2);
        let devices = Device::builder().host(config).pool(PoolChoice::Own).open_all()?;
        Self::new(&devices, size)
    }

    /// Calibrates the kernels on the first of the devices.
    ///
    /// # Errors
    /// `InvalidValue` without devices; every error of the device.
    pub fn new(devices: &[Device], size: Size) -> Result<Self> {
        let device = devices.first().ok_or_else(|| wrong("a lesson needs a device"))?;
        device.load(&WORK)?;
        let mut ground = Self {
            device: device.clone(),
            devices: devices.to_vec(),
            size,
            rounds: 0,
            small_rounds: 0,
            clock: Clock::Host,
        };
        let stream = device.stream()?;
        let h = device.pinned::<u32>(size.words)?;
        let mut x = stream.alloc::<u32>(size.words)?;
        let mut upload = f64::INFINITY;
        for _ in 0..TRIES {
            let trace = ground.trace(|| stream.copy(&h, &mut x))?;
            if trace.times == TimeSource::Model {
                ground.clock = Clock::Model;
            }
            upload = upload.min(work_ms(&trace, Engine::Upload)?);
        }
        let target = upload * size.kernel;
        ground.rounds = ground.rounds_for(size.words, target)?;
        ground.small_rounds = ground.rounds_for(size.small_words, target)?;
        Ok(ground)
    }

    /// The two devices of a lesson about several devices.
    ///
    /// # Errors
    /// `Unsupported` if there is one GPU only.
    pub fn two(&self) -> Result<[Device; 2]> {
        match &self.devices[..] {
            [first, second, ..] => Ok([first.clone(), second.clone()]),
            _ => {
                let cause = "this lesson needs two GPUs; `--device host` shows it on a model";
                Err(Error::new(ErrorKind::Unsupported, "lesson", cause))
            }
        }
    }

    /// Whether the times come from the model of a host device.
    #[must_use]
    pub fn is_modelled(&self) -> bool {
        self.clock == Clock::Model
    }

    /// The number of rounds with which a kernel over `words` words takes `target_ms` milliseconds.
    #[expect(clippy::cast_possible_truncation, reason = "float casts saturate, and are clamped")]
    /// # Errors
    /// Every error of the device.
    pub fn rounds_for(&self, words: usize, target_ms: f64) -> Result<u32> {
        let stream = self.device.stream()?;
        let (mut x, mut y) = (stream.alloc::<u32>(words)?, stream.alloc::<u32>(words)?);
        stream.fill_bytes(&mut x, 1)?;
        let mut best = |rounds: u32| -> Result<f64> {
            let mut best = f64::INFINITY;
            for _ in 0..TRIES {
                let trace = self.trace(|| stream.launch(&WORK, (rounds, &x, &mut y)))?;
                best = best.min(work_ms(&trace, Engine::Compute)?);
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

    /// Runs `run` with a trace, and waits until its last operation is complete.
    pub fn trace(&self, run: impl FnOnce() -> Result<()>) -> Result<Trace> {
        let origin = self.device.stream()?;
        self.device.start_trace(&origin)?;
        run()?;
        self.synchronize()?;
        self.device.take_trace()
    }

    /// Waits for all devices.
    ///
    /// # Errors
    /// Every error of a device.
    pub fn synchronize(&self) -> Result<()> {
        self.devices.iter().try_for_each(Device::synchronize)
    }

    /// The time from the start of `run` until its last operation is complete, in milliseconds.
    pub fn time_ms(&self, run: impl FnOnce() -> Result<()>) -> Result<f64> {
        if self.clock == Clock::Model {
            return self.trace(run).map(|trace| length_ms(&trace.ops));
        }
        self.synchronize()?;
        let start = Instant::now();
        run()?;
        self.synchronize()?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    }
}

/// The range of a chunk's words within its array.
pub fn part(chunk: usize, words: usize) -> Range<usize> {
    let at = chunk * words;
    at..at + words
}

/// The value of the word at `index`, in the source of every program.
pub fn source(index: usize) -> u32 {
    hash(1, u32::try_from(index % (1 << 31)).unwrap_or(0) + 1)
}

/// Page-locked memory with the first `words` words of the source.
pub(crate) fn sourced(device: &Device, words: usize) -> Result<PinnedBuffer<u32>> {
    let mut host = device.pinned::<u32>(words)?;
    for (index, word) in host.write()?.iter_mut().enumerate() {
        *word = source(index);
    }
    Ok(host)
}

/// Cuts a buffer into parts of `words` words. Words at the end that do not fill a part are left
/// out.
pub(crate) fn cut<S>(buffer: Buffer<u32, S>, words: usize) -> Vec<Buffer<u32, S>> {
    let (mut parts, mut rest) = (Vec::new(), buffer);
    while rest.len() >= words {
        let (part, more) = rest.split(words);
        parts.push(part);
        rest = more;
    }
    parts
}

/// The indices of the words to compare in a result of `len` words, if the kernel makes `rounds`
/// rounds.
fn sample(len: usize, rounds: u32) -> impl Iterator<Item = usize> {
    // Computing a word of the source costs one more round.
    let cheap = len as u64 * (u64::from(rounds) + 1) <= ROUNDS_CHEAP;
    (0..len).step_by(if cheap { 1 } else { SAMPLE })
}

/// Overwrites the words that will be compared, so that the result of an earlier run cannot pass.
pub fn spoil(result: &mut [u32], rounds: u32) {
    for index in sample(result.len(), rounds) {
        result[index] = 0xdead_beef;
    }
}

/// Describes the first word of the result that is not the word of the source after `rounds` rounds.
/// `from` maps the index of a word in the result to the index of its word in the source.
pub fn differs(result: &[u32], rounds: u32, from: impl Fn(usize) -> usize) -> Option<String> {
    differs_from(result, rounds, |index| hash(rounds, source(from(index))))
}

/// Describes the first word of the result that is not the expected word at its index. The host
/// makes about `rounds` rounds to compute an expected word.
pub(crate) fn differs_from(
    result: &[u32],
    rounds: u32,
    expected: impl Fn(usize) -> u32,
) -> Option<String> {
    let wrong = sample(result.len(), rounds).find(|index| result[*index] != expected(*index))?;
    let (found, right) = (result[wrong], expected(wrong));
    Some(format!("word {wrong} of {} is {found:08x}, not {right:08x}", result.len()))
}

/// The error of a wrong result.
pub fn wrong(cause: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidValue, "lesson", cause.into())
}
