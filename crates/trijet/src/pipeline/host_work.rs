//! The host's side of a run: reading chunks into page-locked buffers and writing results out of
//! them, on threads beside the one that enqueues, or in its turn.
#![forbid(unsafe_code)]

use super::io::{Sink, Source};
use super::plan::Chunk;
use crate::base::error::{Error, ErrorKind, Result};
use crate::memory::PinnedBuffer;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Instant;

/// Where source and sink are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostWork {
    /// On a thread each, so that reading, enqueuing and writing overlap.
    #[default]
    Threads,
    /// On the calling thread, in turn: every call happens in the same order in every run.
    Inline,
}

/// Wall-clock spans of host work since the start of a run, in nanoseconds.
#[derive(Debug)]
pub(super) struct Spans {
    start: Instant,
    spans: Mutex<Vec<Range<u64>>>,
}

impl Spans {
    pub(super) fn new(start: Instant) -> Self {
        Self { start, spans: Mutex::default() }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn time<R>(&self, work: impl FnOnce() -> R) -> R {
        let begin = self.now();
        let result = work();
        self.spans.lock().expect("no panic under this lock").push(begin..self.now());
        result
    }

    pub(super) fn into_spans(self) -> Vec<Range<u64>> {
        self.spans.into_inner().expect("no panic under this lock")
    }
}

fn in_chunk(chunk: &Chunk, stage: &str, error: Error) -> Error {
    error.context(format!("chunk {} (rows {:?}), {stage}", chunk.index, chunk.rows))
}

/// Reads one chunk into `buffer`, after the upload that still uses it.
fn read(
    source: &dyn Source,
    chunk: &Chunk,
    buffer: &mut PinnedBuffer<u8>,
    spans: &Spans,
) -> Result<()> {
    let rows = chunk.input.end - chunk.input.start;
    let bytes = usize::try_from(rows * source.layout().row_bytes).unwrap_or(usize::MAX);
    let mut guard = buffer.write().map_err(|e| in_chunk(chunk, "upload", e))?;
    spans
        .time(|| source.read(chunk.input.clone(), &mut guard[..bytes]))
        .map_err(|e| in_chunk(chunk, "source", e))
}

/// Writes one chunk from `buffer`, after its download.
fn write(
    sink: &mut dyn Sink,
    chunk: &Chunk,
    buffer: &PinnedBuffer<u8>,
    bytes: u64,
    spans: &Spans,
) -> Result<()> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let guard = buffer.read().map_err(|e| in_chunk(chunk, "download", e))?;
    spans
        .time(|| sink.write(chunk.rows.clone(), &guard[..bytes]))
        .map_err(|e| in_chunk(chunk, "sink", e))
}

/// The other side hung up: it has the error.
fn hung_up(what: &'static str) -> Error {
    Error::new(ErrorKind::Io, what, "ended early")
}

/// Where filled input buffers come from.
pub(super) enum Reader<'scope> {
    Inline {
        free: VecDeque<PinnedBuffer<u8>>,
    },
    Thread {
        free: Sender<PinnedBuffer<u8>>,
        filled: Receiver<PinnedBuffer<u8>>,
        handle: ScopedJoinHandle<'scope, Result<()>>,
    },
}

impl<'scope> Reader<'scope> {
    pub(super) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        host_work: HostWork,
        source: &'env dyn Source,
        chunks: &'env [Chunk],
        buffers: Vec<PinnedBuffer<u8>>,
        spans: &'env Spans,
    ) -> Self {
        if host_work == HostWork::Inline {
            return Self::Inline { free: buffers.into() };
        }
        let (free, free_in) = channel();
        let (filled_out, filled) = sync_channel(buffers.len());
        for buffer in buffers {
            // The receiver is alive: it is ours until the thread takes it.
            drop(free.send(buffer));
        }
        let handle = scope.spawn(move || -> Result<()> {
            let (free_in, filled_out): (Receiver<PinnedBuffer<u8>>, SyncSender<_>) =
                (free_in, filled_out);
            for chunk in chunks {
                // Who cancels stops the run, which then hangs up here: it must not find that this
                // end hung up first.
                let Ok(mut buffer) = free_in.recv() else { return Ok(()) };
                read(source, chunk, &mut buffer, spans)?;
                if filled_out.send(buffer).is_err() {
                    return Ok(());
                }
            }
            Ok(())
        });
        Self::Thread { free, filled, handle }
    }

    /// The next chunk's bytes.
    pub(super) fn next(
        &mut self,
        source: &dyn Source,
        chunk: &Chunk,
        spans: &Spans,
    ) -> Result<PinnedBuffer<u8>> {
        match self {
            Self::Inline { free } => {
                let mut buffer = free.pop_front().ok_or_else(|| hung_up("source"))?;
                read(source, chunk, &mut buffer, spans)?;
                Ok(buffer)
            }
            Self::Thread { filled, .. } => filled.recv().map_err(|_| hung_up("source")),
        }
    }

    /// The buffer's upload is enqueued; its stamps keep it from being overwritten too early.
    pub(super) fn give_back(&mut self, buffer: PinnedBuffer<u8>) {
        match self {
            Self::Inline { free } => free.push_back(buffer),
            // A reader that is done needs no more buffers.
            Self::Thread { free, .. } => drop(free.send(buffer)),
        }
    }

    /// Ends the thread and returns its error.
    pub(super) fn finish(self) -> Result<()> {
        match self {
            Self::Inline { .. } => Ok(()),
            Self::Thread { free, filled, handle } => {
                drop((free, filled));
                handle.join().unwrap_or_else(|payload| {
                    // Dropping it may panic again.
                    std::mem::forget(payload);
                    Err(panicked("source"))
                })
            }
        }
    }
}

