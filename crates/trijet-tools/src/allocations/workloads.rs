//! Workloads: programs that make a trace of allocations that is typical of one kind of work.
#![forbid(unsafe_code)]

use super::format::{Action, Trace, TraceRow};
use serde::Deserialize;
use trijet::testing::Prng;

/// A kind of work, with its parameters.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Workload {
    /// Kernels in several streams. The memory of each kernel is allocated directly before the
    /// kernel and freed directly after it. The benchmark `multi_stream_allocations` of RAPIDS rmm
    /// does the same.
    Streams {
        /// The number of streams.
        streams: u16,
        /// The number of kernels per stream.
        kernels: u32,
        /// The duration of each kernel in nanoseconds.
        kernel_ns: u32,
    },
    /// The steps of a server of a language model. Sequences arrive with a prompt, get pages for
    /// their keys and values, and leave. Each step has scratch memory for its tokens. The result of
    /// a step is used in a second stream.
    Serving {
        /// The number of steps.
        steps: u32,
        /// Maximum number of sequences at the same time.
        sequences: usize,
        /// The size in bytes of a page, which has the keys and values of 16 tokens.
        page_bytes: u64,
        /// The size in bytes of the scratch memory per token.
        scratch_bytes: u64,
        /// The duration of the kernel of a step in nanoseconds.
        kernel_ns: u32,
    },
    /// Allocations by several threads in several streams. Some allocations are used and freed by
    /// another thread in another stream.
    Churn {
        /// The number of threads.
        threads: u16,
        /// The number of streams.
        streams: u16,
        /// The number of allocations.
        allocations: u32,
        /// Maximum size of an allocation in bytes.
        size_max: u64,
        /// The duration of each kernel in nanoseconds.
        kernel_ns: u32,
    },
    /// Calls that each allocate many small pieces. Each call frees its pieces at its end.
    Tiny {
        /// The number of calls.
        calls: u32,
        /// The number of pieces that each call allocates.
        pieces: u32,
    },
}

/// Lengths in percent of the median length. If each of them is drawn equally often, the lengths
/// approximate a log-normal distribution.
const LENGTHS: [u64; 9] = [16, 30, 48, 70, 100, 143, 208, 333, 620];

/// A random length. It is above `median` about as often as below.
#[must_use]
pub fn length(draw: &mut Prng, median: usize) -> usize {
    let kind = usize::try_from(draw.below(LENGTHS.len() as u64)).unwrap_or(0);
    let percent = LENGTHS[kind] * (75 + draw.below(51)) / 100;
    usize::try_from(median as u64 * percent / 100).unwrap_or(median).max(1)
}

/// A trace that is being made.
#[derive(Debug, Default)]
struct Maker {
    trace: Trace,
}

impl Maker {
    fn push(&mut self, thread: u16, action: Action) {
        self.trace.rows.push(TraceRow { thread, action });
    }

    fn allocate(&mut self, thread: u16, bytes: u64, stream: u16) -> u32 {
        let id = self.trace.allocations;
        self.trace.allocations += 1;
        self.push(thread, Action::Allocate { id, bytes, stream });
        id
    }

    fn finish(mut self, threads: u16, streams: u16) -> Trace {
        (self.trace.threads, self.trace.streams) = (threads, streams);
        self.trace
    }
}

impl Workload {
    /// Makes the trace of the workload. The same workload always makes the same trace.
    #[must_use]
    pub fn trace(&self) -> Trace {
        match *self {
            Self::Streams { streams, kernels, kernel_ns } => {
                several_streams(streams, kernels, kernel_ns)
            }
            Self::Serving { steps, sequences, page_bytes, scratch_bytes, kernel_ns } => {
                serving(steps, sequences, [page_bytes, scratch_bytes], kernel_ns)
            }
            Self::Churn { threads, streams, allocations, size_max, kernel_ns } => {
                churn([threads, streams], allocations, size_max, kernel_ns)
            }
            Self::Tiny { calls, pieces } => tiny(calls, pieces),
        }
    }
}

fn several_streams(streams: u16, kernels: u32, ns: u32) -> Trace {
    let mut maker = Maker::default();
    for _ in 0..kernels {
        for stream in 0..streams {
            let id = maker.allocate(0, 1 << 20, stream);
            maker.push(0, Action::Use { id, stream, ns });
            maker.push(0, Action::Free { id, stream });
        }
    }
    for stream in 0..streams {
        maker.push(0, Action::Synchronize { stream });
    }
    maker.finish(1, streams)
}

/// A sequence of the server of a language model. `pages` are the numbers of its allocations.
#[derive(Debug)]
struct Sequence {
    pages: Vec<u32>,
    tokens: usize,
    end: usize,
}

/// The number of the stream that runs the model, and the number of the stream that copies the
/// results.
const MODEL: u16 = 0;
const RESULTS: u16 = 1;
/// The number of tokens per page.
const PAGE_TOKENS: usize = 16;
/// The number of allocations of scratch memory per step.
const SCRATCHES: u64 = 6;

