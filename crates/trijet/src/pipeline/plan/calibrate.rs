//! Calibration: the rates of the link between host and device, and the cost of each copy beyond the
//! time of its bytes. The rates and the cost are measured for each direction alone and for both
//! directions at once.
//!
//! The bound of a pipeline that moves bytes in both directions follows from the rate of each
//! direction while both are busy. This rate is lower than the rate of one direction alone (50.8 and
//! 55.5 GB/s on an H200). A single pattern of copies can be 5 % slower than the link allows. So
//! several patterns are measured, and the fastest pattern counts.
//!
//! A copy occupies its engine for longer than its bytes need. The model for the time of n copies
//! with b bytes in total is a line: b / rate + n x cost. To find the cost, the same bytes are
//! copied in few pieces and in many pieces. The difference of the times is divided by the
//! difference of the numbers of pieces. A run also takes some time before its first copy begins. A
//! run with almost no bytes shows the time before the first copy. The rates include neither this
//! time nor the cost of copies.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::units::{Bytes, Nanos};
use crate::device::driver::Clock;
use crate::memory::{Buffer, PinnedBuffer};
use crate::stream::{Device, Stream};
use std::fmt;
use std::ops::Range;

/// Number of measurements per pattern. The fastest measurement counts, because the result is a
/// bound.
const REPEATS: usize = 3;
/// The size in bytes of the pieces that show the cost of a copy. If there are fewer than
/// [`PIECES_MIN`] pieces of this size, the pieces are smaller.
const PIECE: usize = 1 << 20;
/// The minimum number of pieces of [`PIECE`] bytes.
const PIECES_MIN: usize = 4;
/// A number of bytes whose time on the link is negligible.
const TINY: usize = 1 << 10;

/// The order in which copies of both directions are enqueued.
#[derive(Debug, Clone, Copy)]
enum CopyOrder {
    /// An upload and a download alternate.
    Alternate,
    /// All copies of one direction come first. All copies of the other direction follow.
    OneAfterTheOther,
}

/// Copies of `bytes` bytes in each direction, in pieces of `piece` bytes.
#[derive(Debug, Clone, Copy)]
struct Pattern {
    order: CopyOrder,
    bytes: usize,
    piece: usize,
}

impl Pattern {
    /// The number of copies in each direction.
    fn copies(self) -> u64 {
        self.bytes.div_ceil(self.piece) as u64
    }
}

/// The directions in which a run copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyWay {
    Up,
    Down,
    Both,
}

/// The copies of a run in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Copies {
    /// The number of copies.
    pub count: u64,
    /// The total number of bytes.
    pub bytes: Bytes,
}

/// Rates of the link between host and device, and the cost of each copy. A rate is stored as the
/// time of a number of bytes.
///
/// ```
/// use trijet::pipeline::{Calibration, Copies};
/// use trijet::sim::{Executor, HostConfig, Order};
/// use trijet::{Bytes, Device};
/// # fn main() -> trijet::Result<()> {
/// let executor = Executor::Virtual(Order::Greedy);
/// let device = Device::builder().host(HostConfig::new().executor(executor)).open()?;
/// let link = Calibration::measure(&device, Bytes(4 << 20))?;
/// let whole = Copies { count: 1, bytes: Bytes(1 << 30) };
/// let pieces = Copies { count: 1024, ..whole };
/// assert!(link.bound(whole.bytes, whole.bytes) < link.bound_with_copies(whole, whole));
/// assert!(link.bound_with_copies(whole, whole) < link.bound_with_copies(pieces, pieces));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Calibration {
    /// The number of bytes, in each direction, to which the times apply.
    pub bytes: Bytes,
    /// The time of uploads of `bytes` bytes while no download runs, without the cost of each copy.
    pub upload: Nanos,
    /// The time of downloads of `bytes` bytes while no upload runs, without the cost of each copy.
    pub download: Nanos,
    /// The time to copy `bytes` bytes in each direction while both directions are busy, without the
    /// cost of each copy.
    pub duplex: Nanos,
    /// The cost of each upload beyond the time of its bytes, while no download runs.
    pub upload_copy: Nanos,
    /// The cost of each download beyond the time of its bytes, while no upload runs.
    pub download_copy: Nanos,
    /// The cost of one upload and one download at the same time, beyond the time of their bytes.
    pub duplex_copy: Nanos,
}

