//! One job in host memory, cut into chunks that streams upload, compute and download.
#![forbid(unsafe_code)]

use super::ground::{Ground, differs, part, source, spoil};
use crate::lesson::{Form, Program};
use std::ops::Range;
use trijet::testing::WORK;
use trijet::{Buffer, PinnedBuffer, Result, Stream};

/// A step of a chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Upload,
    Kernel,
    Download,
}

impl Step {
    pub(crate) const ALL: [Self; 3] = [Self::Upload, Self::Kernel, Self::Download];
}

/// The streams and memory of the job. The device has memory for the whole job, so no chunk waits
/// for the memory of another chunk.
pub(crate) struct Job {
    pub(crate) streams: Vec<Stream>,
    pub(crate) source: PinnedBuffer<u32>,
    pub(crate) landed: PinnedBuffer<u32>,
    pub(crate) x: Buffer<u32>,
    pub(crate) y: Buffer<u32>,
    /// The number of words of a chunk. A form may use another number.
    pub(crate) words: usize,
    pub(crate) rounds: u32,
    home: Stream,
    act: fn(&mut Job, Form) -> Result<()>,
}

impl Job {
    pub(crate) fn new(
        ground: &Ground,
        chunks: usize,
        streams: Vec<Stream>,
        act: fn(&mut Job, Form) -> Result<()>,
    ) -> Result<Self> {
        let (device, home) = (&ground.device, ground.device.stream()?);
        let (words, rounds) = (ground.size.words, ground.rounds);
        let all = words * chunks;
        let mut host = device.pinned::<u32>(all)?;
        for (index, word) in host.write()?.iter_mut().enumerate() {
            *word = source(index);
        }
        let (x, y) = (home.alloc(all)?, home.alloc(all)?);
        let landed = device.pinned(all)?;
        Ok(Self { streams, source: host, landed, x, y, words, rounds, home, act })
    }

    /// Makes a job of `chunks` chunks with `streams` non-blocking streams.
    pub(crate) fn boxed(
        ground: &Ground,
        chunks: usize,
        streams: usize,
        act: fn(&mut Job, Form) -> Result<()>,
    ) -> Result<Box<dyn Program>> {
        let streams = (0..streams).map(|_| ground.device.stream()).collect::<Result<_>>()?;
        Ok(Box::new(Self::new(ground, chunks, streams, act)?))
    }

    /// Enqueues a step of the chunk with the words of `part`.
    #[track_caller]
    pub(crate) fn enqueue(&mut self, stream: usize, step: Step, part: Range<usize>) -> Result<()> {
        let stream = &self.streams[stream];
        let (x, y) = (&mut self.x, &mut self.y);
        match step {
            Step::Upload => stream.copy(&self.source.slice(part.clone()), &mut x.slice_mut(part)),
            Step::Kernel => {
                let (x, y) = (x.slice(part.clone()), y.slice_mut(part));
                stream.launch(&WORK, (self.rounds, x, y))
            }
            Step::Download => stream.copy(&y.slice(part.clone()), &mut self.landed.slice_mut(part)),
        }
    }

    /// Cuts the job into chunks of `words` words, and enqueues all steps of all chunks, chunk by
    /// chunk. The chunks use the first `streams` streams in turn.
    #[track_caller]
    pub(crate) fn in_turn(&mut self, streams: usize, words: usize) -> Result<()> {
        for chunk in 0..self.source.len() / words {
            for step in Step::ALL {
                self.enqueue(chunk % streams, step, part(chunk, words))?;
            }
        }
        Ok(())
    }
}

impl Program for Job {
    fn prepare(&mut self) -> Result<()> {
        self.home.fill_bytes(&mut self.x, 0xee)?;
        self.home.fill_bytes(&mut self.y, 0xee)?;
        spoil(&mut self.landed.write()?, self.rounds);
        Ok(())
    }

    fn run(&mut self, form: Form) -> Result<()> {
        (self.act)(self, form)
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        Ok(differs(&self.landed.read()?, self.rounds, |index| index))
    }
}
