//! Programs that move chunks through upload, kernel and download, with mistakes that keep the three
//! from overlapping.
#![forbid(unsafe_code)]

use super::ground::{Ground, differs, part, source, spoil};
use super::pair::{Program, Side};
use trijet::memory::{OnHost, PageLocked};
use trijet::testing::WORK;
use trijet::{
    Buffer, Device, ErrorKind, PageableBuffer, PinnedBuffer, Result, Stream, StreamOptions, View,
    ViewMut,
};
use trijet_tools::bare::lab::Lab;
use trijet_tools::bare::step::{BareStep, Held};

/// The number of elements that the stray kernel of each step processes.
const STRAY_WORDS: usize = 256;
/// The size of the allocation in each step, in MiB.
const SCRATCH_MIB: usize = 16;

/// One stream for each engine, and one stream for the stray kernel.
#[derive(Debug)]
struct Lanes {
    up: Stream,
    run: Stream,
    down: Stream,
    stray: Stream,
}

impl Lanes {
    fn roles(&self) -> [&Stream; 3] {
        [&self.up, &self.run, &self.down]
    }
}

/// The memory of one chunk on the device.
#[derive(Debug)]
struct Slot {
    x: Buffer<u32>,
    y: Buffer<u32>,
}

/// The source and the destination in host memory.
#[derive(Debug)]
struct Arrays<S> {
    source: Buffer<u32, S>,
    landed: Buffer<u32, S>,
}

impl<S> Arrays<S>
where
    S: OnHost,
{
    fn fill(mut self) -> Result<Self> {
        for (index, word) in self.source.write()?.iter_mut().enumerate() {
            *word = source(index);
        }
        Ok(self)
    }
}

/// The streams and memory of the programs.
#[derive(Debug)]
struct Desk {
    device: Device,
    free: Lanes,
    /// Blocking streams for the engines, and the legacy stream for the stray kernel.
    fenced: Lanes,
    slots: Vec<Slot>,
    arrays: Arrays<PageLocked>,
    /// One word of each chunk's result.
    items: PinnedBuffer<u32>,
    stray: Slot,
    words: usize,
    chunks: usize,
    rounds: u32,
}

