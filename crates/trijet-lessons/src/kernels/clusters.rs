//! A product of matrices by clusters of 1 to 8 blocks, which get tiles by multicast.
#![forbid(unsafe_code)]

use crate::common::ground::Ground;
use crate::common::product;
use crate::lesson::{Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::testing::multicast::{MATMUL, config, left, right};
use trijet::{Buffer, PinnedBuffer, Result, Stream};

pub(crate) const LESSON: Lesson = Lesson {
    name: "clusters",
    topic: Topic::Kernels,
    texts: &["book:1002"],
    claim: "With multicast a cluster of blocks fetches each tile once, so larger clusters are faster.",
    forms: &["clusters of 1 block", "of 2 blocks", "of 4 blocks", "of 8 blocks"],
    expect: Expect::Faster,
    flag: Flag::None("no rule is about clusters"),
    timed: None,
    rows: Rows::Engines,
    unmodelled: Some("The model gives a kernel equal time in clusters of every size"),
    make: clusters,
};

struct Product {
    stream: Stream,
    side: usize,
    x: Buffer<f32>,
    w: Buffer<f32>,
    y: Buffer<f32>,
    back: PinnedBuffer<f32>,
}

fn clusters(ground: &Ground) -> Result<Box<dyn Program>> {
    let (stream, side) = (ground.device.stream()?, 1 << (ground.size.words.ilog2() / 2));
    let x = stream.upload(&product::matrix(side * side, side, product::left))?;
    let w = stream.upload(&product::matrix(side * side, side, product::right))?;
    let (y, back) = (stream.alloc(side * side)?, ground.device.pinned(side * side)?);
    Ok(Box::new(Product { stream, side, x, w, y, back }))
}

impl Program for Product {
    fn prepare(&mut self) -> Result<()> {
        self.stream.fill_bytes(&mut self.y, 0xee)
    }

    fn run(&mut self, form: Form) -> Result<()> {
        let sides = [self.side; 2];
        let (x, w) =
            (left(self.x.view(), sides, self.side)?, right(self.w.view(), sides, self.side)?);
        let side = u32::try_from(self.side).unwrap_or(u32::MAX);
        let config = config(side, side, 1 << form);
        self.stream.launch_with(&MATMUL, config, (x, w, &mut self.y, [side; 3]))
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        self.stream.copy(&self.y, &mut self.back)?;
        Ok(product::wrong(&self.back.read()?, self.side, self.side))
    }
}
