//! The reader of a run: brings the input of each chunk into page-locked memory.
#![forbid(unsafe_code)]

use super::builder::Input;
use super::host_work::{HostWork, Spans, closed, join};
use super::plan::Chunk;
use super::source::Source;
use crate::base::error::Result;
use crate::base::units::Bytes;
use crate::memory::{PinnedBuffer, View};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

/// A source, the bytes of its rows, and where the times of its calls go.
struct Reading<'env> {
    source: &'env dyn Source,
    row_bytes: u64,
    spans: &'env Spans,
}

impl Reading<'_> {
    /// Reads one chunk into `buffer`, after the upload that still uses it.
    fn read(&self, chunk: &Chunk, buffer: &mut PinnedBuffer<u8>) -> Result<()> {
        let bytes = Bytes(chunk.rows_in() * self.row_bytes).to_usize();
        let mut guard = buffer.write().map_err(|error| chunk.context("upload", error))?;
        self.spans
            .time(|| self.source.read(chunk.input.clone(), &mut guard[..bytes]))
            .map_err(|error| chunk.context("source", error))
    }
}

/// Where the input of chunks comes from.
pub(super) struct Reader<'scope, 'env> {
    row_bytes: u64,
    reads: Reads<'scope, 'env>,
}

enum Reads<'scope, 'env> {
    Pinned(View<'env, u8>),
    Inline {
        reading: Reading<'env>,
        free: VecDeque<PinnedBuffer<u8>>,
    },
    Thread {
        free: Sender<PinnedBuffer<u8>>,
        filled: Receiver<PinnedBuffer<u8>>,
        thread: ScopedJoinHandle<'scope, Result<()>>,
    },
}

impl<'scope, 'env> Reader<'scope, 'env> {
    /// Starts to read `chunks` of the input, whose rows have the given bytes.
    pub(super) fn start(
        scope: &'scope Scope<'scope, 'env>,
        host_work: HostWork,
        (input, row_bytes, spans): (&'env Input<'_>, u64, &'env Spans),
        chunks: &'env [Chunk],
        buffers: Vec<PinnedBuffer<u8>>,
    ) -> Self {
        let source = match input {
            Input::Pinned { bytes, .. } => return Self { row_bytes, reads: Reads::Pinned(*bytes) },
            Input::Source(source) => &**source,
        };
        let reading = Reading { source, row_bytes, spans };
        let reads = match host_work {
            HostWork::Inline => Reads::Inline { reading, free: buffers.into() },
            HostWork::Threads => thread(scope, reading, chunks, buffers),
        };
        Self { row_bytes, reads }
    }

    /// Calls `upload`, which enqueues the upload of the chunk, with the chunk's input.
    pub(super) fn lend(
        &mut self,
        chunk: &Chunk,
        upload: impl FnOnce(View<'_, u8>) -> Result<()>,
    ) -> Result<()> {
        let bytes = Bytes(chunk.rows_in() * self.row_bytes).to_usize();
        match &mut self.reads {
            Reads::Pinned(data) => {
                let first = Bytes(chunk.input.start * self.row_bytes).to_usize();
                upload(data.slice(first..first + bytes))
            }
            Reads::Inline { reading, free } => {
                let mut buffer = free.pop_front().ok_or_else(|| closed("source"))?;
                reading.read(chunk, &mut buffer)?;
                upload(buffer.slice(..bytes))?;
                // Its stamps keep it from being overwritten before the upload has ended.
                free.push_back(buffer);
                Ok(())
            }
            Reads::Thread { free, filled, .. } => {
                let buffer = filled.recv().map_err(|_| closed("source"))?;
                upload(buffer.slice(..bytes))?;
                // A thread that has read every chunk needs no more buffers.
                drop(free.send(buffer));
                Ok(())
            }
        }
    }

    /// Ends the thread and returns its error.
    pub(super) fn finish(self) -> Result<()> {
        match self.reads {
            Reads::Pinned(_) | Reads::Inline { .. } => Ok(()),
            Reads::Thread { free, filled, thread } => {
                drop((free, filled));
                join("source", thread)
            }
        }
    }
}

/// A thread that reads each chunk into the next free buffer.
fn thread<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    reading: Reading<'env>,
    chunks: &'env [Chunk],
    buffers: Vec<PinnedBuffer<u8>>,
) -> Reads<'scope, 'env> {
    let (free, free_in) = channel();
    let (filled_out, filled) = sync_channel(buffers.len());
    for buffer in buffers {
        // The receiver is alive: it moves into the thread below.
        drop(free.send(buffer));
    }
    let thread = scope.spawn(move || -> Result<()> {
        let (free_in, filled_out): (Receiver<PinnedBuffer<u8>>, SyncSender<_>) =
            (free_in, filled_out);
        for chunk in chunks {
            // The run closes this channel when it is cancelled. That is no error of the source.
            let Ok(mut buffer) = free_in.recv() else { return Ok(()) };
            reading.read(chunk, &mut buffer)?;
            if filled_out.send(buffer).is_err() {
                return Ok(());
            }
        }
        Ok(())
    });
    Reads::Thread { free, filled, thread }
}
