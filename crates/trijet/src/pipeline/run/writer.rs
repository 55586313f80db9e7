//! The writer of a run: passes the results of each chunk from page-locked memory to the sink.
#![forbid(unsafe_code)]

use super::crew::{Crew, Grain, SideWork};
use crate::base::error::Result;
use crate::base::panic::called;
use crate::base::units::Bytes;
use crate::memory::{PinnedBuffer, ViewMut};
use crate::pipeline::describe::builder::Output;
use crate::pipeline::describe::host_work::{HostWork, SideSpans, closed, deal, join, spawn};
use crate::pipeline::describe::progress::Tally;
use crate::pipeline::describe::sink::{ParallelSink, Sink};
use crate::pipeline::plan::Chunk;
use crate::pipeline::plan::schedule::turn;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};

/// How a sink takes the bytes of a chunk: in the order of the rows, or in parts on several threads.
enum Taking<'env> {
    InOrder(&'env mut dyn Sink),
    InParts(&'env dyn ParallelSink, &'env Crew),
}

/// A sink, the grain of its rows, the spans to which the times of its calls are added, and the
/// count of finished rows.
struct Writing<'env> {
    sink: Taking<'env>,
    grain: Grain,
    spans: &'env SideSpans,
    tally: &'env Tally<'env>,
}

impl Writing<'_> {
    /// Writes one chunk from `buffer`. First waits for the download into the buffer.
    fn write(&mut self, chunk: &Chunk, buffer: &PinnedBuffer<u8>) -> Result<()> {
        let bytes = Bytes(chunk.rows_out() * self.grain.row_bytes).to_usize();
        let guard = buffer.read().map_err(|error| chunk.context("download", error))?;
        let bytes = &guard[..bytes];
        let write = || match &mut self.sink {
            Taking::InOrder(sink) => called("sink", || sink.write(chunk.rows.clone(), bytes)),
            Taking::InParts(sink, crew) => {
                crew.write(&chunk.rows, self.grain, bytes, |rows, part| sink.write_part(rows, part))
            }
        };
        self.spans.busy.time(write).map_err(|error| chunk.context("sink", error))?;
        self.tally.finished(chunk)
    }
}

/// A chunk that is downloaded, and the buffer that its download fills.
type Outgoing<'env> = (&'env Chunk, PinnedBuffer<u8>);

/// Stores the results of each chunk: in page-locked memory, or by calls of a sink.
pub(super) struct ChunkWriter<'scope, 'env> {
    row_bytes: u64,
    spans: &'env SideSpans,
    writes: WriteTarget<'scope, 'env>,
}

enum WriteTarget<'scope, 'env> {
    Pinned {
        target: ViewMut<'env, u8>,
        tally: &'env Tally<'env>,
    },
    Inline {
        writing: Writing<'env>,
        free: VecDeque<PinnedBuffer<u8>>,
        pending: VecDeque<Outgoing<'env>>,
        failed: bool,
    },
    /// Threads that write the chunks in turn.
    Threads(Vec<WriterSide<'scope, 'env>>),
}

/// A thread that writes chunks, and its channels.
struct WriterSide<'scope, 'env> {
    free: Receiver<PinnedBuffer<u8>>,
    filled: Sender<Outgoing<'env>>,
    thread: ScopedJoinHandle<'scope, Result<()>>,
}

impl<'scope, 'env> ChunkWriter<'scope, 'env> {
    /// Starts to write to the output.
    pub(super) fn start(
        scope: &'scope Scope<'scope, 'env>,
        host_work: HostWork,
        output: &'env mut Output<'_>,
        SideWork { grain, spans, crew, at_once }: SideWork<'env>,
        tally: &'env Tally<'env>,
        buffers: Vec<PinnedBuffer<u8>>,
    ) -> Result<Self> {
        let row_bytes = grain.row_bytes;
        let sink = match output {
            Output::Pinned { target, .. } => {
                let writes = WriteTarget::Pinned { target: target.reborrow(), tally };
                return Ok(Self { row_bytes, spans, writes });
            }
            Output::Sink(sink) => &mut **sink,
        };
        let writing = |sink| Writing { sink, grain, spans, tally };
        let writes = match (host_work, crew) {
            (HostWork::Inline, _) => WriteTarget::Inline {
                writing: writing(Taking::InOrder(sink)),
                free: buffers.into(),
                pending: VecDeque::new(),
                failed: false,
            },
            (HostWork::Threads, Some(crew)) if sink.parallel().is_some() => {
                let sink: &'env dyn Sink = sink;
                // The match guard cannot pass its result to this arm, because the next arm moves
                // the sink.
                let sink = sink.parallel().ok_or_else(|| closed("sink"))?;
                let start = |buffers| {
                    WriterSide::start(scope, writing(Taking::InParts(sink, crew)), buffers)
                };
                let dealt = deal(buffers, at_once);
                WriteTarget::Threads(dealt.into_iter().map(start).collect::<Result<_>>()?)
            }
            (HostWork::Threads, _) => {
                let writing = writing(Taking::InOrder(sink));
                WriteTarget::Threads(vec![WriterSide::start(scope, writing, buffers)?])
            }
        };
        Ok(Self { row_bytes, spans, writes })
    }

