//! Batches through three streams into products of matrices, by clusters of 1 to 8 blocks that share
//! tiles by multicast. A cluster of one block is a plain block, which shares none.
#![forbid(unsafe_code)]

use crate::common::ground::{Ground, part};
use crate::common::product;
use crate::lesson::{Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::testing::multicast::{MATMUL, config, left, right};
use trijet::{Buffer, PinnedBuffer, Result, Stream};

pub(crate) const LESSON: Lesson = Lesson {
    name: "cluster-batches",
    topic: Topic::Kernels,
    texts: &["book:879", "examples:221", "book:498", "book:745"],
    claim: "Streams bring batches to clusters that fetch shared tiles once, so larger clusters are faster.",
    forms: &["plain blocks", "clusters of 2 blocks", "of 4 blocks", "of 8 blocks"],
    expect: Expect::Faster,
    flag: Flag::None("no rule is about clusters"),
    timed: None,
    rows: Rows::Engines,
    unmodelled: Some("The model gives a kernel equal time in clusters of every size"),
    make: cluster_batches,
};

/// `y = x * w` for each batch `x`.
struct BatchProducts {
    streams: [Stream; 3],
    /// For each slot, a batch and its result.
    slots: Vec<[Buffer<f32>; 2]>,
    w: Buffer<f32>,
    batches: PinnedBuffer<f32>,
    results: PinnedBuffer<f32>,
    /// The number of rows of a batch. The other sides of all matrices have `side` elements.
    rows: u32,
    side: u32,
}

fn cluster_batches(ground: &Ground) -> Result<Box<dyn Program>> {
    let (device, size, log) = (&ground.device, ground.size, ground.size.words.ilog2());
    // With more rows than columns, the kernel of a batch takes about as long as a copy.
    let (rows, side) = (1 << (log - log / 2 + 1), 1_u32 << (log / 2 - 1));
    let streams = [device.stream()?, device.stream()?, device.stream()?];
    let array = || streams[0].alloc::<f32>(size.words);
    let slots = (0..size.slots).map(|_| Ok([array()?, array()?])).collect::<Result<_>>()?;
    let (columns, all) = (side as usize, size.words * size.chunks);
    let w = streams[0].upload(&product::matrix(columns * columns, columns, product::right))?;
    let (mut batches, results) = (device.pinned(all)?, device.pinned(all)?);
    batches.write()?.copy_from_slice(&product::matrix(all, columns, product::left));
    Ok(Box::new(BatchProducts { streams, slots, w, batches, results, rows, side }))
}

impl Program for BatchProducts {
    fn prepare(&mut self) -> Result<()> {
        self.results.write().map(|mut results| results.fill(-1.0))
    }

    fn run(&mut self, form: Form) -> Result<()> {
        let (rows, side, [up, run, down]) = (self.rows, self.side, &self.streams);
        let (m, n, config) = (rows as usize, side as usize, config(rows, side, 1 << form));
        for (number, at) in (0..self.results.len() / (m * n)).map(|k| (k, part(k, m * n))) {
            let slot = number % self.slots.len();
            let [x, y] = &mut self.slots[slot];
            up.copy(&self.batches.slice(at.clone()), x)?;
            let (x, w) = (left(x.view(), [m, n], n)?, right(self.w.view(), [n, n], n)?);
            run.launch_with(&MATMUL, config, (x, w, &mut *y, [rows, side, side]))?;
            down.copy(y, &mut self.results.slice_mut(at))?;
        }
        Ok(())
    }

    fn seen(&mut self, form: Form) -> Result<Option<String>> {
        let fetched = product::fetched(self.results.len(), self.side as usize, 1 << form);
        Ok(Some(format!("computed from the tiling, {fetched} of tiles are fetched")))
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        Ok(product::wrong(&self.results.read()?, self.side as usize, self.side as usize))
    }
}
