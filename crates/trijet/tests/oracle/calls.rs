//! The calls of a run, as input of the judge. They are the requests of the host threads to the
//! driver, in order, with the declared accesses of each call. No entry is derived from other calls.

use crate::program::{Sources, StreamKind};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// The place of memory.
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

/// One declared access to an allocation. A later allocation at the same address has another number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) block: u64,
    pub(crate) range: Range<u64>,
    pub(crate) writes: bool,
    /// Whether the program orders the memory by its own events; otherwise the library does.
    pub(crate) by_hand: bool,
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
    /// The synchronous copy. Its stream is the legacy stream.
    CopyNow,
    FillNow,
    HostFn,
    Alloc,
    Free,
}

/// The origin of a record or of a wait: the program or the library.
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
    /// The host waited for the event, or a query returned that the event is complete.
    SyncEvent {
        event: u64,
    },
    SyncStream {
        stream: usize,
    },
    SyncDevice {
        device: usize,
    },
    /// The stream is opened.
    Open {
        stream: usize,
    },
    /// The start of a call that may wait and will use this memory. The next work of this thread in
    /// the stream belongs to the call.
    Begin {
        stream: usize,
        holds: Vec<Access>,
    },
    /// A future of memory is made. The thread to which the future lends the memory follows the work
    /// that the creator of the future knew to be complete.
    Lent {
        holds: Vec<Access>,
    },
    /// The library found the event complete. No thread of the program knows this.
    Settled {
        event: u64,
    },
    /// The thread sets the signal, or the host function of the call `inside` sets it.
    Set {
        signal: u64,
        inside: Option<usize>,
    },
    /// The thread finds the signal set.
    Found {
        signal: u64,
    },
    /// The host uses memory.
    Host {
        accesses: Vec<Access>,
    },
    /// This thread follows all earlier calls of the other thread, which started this thread or was
    /// joined.
    After {
        thread: u64,
    },
}

impl What {
    /// The stream of work, a record or a wait.
    pub(crate) fn stream(&self) -> Option<usize> {
        match self {
            Self::Work { stream, .. } | Self::Record { stream, .. } | Self::Wait { stream, .. } => {
                Some(*stream)
            }
            _ => None,
        }
    }

    /// The event of a call of the program, and whether the call records it.
    pub(crate) fn about(&self) -> Option<(u64, bool)> {
        match self {
            Self::Record { event, by: By::User, .. } => Some((*event, true)),
            Self::Wait { event, by: By::User, .. } | Self::SyncEvent { event } => {
                Some((*event, false))
            }
            _ => None,
        }
    }

    /// The stream that is opened.
    pub(crate) fn born(&self) -> Option<usize> {
        match self {
            Self::Open { stream } => Some(*stream),
            _ => None,
        }
    }

    /// The memory that the call uses, even if its work comes later (law A44).
    pub(crate) fn holds(&self) -> &[Access] {
        match self {
            Self::Begin { holds, .. } | Self::Lent { holds } => holds,
            _ => self.accesses(),
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
    /// Calls whose work is complete for this thread by the claim of the library.
    pub(crate) known: Vec<usize>,
    /// The start of this call, if it has an entry.
    pub(crate) begin: Option<usize>,
    /// A name and a source line, for messages.
    pub(crate) label: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) kind: StreamKind,
    pub(crate) device: usize,
    /// The stream that had the lane before. Its work was complete.
    pub(crate) follows: Option<usize>,
}

/// All calls of a run, in an order that agrees with the order of each stream and each thread.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) lanes: Vec<Lane>,
    /// The memory of each block that is not on a device. The keys are the numbers of the blocks.
    pub(crate) memory: BTreeMap<u64, Memory>,
    /// The device of each block that was allocated in a stream. The keys are the numbers of the
    /// blocks.
    pub(crate) homes: BTreeMap<u64, usize>,
    pub(crate) calls: Vec<Call>,
    /// The graph of each call that launches one. The keys are the indices of the calls.
    pub(crate) launches: BTreeMap<usize, u64>,
    /// Calls that have begun and not returned. The keys are the thread and the stream.
    pub(crate) begun: BTreeMap<(u64, usize), usize>,
}

impl History {
    pub(crate) fn push(&mut self, thread: u64, what: What) -> usize {
        let begin = match &what {
            What::Work { stream, .. } => self.begun.remove(&(thread, *stream)),
            _ => None,
        };
        if let What::Begin { stream, .. } = what {
            self.begun.insert((thread, stream), self.calls.len());
        }
        self.calls.push(Call { thread, what, known: Vec::new(), begin, label: String::new() });
        self.calls.len() - 1
    }

    pub(crate) fn memory(&self, access: &Access) -> Memory {
        self.memory.get(&access.block).copied().unwrap_or(Memory::Device)
    }

    /// A call, for messages.
    pub(crate) fn line(&self, number: usize) -> String {
        let Call { thread, what, label, .. } = &self.calls[number];
        format!("#{number} {what} by thread {thread} {label}").trim_end().to_owned()
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { block, range, writes, by_hand } = self;
        let mode = if *writes { 'w' } else { 'r' };
        let by_hand = if *by_hand { " by hand" } else { "" };
        write!(f, " {mode}:{block}[{}..{}]{by_hand}", range.start, range.end)
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
            Self::Begin { stream, .. } => write!(f, "begin @{stream}"),
            Self::Lent { .. } => write!(f, "future"),
            Self::Settled { event } => write!(f, "settled {event}"),
            Self::Set { signal, inside } => write!(f, "set {signal} inside {inside:?}"),
            Self::Found { signal } => write!(f, "found {signal}"),
            Self::After { thread } => write!(f, "after thread {thread}"),
        }
    }
}
