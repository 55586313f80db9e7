//! A remark about performance, as the checker gives it and a report shows it.
#![forbid(unsafe_code)]

use crate::base::units::Nanos;
use std::fmt;

/// What can be wrong with a run that computes the right thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// Asynchronous copies from or to pageable memory.
    Pageable,
    /// The legacy stream held other streams up, or they it.
    LegacyBarrier,
    /// Copies that the host waits for, again and again.
    SyncCopy,
    /// Memory that belongs to no stream is allocated and freed again and again.
    SyncAlloc,
    /// A pool gives memory back only to get it again.
    PoolThrash,
    /// The host waits for everything again and again.
    OverSync,
    /// A wait for what the stream already follows.
    RedundantWait,
    /// Engines that could work at once work in turn.
    NoOverlap,
    /// Many small copies.
    SmallCopy,
    /// Small copies wait behind large ones of another stream.
    SmallCopyStarved,
    /// More streams than operations that run at once.
    TooManyStreams,
    /// A kernel is loaded while the device could work.
    FirstUseLoad,
    /// The host enqueues too late.
    HostLate,
}

impl Rule {
    /// Its stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pageable => "PERF/PAGEABLE",
            Self::LegacyBarrier => "PERF/LEGACY-BARRIER",
            Self::SyncCopy => "PERF/SYNC-COPY",
            Self::SyncAlloc => "PERF/SYNC-ALLOC",
            Self::PoolThrash => "PERF/POOL-THRASH",
            Self::OverSync => "PERF/OVER-SYNC",
            Self::RedundantWait => "PERF/REDUNDANT-WAIT",
            Self::NoOverlap => "PERF/NO-OVERLAP",
            Self::SmallCopy => "PERF/SMALL-COPY",
            Self::SmallCopyStarved => "PERF/SMALL-COPY-STARVED",
            Self::TooManyStreams => "PERF/TOO-MANY-STREAMS",
            Self::FirstUseLoad => "PERF/FIRST-USE-LOAD",
            Self::HostLate => "PERF/HOST-LATE",
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn fix(self) -> &'static str {
        match self {
            Self::Pageable => "use page-locked memory for what is copied",
            Self::LegacyBarrier => "use non-blocking streams, with events where order is needed",
            Self::SyncCopy => "copy asynchronously, with two or more page-locked buffers in turn",
            Self::SyncAlloc => "allocate in stream order from a pool, or once before the loop",
            Self::PoolThrash => "raise the release threshold of the pool",
            Self::OverSync => "wait for one event per buffer slot, when the slot is used again",
            Self::RedundantWait => "drop the wait",
            Self::NoOverlap => {
                "use a stream per engine, or a pipeline, so that engines work at once"
            }
            Self::SmallCopy => "pack them into one copy",
            Self::SmallCopyStarved => {
                "use one stream per direction, or let a kernel copy what is small and urgent"
            }
            Self::TooManyStreams => "use as many streams as operations run at once",
            Self::FirstUseLoad => "load every kernel before the first one runs",
            Self::HostLate => "enqueue earlier: move work of the host to another thread",
        }
    }
}

/// One remark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lint {
    /// The rule.
    pub rule: Rule,
    /// The time that following the fix would save at most, by the rule's formula.
    pub saved: Nanos,
    /// The records concerned, by index.
    pub ops: Vec<usize>,
    /// What was found, in words.
    pub text: String,
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, saved, text, .. } = self;
        write!(f, "{}: {text} (up to {saved}); fix: {}", rule.name(), rule.fix())
    }
}
