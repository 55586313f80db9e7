//! Calibration: the rates of the link between host and device, for each direction alone and for
//! both at once.
//!
//! The bound of a pipeline that moves bytes both ways follows from the rate of both directions at
//! once, which is lower than the rate of one alone (50.8 and 55.5 GB/s on an H200). A single
//! pattern of copies can be 5 % slower than the link allows, so several are measured and the
//! fastest counts.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::units::{Bytes, Nanos};
use crate::device::driver::Clock;
use crate::memory::{Buffer, PinnedBuffer};
use crate::stream::{Device, Stream};
use std::fmt;

/// How often each pattern is measured. The fastest counts, since the result is a bound.
const REPEATS: usize = 3;

/// The order in which copies of both directions are enqueued.
#[derive(Debug, Clone, Copy)]
enum Pattern {
    /// In pieces of this many bytes, one up and one down in turn.
    Alternate(usize),
    /// All of one direction, then all of the other, in pieces of this many bytes.
    OneAfterTheOther(usize),
}

/// Rates of the link between host and device, as the times of some copies.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Calibration {
    /// Bytes that each of the copies moves per direction.
    pub bytes: Bytes,
    /// Uploading `bytes` alone.
    pub upload: Nanos,
    /// Downloading `bytes` alone.
    pub download: Nanos,
    /// Both at once, `bytes` each way.
    pub duplex: Nanos,
}

impl Calibration {
    /// Measures with `bytes` per direction. From 256 MiB on, the results are stable on a GPU.
    ///
    /// # Errors
    /// `OutOfMemory`, or what the driver reports.
    pub fn measure(device: &Device, bytes: Bytes) -> Result<Self> {
        let bytes = bytes.to_usize().max(1 << 20);
        let bench = Bench { up: device.stream()?, down: device.stream()?, device: device.clone() };
        let (a, b) = (bench.pair(bytes)?, bench.pair(bytes)?);
        let (mut up, mut down) = (a, b);
        let mut best = [Nanos(u64::MAX); 3];
        let patterns = [
            Pattern::Alternate(16 << 20),
            Pattern::Alternate(bytes),
            Pattern::OneAfterTheOther(bytes),
            Pattern::OneAfterTheOther(64 << 20),
        ];
        // Modelled times do not vary. Elsewhere the first round is the warm-up.
        let modelled = device.info().clock == Clock::Model;
        for _ in 0..if modelled { 1 } else { 1 + REPEATS } {
            let alone = Pattern::OneAfterTheOther(bytes);
            best[0] = best[0].min(bench.run(Some(&mut up), None, alone)?);
            best[1] = best[1].min(bench.run(None, Some(&mut down), alone)?);
            for pattern in patterns {
                best[2] = best[2].min(bench.run(Some(&mut up), Some(&mut down), pattern)?);
            }
        }
        let [upload, download, duplex] = best;
        Ok(Self { bytes: Bytes(bytes as u64), upload, download, duplex })
    }

    /// The least time to move this many bytes each way: both directions at once as long as both
    /// have bytes, then one alone.
    #[must_use]
    pub fn bound(&self, up: Bytes, down: Bytes) -> Nanos {
        let per_byte = |time: Nanos| time.0 as f64 / self.bytes.0 as f64;
        let both = up.0.min(down.0) as f64;
        let rest = if up > down {
            (up.0 - down.0) as f64 * per_byte(self.upload)
        } else {
            (down.0 - up.0) as f64 * per_byte(self.download)
        };
        Nanos::from_seconds((both * per_byte(self.duplex) + rest) * 1e-9)
    }
}

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use crate::base::units::rate;
        write!(
            f,
            "link: upload {}, download {}, both at once {} each way",
            rate(self.bytes, self.upload),
            rate(self.bytes, self.download),
            rate(self.bytes, self.duplex)
        )
    }
}

type Pair = (PinnedBuffer<u8>, Buffer<u8>);

struct Bench {
    device: Device,
    up: Stream,
    down: Stream,
}

impl Bench {
    fn pair(&self, bytes: usize) -> Result<Pair> {
        let mut host = self.device.pinned::<u8>(bytes)?;
        // Write every page: copies of pages that were never written can be faster than others.
        for (index, page) in host.write()?.chunks_mut(4096).enumerate() {
            page.fill(u8::try_from(index % 251).unwrap_or(0));
        }
        let mut device = self.up.alloc::<u8>(bytes)?;
        self.up.copy(&host, &mut device)?;
        self.up.synchronize()?;
        Ok((host, device))
    }

    /// The time of one pattern, on the device's clock.
    fn run(
        &self,
        mut up: Option<&mut Pair>,
        mut down: Option<&mut Pair>,
        pattern: Pattern,
    ) -> Result<Nanos> {
        let begin = self.device.timed_event()?;
        let gate = self.device.event()?;
        begin.record(&self.up)?;
        gate.record(&self.up)?;
        self.down.wait(&gate)?;
        let total = up.as_ref().or(down.as_ref()).map_or(0, |pair| pair.0.len());
        let (Pattern::Alternate(piece) | Pattern::OneAfterTheOther(piece)) = pattern;
        let pieces: Vec<_> =
            (0..total).step_by(piece).map(|at| at..(at + piece).min(total)).collect();
        match pattern {
            Pattern::Alternate(_) => {
                for piece in &pieces {
                    self.copy_up(&mut up, piece)?;
                    self.copy_down(&mut down, piece)?;
                }
            }
            Pattern::OneAfterTheOther(_) => {
                pieces.iter().try_for_each(|piece| self.copy_up(&mut up, piece))?;
                pieces.iter().try_for_each(|piece| self.copy_down(&mut down, piece))?;
            }
        }
        let mut longest = Nanos(0);
        for stream in [&self.up, &self.down] {
            let end = self.device.timed_event()?;
            end.record(stream)?;
            end.synchronize()?;
            longest = longest.max(end.elapsed_since(&begin)?);
        }
        Ok(longest)
    }

    fn copy_up(&self, pair: &mut Option<&mut Pair>, piece: &std::ops::Range<usize>) -> Result<()> {
        let Some((host, device)) = pair else { return Ok(()) };
        self.up.copy(&host.slice(piece.clone()), &mut device.slice_mut(piece.clone()))
    }

    fn copy_down(
        &self,
        pair: &mut Option<&mut Pair>,
        piece: &std::ops::Range<usize>,
    ) -> Result<()> {
        let Some((host, device)) = pair else { return Ok(()) };
        self.down.copy(&device.slice(piece.clone()), &mut host.slice_mut(piece.clone()))
    }
}
