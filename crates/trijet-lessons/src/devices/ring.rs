//! The sum of an array over two devices, by whole copies through one device or in a ring.
#![forbid(unsafe_code)]

use crate::common::both::Both;
use crate::common::ground::Ground;
use crate::lesson::{BAD, Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::comm::Communicator;
use trijet::kernels::{Reduction, Sum};
use trijet::{Buffer, Result};

pub(crate) const LESSON: Lesson = Lesson {
    name: "ring",
    topic: Topic::Devices,
    texts: &["book:1068"],
    claim: "An all-reduce in a ring of chunks is fast, because it keeps all links busy.",
    forms: &["whole copies through one device", "a ring of chunks"],
    expect: Expect::Faster,
    flag: Flag::None("no rule looks for a direction of a link that is idle"),
    timed: None,
    rows: Rows::Engines,
    unmodelled: None,
    make: ring,
};

/// Bad: the second device sends its whole array to the first device. The first device adds the
/// arrays and sends the sum back. Good: both devices send parts of their arrays to each other at
/// the same time.
struct Ring {
    both: Both,
    communicator: Communicator,
    arrived: Buffer<u32>,
    sums: [Buffer<u32>; 2],
}

fn ring(ground: &Ground) -> Result<Box<dyn Program>> {
    let words = ground.size.words * ground.size.chunks;
    let both = Both::new(ground, words)?;
    let communicator = Communicator::builder().devices(&both.devices).open()?;
    let [a, b] = &both.streams;
    let (arrived, sums) = (a.alloc(words)?, [a.alloc(words)?, b.alloc(words)?]);
    Ok(Box::new(Ring { both, communicator, arrived, sums }))
}

impl Program for Ring {
    /// Each device starts with its own part of the source.
    fn prepare(&mut self) -> Result<()> {
        let Both { streams, x, .. } = &self.both;
        for ((stream, x), sum) in streams.iter().zip(x).zip(&mut self.sums) {
            stream.copy(x, sum)?;
        }
        self.both.synchronize()
    }

    fn run(&mut self, form: Form) -> Result<()> {
        let Self { both, communicator, arrived, sums } = self;
        let [a, b] = &both.streams;
        let [first, second] = sums;
        if form == BAD {
            b.copy(second, arrived)?;
            Sum::combine(a, arrived.view(), first.view_mut())?;
            return a.copy(first, second);
        }
        communicator.all_reduce(&mut [first.view_mut(), second.view_mut()], Sum)
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        self.both.wrong_sum(self.sums.each_ref().map(|sum| sum.view()), 0)
    }
}
