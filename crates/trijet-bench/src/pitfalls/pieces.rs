//! Programs with many small copies, streams, waits and allocations.
#![forbid(unsafe_code)]

use super::ground::{Ground, Size, differs, part, source, wrong};
use super::pair::{Program, Side};
use trijet::testing::WORK;
use trijet::{Batch, Buffer, Bytes, Device, PinnedBuffer, Result, SourceOrder, Stream};

/// The destination of the pieces. It decides how the good program copies the pieces.
enum Target {
    /// One array. The good program packs the pieces on the host, and copies all of them with one
    /// copy.
    Whole(Buffer<u32>),
    /// An array for each piece. The good program copies the pieces in batches.
    Each(Vec<Buffer<u32>>),
}

/// Pieces of page-locked memory with gaps between them.
struct Pieces {
    size: Size,
    stream: Stream,
    apart: PinnedBuffer<u32>,
    packed: PinnedBuffer<u32>,
    target: Target,
    back: PinnedBuffer<u32>,
}

/// The distance between the starts of two pieces, as a multiple of the length of a piece.
const STRIDE: usize = 2;

impl Pieces {
    fn new(ground: &Ground) -> Result<Self> {
        let (device, size) = (&ground.device, ground.size);
        let all = size.piece_words * size.pieces;
        let stream = device.stream()?;
        let mut apart = device.pinned::<u32>(all * STRIDE)?;
        for (index, word) in apart.write()?.iter_mut().enumerate() {
            *word = source(index);
        }
        let target = Target::Whole(stream.alloc(all)?);
        Ok(Self {
            size,
            apart,
            packed: device.pinned(all)?,
            target,
            back: device.pinned(all)?,
            stream,
        })
    }
}

pub(super) fn packed(ground: &Ground) -> Result<Box<dyn Program>> {
    Ok(Box::new(Pieces::new(ground)?))
}

pub(super) fn batched(ground: &Ground) -> Result<Box<dyn Program>> {
    let pieces = Pieces::new(ground)?;
    let Target::Whole(mut rest) = pieces.target else {
        return Err(wrong("new pieces have one array"));
    };
    let mut each = Vec::new();
    for _ in 0..ground.size.pieces {
        let (piece, more) = rest.split(ground.size.piece_words);
        each.push(piece);
        rest = more;
    }
    Ok(Box::new(Pieces { target: Target::Each(each), ..pieces }))
}

/// Copies the pieces to one array without gaps. In the source, the starts of the pieces are
/// `STRIDE` lengths apart.
fn pack(apart: &PinnedBuffer<u32>, packed: &mut PinnedBuffer<u32>, words: usize) -> Result<()> {
    let (apart, mut packed) = (apart.read()?, packed.write()?);
    for (piece, place) in apart.chunks(STRIDE * words).zip(packed.chunks_mut(words)) {
        place.copy_from_slice(&piece[..words]);
    }
    Ok(())
}

impl Program for Pieces {
    fn prepare(&mut self) -> Result<()> {
        let stream = &self.stream;
        match &mut self.target {
            Target::Whole(x) => stream.fill_bytes(x, 0xee),
            Target::Each(each) => each.iter_mut().try_for_each(|x| stream.fill_bytes(x, 0xee)),
        }
    }

    fn run(&mut self, side: Side) -> Result<()> {
        let words = self.size.piece_words;
        let Self { stream, apart, packed, target, .. } = self;
        let piece = |number: usize| apart.slice(part(STRIDE * number, words));
        match (side, target) {
            (Side::Bad, Target::Whole(x)) => (0..self.size.pieces).try_for_each(|number| {
                stream.copy(&piece(number), &mut x.slice_mut(part(number, words)))
            }),
            (Side::Bad, Target::Each(each)) => {
                let mut numbered = each.iter_mut().enumerate();
                numbered.try_for_each(|(number, x)| stream.copy(&piece(number), x))
            }
            (Side::Good, Target::Whole(x)) => {
                pack(apart, packed, words)?;
                stream.copy(packed, x)
            }
            (Side::Good, Target::Each(each)) => {
                let from: Vec<_> = (0..each.len()).map(piece).collect();
                let few = (from.chunks(Batch::COPIES_MAX)).zip(each.chunks_mut(Batch::COPIES_MAX));
                for (from, to) in few {
                    let mut batch = Batch::new();
                    for (from, to) in from.iter().zip(to) {
                        batch.add(from, to)?;
                    }
                    stream.copy_batch(batch, SourceOrder::Stream)?;
                }
                Ok(())
            }
        }
    }

    fn wrong(&mut self, _: Side) -> Result<Option<String>> {
        let words = self.size.piece_words;
        match &self.target {
            Target::Whole(x) => self.stream.copy(x, &mut self.back)?,
            Target::Each(each) => {
                for (number, x) in each.iter().enumerate() {
                    self.stream.copy(x, &mut self.back.slice_mut(part(number, x.len())))?;
                }
            }
        }
        let at = |index: usize| STRIDE * (index / words) * words + index % words;
        Ok(differs(&self.back.read()?, 0, at))
    }
}

/// Kernels of a few blocks, each with its own memory, distributed over several streams.
struct Dealt {
    device: Device,
    rounds: u32,
    pairs: Vec<(Buffer<u32>, Buffer<u32>)>,
    back: PinnedBuffer<u32>,
    home: Stream,
    streams: Vec<Stream>,
    act: fn(&mut Dealt, Side) -> Result<()>,
    many: usize,
}

