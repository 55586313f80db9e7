//! The streams and memory of lessons that move chunks through upload, kernel and download.
#![forbid(unsafe_code)]

use super::ground::{Ground, differs, part, source, spoil};
use crate::lesson::{Form, Program};
use trijet::memory::{OnHost, PageLocked};
use trijet::testing::WORK;
use trijet::{Buffer, Device, PinnedBuffer, Result, Stream, StreamOptions, View, ViewMut};

/// The number of elements that the stray kernel of each step processes.
pub(crate) const STRAY_WORDS: usize = 256;

/// One stream for each engine, and one for the stray kernel.
#[derive(Debug)]
pub(crate) struct Lanes {
    pub(crate) up: Stream,
    pub(crate) run: Stream,
    pub(crate) down: Stream,
    pub(crate) stray: Stream,
}

impl Lanes {
    pub(crate) fn roles(&self) -> [&Stream; 3] {
        [&self.up, &self.run, &self.down]
    }
}

/// The memory of one chunk on the device.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) x: Buffer<u32>,
    pub(crate) y: Buffer<u32>,
}

/// The source and the destination of all chunks, in host memory.
#[derive(Debug)]
pub(crate) struct Arrays<S> {
    pub(crate) source: Buffer<u32, S>,
    pub(crate) landed: Buffer<u32, S>,
}

impl<S> Arrays<S>
where
    S: OnHost,
{
    pub(crate) fn fill(mut self) -> Result<Self> {
        for (index, word) in self.source.write()?.iter_mut().enumerate() {
            *word = source(index);
        }
        Ok(self)
    }
}

/// The device, the streams and the memory of a program that moves chunks.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) device: Device,
    pub(crate) free: Lanes,
    /// Blocking streams for the engines, and the legacy stream for the stray kernel.
    pub(crate) fenced: Lanes,
    pub(crate) slots: Vec<Slot>,
    pub(crate) arrays: Arrays<PageLocked>,
    /// The first word of the result of each chunk.
    pub(crate) items: PinnedBuffer<u32>,
    pub(crate) stray: Slot,
    pub(crate) words: usize,
    pub(crate) chunks: usize,
    pub(crate) rounds: u32,
}

impl Desk {
    pub(crate) fn new(ground: &Ground) -> Result<Self> {
        let (device, size) = (&ground.device, ground.size);
        let home = device.stream()?;
        let slot = |words: usize| -> Result<Slot> {
            let (mut x, mut y) = (home.alloc(words)?, home.alloc(words)?);
            home.fill_bytes(&mut x, 0)?;
            home.fill_bytes(&mut y, 0)?;
            Ok(Slot { x, y })
        };
        let all = size.words * size.chunks;
        Ok(Self {
            device: device.clone(),
            free: Lanes {
                up: device.stream()?,
                run: device.stream()?,
                down: device.stream()?,
                stray: device.stream()?,
            },
            fenced: Lanes {
                up: device.stream_with(StreamOptions::new().blocking())?,
                run: device.stream_with(StreamOptions::new().blocking())?,
                down: device.stream_with(StreamOptions::new().blocking())?,
                stray: device.legacy_stream()?,
            },
            slots: (0..size.slots).map(|_| slot(size.words)).collect::<Result<_>>()?,
            arrays: Arrays { source: device.pinned(all)?, landed: device.pinned(all)? }.fill()?,
            items: device.pinned(size.chunks)?,
            stray: slot(STRAY_WORDS)?,
            words: size.words,
            chunks: size.chunks,
            rounds: ground.rounds,
        })
    }
}

/// Moves one chunk through `slot`: an upload, a kernel and a download. Each operation is in its own
/// stream, or all three are in the same stream. The library inserts the waits.
#[track_caller]
pub(crate) fn step(
    [up, run, down]: [&Stream; 3],
    rounds: u32,
    from: View<'_, u32>,
    slot: &mut Slot,
    mut to: ViewMut<'_, u32>,
) -> Result<()> {
    up.copy(&from, &mut slot.x)?;
    run.launch(&WORK, (rounds, &slot.x, &mut slot.y))?;
    down.copy(&slot.y, &mut to)
}

/// Uploads a chunk to `slot`, and launches the kernel of the chunk.
#[track_caller]
pub(crate) fn first_half(
    lanes: &Lanes,
    rounds: u32,
    from: View<'_, u32>,
    slot: &mut Slot,
) -> Result<()> {
    lanes.up.copy(&from, &mut slot.x)?;
    lanes.run.launch(&WORK, (rounds, &slot.x, &mut slot.y))
}

/// A program that moves the chunks of the page-locked arrays of its desk.
pub(crate) struct Chunked {
    pub(crate) desk: Desk,
    pub(crate) with_items: bool,
    pub(crate) act: fn(&mut Desk, Form) -> Result<()>,
}

impl Chunked {
    pub(crate) fn boxed(
        ground: &Ground,
        with_items: bool,
        act: fn(&mut Desk, Form) -> Result<()>,
    ) -> Result<Box<dyn Program>> {
        Ok(Box::new(Self { desk: Desk::new(ground)?, with_items, act }))
    }
}

impl Program for Chunked {
    fn prepare(&mut self) -> Result<()> {
        spoil(&mut self.desk.items.write()?, 0);
        spoil(&mut self.desk.arrays.landed.write()?, self.desk.rounds);
        Ok(())
    }

    fn run(&mut self, form: Form) -> Result<()> {
        (self.act)(&mut self.desk, form)
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        let Desk { arrays, items, rounds, words, .. } = &self.desk;
        let landed = differs(&arrays.landed.read()?, *rounds, |index| index);
        if landed.is_some() || !self.with_items {
            return Ok(landed);
        }
        Ok(differs(&items.read()?, *rounds, |index| index * *words))
    }
}

/// Moves all chunks of `arrays`, with one stream for each engine. The chunks use the slots in turn.
#[track_caller]
pub(crate) fn overlapped<S>(
    lanes: &Lanes,
    slots: &mut [Slot],
    words: usize,
    rounds: u32,
    arrays: &mut Arrays<S>,
) -> Result<()> {
    for chunk in 0..arrays.source.len() / words {
        let (slot, part) = (chunk % slots.len(), part(chunk, words));
        let to = arrays.landed.slice_mut(part.clone());
        step(lanes.roles(), rounds, arrays.source.slice(part), &mut slots[slot], to)?;
    }
    Ok(())
}