impl Desk {
    fn new(ground: &Ground) -> Result<Self> {
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

/// Uploads one chunk, launches its kernel and downloads the result. The three streams may be the
/// same stream. The library inserts the waits.
fn step(
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

/// Uploads a chunk and launches its kernel.
fn first_half(lanes: &Lanes, rounds: u32, from: View<'_, u32>, slot: &mut Slot) -> Result<()> {
    lanes.up.copy(&from, &mut slot.x)?;
    lanes.run.launch(&WORK, (rounds, &slot.x, &mut slot.y))
}

/// Bad: all chunks in one stream. Good: one stream for each engine.
fn one_stream(desk: &mut Desk, side: Side) -> Result<()> {
    let lanes = match side {
        Side::Bad => [&desk.free.run; 3],
        Side::Good => desk.free.roles(),
    };
    let Arrays { source, landed } = &mut desk.arrays;
    for chunk in 0..desk.chunks {
        let (slot, part) = (chunk % desk.slots.len(), part(chunk, desk.words));
        let to = landed.slice_mut(part.clone());
        step(lanes, desk.rounds, source.slice(part), &mut desk.slots[slot], to)?;
    }
    Ok(())
}

/// Bad: the host waits for the device after each chunk. Good: each use of a slot waits for the
/// previous use by an event.
fn over_sync(desk: &mut Desk, side: Side) -> Result<()> {
    let lanes = desk.free.roles();
    let Arrays { source, landed } = &mut desk.arrays;
    for chunk in 0..desk.chunks {
        let (slot, part) = (chunk % desk.slots.len(), part(chunk, desk.words));
        let to = landed.slice_mut(part.clone());
        step(lanes, desk.rounds, source.slice(part), &mut desk.slots[slot], to)?;
        if side == Side::Bad {
            desk.device.synchronize()?;
        }
    }
    Ok(())
}

/// Bad: one value of each result is fetched synchronously, as a program does that prints it. Good:
/// the value is copied in the stream of the result, and read at the end.
fn item(desk: &mut Desk, side: Side) -> Result<()> {
    let Arrays { source, landed } = &mut desk.arrays;
    for chunk in 0..desk.chunks {
        let (slot, part) = (chunk % desk.slots.len(), part(chunk, desk.words));
        let slot = &mut desk.slots[slot];
        first_half(&desk.free, desk.rounds, source.slice(part.clone()), slot)?;
        let (value, mut item) = (slot.y.slice(..1), desk.items.slice_mut(chunk..chunk + 1));
        match side {
            Side::Bad => desk.device.copy_now(&value, &mut item)?,
            Side::Good => desk.free.down.copy(&value, &mut item)?,
        }
        desk.free.down.copy(&slot.y, &mut landed.slice_mut(part))?;
    }
    Ok(())
}

/// Bad: each step launches a small kernel in the legacy stream, and the other streams are blocking.
/// Good: the small kernel has its own stream, and all streams are non-blocking.
fn legacy(desk: &mut Desk, side: Side) -> Result<()> {
    let lanes = match side {
        Side::Bad => &desk.fenced,
        Side::Good => &desk.free,
    };
    let Arrays { source, landed } = &mut desk.arrays;
    for chunk in 0..desk.chunks {
        let (slot, part) = (chunk % desk.slots.len(), part(chunk, desk.words));
        let slot = &mut desk.slots[slot];
        first_half(lanes, desk.rounds, source.slice(part.clone()), slot)?;
        lanes.stray.launch(&WORK, (1, &desk.stray.x, &mut desk.stray.y))?;
        lanes.down.copy(&slot.y, &mut landed.slice_mut(part))?;
    }
    Ok(())
}

/// A program that uses the page-locked arrays.
struct Chunked {
    desk: Desk,
    with_items: bool,
    act: fn(&mut Desk, Side) -> Result<()>,
}

impl Chunked {
    fn boxed(
        ground: &Ground,
        with_items: bool,
        act: fn(&mut Desk, Side) -> Result<()>,
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

    fn run(&mut self, side: Side) -> Result<()> {
        (self.act)(&mut self.desk, side)
    }

    fn wrong(&mut self, _: Side) -> Result<Option<String>> {
        let Desk { arrays, items, rounds, words, .. } = &self.desk;
        let landed = differs(&arrays.landed.read()?, *rounds, |index| index);
        if landed.is_some() || !self.with_items {
            return Ok(landed);
        }
        Ok(differs(&items.read()?, *rounds, |index| index * *words))
    }
}

pub(super) fn in_one_stream(ground: &Ground) -> Result<Box<dyn Program>> {
    Chunked::boxed(ground, false, one_stream)
}

pub(super) fn synchronized(ground: &Ground) -> Result<Box<dyn Program>> {
    Chunked::boxed(ground, false, over_sync)
}

pub(super) fn fetched_at_once(ground: &Ground) -> Result<Box<dyn Program>> {
    Chunked::boxed(ground, true, item)
}

pub(super) fn strays(ground: &Ground) -> Result<Box<dyn Program>> {
    Chunked::boxed(ground, false, legacy)
}

/// Bad: the arrays are pageable. Good: they are page-locked.
struct Unlocked {
    desk: Desk,
    arrays: Arrays<trijet::memory::Pageable>,
}

pub(super) fn pageable(ground: &Ground) -> Result<Box<dyn Program>> {
    let all = ground.size.words * ground.size.chunks;
    let array = || -> Result<PageableBuffer<u32>> { ground.device.pageable(all) };
    let arrays = Arrays { source: array()?, landed: array()? }.fill()?;
    Ok(Box::new(Unlocked { desk: Desk::new(ground)?, arrays }))
}

/// Moves all chunks, with one stream for each engine.
fn overlapped<S>(
    (lanes, slots): (&Lanes, &mut [Slot]),
    (chunks, words, rounds): (usize, usize, u32),
    Arrays { source, landed }: &mut Arrays<S>,
) -> Result<()> {
    for chunk in 0..chunks {
        let (slot, part) = (chunk % slots.len(), part(chunk, words));
        let to = landed.slice_mut(part.clone());
        step(lanes.roles(), rounds, source.slice(part), &mut slots[slot], to)?;
    }
    Ok(())
}

impl Program for Unlocked {
    fn prepare(&mut self) -> Result<()> {
        spoil(&mut self.arrays.landed.write()?, self.desk.rounds);
        spoil(&mut self.desk.arrays.landed.write()?, self.desk.rounds);
        Ok(())
    }

    fn run(&mut self, side: Side) -> Result<()> {
        let Desk { free, slots, arrays, chunks, words, rounds, .. } = &mut self.desk;
        let sizes = (*chunks, *words, *rounds);
        match side {
            Side::Bad => overlapped((free, slots), sizes, &mut self.arrays),
            Side::Good => overlapped((free, slots), sizes, arrays),
        }
    }

    fn wrong(&mut self, side: Side) -> Result<Option<String>> {
        let landed = match side {
            Side::Bad => self.arrays.landed.read()?,
            Side::Good => self.desk.arrays.landed.read()?,
        };
        Ok(differs(&landed, self.desk.rounds, |index| index))
    }
}

/// Bad: each step allocates scratch memory with `cuMemAlloc` and frees it with `cuMemFree`. Good:
/// the scratch memory is stream-ordered. No kernel uses it, so only the calls are compared.
struct Allocating {
    desk: Desk,
    lab: Lab,
}

pub(super) fn allocating(ground: &Ground) -> Result<Box<dyn Program>> {
    if ground.device.info().compute.0 == 0 {
        let cause = "cuMemAlloc and cuMemFree are calls of the CUDA driver";
        return Err(trijet::Error::new(ErrorKind::Unsupported, "bench pitfalls", cause));
    }
    let lab = Lab::new(ground.device.id().0)?;
    Ok(Box::new(Allocating { desk: Desk::new(ground)?, lab }))
}

impl Program for Allocating {
    fn prepare(&mut self) -> Result<()> {
        spoil(&mut self.desk.arrays.landed.write()?, self.desk.rounds);
        self.lab.enter()
    }

    fn run(&mut self, side: Side) -> Result<()> {
        let Desk { free, slots, arrays, chunks, words, rounds, .. } = &mut self.desk;
        let Arrays { source, landed } = arrays;
        let mut held = Held::default();
        for chunk in 0..*chunks {
            let (slot, part) = (chunk % slots.len(), part(chunk, *words));
            let to = landed.slice_mut(part.clone());
            step(free.roles(), *rounds, source.slice(part), &mut slots[slot], to)?;
            match side {
                Side::Bad => {
                    self.lab.act(BareStep::Alloc(SCRATCH_MIB), &mut held)?;
                    self.lab.act(BareStep::Free(SCRATCH_MIB), &mut held)?;
                }
                Side::Good => drop(free.run.alloc::<u8>(SCRATCH_MIB << 20)?),
            }
        }
        Ok(())
    }

    fn wrong(&mut self, _: Side) -> Result<Option<String>> {
        Ok(differs(&self.desk.arrays.landed.read()?, self.desk.rounds, |index| index))
    }
}