    /// Calls `download` with the memory for the results of the chunk. `download` enqueues the
    /// download of the chunk. With [`HostWork::Inline`], if no buffer is free, first writes the
    /// oldest results.
    pub(super) fn lend(
        &mut self,
        chunk: &'env Chunk,
        download: impl FnOnce(ViewMut<'_, u8>) -> Result<()>,
    ) -> Result<()> {
        let bytes = Bytes(chunk.rows_out() * self.row_bytes).to_usize();
        match &mut self.writes {
            WriteTarget::Pinned { target, tally } => {
                let first = Bytes(chunk.rows.start * self.row_bytes).to_usize();
                download(target.reborrow().slice(first..first + bytes))?;
                tally.finished(chunk)
            }
            WriteTarget::Inline { writing, free, pending, failed } => {
                if free.is_empty()
                    && let Some((oldest, buffer)) = pending.pop_front()
                {
                    *failed = true;
                    self.spans.waited_for.time(|| writing.write(oldest, &buffer))?;
                    *failed = false;
                    free.push_back(buffer);
                }
                let mut buffer = free.pop_front().ok_or_else(|| closed("sink"))?;
                download(buffer.slice_mut(..bytes))?;
                pending.push_back((chunk, buffer));
                Ok(())
            }
            WriteTarget::Threads(sides) => {
                let side = turn(chunk.index, sides.len());
                let WriterSide { free, filled, .. } = &sides[side];
                let buffer = self.spans.waited_for.time(|| free.recv());
                let mut buffer = buffer.map_err(|_| closed("sink"))?;
                download(buffer.slice_mut(..bytes))?;
                filled.send((chunk, buffer)).map_err(|_| closed("sink"))
            }
        }
    }

    /// Writes the remaining chunks, and ends the threads. Returns the first error.
    pub(super) fn finish(self) -> Result<()> {
        let Self { spans, writes, .. } = self;
        spans.waited_for.time(|| Self::end(writes))
    }

    fn end(writes: WriteTarget<'scope, 'env>) -> Result<()> {
        match writes {
            WriteTarget::Pinned { .. } => Ok(()),
            // A sink that has returned an error is not called again.
            WriteTarget::Inline { failed: true, .. } => Ok(()),
            WriteTarget::Inline { mut writing, pending, .. } => {
                pending.iter().try_for_each(|(chunk, buffer)| writing.write(chunk, buffer))
            }
            WriteTarget::Threads(sides) => {
                // All channels are closed first, because a thread that is joined may wait for a
                // channel.
                let threads: Vec<_> = sides.into_iter().map(|side| side.thread).collect();
                join("sink", threads.into_iter())
            }
        }
    }
}

impl<'scope, 'env> WriterSide<'scope, 'env> {
    /// Starts a thread that writes each chunk from the buffer that it receives.
    fn start(
        scope: &'scope Scope<'scope, 'env>,
        mut writing: Writing<'env>,
        buffers: Vec<PinnedBuffer<u8>>,
    ) -> Result<Self> {
        let (free_out, free) = channel();
        let (filled, filled_in) = channel::<Outgoing<'env>>();
        for buffer in buffers {
            // The send cannot fail: `free` is alive until this function returns.
            drop(free_out.send(buffer));
        }
        let thread = spawn(scope, "sink", move || {
            while let Ok((chunk, buffer)) = filled_in.recv() {
                writing.write(chunk, &buffer)?;
                // After the last chunk is submitted, the calling thread needs no more buffers, and
                // may have dropped its end of the channel.
                drop(free_out.send(buffer));
            }
            Ok(())
        })?;
        Ok(Self { free, filled, thread })
    }
}
