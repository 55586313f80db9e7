//! The streams and memory of micro-batches that pass through two devices in turn.
#![forbid(unsafe_code)]

use super::desk::Arrays;
use super::ground::{Ground, part, wrong};
use trijet::memory::PageLocked;
use trijet::testing::WORK;
use trijet::training::StageWork;
use trijet::{Buffer, Device, Result, Stream};

/// The devices, streams and memory. The first device uploads the micro-batches, and the second
/// device downloads the results.
pub(crate) struct Halves {
    pub(crate) devices: [Device; 2],
    pub(crate) up: Stream,
    pub(crate) down: Stream,
    /// For each device, two slots for the micro-batches that are copied from or to the host.
    pub(crate) slots: [Vec<Buffer<u32>>; 2],
    pub(crate) arrays: Arrays<PageLocked>,
    pub(crate) words: usize,
    pub(crate) rounds: u32,
}

impl Halves {
    pub(crate) fn new(ground: &Ground) -> Result<Self> {
        let (words, devices) = (2 * ground.size.words, ground.two()?);
        let (up, down) = (devices[0].stream()?, devices[1].stream()?);
        let slots = |s: &Stream| (0..2).map(|_| s.alloc(words)).collect::<Result<Vec<_>>>();
        let array = || devices[0].pinned(words * ground.size.chunks);
        let arrays = Arrays { source: array()?, landed: array()? }.fill()?;
        // A kernel takes more time than a copy, so that most copies can be hidden.
        let (slots, rounds) = ([slots(&up)?, slots(&down)?], 2 * ground.rounds);
        Ok(Self { devices, up, down, slots, arrays, words, rounds })
    }

    /// Enqueues the work of a stage on micro-batch `number`. Each stage is on one of the two
    /// devices.
    pub(crate) fn stage(&mut self, number: usize, work: StageWork<'_, u32>) -> Result<()> {
        let (at, slot) = (part(number, self.words), &mut self.slots[work.stage][number % 2]);
        if let Some(y) = work.output {
            self.up.copy(&self.arrays.source.slice(at), slot)?;
            return work.stream.launch(&WORK, (self.rounds, &*slot, y));
        }
        let x = work.input.ok_or_else(|| wrong("the second stage has no input"))?;
        work.stream.launch(&WORK, (self.rounds, x, &mut *slot))?;
        self.down.copy(slot, &mut self.arrays.landed.slice_mut(at))
    }
}
