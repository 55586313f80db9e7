//! The writer of a run: takes the results of each chunk out of page-locked memory.
#![forbid(unsafe_code)]

use super::builder::Output;
use super::host_work::{HostWork, Spans, closed, join};
use super::plan::Chunk;
use super::progress::Tally;
use super::sink::Sink;
use crate::base::error::Result;
use crate::base::units::Bytes;
use crate::memory::{PinnedBuffer, ViewMut};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};

/// A sink, the bytes of its rows, and where the times and the count of its rows go.
struct Writing<'env> {
    sink: &'env mut dyn Sink,
    row_bytes: u64,
    spans: &'env Spans,
    tally: &'env Tally<'env>,
}

impl Writing<'_> {
    /// Writes one chunk from `buffer`, after its download.
    fn write(&mut self, chunk: &Chunk, buffer: &PinnedBuffer<u8>) -> Result<()> {
        let bytes = Bytes(chunk.rows_out() * self.row_bytes).to_usize();
        let guard = buffer.read().map_err(|error| chunk.context("download", error))?;
        self.spans
            .time(|| self.sink.write(chunk.rows.clone(), &guard[..bytes]))
            .map_err(|error| chunk.context("sink", error))?;
        self.tally.finished(chunk);
        Ok(())
    }
}

/// A chunk on its way out, and the buffer that its download fills.
type Outgoing<'env> = (&'env Chunk, PinnedBuffer<u8>);

/// What the thread of a writer is told. A channel that closes without `Finish` means that the run
/// failed.
enum Message<'env> {
    Chunk(Outgoing<'env>),
    Finish,
}

/// Where the results of chunks go.
pub(super) struct Writer<'scope, 'env> {
    row_bytes: u64,
    writes: Writes<'scope, 'env>,
}

enum Writes<'scope, 'env> {
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
    Thread {
        free: Receiver<PinnedBuffer<u8>>,
        filled: Sender<Message<'env>>,
        thread: ScopedJoinHandle<'scope, Result<()>>,
    },
}

impl<'scope, 'env> Writer<'scope, 'env> {
    /// Starts to write to the output, whose rows have the given bytes.
    pub(super) fn start(
        scope: &'scope Scope<'scope, 'env>,
        host_work: HostWork,
        (output, row_bytes, spans, tally): (
            &'env mut Output<'_>,
            u64,
            &'env Spans,
            &'env Tally<'env>,
        ),
        buffers: Vec<PinnedBuffer<u8>>,
    ) -> Self {
        let sink = match output {
            Output::Pinned { target, .. } => {
                let writes = Writes::Pinned { target: target.reborrow(), tally };
                return Self { row_bytes, writes };
            }
            Output::Sink(sink) => &mut **sink,
        };
        let writing = Writing { sink, row_bytes, spans, tally };
        let writes = match host_work {
            HostWork::Inline => {
                let (free, pending) = (buffers.into(), VecDeque::new());
                Writes::Inline { writing, free, pending, failed: false }
            }
            HostWork::Threads => thread(scope, writing, buffers),
        };
        Self { row_bytes, writes }
    }

    /// Calls `download`, which enqueues the download of the chunk, with the memory for its results.
    /// Inline, the oldest results are written first when no buffer is free.
    pub(super) fn lend(
        &mut self,
        chunk: &'env Chunk,
        download: impl FnOnce(ViewMut<'_, u8>) -> Result<()>,
    ) -> Result<()> {
        let bytes = Bytes(chunk.rows_out() * self.row_bytes).to_usize();
        match &mut self.writes {
            Writes::Pinned { target, tally } => {
                let first = Bytes(chunk.rows.start * self.row_bytes).to_usize();
                download(target.reborrow().slice(first..first + bytes))?;
                tally.finished(chunk);
                Ok(())
            }
            Writes::Inline { writing, free, pending, failed } => {
                if free.is_empty()
                    && let Some((oldest, buffer)) = pending.pop_front()
                {
                    *failed = true;
                    writing.write(oldest, &buffer)?;
                    *failed = false;
                    free.push_back(buffer);
                }
                let mut buffer = free.pop_front().ok_or_else(|| closed("sink"))?;
                download(buffer.slice_mut(..bytes))?;
                pending.push_back((chunk, buffer));
                Ok(())
            }
            Writes::Thread { free, filled, .. } => {
                let mut buffer = free.recv().map_err(|_| closed("sink"))?;
                download(buffer.slice_mut(..bytes))?;
                filled.send(Message::Chunk((chunk, buffer))).map_err(|_| closed("sink"))
            }
        }
    }

    /// Writes what is left, and finishes the sink if the run went well.
    pub(super) fn finish(self, run: &Result<()>) -> Result<()> {
        match self.writes {
            Writes::Pinned { .. } => Ok(()),
            // After an error of its own a sink is not called again.
            Writes::Inline { failed: true, .. } => Ok(()),
            Writes::Inline { mut writing, pending, .. } => {
                for (chunk, buffer) in pending {
                    writing.write(chunk, &buffer)?;
                }
                if run.is_ok() { writing.sink.finish() } else { Ok(()) }
            }
            Writes::Thread { free, filled, thread } => {
                if run.is_ok() {
                    // The channel of a thread that failed is closed; joining returns its error.
                    drop(filled.send(Message::Finish));
                }
                drop((free, filled));
                join("sink", thread)
            }
        }
    }
}

/// A thread that writes each chunk from the buffer that it is sent.
fn thread<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    mut writing: Writing<'env>,
    buffers: Vec<PinnedBuffer<u8>>,
) -> Writes<'scope, 'env> {
    let (free_out, free) = channel();
    let (filled, filled_in) = channel::<Message<'env>>();
    for buffer in buffers {
        // The receiver is alive: the run has it until its end.
        drop(free_out.send(buffer));
    }
    let thread = scope.spawn(move || -> Result<()> {
        while let Ok(message) = filled_in.recv() {
            let Message::Chunk((chunk, buffer)) = message else {
                return writing.sink.finish();
            };
            writing.write(chunk, &buffer)?;
            // A run that has submitted every chunk needs no more buffers.
            drop(free_out.send(buffer));
        }
        Ok(())
    });
    Writes::Thread { free, filled, thread }
}