fn serving(steps: u32, sequences: usize, [page, scratch]: [u64; 2], ns: u32) -> Trace {
    let (mut maker, mut draw) = (Maker::default(), Prng::new(11));
    let mut live: Vec<Sequence> = Vec::new();
    for _ in 0..steps {
        let mut tokens = live.len();
        while live.len() < sequences {
            let prompt = length(&mut draw, 1020).min(8000);
            let end = prompt + length(&mut draw, 129);
            tokens += prompt;
            live.push(Sequence { pages: Vec::new(), tokens: prompt, end });
        }
        for sequence in &mut live {
            while sequence.pages.len() * PAGE_TOKENS < sequence.tokens {
                sequence.pages.push(maker.allocate(0, page, MODEL));
            }
        }
        let bytes = tokens as u64 * scratch;
        let scratches: Vec<u32> = (1..=SCRATCHES)
            .map(|part| maker.allocate(0, bytes * part / SCRATCHES + 1, MODEL))
            .collect();
        for id in &scratches {
            maker.push(0, Action::Use { id: *id, stream: MODEL, ns: ns / 6 });
        }
        let result = maker.allocate(0, 4 * live.len() as u64, MODEL);
        maker.push(0, Action::Use { id: result, stream: MODEL, ns: 0 });
        for id in scratches {
            maker.push(0, Action::Free { id, stream: MODEL });
        }
        maker.push(0, Action::Follow { stream: RESULTS, other: MODEL });
        maker.push(0, Action::Use { id: result, stream: RESULTS, ns: 2000 });
        maker.push(0, Action::Free { id: result, stream: RESULTS });
        for sequence in &mut live {
            sequence.tokens += 1;
        }
        for at in
            (0..live.len()).rev().filter(|at| live[*at].tokens >= live[*at].end).collect::<Vec<_>>()
        {
            for id in live.swap_remove(at).pages {
                maker.push(0, Action::Free { id, stream: MODEL });
            }
        }
        maker.push(0, Action::Synchronize { stream: RESULTS });
    }
    maker.push(0, Action::Synchronize { stream: MODEL });
    maker.finish(1, 2)
}

/// A live allocation of a thread.
#[derive(Debug, Clone, Copy)]
struct Owned {
    id: u32,
    thread: u16,
    stream: u16,
}

/// The average number of live allocations per thread after the start.
const KEPT: usize = 24;

fn churn([threads, streams]: [u16; 2], allocations: u32, size_max: u64, ns: u32) -> Trace {
    let (mut maker, mut draw) = (Maker::default(), Prng::new(13));
    let mut below = |count: u64| draw.below(count);
    let mut live: Vec<Owned> = Vec::new();
    let own = |thread: u16, number: u64| {
        let each = (streams / threads).max(1);
        let number = u16::try_from(number).unwrap_or(0) % each;
        (thread * each + number) % streams
    };
    for number in 0..allocations {
        let thread = u16::try_from(number % u32::from(threads)).unwrap_or(0);
        let stream = own(thread, below(u64::from(streams)));
        // Small sizes are as frequent as large sizes: a random power of two is drawn first, and
        // after that a size up to this power.
        let bits = 8 + below(u64::from(size_max.max(512).ilog2()) - 7);
        let id = maker.allocate(thread, 1 + below((1 << bits).min(size_max)), stream);
        maker.push(thread, Action::Use { id, stream, ns });
        live.push(Owned { id, thread, stream });
        if live.len() < KEPT * usize::from(threads) {
            continue;
        }
        let at = usize::try_from(below(live.len() as u64)).unwrap_or(0);
        let Owned { id, thread, stream } = live.swap_remove(at);
        if below(4) != 0 {
            maker.push(thread, Action::Free { id, stream });
            continue;
        }
        let other_thread = u16::try_from(below(u64::from(threads))).unwrap_or(0);
        let other = own(other_thread, below(u64::from(streams)));
        if other != stream {
            maker.push(other_thread, Action::Follow { stream: other, other: stream });
        }
        maker.push(other_thread, Action::Use { id, stream: other, ns });
        maker.push(other_thread, Action::Free { id, stream: other });
    }
    for Owned { id, thread, stream } in live {
        maker.push(thread, Action::Free { id, stream });
    }
    for stream in 0..streams {
        maker.push(0, Action::Synchronize { stream });
    }
    maker.finish(threads, streams)
}

fn tiny(calls: u32, pieces: u32) -> Trace {
    let (mut maker, mut draw) = (Maker::default(), Prng::new(17));
    for _ in 0..calls {
        let sizes: Vec<u64> = (0..pieces).map(|_| 16 + draw.below(4081)).collect();
        let ids: Vec<u32> = sizes.into_iter().map(|bytes| maker.allocate(0, bytes, 0)).collect();
        for id in ids {
            maker.push(0, Action::Free { id, stream: 0 });
        }
        maker.push(0, Action::Synchronize { stream: 0 });
    }
    maker.finish(1, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Workload> {
        vec![
            Workload::Streams { streams: 4, kernels: 3, kernel_ns: 100 },
            Workload::Serving {
                steps: 40,
                sequences: 3,
                page_bytes: 4096,
                scratch_bytes: 64,
                kernel_ns: 600,
            },
            Workload::Churn {
                threads: 3,
                streams: 8,
                allocations: 500,
                size_max: 1 << 16,
                kernel_ns: 50,
            },
            Workload::Tiny { calls: 3, pieces: 50 },
        ]
    }

    /// `Trace::read` refuses a trace that uses or frees memory that is not allocated.
    #[test]
    fn each_workload_is_a_trace_that_frees_what_it_allocates() -> trijet::Result<()> {
        for workload in all() {
            let trace = workload.trace();
            let read = Trace::read(trace.text().as_bytes())?;
            assert_eq!(read.allocations, trace.allocations, "{workload:?}");
            assert!(read.threads <= trace.threads && read.streams <= trace.streams);
            assert_eq!(workload.trace(), trace, "it is the same each time");
            let count = |wanted: fn(&Action) -> bool| {
                trace.rows.iter().filter(|row| wanted(&row.action)).count()
            };
            let frees = count(|action| matches!(action, Action::Free { .. }));
            let kept = trace.allocations as usize - frees;
            assert!(kept == 0 || matches!(workload, Workload::Serving { .. }), "{workload:?}");
        }
        Ok(())
    }
}