/// The least times, in nanoseconds, of the runs in one direction, or of the runs in both directions
/// at once.
#[derive(Debug, Clone, Copy)]
struct Least {
    /// The time of a run with one copy of almost no bytes: the time before the copy, plus the cost
    /// of the copy.
    tiny: u64,
    /// The time of all bytes in few copies, and the number of these copies.
    whole: (u64, u64),
    /// The time of all bytes in many copies, and the number of these copies.
    pieces: (u64, u64),
}

impl Least {
    const NONE: Self = Self { tiny: u64::MAX, whole: (u64::MAX, 1), pieces: (u64::MAX, 1) };

    /// Returns the time of all bytes, and the cost of each copy. The time of the bytes is at least
    /// half of the measured time, because noise in a short run could make the difference too small.
    fn line(self) -> (Nanos, Nanos) {
        let ((time, few), (longer, many)) = (self.whole, self.pieces);
        let copy = longer.saturating_sub(time) / many.saturating_sub(few).max(1);
        let beside = self.tiny.saturating_add(copy.saturating_mul(few - 1));
        (Nanos(time - beside.min(time / 2)), Nanos(copy))
    }
}

impl Calibration {
    /// Measures copies of `bytes` bytes in each direction. At 256 MiB and above, the results are
    /// stable on a GPU.
    ///
    /// # Errors
    /// `OutOfMemory`, or an error of the driver.
    pub fn measure(device: &Device, bytes: Bytes) -> Result<Self> {
        let bytes = bytes.to_usize().max(1 << 20);
        let mut bench = Bench::new(device, bytes)?;
        let in_pieces = |order, piece| Pattern { order, bytes, piece };
        let whole = [
            in_pieces(CopyOrder::Alternate, 16 << 20),
            in_pieces(CopyOrder::Alternate, bytes),
            in_pieces(CopyOrder::OneAfterTheOther, bytes),
            in_pieces(CopyOrder::OneAfterTheOther, 64 << 20),
        ];
        let pieces = in_pieces(CopyOrder::Alternate, PIECE.min(bytes / PIECES_MIN));
        let tiny = Pattern { order: CopyOrder::Alternate, bytes: TINY, piece: TINY };
        let mut least = [Least::NONE; 3];
        // Modelled times do not vary. On other clocks, the first round includes the warm-up.
        let modelled = device.info().clock == Clock::Model;
        for _ in 0..if modelled { 1 } else { 1 + REPEATS } {
            for (way, least) in
                [CopyWay::Up, CopyWay::Down, CopyWay::Both].into_iter().zip(&mut least)
            {
                let whole = if way == CopyWay::Both { &whole[..] } else { &whole[2..3] };
                for pattern in whole {
                    let time = bench.run(way, *pattern)?;
                    least.whole = least.whole.min((time.0, pattern.copies()));
                }
                let time = bench.run(way, pieces)?;
                least.pieces = least.pieces.min((time.0, pieces.copies()));
                least.tiny = least.tiny.min(bench.run(way, tiny)?.0);
            }
        }
        let [(upload, upload_copy), (download, download_copy), (duplex, duplex_copy)] =
            least.map(Least::line);
        let bytes = Bytes(bytes as u64);
        Ok(Self { bytes, upload, download, duplex, upload_copy, download_copy, duplex_copy })
    }

    /// The least time to move these bytes in both directions, without the cost of each copy. Both
    /// directions run at once while both have bytes, and then one direction runs alone.
    #[must_use]
    pub fn bound(&self, up: Bytes, down: Bytes) -> Nanos {
        let copies = |bytes| Copies { count: 0, bytes };
        self.bound_with_copies(copies(up), copies(down))
    }

