//! Pairs of an image and a text: two towers, each with an upload and a kernel, and a join of their
//! results.
#![forbid(unsafe_code)]

use super::ground::{Ground, differs_from, part, source, sourced, spoil};
use trijet::kernels::{Reduction, Sum};
use trijet::task::Tasks;
use trijet::testing::WORK;
use trijet::{Buffer, PinnedBuffer, Result, Stream};
use trijet_tools::work::hash;

/// The memory of all pairs. Each pair has its own memory, so no pair waits for the memory of
/// another pair.
pub(crate) struct Towers {
    /// All images, and then all texts.
    pub(crate) source: PinnedBuffer<u32>,
    /// The images (index 0) and the texts (index 1) on the device.
    pub(crate) x: [Buffer<u32>; 2],
    /// The results of the kernels for the images (index 0) and for the texts (index 1). The join
    /// adds the results for the images to the results for the texts.
    pub(crate) y: [Buffer<u32>; 2],
    pub(crate) landed: PinnedBuffer<u32>,
    pub(crate) words: usize,
    pub(crate) pairs: usize,
    pub(crate) rounds: u32,
}

impl Towers {
    pub(crate) fn new(ground: &Ground) -> Result<Self> {
        let (device, words, pairs) = (&ground.device, ground.size.words, ground.size.chunks);
        let (s, all) = (device.stream()?, words * pairs);
        Ok(Self {
            source: sourced(device, 2 * all)?,
            x: [s.alloc(all)?, s.alloc(all)?],
            y: [s.alloc(all)?, s.alloc(all)?],
            landed: device.pinned(all)?,
            words,
            pairs,
            rounds: ground.rounds,
        })
    }

    /// Uploads the image (tower 0) or the text (tower 1) of a pair, and launches its kernel.
    pub(crate) fn tower(
        &mut self,
        [up, run]: [&Stream; 2],
        tower: usize,
        pair: usize,
    ) -> Result<()> {
        let from = part(tower * self.pairs + pair, self.words);
        let at = part(pair, self.words);
        up.copy(&self.source.slice(from), &mut self.x[tower].slice_mut(at.clone()))?;
        let (x, y) = (self.x[tower].slice(at.clone()), self.y[tower].slice_mut(at));
        run.launch(&WORK, (self.rounds, x, y))
    }

    /// Adds the results of both towers of a pair, and downloads the sum.
    pub(crate) fn join(&mut self, [run, down]: [&Stream; 2], pair: usize) -> Result<()> {
        let (at, [images, texts]) = (part(pair, self.words), &mut self.y);
        Sum::combine(run, images.slice(at.clone()), texts.slice_mut(at.clone()))?;
        down.copy(&texts.slice(at.clone()), &mut self.landed.slice_mut(at))
    }

    /// Enqueues all pairs, pair by pair.
    pub(crate) fn all(&mut self, [up, run, down]: [&Stream; 3]) -> Result<()> {
        (0..self.pairs).try_for_each(|pair| {
            self.tower([up, run], 0, pair)?;
            self.tower([up, run], 1, pair)?;
            self.join([run, down], pair)
        })
    }

    /// Submits all pairs as tasks, which declare what they read and write.
    pub(crate) fn by_tasks(self, tasks: &Tasks) -> Result<Self> {
        let Self { source, x, y, landed, words, pairs, rounds } = self;
        let (source, landed) = (tasks.data(source), tasks.data(landed));
        let [x, y] = [x, y].map(|both| both.map(|array| tasks.data(array)));
        for (pair, at) in (0..pairs).map(|pair| (pair, part(pair, words))) {
            for tower in 0..2 {
                let (x, y) = (&x[tower], &y[tower]);
                let from = source.read_range(part(tower * pairs + pair, words));
                tasks.copy(from, x.write_range(at.clone()))?;
                let kernel = tasks.task((x.read_range(at.clone()), y.write_range(at.clone())));
                kernel.run(move |s, (x, y)| s.launch(&WORK, (rounds, x, y)))?;
            }
            let join = tasks.task((y[0].read_range(at.clone()), y[1].update_range(at.clone())));
            join.run(|s, (images, texts)| Sum::combine(s, images, texts))?;
            tasks.copy(y[1].read_range(at.clone()), landed.write_range(at))?;
        }
        let [[a, b], [c, d]] = [x, y].map(|both| both.map(|data| tasks.take(data)));
        let (source, landed) = (tasks.take(source)?, tasks.take(landed)?);
        Ok(Self { source, x: [a?, b?], y: [c?, d?], landed, words, pairs, rounds })
    }

    pub(crate) fn spoil(&mut self) -> Result<()> {
        spoil(&mut self.landed.write()?, 2 * self.rounds);
        Ok(())
    }

    pub(crate) fn wrong(&self) -> Result<Option<String>> {
        let of = |index| hash(self.rounds, source(index));
        let sum = |index| of(index).wrapping_add(of(self.landed.len() + index));
        Ok(differs_from(&self.landed.read()?, 2 * self.rounds, sum))
    }
}
