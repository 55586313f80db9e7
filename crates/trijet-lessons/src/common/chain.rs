//! Chains of kernels over a few blocks: each kernel reads what the previous kernel wrote.
#![forbid(unsafe_code)]

use super::ground::{Ground, differs, source};
use trijet::testing::WORK;
use trijet::{Buffer, PinnedBuffer, Result, Stream};

/// Two arrays that the kernels of a chain read and write in turn.
pub(crate) struct Chain {
    pub(crate) stream: Stream,
    /// The words that `x` has at the start of every run.
    from: Buffer<u32>,
    pub(crate) x: Buffer<u32>,
    pub(crate) y: Buffer<u32>,
    pub(crate) back: PinnedBuffer<u32>,
}

impl Chain {
    pub(crate) fn new(ground: &Ground) -> Result<Self> {
        let (stream, words) = (ground.device.stream()?, ground.size.small_words);
        let from = stream.upload(&(0..words).map(source).collect::<Vec<_>>())?;
        let (x, y) = (stream.alloc(words)?, stream.alloc(words)?);
        Ok(Self { from, x, y, back: ground.device.pinned(words)?, stream })
    }

    /// Copies the source to `x`, and overwrites `y`.
    pub(crate) fn prepare(&mut self) -> Result<()> {
        self.stream.copy(&self.from, &mut self.x)?;
        self.stream.fill_bytes(&mut self.y, 0xee)
    }

    /// Downloads `x`, and compares it with the words of the source after `rounds` rounds.
    pub(crate) fn wrong(&mut self, rounds: u32) -> Result<Option<String>> {
        self.stream.copy(&self.x, &mut self.back)?;
        Ok(differs(&self.back.read()?, rounds, |index| index))
    }
}

/// Enqueues two kernels of one round each: from `x` to `y`, and back to `x`.
pub(crate) fn there_and_back(
    stream: &Stream,
    x: &mut Buffer<u32>,
    y: &mut Buffer<u32>,
) -> Result<()> {
    stream.launch(&WORK, (1, &*x, &mut *y))?;
    stream.launch(&WORK, (1, &*y, x))
}