    /// The least time of the copies `up` and `down`, including the cost of each copy. Both
    /// directions run at once while both have copies. Then the direction with more work does the
    /// rest of its work alone.
    #[must_use]
    pub fn bound_with_copies(&self, up: Copies, down: Copies) -> Nanos {
        Nanos::from_seconds(self.both_ns(up, down) * 1e-9)
    }

    /// The least time of the copies of a pipeline. The first upload has `first` bytes, and the last
    /// download has `last` bytes. No download can run beside the first upload, and no upload can
    /// run beside the last download, so these two copies run alone. The other copies take the time
    /// of [`bound_with_copies`](Self::bound_with_copies).
    #[must_use]
    pub fn bound_with_fill_and_drain(
        &self,
        up: Copies,
        down: Copies,
        (first, last): (Bytes, Bytes),
    ) -> Nanos {
        let without = |copies: Copies, end: Bytes| Copies {
            count: copies.count.saturating_sub(end.0.min(1)),
            bytes: Bytes(copies.bytes.0.saturating_sub(end.0)),
        };
        let between = self.both_ns(without(up, first), without(down, last));
        let ends = self.fill_and_drain(first, last).0 as f64;
        let time = (between + ends).max(self.both_ns(up, down));
        Nanos::from_seconds(time * 1e-9)
    }

    /// The time of an upload of `first` bytes alone, plus the time of a download of `last` bytes
    /// alone.
    pub(super) fn fill_and_drain(&self, first: Bytes, last: Bytes) -> Nanos {
        let copy = |bytes: Bytes| Copies { count: bytes.0.min(1), bytes };
        Nanos(self.uploads_alone(copy(first)).0 + self.downloads_alone(copy(last)).0)
    }

    /// The least time of these uploads if there is no download.
    pub(in crate::pipeline) fn uploads_alone(&self, copies: Copies) -> Nanos {
        self.bound_with_copies(copies, Copies::default())
    }

    /// The least time of these downloads if there is no upload.
    pub(in crate::pipeline) fn downloads_alone(&self, copies: Copies) -> Nanos {
        self.bound_with_copies(Copies::default(), copies)
    }

    /// The time of these copies in nanoseconds, if `time` is the time of `self.bytes` bytes and
    /// `copy` is the cost of a copy.
    fn ns(&self, copies: Copies, (time, copy): (Nanos, Nanos)) -> f64 {
        let share = copies.bytes.0 as f64 / self.bytes.0 as f64;
        share * time.0 as f64 + copies.count as f64 * copy.0 as f64
    }

    fn both_ns(&self, up: Copies, down: Copies) -> f64 {
        // If both directions at once seem faster than one direction alone, the cause is noise of
        // the measurement.
        let beside = (
            self.duplex.max(self.upload).max(self.download),
            self.duplex_copy.max(self.upload_copy).max(self.download_copy),
        );
        let up = (self.ns(up, beside), self.ns(up, (self.upload, self.upload_copy)));
        let down = (self.ns(down, beside), self.ns(down, (self.download, self.download_copy)));
        let (less, (more, alone)) = if up.0 > down.0 { (down.0, up) } else { (up.0, down) };
        if more > 0.0 { less + (1.0 - less / more) * alone } else { 0.0 }
    }
}

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use crate::base::units::rate;
        write!(
            f,
            "link: upload {}, download {}, both at once {} each way; each copy costs {} more, and \
             two at once {}",
            rate(self.bytes, self.upload),
            rate(self.bytes, self.download),
            rate(self.bytes, self.duplex),
            self.upload_copy.max(self.download_copy),
            self.duplex_copy,
        )
    }
}

type CopyPair = (PinnedBuffer<u8>, Buffer<u8>);

/// For each direction, a stream and the memory for its copies.
struct Bench {
    device: Device,
    up: (Stream, CopyPair),
    down: (Stream, CopyPair),
}

