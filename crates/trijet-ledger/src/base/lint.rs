//! Warnings about performance, which the checker finds and a report shows.
#![forbid(unsafe_code)]

use crate::base::units::Nanos;
use std::fmt;

/// A habit of a program that costs time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// Asynchronous copies from or to pageable memory.
    Pageable,
    /// The legacy stream delayed other streams, or they delayed it.
    LegacyBarrier,
    /// Repeated copies that the host waits for.
    SyncCopy,
    /// Repeated allocations and frees outside of streams.
    SyncAlloc,
    /// A pool repeatedly releases memory and allocates it again.
    PoolThrash,
    /// Repeated waits of the host for a whole stream or device.
    OverSync,
    /// A wait for work that the stream follows already.
    RedundantWait,
    /// Engines that could work at the same time work one after the other.
    NoOverlap,
    /// Many small copies.
    SmallCopy,
    /// Small copies that wait for large copies of another stream.
    SmallCopyStarved,
    /// More streams than operations that run at the same time.
    TooManyStreams,
    /// Ready kernels that wait while as many run as there are hardware queues.
    QueueShared,
    /// A graph that is launched in several streams, where its launches wait for each other.
    GraphSerialized,
    /// A kernel that is loaded after the first one has run.
    FirstUseLoad,
    /// Code of the program that delays the enqueues.
    HostLate,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 15] = [
        Self::Pageable,
        Self::LegacyBarrier,
        Self::SyncCopy,
        Self::SyncAlloc,
        Self::PoolThrash,
        Self::OverSync,
        Self::RedundantWait,
        Self::NoOverlap,
        Self::SmallCopy,
        Self::SmallCopyStarved,
        Self::TooManyStreams,
        Self::QueueShared,
        Self::GraphSerialized,
        Self::FirstUseLoad,
        Self::HostLate,
    ];

    /// The name of the rule, which never changes.
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
            Self::QueueShared => "PERF/QUEUE-SHARED",
            Self::GraphSerialized => "PERF/GRAPH-SERIALIZED",
            Self::FirstUseLoad => "PERF/FIRST-USE-LOAD",
            Self::HostLate => "PERF/HOST-LATE",
        }
    }

    /// The way to avoid the habit.
    #[must_use]
    pub fn fix(self) -> &'static str {
        match self {
            Self::Pageable => "use page-locked memory for the copies",
            Self::LegacyBarrier => "use non-blocking streams, with events where order is needed",
            Self::SyncCopy => "copy asynchronously, with two or more page-locked buffers in turn",
            Self::SyncAlloc => "allocate in stream order from a pool, or once before the loop",
            Self::PoolThrash => "raise the release threshold of the pool",
            Self::OverSync => "wait for one event per buffer slot, when the slot is used again",
            Self::RedundantWait => "remove the wait",
            Self::NoOverlap => {
                "use a stream per engine, or a pipeline, so that engines work at the same time"
            }
            Self::SmallCopy => "pack them into one copy",
            Self::SmallCopyStarved => {
                "use one stream per direction, or let a kernel copy small, urgent data"
            }
            Self::TooManyStreams => "use as many streams as operations run at once",
            Self::QueueShared => {
                "use no more streams than hardware queues, or ask for up to 32 queues: set \
                 CUDA_DEVICE_MAX_CONNECTIONS before the program starts"
            }
            Self::GraphSerialized => "record a graph for each stream",
            Self::FirstUseLoad => "load every kernel before the first one runs",
            Self::HostLate => "enqueue earlier: move work of the host to another thread",
        }
    }
}

/// One warning.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lint {
    /// The rule.
    pub rule: Rule,
    /// Maximum time that the fix can save, by the formula of the rule.
    pub saved: Nanos,
    /// The indices of the operations that the warning is about.
    pub ops: Vec<usize>,
    /// The text of the warning.
    pub text: String,
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, saved, text, .. } = self;
        write!(f, "{}: {text} (up to {saved}); fix: {}", rule.name(), rule.fix())
    }
}
