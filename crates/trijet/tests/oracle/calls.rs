//! The calls of a run, as the judge takes them: what the host threads asked of the driver, in
//! order, with the accesses that each call declared. Nothing in here was concluded from anything.

use crate::program::{Sources, StreamKind};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// Where memory lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    Device,
    Pinned,
    Pageable,
}

impl Memory {
    pub(crate) fn is_of_host(self) -> bool {
        self != Self::Device
    }
}

/// One declared access to an allocation, which is never mistaken for a later one at its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) block: u64,
    pub(crate) range: Range<u64>,
    pub(crate) writes: bool,
}

impl Access {
    pub(crate) fn conflicts(&self, other: &Self) -> bool {
        self.block == other.block
            && self.range.start < other.range.end
            && other.range.start < self.range.end
            && (self.writes || other.writes)
    }
}

/// A verb that puts work into a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Kernel,
    Fill,
    Copy,
    Batch(Sources),
    /// The synchronous copy; its stream is the legacy one.
    CopyNow,
    FillNow,
    HostFn,
    Alloc,
    Free,
}

/// Who asked for a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    User,
    Ordering,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    Work {
        verb: Verb,
        stream: usize,
        accesses: Vec<Access>,
    },
    Record {
        event: u64,
        stream: usize,
        by: By,
    },
    Wait {
        event: u64,
        stream: usize,
        by: By,
    },
    /// The host waited for the event, or a query said that it is complete.
    SyncEvent {
        event: u64,
    },
    SyncStream {
        stream: usize,
    },
    SyncDevice {
        device: usize,
    },
    /// The stream begins to exist.
    Open {
        stream: usize,
    },
    /// The host itself uses memory.
    Host {
        accesses: Vec<Access>,
    },
    /// This thread goes on from where the other one is: it was started by it, or joined it.
    After {
        thread: u64,
    },
}

impl What {
    /// The stream it puts something into.
    pub(crate) fn stream(&self) -> Option<usize> {
        match self {
            Self::Work { stream, .. } | Self::Record { stream, .. } | Self::Wait { stream, .. } => {
                Some(*stream)
            }
            _ => None,
        }
    }

    /// The stream that begins to exist.
    pub(crate) fn born(&self) -> Option<usize> {
        match self {
            Self::Open { stream } => Some(*stream),
            _ => None,
        }
    }

    pub(crate) fn accesses(&self) -> &[Access] {
        match self {
            Self::Work { accesses, .. } | Self::Host { accesses } => accesses,
            _ => &[],
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) thread: u64,
    pub(crate) what: What,
    /// Calls whose work the library claims to be complete for this thread.
    pub(crate) known: Vec<usize>,
    /// A name and a place, for people.
    pub(crate) label: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) kind: StreamKind,
    pub(crate) device: usize,
    /// The stream whose place it took when that had nothing left to do.
    pub(crate) follows: Option<usize>,
}

/// All calls of a run, in an order that agrees with each stream's and each thread's.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) lanes: Vec<Lane>,
    /// Where blocks lie; those that are missing lie on a device.
    pub(crate) memory: BTreeMap<u64, Memory>,
    pub(crate) calls: Vec<Call>,
}

impl History {
    pub(crate) fn push(&mut self, thread: u64, what: What) -> usize {
        self.calls.push(Call { thread, what, known: Vec::new(), label: String::new() });
        self.calls.len() - 1
    }

    pub(crate) fn memory(&self, access: &Access) -> Memory {
        self.memory.get(&access.block).copied().unwrap_or(Memory::Device)
    }

    /// A call, for people.
    pub(crate) fn line(&self, number: usize) -> String {
        let Call { thread, what, label, .. } = &self.calls[number];
        format!("#{number} {what} by thread {thread} {label}").trim_end().to_owned()
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { block, range, writes } = self;
        let mode = if *writes { 'w' } else { 'r' };
        write!(f, " {mode}:{block}[{}..{}]", range.start, range.end)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Work { verb, stream, accesses } => {
                write!(f, "{verb:?}@{stream}")?;
                accesses.iter().try_for_each(|access| write!(f, "{access}"))
            }
            Self::Host { accesses } => {
                write!(f, "host")?;
                accesses.iter().try_for_each(|access| write!(f, "{access}"))
            }
            Self::Record { event, stream, by } => write!(f, "record {event}@{stream} ({by:?})"),
            Self::Wait { event, stream, by } => write!(f, "wait {event}@{stream} ({by:?})"),
            Self::SyncEvent { event } => write!(f, "sync event {event}"),
            Self::SyncStream { stream } => write!(f, "sync stream {stream}"),
            Self::SyncDevice { device } => write!(f, "sync device {device}"),
            Self::Open { stream } => write!(f, "open {stream}"),
            Self::After { thread } => write!(f, "after thread {thread}"),
        }
    }
}