/// Memory of the host and of the device for copies of a stream. Every page is written first,
/// because copies of pages that were never written can be faster.
fn pair(device: &Device, stream: Stream, bytes: usize) -> Result<(Stream, CopyPair)> {
    let mut host = device.pinned::<u8>(bytes)?;
    for (index, page) in host.write()?.chunks_mut(4096).enumerate() {
        page.fill(u8::try_from(index % 251).unwrap_or(0));
    }
    let mut memory = stream.alloc::<u8>(bytes)?;
    stream.copy(&host, &mut memory)?;
    stream.synchronize()?;
    Ok((stream, (host, memory)))
}

impl Bench {
    fn new(device: &Device, bytes: usize) -> Result<Self> {
        let (up, down) = (device.stream()?, device.stream()?);
        let (up, down) = (pair(device, up, bytes)?, pair(device, down, bytes)?);
        Ok(Self { device: device.clone(), up, down })
    }

    /// The time of one pattern, on the device's clock.
    fn run(&mut self, way: CopyWay, pattern: Pattern) -> Result<Nanos> {
        let begin = self.device.timed_event()?;
        let start = self.device.event()?;
        begin.record(&self.up.0)?;
        start.record(&self.up.0)?;
        self.down.0.wait(&start)?;
        let ranges = || {
            let Pattern { bytes, piece, .. } = pattern;
            (0..bytes).step_by(piece).map(move |at| at..(at + piece).min(bytes))
        };
        let (has_up, has_down) = (way != CopyWay::Down, way != CopyWay::Up);
        match pattern.order {
            CopyOrder::Alternate => {
                for range in ranges() {
                    if has_up {
                        self.copy_up(range.clone())?;
                    }
                    if has_down {
                        self.copy_down(range)?;
                    }
                }
            }
            CopyOrder::OneAfterTheOther => {
                if has_up {
                    ranges().try_for_each(|range| self.copy_up(range))?;
                }
                if has_down {
                    ranges().try_for_each(|range| self.copy_down(range))?;
                }
            }
        }
        let mut longest = Nanos(0);
        for stream in [&self.up.0, &self.down.0] {
            let end = self.device.timed_event()?;
            end.record(stream)?;
            end.synchronize()?;
            longest = longest.max(end.elapsed_since(&begin)?);
        }
        Ok(longest)
    }

    fn copy_up(&mut self, range: Range<usize>) -> Result<()> {
        let (stream, (host, device)) = &mut self.up;
        stream.copy(&host.slice(range.clone()), &mut device.slice_mut(range))
    }