fn panicked(what: &'static str) -> Error {
    Error::new(ErrorKind::Panicked, what, "it panicked")
}

/// A chunk on its way out: the number of its bytes and the buffer that its download fills.
pub(super) type Outgoing<'env> = (&'env Chunk, u64, PinnedBuffer<u8>);

/// What a writer's thread is told. Hanging up without `Finish` means that the run failed.
pub(super) enum Message<'env> {
    Chunk(Outgoing<'env>),
    Finish,
}

/// Where output buffers go.
pub(super) enum Writer<'scope, 'env> {
    Inline {
        sink: Box<dyn Sink + 'env>,
        free: VecDeque<PinnedBuffer<u8>>,
        pending: VecDeque<Outgoing<'env>>,
        failed: bool,
    },
    Thread {
        free: Receiver<PinnedBuffer<u8>>,
        filled: Sender<Message<'env>>,
        handle: ScopedJoinHandle<'scope, Result<()>>,
    },
}

impl<'scope, 'env> Writer<'scope, 'env> {
    pub(super) fn start(
        scope: &'scope Scope<'scope, 'env>,
        host_work: HostWork,
        mut sink: Box<dyn Sink + 'env>,
        buffers: Vec<PinnedBuffer<u8>>,
        spans: &'env Spans,
        written: &'env (dyn Fn(&Chunk) + Sync),
    ) -> Self {
        if host_work == HostWork::Inline {
            let (free, pending) = (buffers.into(), VecDeque::new());
            return Self::Inline { sink, free, pending, failed: false };
        }
        let (free_out, free) = channel();
        let (filled, filled_in) = channel::<Message<'env>>();
        for buffer in buffers {
            // The receiver is alive: it is ours until the run ends.
            drop(free_out.send(buffer));
        }
        let handle = scope.spawn(move || -> Result<()> {
            while let Ok(message) = filled_in.recv() {
                let Message::Chunk((chunk, bytes, buffer)) = message else {
                    return sink.finish();
                };
                write(&mut *sink, chunk, &buffer, bytes, spans)?;
                written(chunk);
                // A run that has submitted everything needs no more buffers.
                drop(free_out.send(buffer));
            }
            Ok(())
        });
        Self::Thread { free, filled, handle }
    }

    /// A buffer for the next download. Inline, this is where the oldest result is written.
    pub(super) fn next(
        &mut self,
        spans: &Spans,
        written: &(dyn Fn(&Chunk) + Sync),
    ) -> Result<PinnedBuffer<u8>> {
        match self {
            Self::Thread { free, .. } => free.recv().map_err(|_| hung_up("sink")),
            Self::Inline { sink, free, pending, failed } => {
                if free.is_empty()
                    && let Some((chunk, bytes, buffer)) = pending.pop_front()
                {
                    *failed = true;
                    write(&mut **sink, chunk, &buffer, bytes, spans)?;
                    *failed = false;
                    written(chunk);
                    free.push_back(buffer);
                }
                free.pop_front().ok_or_else(|| hung_up("sink"))
            }
        }
    }

    pub(super) fn put(&mut self, outgoing: Outgoing<'env>) -> Result<()> {
        match self {
            Self::Inline { pending, .. } => {
                pending.push_back(outgoing);
                Ok(())
            }
            Self::Thread { filled, .. } => {
                filled.send(Message::Chunk(outgoing)).map_err(|_| hung_up("sink"))
            }
        }
    }

    /// Writes what is left, and finishes the sink if the run went well.
    pub(super) fn finish(
        self,
        run: &Result<()>,
        spans: &Spans,
        written: &(dyn Fn(&Chunk) + Sync),
    ) -> Result<()> {
        match self {
            // After an error of its own a sink is not called again.
            Self::Inline { failed: true, .. } => Ok(()),
            Self::Inline { mut sink, pending, .. } => {
                for (chunk, bytes, buffer) in pending {
                    write(&mut *sink, chunk, &buffer, bytes, spans)?;
                    written(chunk);
                }
                if run.is_ok() { sink.finish() } else { Ok(()) }
            }
            Self::Thread { free, filled, handle } => {
                if run.is_ok() {
                    // A writer that failed has hung up; joining returns its error.
                    drop(filled.send(Message::Finish));
                }
                drop((free, filled));
                handle.join().unwrap_or_else(|payload| {
                    // Dropping it may panic again.
                    std::mem::forget(payload);
                    Err(panicked("sink"))
                })
            }
        }
    }
}
