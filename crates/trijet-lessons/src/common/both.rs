//! Two devices with a stream each, and the source in the memory of each device.
#![forbid(unsafe_code)]

use super::ground::{Ground, differs_from, part, source, sourced};
use trijet::{Buffer, Device, PinnedBuffer, Result, Stream, View};
use trijet_tools::work::hash;

/// Two devices with a stream each. Device `k` has part `k` of the source in `x[k]`, which no form
/// writes.
pub(crate) struct Both {
    pub(crate) devices: [Device; 2],
    pub(crate) streams: [Stream; 2],
    pub(crate) x: [Buffer<u32>; 2],
    pub(crate) back: PinnedBuffer<u32>,
}

impl Both {
    /// Uploads `words` words of the source to each device.
    pub(crate) fn new(ground: &Ground, words: usize) -> Result<Self> {
        let devices = ground.two()?;
        let streams = [devices[0].stream()?, devices[1].stream()?];
        let mut x = [streams[0].alloc(words)?, streams[1].alloc(words)?];
        let host = sourced(&devices[0], 2 * words)?;
        for (number, (stream, x)) in streams.iter().zip(&mut x).enumerate() {
            stream.copy(&host.slice(part(number, words)), x)?;
        }
        let back = devices[0].pinned(words)?;
        Ok(Self { devices, streams, x, back })
    }

    /// Waits for both devices. Work that `prepare` enqueued is then complete before a run is timed.
    pub(crate) fn synchronize(&self) -> Result<()> {
        self.devices.iter().try_for_each(Device::synchronize)
    }

    /// Downloads the result of each device, and compares each word with the expected sum. The
    /// expected sum at an index is the sum of the source words of both devices at this index, each
    /// after `rounds` rounds. Returns a description of the first wrong word.
    pub(crate) fn wrong_sum(
        &mut self,
        results: [View<'_, u32>; 2],
        rounds: u32,
    ) -> Result<Option<String>> {
        let words = self.back.len();
        let of = |index| hash(rounds, source(index));
        for (stream, result) in self.streams.iter().zip(results) {
            stream.copy(&result, &mut self.back)?;
            let sum = |index: usize| of(index).wrapping_add(of(words + index));
            if let Some(found) = differs_from(&self.back.read()?, 2 * rounds, sum) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}