    fn copy_down(&mut self, range: Range<usize>) -> Result<()> {
        let (stream, (host, device)) = &mut self.down;
        stream.copy(&device.slice(range.clone()), &mut host.slice_mut(range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{CostModel, Executor, HostConfig, Order as RunOrder};
    use proptest::prelude::*;

    fn modelled() -> Device {
        let executor = Executor::Virtual(RunOrder::Greedy);
        let config = HostConfig::new().executor(executor);
        Device::builder().host(config).open().expect("a host device")
    }

    /// Rates in bytes per second, times of copies in nanoseconds.
    fn link(rates: [f64; 3], copies: [u64; 3]) -> Calibration {
        let bytes = Bytes(1 << 30);
        let time = |rate| Nanos::from_seconds(bytes.0 as f64 / rate);
        let [upload, download, duplex] = rates.map(time);
        let [upload_copy, download_copy, duplex_copy] = copies.map(Nanos);
        Calibration { bytes, upload, download, duplex, upload_copy, download_copy, duplex_copy }
    }

    fn within(time: Nanos, wanted: f64, part: f64) -> bool {
        (time.0 as f64 - wanted).abs() <= part * wanted
    }

    /// An earlier version counted the cost of a copy, and the time before the first copy, in the
    /// rates. With 1 MiB, the rates were a fifth too low.
    #[test]
    fn the_costs_of_the_model_are_found_with_few_and_with_many_bytes() {
        let model = CostModel::default();
        for bytes in [1 << 20, 3 << 20, 16 << 20, 64 << 20] {
            let link = Calibration::measure(&modelled(), Bytes(bytes)).expect("a calibration");
            let time = |rate: f64| link.bytes.0 as f64 / rate * 1e9;
            for (found, rate) in [
                (link.upload, model.link_rate),
                (link.download, model.link_rate),
                (link.duplex, model.duplex_rate),
            ] {
                assert!(within(found, time(rate), 0.01), "{bytes}: {link:?}");
            }
            for copy in [link.upload_copy, link.download_copy, link.duplex_copy] {
                assert!(within(copy, model.copy_latency.0 as f64, 0.1), "{bytes}: {link:?}");
            }
        }
    }

    #[test]
    fn equal_copies_both_ways_take_their_bytes_and_their_number() {
        let link = link([55.5e9, 55.4e9, 50.0e9], [2_000, 2_500, 4_000]);
        let gib = |count| Copies { count, bytes: Bytes(1 << 30) };
        let (bytes, none) = (link.bound(Bytes(1 << 30), Bytes(1 << 30)), Copies::default());
        assert_eq!(bytes, link.duplex);
        assert_eq!(link.bound_with_copies(gib(1000), gib(1000)).0, bytes.0 + 4_000_000);
        assert_eq!(link.bound_with_copies(gib(1000), none).0, link.upload.0 + 2_000_000);
        assert_eq!(link.bound_with_copies(none, gib(1000)).0, link.download.0 + 2_500_000);
        assert_eq!(link.bound_with_copies(none, none), Nanos(0));
        // With one chunk, the upload and the download do not overlap.
        let one = link.bound_with_fill_and_drain(gib(1), gib(1), (Bytes(1 << 30), Bytes(1 << 30)));
        assert_eq!(one.0, link.upload.0 + 2_000 + link.download.0 + 2_500);
    }

    #[test]
    fn a_cost_is_never_negative_and_a_rate_never_infinite() {
        let odd = Least { tiny: 90, whole: (100, 1), pieces: (80, 4) };
        assert_eq!(odd.line(), (Nanos(50), Nanos(0)));
        let plain = Least { tiny: 13, whole: (1_026, 2), pieces: (1_086, 8) };
        assert_eq!(plain.line(), (Nanos(1_003), Nanos(10)));
    }

    proptest! {
        /// More work never takes less time. The bound with copies is at least as long as the bound
        /// of the bytes. The bound with fill and drain is at least as long as the bound with
        /// copies.
        #[test]
        fn the_bounds_grow(
            rates in [40e9..60e9_f64, 40e9..60e9_f64, 30e9..65e9_f64],
            costs in [0..5_000_u64, 0..5_000_u64, 0..8_000_u64],
            up in (1..5_000_u64, 1..1_u64 << 32), down in (1..5_000_u64, 1..1_u64 << 32),
            ends in (0.0..1.0_f64, 0.0..1.0_f64), more in (0..9_u64, 0..1_u64 << 20),
        ) {
            let link = link(rates, costs);
            let copies = |(count, bytes)| Copies { count, bytes: Bytes(bytes) };
            let (up, down) = (copies(up), copies(down));
            let part = |bytes: Bytes, part: f64| {
                Bytes(Nanos::from_seconds(bytes.0 as f64 * part * 1e-9).0.min(bytes.0))
            };
            let ends = (part(up.bytes, ends.0), part(down.bytes, ends.1));
            let bytes = link.bound(up.bytes, down.bytes);
            let all = link.bound_with_copies(up, down);
            prop_assert!(bytes <= all);
            prop_assert!(all <= link.bound_with_fill_and_drain(up, down, ends));
            for alone in [link.uploads_alone(up), link.downloads_alone(down)] {
                prop_assert!(alone.0 <= all.0 + 1, "{alone} alone, {all} with the other direction");
            }
            let larger =
                Copies { count: up.count + more.0, bytes: Bytes(up.bytes.0 + more.1) };
            prop_assert!(all.0 <= link.bound_with_copies(larger, down).0 + 1);
        }
    }
}
