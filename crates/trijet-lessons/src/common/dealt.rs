//! Small kernels that lessons distribute over streams.
#![forbid(unsafe_code)]

use super::ground::{Ground, differs, part, source};
use crate::lesson::{Form, Program};
use trijet::testing::WORK;
use trijet::{Buffer, Device, PinnedBuffer, Result, Stream};

/// Kernels of a few blocks, each with its own memory, distributed over several streams.
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

impl Dealt {
    pub(crate) fn boxed(
        ground: &Ground,
        count: usize,
        rounds: u32,
        act: fn(&mut Dealt, Form) -> Result<()>,
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

    pub(crate) fn launch(&mut self, streams: &[Stream]) -> Result<()> {
        for (number, (x, y)) in self.pairs.iter_mut().enumerate() {
            streams[number % streams.len()].launch(&WORK, (self.rounds, &*x, y))?;
        }
        Ok(())
    }
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
