//! A pool that gives free memory back at each wait, or keeps it.
#![forbid(unsafe_code)]

use crate::common::ground::{Ground, Size, differs, source};
use crate::lesson::{BAD, Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::check::lint::Rule;
use trijet::testing::WORK;
use trijet::{Buffer, Bytes, Device, PinnedBuffer, Result, Stream};

pub(crate) const LESSON: Lesson = Lesson {
    name: "pool-keeps-nothing",
    topic: Topic::Memory,
    seeds: &["001:86", "001:92", "000:209"],
    claim: "A pool with release threshold 0 asks the driver for memory after every wait.",
    forms: &["a pool that keeps nothing", "a pool that keeps its memory"],
    expect: Expect::Faster,
    flag: Flag::Remark(Rule::PoolThrash),
    timed: "the run",
    rows: Rows::Engines,
    unmodelled: Some("The model maps memory in no time"),
    make: pool_keeps_nothing,
};

/// Each step allocates scratch memory from the pool, and then waits. The pool of the bad program
/// gives its free memory back to the device at each wait.
struct Pooled {
    device: Device,
    stream: Stream,
    size: Size,
    x: Buffer<u32>,
    y: Buffer<u32>,
    back: PinnedBuffer<u32>,
}

fn pool_keeps_nothing(ground: &Ground) -> Result<Box<dyn Program>> {
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

    fn run(&mut self, form: Form) -> Result<()> {
        if form != BAD {
            return self.steps();
        }
        self.device.keep_memory(Bytes(0))?;
        let outcome = self.steps();
        self.device.keep_memory(Bytes(u64::MAX))?;
        outcome
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        self.stream.copy(&self.y, &mut self.back)?;
        Ok(differs(&self.back.read()?, 2, |index| index))
    }
}
