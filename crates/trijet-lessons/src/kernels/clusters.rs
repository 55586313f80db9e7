//! A product of matrices by clusters of 1 to 8 blocks, which get tiles by multicast.
#![forbid(unsafe_code)]

use crate::common::ground::Ground;
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

/// `y = x * w`, where `x[r][k] = r % 8 + k % 4` and `w[k][c] = k % 16 + c % 8`. All sums are
/// integers below 2^24, so they are exact.
struct Product {
    stream: Stream,
    side: usize,
    x: Buffer<f32>,
    w: Buffer<f32>,
    y: Buffer<f32>,
    back: PinnedBuffer<f32>,
}

/// The matrix of the sums `row % of_rows + column % of_columns`.
fn matrix(side: usize, [of_rows, of_columns]: [usize; 2]) -> Vec<f32> {
    let element = |at: usize| (at / side % of_rows + at % side % of_columns) as f32;
    (0..side * side).map(element).collect()
}

fn clusters(ground: &Ground) -> Result<Box<dyn Program>> {
    let (stream, side) = (ground.device.stream()?, 1 << (ground.size.words.ilog2() / 2));
    let x = stream.upload(&matrix(side, [8, 4]))?;
    let w = stream.upload(&matrix(side, [16, 8]))?;
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
        let (side, found) = (self.side, self.back.read()?);
        let sum = |term: fn(usize) -> usize| (0..side).map(term).sum::<usize>();
        // The sum over k of (row + k % 4) * (k % 16 + column).
        let (a, b, both) = (sum(|k| k % 4), sum(|k| k % 16), sum(|k| (k % 4) * (k % 16)));
        let right = |at: usize| {
            let (row, column) = (at / side % 8, at % side % 8);
            (row * b + row * column * side + both + a * column) as f32
        };
        let wrong = (0..found.len()).find(|at| found[*at] != right(*at));
        Ok(wrong.map(|at| format!("element {at} is {}, not {}", found[at], right(at))))
    }
}
