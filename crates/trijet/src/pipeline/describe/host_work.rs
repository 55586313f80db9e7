//! The work of the host in a run: the threads that do the work, and the times of the work.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::panic::words_of;
use crate::base::span::Union;
use crate::trace::host_engines::{HostEngine, HostWorked};
use std::ops::Range;
use std::sync::Mutex;
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Instant;

/// The threads that call the source and the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HostWork {
    /// The source and the sink have a thread each, so that reading, enqueuing and writing overlap.
    #[default]
    Threads,
    /// The calling thread does all work. The order of the calls is the same in every run.
    Inline,
}

/// Spans of time in which the host worked, in nanoseconds since the start of the run on the host's
/// clock.
#[derive(Debug)]
pub(in crate::pipeline) struct Spans {
    start: Instant,
    spans: Mutex<Vec<Range<u64>>>,
}

impl Spans {
    fn new(start: Instant) -> Self {
        Self { start, spans: Mutex::default() }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(in crate::pipeline) fn time<R>(&self, work: impl FnOnce() -> R) -> R {
        let begin = self.now();
        let result = work();
        self.spans
            .lock()
            .expect("no thread panicked while it held this lock")
            .push(begin..self.now());
        result
    }

    /// The union of the spans, on a clock that has the time `begin` at the start of the run.
    fn union(self, begin: u64) -> Union {
        let spans = self.spans.into_inner().expect("no thread panicked while it held this lock");
        Union::of(spans.into_iter().map(|span| span.start + begin..span.end + begin))
    }
}

/// Times of one side, which is the source or the sink: the times in which the side worked, and the
/// times in which the enqueuing thread waited for the side.
#[derive(Debug)]
pub(in crate::pipeline) struct SideSpans {
    pub(in crate::pipeline) busy: Spans,
    pub(in crate::pipeline) waited_for: Spans,
}

impl SideSpans {
    fn new(start: Instant) -> Self {
        Self { busy: Spans::new(start), waited_for: Spans::new(start) }
    }

    /// The times of `engine`, on the clock of a trace. This clock has the time `begin` at the start
    /// of the run.
    fn worked(self, engine: HostEngine, begin: u64) -> HostWorked {
        let busy = self.busy.union(begin);
        let waited_for = busy.and(&self.waited_for.union(begin));
        HostWorked { engine, busy, waited_for }
    }
}

/// The times in which the host read from the source, wrote to the sink, and waited until the
/// results were on the disk.
#[derive(Debug)]
pub(in crate::pipeline) struct HostSpans {
    pub(in crate::pipeline) read: SideSpans,
    pub(in crate::pipeline) write: SideSpans,
    pub(in crate::pipeline) sync: SideSpans,
}

impl HostSpans {
    pub(in crate::pipeline) fn new(start: Instant) -> Self {
        let new = || SideSpans::new(start);
        Self { read: new(), write: new(), sync: new() }
    }

    /// The times of those engines of the host that worked, on the clock of a trace. This clock has
    /// the time `begin` at the start of the run.
    pub(in crate::pipeline) fn worked(self, begin: u64) -> Vec<HostWorked> {
        let Self { read, write, sync } = self;
        let all =
            [(HostEngine::Reader, read), (HostEngine::Writer, write), (HostEngine::Sync, sync)];
        let all = all.into_iter().map(|(engine, spans)| spans.worked(engine, begin));
        all.filter(|one| one.busy.length().0 > 0).collect()
    }
}

/// The error of the enqueuing thread if the thread of the source or the sink has closed the channel
/// between the two threads. The error of the source or the sink states the cause.
pub(in crate::pipeline) fn closed(side: &'static str) -> Error {
    Error::new(ErrorKind::Io, side, "its thread ended before the last chunk")
}

/// Number of chunks that a parallel source or sink handles at once, except a source that decodes
/// blocks. While the last parts of one chunk are read or written, idle threads of the crew begin
/// the next chunk.
pub(in crate::pipeline) const CHUNKS_AT_ONCE: usize = 2;

/// Distributes the buffers of the source or the sink over at most `threads` threads, which take the
/// chunks in turn. Each thread gets at least one buffer.
pub(in crate::pipeline) fn deal<B>(buffers: Vec<B>, threads: usize) -> Vec<Vec<B>> {
    let threads = threads.min(buffers.len());
    let mut dealt: Vec<Vec<B>> = (0..threads).map(|_| Vec::new()).collect();
    for (number, buffer) in buffers.into_iter().enumerate() {
        dealt[number % threads].push(buffer);
    }
    dealt
}

/// Starts a thread for the source or the sink.
///
/// # Errors
/// `Io` when the system does not start a thread.
pub(in crate::pipeline) fn spawn<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    side: &'static str,
    work: impl FnOnce() -> Result<()> + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, Result<()>>> {
    let thread = Builder::new().name(format!("trijet-{side}"));
    thread.spawn_scoped(scope, work).map_err(|error| {
        Error::new(ErrorKind::Io, side, "its thread could not be started").caused_by(error)
    })
}

/// Waits for the threads of the source or the sink, and returns their first error.
pub(in crate::pipeline) fn join<'scope>(
    side: &'static str,
    threads: impl Iterator<Item = ScopedJoinHandle<'scope, Result<()>>>,
) -> Result<()> {
    let joined = threads.map(|thread| {
        thread.join().unwrap_or_else(|payload| {
            let cause = format!("it panicked: {}", words_of(payload));
            Err(Error::new(ErrorKind::Panicked, side, cause))
        })
    });
    // All threads are joined, even after an error.
    joined.fold(Ok(()), Result::and)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_the_buffers_of_its_turns_and_none_is_without() {
        assert_eq!(deal(vec![0, 1, 2, 3, 4], 2), [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(deal(vec![0], 2), [vec![0]]);
        assert_eq!(deal(vec![0, 1], 1), [vec![0, 1]]);
    }
}
