//! The reader of a run: reads the input of each chunk into page-locked memory.
#![forbid(unsafe_code)]

use super::crew::{Crew, Grain, SideWork};
use crate::base::error::Result;
use crate::base::panic::called;
use crate::base::units::Bytes;
use crate::memory::{PinnedBuffer, View};
use crate::pipeline::describe::builder::Input;
use crate::pipeline::describe::host_work::{HostWork, SideSpans, closed, deal, join, spawn};
use crate::pipeline::describe::source::Source;
use crate::pipeline::plan::Chunk;
use crate::pipeline::plan::schedule::turn;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

/// A source, the grain of its rows, the spans to which the times of its calls are added, and its
/// crew.
#[derive(Clone, Copy)]
struct SourceReading<'env> {
    source: &'env dyn Source,
    grain: Grain,
    spans: &'env SideSpans,
    crew: Option<&'env Crew>,
}

impl SourceReading<'_> {
    /// Reads one chunk into `buffer`. First waits for the upload that still uses the buffer.
    fn read(&self, chunk: &Chunk, buffer: &mut PinnedBuffer<u8>) -> Result<()> {
        let bytes = Bytes(chunk.rows_in() * self.grain.row_bytes).to_usize();
        let mut guard = buffer.write().map_err(|error| chunk.context("upload", error))?;
        let into = &mut guard[..bytes];
        self.spans
            .busy
            .time(|| match self.crew {
                Some(crew) => {
                    let read = |rows, part: &mut [u8]| self.source.read(rows, part);
                    crew.read(&chunk.input, self.grain, into, read)
                }
                None => called("source", || self.source.read(chunk.input.clone(), into)),
            })
            .map_err(|error| chunk.context("source", error))
    }
}

/// Provides the input of each chunk: from page-locked memory, or by calls of a source.
pub(super) struct ChunkReader<'scope, 'env> {
    row_bytes: u64,
    spans: &'env SideSpans,
    reads: ReadSource<'scope, 'env>,
}

enum ReadSource<'scope, 'env> {
    Pinned(View<'env, u8>),
    Inline {
        reading: SourceReading<'env>,
        free: VecDeque<PinnedBuffer<u8>>,
    },
    /// Threads that read the chunks in turn.
    Threads(Vec<ReaderSide<'scope>>),
}

/// A thread that reads chunks, and its channels.
struct ReaderSide<'scope> {
    free: Sender<PinnedBuffer<u8>>,
    filled: Receiver<PinnedBuffer<u8>>,
    thread: ScopedJoinHandle<'scope, Result<()>>,
}

impl<'scope, 'env> ChunkReader<'scope, 'env> {
    /// Starts to read `chunks` of the input.
    pub(super) fn start(
        scope: &'scope Scope<'scope, 'env>,
        host_work: HostWork,
        input: &'env Input<'_>,
        SideWork { grain, spans, crew, at_once }: SideWork<'env>,
        chunks: &'env [Chunk],
        buffers: Vec<PinnedBuffer<u8>>,
    ) -> Result<Self> {
        let row_bytes = grain.row_bytes;
        let source = match input {
            Input::Pinned { bytes, .. } => {
                return Ok(Self { row_bytes, spans, reads: ReadSource::Pinned(*bytes) });
            }
            Input::Source(source) => &**source,
        };
        let reading = SourceReading { source, grain, spans, crew };
        let reads = match host_work {
            HostWork::Inline => ReadSource::Inline { reading, free: buffers.into() },
            HostWork::Threads => {
                let dealt = deal(buffers, at_once);
                let count = dealt.len();
                let start = |(first, buffers)| {
                    let chunks = chunks.iter().skip(first).step_by(count);
                    ReaderSide::start(scope, reading, chunks, buffers)
                };
                ReadSource::Threads(
                    dealt.into_iter().enumerate().map(start).collect::<Result<_>>()?,
                )
            }
        };
        Ok(Self { row_bytes, spans, reads })
    }

    /// Calls `upload` with the input of the chunk. `upload` enqueues the upload of the chunk.
    pub(super) fn lend(
        &mut self,
        chunk: &Chunk,
        upload: impl FnOnce(View<'_, u8>) -> Result<()>,
    ) -> Result<()> {
        let bytes = Bytes(chunk.rows_in() * self.row_bytes).to_usize();
        match &mut self.reads {
            ReadSource::Pinned(data) => {
                let first = Bytes(chunk.input.start * self.row_bytes).to_usize();
                upload(data.slice(first..first + bytes))
            }
            ReadSource::Inline { reading, free } => {
                let mut buffer = free.pop_front().ok_or_else(|| closed("source"))?;
                self.spans.waited_for.time(|| reading.read(chunk, &mut buffer))?;
                upload(buffer.slice(..bytes))?;
                // The buffer can be reused at once, because the next write to the buffer waits
                // until the upload has ended.
                free.push_back(buffer);
                Ok(())
            }
            ReadSource::Threads(sides) => {
                let side = turn(chunk.index, sides.len());
                let ReaderSide { free, filled, .. } = &sides[side];
                let buffer = self.spans.waited_for.time(|| filled.recv());
                let buffer = buffer.map_err(|_| closed("source"))?;
                upload(buffer.slice(..bytes))?;
                // The thread has ended if it has read all its chunks. Then the thread needs no more
                // buffers.
                drop(free.send(buffer));
                Ok(())
            }
        }
    }

    /// Ends the threads and returns their first error.
    pub(super) fn finish(self) -> Result<()> {
        match self.reads {
            ReadSource::Pinned(_) | ReadSource::Inline { .. } => Ok(()),
            ReadSource::Threads(sides) => {
                // All channels are closed first, because a thread that is joined may wait for a
                // channel.
                let threads: Vec<_> = sides.into_iter().map(|side| side.thread).collect();
                join("source", threads.into_iter())
            }
        }
    }
}

impl<'scope> ReaderSide<'scope> {
    /// Starts a thread that reads each of `chunks` into the next free buffer.
    fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        reading: SourceReading<'env>,
        chunks: impl Iterator<Item = &'env Chunk> + Send + 'scope,
        buffers: Vec<PinnedBuffer<u8>>,
    ) -> Result<Self> {
        let (free, free_in) = channel();
        let (filled_out, filled) = sync_channel(buffers.len());
        for buffer in buffers {
            // The send cannot fail: the receiver moves into the thread below.
            drop(free.send(buffer));
        }
        let thread = spawn(scope, "source", move || {
            let (free_in, filled_out): (Receiver<PinnedBuffer<u8>>, SyncSender<_>) =
                (free_in, filled_out);
            for chunk in chunks {
                // A cancelled run closes this channel. That is no error of the source.
                let Ok(mut buffer) = free_in.recv() else { return Ok(()) };
                reading.read(chunk, &mut buffer)?;
                if filled_out.send(buffer).is_err() {
                    return Ok(());
                }
            }
            Ok(())
        })?;
        Ok(Self { free, filled, thread })
    }
}