impl Dealt {
    fn boxed(
        ground: &Ground,
        count: usize,
        rounds: u32,
        act: fn(&mut Dealt, Side) -> Result<()>,
    ) -> Result<Box<dyn Program>> {
        let (device, size) = (&ground.device, ground.size);
        let (home, words) = (device.stream()?, size.small_words);
        let mut pairs = Vec::new();
        for number in 0..count {
            let mut x = home.alloc::<u32>(words)?;
            let mut h = device.pinned::<u32>(words)?;
            let start = part(number, words).start;
            for (index, word) in h.write()?.iter_mut().enumerate() {
                *word = source(start + index);
            }
            home.copy(&h, &mut x)?;
            pairs.push((x, home.alloc(words)?));
        }
        let streams = (0..size.streams).map(|_| device.stream()).collect::<Result<_>>()?;
        let back = device.pinned(words * count)?;
        let (device, many) = (device.clone(), size.many_streams);
        Ok(Box::new(Self { device, rounds, pairs, back, home, streams, act, many }))
    }

    fn launch(&mut self, streams: &[Stream]) -> Result<()> {
        for (number, (x, y)) in self.pairs.iter_mut().enumerate() {
            streams[number % streams.len()].launch(&WORK, (self.rounds, &*x, y))?;
        }
        Ok(())
    }
}

/// Bad: the host waits for each stream before it launches on the next stream. Good: the host
/// launches on all streams, then waits for each stream.
fn waiting(dealt: &mut Dealt, side: Side) -> Result<()> {
    let Dealt { streams, pairs, rounds, .. } = dealt;
    for (number, (x, y)) in pairs.iter_mut().enumerate() {
        let stream = &streams[number % streams.len()];
        stream.launch(&WORK, (*rounds, &*x, y))?;
        if side == Side::Bad {
            stream.synchronize()?;
        }
    }
    if side == Side::Good {
        streams.iter().try_for_each(Stream::synchronize)?;
    }
    Ok(())
}

/// Bad: a new stream for each kernel. Good: the kernels use a few streams alternately. The time of
/// each program includes the creation of its streams.
fn streaming(dealt: &mut Dealt, side: Side) -> Result<()> {
    let count = if side == Side::Bad { dealt.many } else { dealt.streams.len() };
    let streams: Vec<Stream> = (0..count).map(|_| dealt.device.stream()).collect::<Result<_>>()?;
    dealt.launch(&streams)
}

pub(super) fn waits_in_turn(ground: &Ground) -> Result<Box<dyn Program>> {
    Dealt::boxed(ground, 4 * ground.size.streams, ground.small_rounds, waiting)
}

pub(super) fn many_streams(ground: &Ground) -> Result<Box<dyn Program>> {
    Dealt::boxed(ground, ground.size.many_streams, 1, streaming)
}

impl Program for Dealt {
    fn prepare(&mut self) -> Result<()> {
        self.pairs.iter_mut().try_for_each(|(_, y)| self.home.fill_bytes(y, 0xee))
    }

    fn run(&mut self, side: Side) -> Result<()> {
        (self.act)(self, side)
    }

    fn wrong(&mut self, _: Side) -> Result<Option<String>> {
        for (number, (_, y)) in self.pairs.iter().enumerate() {
            self.home.copy(y, &mut self.back.slice_mut(part(number, y.len())))?;
        }
        Ok(differs(&self.back.read()?, self.rounds, |index| index))
    }
}

/// Each step allocates scratch memory from the pool, and then waits. At each wait, the pool of the
/// bad program returns its free memory to the device.
struct Pooled {
    device: Device,
    stream: Stream,
    size: Size,
    x: Buffer<u32>,
    y: Buffer<u32>,
    back: PinnedBuffer<u32>,
}

pub(super) fn pool_keeps_nothing(ground: &Ground) -> Result<Box<dyn Program>> {
    let (device, size) = (ground.device.clone(), ground.size);
    let (stream, words) = (device.stream()?, size.small_words);
    let mut h = device.pinned::<u32>(words)?;
    for (index, word) in h.write()?.iter_mut().enumerate() {
        *word = source(index);
    }
    let (mut x, y, back) = (stream.alloc(words)?, stream.alloc(words)?, device.pinned(words)?);
    stream.copy(&h, &mut x)?;
    Ok(Box::new(Pooled { device, stream, size, x, y, back }))
}

impl Pooled {
    fn steps(&mut self) -> Result<()> {
        let words = self.size.small_words;
        for _ in 0..self.size.chunks {
            let mut scratch = self.stream.alloc::<u32>(self.size.scratch_words)?;
            self.stream.launch(&WORK, (1, &self.x, scratch.slice_mut(..words)))?;
            self.stream.launch(&WORK, (1, scratch.slice(..words), &mut self.y))?;
            drop(scratch);
            self.stream.synchronize()?;
        }
        Ok(())
    }
}

impl Program for Pooled {
    /// Fills the pool, so that it already has the memory of one step.
    fn prepare(&mut self) -> Result<()> {
        drop(self.stream.alloc::<u32>(self.size.scratch_words)?);
        self.stream.fill_bytes(&mut self.y, 0xee)
    }

    fn run(&mut self, side: Side) -> Result<()> {
        if side == Side::Good {
            return self.steps();
        }
        self.device.keep_memory(Bytes(0))?;
        let outcome = self.steps();
        self.device.keep_memory(Bytes(u64::MAX))?;
        outcome
    }

    fn wrong(&mut self, _: Side) -> Result<Option<String>> {
        self.stream.copy(&self.y, &mut self.back)?;
        Ok(differs(&self.back.read()?, 2, |index| index))
    }
}
