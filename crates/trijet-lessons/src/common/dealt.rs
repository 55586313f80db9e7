//! Kernels that lessons distribute over streams.
#![forbid(unsafe_code)]

use super::ground::{Ground, differs, part, source};
use crate::lesson::{Form, Program};
use trijet::testing::WORK;
use trijet::{Buffer, Device, PinnedBuffer, Result, Stream};

/// Kernels, each with its own memory, distributed over several streams.
pub(crate) struct Dealt {
    pub(crate) device: Device,
    pub(crate) rounds: u32,
    pub(crate) pairs: Vec<(Buffer<u32>, Buffer<u32>)>,
    pub(crate) back: PinnedBuffer<u32>,
    pub(crate) home: Stream,
    pub(crate) streams: Vec<Stream>,
    pub(crate) act: fn(&mut Dealt, Form) -> Result<()>,
    pub(crate) many: usize,
}

/// The number of kernels, the number of words of each kernel, and the number of rounds over each
/// word.
pub(crate) struct DealtKernels {
    pub(crate) count: usize,
    pub(crate) words: usize,
    pub(crate) rounds: u32,
}

impl Dealt {
    /// Makes a program of `count` kernels of a few blocks each, and of a few streams
    /// (`ground.size.streams`).
    pub(crate) fn boxed(
        ground: &Ground,
        count: usize,
        rounds: u32,
        act: fn(&mut Dealt, Form) -> Result<()>,
    ) -> Result<Box<dyn Program>> {
        let kernels = DealtKernels { count, words: ground.size.small_words, rounds };
        Self::of_size(ground, kernels, ground.size.streams, act)
    }

    pub(crate) fn of_size(
        ground: &Ground,
        DealtKernels { count, words, rounds }: DealtKernels,
        streams: usize,
        act: fn(&mut Dealt, Form) -> Result<()>,
    ) -> Result<Box<dyn Program>> {
        let device = &ground.device;
        let home = device.stream()?;
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
        let streams = (0..streams).map(|_| device.stream()).collect::<Result<_>>()?;
        let back = device.pinned(words * count)?;
        let (device, many) = (device.clone(), ground.size.many_streams);
        Ok(Box::new(Self { device, rounds, pairs, back, home, streams, act, many }))
    }

    /// Launches the kernels on `streams` in turn.
    pub(crate) fn launch(&mut self, streams: &[Stream]) -> Result<()> {
        deal(&mut self.pairs, self.rounds, streams)
    }

    /// Launches the kernels in turn on the first `count` streams of `self.streams`.
    pub(crate) fn launch_on(&mut self, count: usize) -> Result<()> {
        deal(&mut self.pairs, self.rounds, &self.streams[..count])
    }
}

fn deal(pairs: &mut [(Buffer<u32>, Buffer<u32>)], rounds: u32, streams: &[Stream]) -> Result<()> {
    for ((x, y), stream) in pairs.iter_mut().zip(streams.iter().cycle()) {
        stream.launch(&WORK, (rounds, &*x, y))?;
    }
    Ok(())
}

impl Program for Dealt {
    fn prepare(&mut self) -> Result<()> {
        self.pairs.iter_mut().try_for_each(|(_, y)| self.home.fill_bytes(y, 0xee))
    }

    fn run(&mut self, form: Form) -> Result<()> {
        (self.act)(self, form)
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        for (number, (_, y)) in self.pairs.iter().enumerate() {
            self.home.copy(y, &mut self.back.slice_mut(part(number, y.len())))?;
        }
        Ok(differs(&self.back.read()?, self.rounds, |index| index))
    }
}
