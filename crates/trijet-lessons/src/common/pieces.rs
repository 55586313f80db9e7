//! Pieces of host memory that are copied one by one, packed, or in batches.
#![forbid(unsafe_code)]

use super::ground::{Ground, Size, cut, differs, part, sourced, wrong};
use crate::lesson::{BAD, Form, Program};
use trijet::{Batch, Buffer, PinnedBuffer, Result, SourceOrder, Stream};

/// The destination of the pieces. The variant decides how the good program copies the pieces.
enum Target {
    /// One array. The good program packs the pieces on the host, and makes a single copy.
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
        let apart = sourced(device, all * STRIDE)?;
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

pub(crate) fn packed(ground: &Ground) -> Result<Box<dyn Program>> {
    Ok(Box::new(Pieces::new(ground)?))
}

pub(crate) fn batched(ground: &Ground) -> Result<Box<dyn Program>> {
    let pieces = Pieces::new(ground)?;
    let Target::Whole(whole) = pieces.target else {
        return Err(wrong("the new pieces have several arrays instead of one"));
    };
    let each = cut(whole, ground.size.piece_words);
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

    fn run(&mut self, form: Form) -> Result<()> {
        let words = self.size.piece_words;
        let Self { stream, apart, packed, target, .. } = self;
        let piece = |number: usize| apart.slice(part(STRIDE * number, words));
        match (form, target) {
            (BAD, Target::Whole(x)) => (0..self.size.pieces).try_for_each(|number| {
                stream.copy(&piece(number), &mut x.slice_mut(part(number, words)))
            }),
            (BAD, Target::Each(each)) => {
                let mut numbered = each.iter_mut().enumerate();
                numbered.try_for_each(|(number, x)| stream.copy(&piece(number), x))
            }
            (_, Target::Whole(x)) => {
                pack(apart, packed, words)?;
                stream.copy(packed, x)
            }
            (_, Target::Each(each)) => {
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

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
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
