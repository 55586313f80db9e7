//! A stream with a kernel that runs for a given time on one multiprocessor. The kernel always ends,
//! because its time is given as a number of rounds. A calibration finds the number of rounds.

use super::bench::{Bench, micros};
use std::time::Instant;
use trijet::testing::WORK;
use trijet::{Buffer, Device, Event, Readiness, Result, Stream};

/// The number of elements of the kernel. It has a single block, so that the other multiprocessors
/// are free.
const ELEMENTS: usize = 32;
/// Maximum number of rounds of the kernel. On every device, they take far longer than a
/// calibration.
const ROUNDS_MAX: u32 = 1 << 28;
/// The calibration ends when its kernel takes at least this time, in microseconds.
const STEADY_US: f64 = 4_000.0;

/// A stream with its own memory. Because of this, the library does not make it wait for another
/// stream.
pub(super) struct Lane {
    pub(super) stream: Stream,
    x: Buffer<u32>,
    y: Buffer<u32>,
    done: Event,
}

impl Lane {
    pub(super) fn new(device: &Device, stream: Stream) -> Result<Self> {
        let mut x = stream.alloc::<u32>(ELEMENTS)?;
        let mut y = stream.alloc::<u32>(ELEMENTS)?;
        stream.fill_bytes(&mut x, 1)?;
        stream.fill_bytes(&mut y, 0)?;
        stream.synchronize()?;
        Ok(Self { stream, x, y, done: device.event()? })
    }

    /// Launches the kernel.
    pub(super) fn launch(&mut self, rounds: u32) -> Result<()> {
        self.stream.launch(&WORK, (rounds, &self.x, &mut self.y))
    }

    /// Launches the kernel, and records the event that [`is_done`](Self::is_done) queries.
    pub(super) fn start(&mut self, rounds: u32) -> Result<()> {
        self.launch(rounds)?;
        self.done.record(&self.stream)
    }

    /// Whether the kernel of the last [`start`](Self::start) has ended.
    pub(super) fn is_done(&self) -> Result<bool> {
        Ok(self.done.query()? == Readiness::Ready)
    }

    fn timed(&mut self, rounds: u32) -> Result<f64> {
        let start = Instant::now();
        self.launch(rounds)?;
        self.stream.synchronize()?;
        Ok(micros(start))
    }
}

impl Bench {
    /// The number of rounds of a kernel that takes `milliseconds` milliseconds.
    #[expect(clippy::cast_possible_truncation, reason = "float casts saturate at the bound")]
    pub(super) fn rounds(&self, milliseconds: f64) -> u32 {
        ((self.rounds_per_ms * milliseconds) as u32).clamp(1, ROUNDS_MAX)
    }
}

/// Finds the number of rounds that take a millisecond. The last kernel is timed twice, and the
/// shorter time counts, because the clock rate of a device rises while the device is busy.
pub(super) fn calibrate(bench: &mut Bench) -> Result<()> {
    let mut lane = Lane::new(&bench.device, bench.device.stream()?)?;
    let mut rounds = 1 << 10;
    lane.timed(rounds)?;
    let mut time = lane.timed(rounds)?;
    while time < STEADY_US && rounds < ROUNDS_MAX {
        rounds *= 4;
        time = lane.timed(rounds)?;
    }
    time = time.min(lane.timed(rounds)?);
    bench.rounds_per_ms = f64::from(rounds) / time * 1e3;
    Ok(())
}
