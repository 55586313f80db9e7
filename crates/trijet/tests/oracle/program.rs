//! Random programs: streams, events and phases of scripts, as plain data.
//!
//! A program starts without buffers, and its steps make them. The scripts of a phase run on
//! separate host threads, which may end before the script does, and are joined at the end of the
//! phase. Scripts wait for each other by events, tickets, futures, signals and buffers that one
//! gives to another. The safe interface lets one thread at a time change a buffer. So in a phase a
//! buffer belongs to one script, or is only read, or passes from script to script. The same holds
//! for a stream that is replaced. Calls may be refused: a refused step has no effect, or leaves
//! unknown content in its targets.

use std::collections::BTreeMap;
use std::ops::Range;
use trijet::sim::Verb;

/// The number of signals.
pub(crate) const SIGNALS_MAX: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamKind {
    Legacy,
    PerThread,
    Blocking,
    NonBlocking,
}

impl StreamKind {
    /// Whether the stream is a default stream, which cannot be replaced.
    pub(crate) fn is_default(self) -> bool {
        matches!(self, Self::Legacy | Self::PerThread)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamSpec {
    pub(crate) kind: StreamKind,
    pub(crate) device: usize,
}

/// The place of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Device(usize),
    Pinned,
    Pageable,
}

/// The place and the length of a buffer at some step, in words of eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) place: Place,
    pub(crate) len: usize,
}

impl Shape {
    /// Whether kernels and fills of `device` may use it.
    pub(crate) fn is_near(self, device: usize) -> bool {
        match self.place {
            Place::Device(home) => home == device,
            Place::Pinned => true,
            Place::Pageable => false,
        }
    }
}

/// Some words of a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) buffer: usize,
    pub(crate) range: Range<usize>,
}

impl Part {
    pub(crate) fn len(&self) -> usize {
        self.range.end - self.range.start
    }
}

/// When the sources of a batch may be read (law A19).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sources {
    InStreamOrder,
    DuringCall,
    AnyTime,
}

/// One call of a program, with the numbers of its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Copy {
        stream: usize,
        from: Part,
        to: Part,
    },
    Batch {
        stream: usize,
        sources: Sources,
        copies: Vec<(Part, Part)>,
    },
    Mix {
        stream: usize,
        salt: u64,
        x: Part,
        y: Part,
    },
    Fill {
        stream: usize,
        to: Part,
        value: u8,
    },
    /// The synchronous copy, on the legacy stream.
    CopyNow {
        device: usize,
        from: Part,
        to: Part,
    },
    FillNow {
        device: usize,
        to: Part,
        value: u8,
    },
    /// Drop the buffer with this number, if any, allocate one in the stream, and fill it.
    Alloc {
        buffer: usize,
        stream: usize,
        len: usize,
        value: u8,
    },
    /// Drop the buffer with this number, if any, allocate host memory, and write to it.
    AllocHost {
        buffer: usize,
        place: Place,
        len: usize,
        seed: u64,
    },
    Drop {
        buffer: usize,
    },
    /// The words from `at` to the end become the buffer `into`.
    Split {
        buffer: usize,
        at: usize,
        into: usize,
    },
    Write {
        buffer: usize,
        seed: u64,
    },
    Read {
        buffer: usize,
    },
    HostFn {
        stream: usize,
    },
    Record {
        event: usize,
        stream: usize,
    },
    Wait {
        event: usize,
        stream: usize,
    },
    SyncEvent {
        event: usize,
    },
    QueryEvent {
        event: usize,
    },
    Sync {
        stream: usize,
    },
    Query {
        stream: usize,
    },
    SyncDevice {
        device: usize,
    },
    /// Drop the stream, even with pending work, and make another one of its kind.
    Replace {
        stream: usize,
    },
    /// Make a ticket of the stream.
    Ticket {
        ticket: usize,
        stream: usize,
    },
    /// Wait for the ticket, if it was made.
    Await {
        ticket: usize,
    },
    /// Make a future of the stream.
    Future {
        future: usize,
        stream: usize,
    },
    /// Poll the future until it is ready, if it was made, and drop it.
    Poll {
        future: usize,
    },
    /// Set the signal.
    Set {
        signal: usize,
    },
    /// Have a host function set the signal.
    HostSet {
        signal: usize,
        stream: usize,
    },
    /// Wait for the signal.
    Take {
        signal: usize,
    },
    /// Give the buffer to another script of the phase. Each hand-over of a phase has a number.
    Give {
        buffer: usize,
        number: usize,
    },
    /// Wait for the buffer that another script of the phase gives.
    Receive {
        buffer: usize,
        number: usize,
    },
    /// The thread ends, and a new one continues the script. The thread drops its per-thread
    /// streams, or the new thread drops them at its end.
    Renew {
        keeps: bool,
    },
    /// Open a stream, fill in it, and drop it.
    Churn {
        kind: StreamKind,
        device: usize,
        to: Part,
        value: u8,
    },
    /// The program orders the buffer from now on.
    ByHand {
        buffer: usize,
    },
}

/// Whether a step shares an object with other threads, or uses it exclusively.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    Shared,
    Alone,
}

impl Step {
    /// The stream that the step uses.
    pub(crate) fn stream(&self) -> Option<usize> {
        match self {
            Self::Copy { stream, .. }
            | Self::Batch { stream, .. }
            | Self::Mix { stream, .. }
            | Self::Fill { stream, .. }
            | Self::Alloc { stream, .. }
            | Self::HostFn { stream }
            | Self::Record { stream, .. }
            | Self::Wait { stream, .. }
            | Self::Sync { stream }
            | Self::Query { stream }
            | Self::Replace { stream }
            | Self::Ticket { stream, .. }
            | Self::Future { stream, .. }
            | Self::HostSet { stream, .. } => Some(*stream),
            _ => None,
        }
    }

    pub(crate) fn stream_mut(&mut self) -> Option<&mut usize> {
        match self {
            Self::Copy { stream, .. }
            | Self::Batch { stream, .. }
            | Self::Mix { stream, .. }
            | Self::Fill { stream, .. }
            | Self::Alloc { stream, .. }
            | Self::HostFn { stream }
            | Self::Record { stream, .. }
            | Self::Wait { stream, .. }
            | Self::Sync { stream }
            | Self::Query { stream }
            | Self::Replace { stream }
            | Self::Ticket { stream, .. }
            | Self::Future { stream, .. }
            | Self::HostSet { stream, .. } => Some(stream),
            _ => None,
        }
    }

    pub(crate) fn event_mut(&mut self) -> Option<&mut usize> {
        match self {
            Self::Record { event, .. }
            | Self::Wait { event, .. }
            | Self::SyncEvent { event }
            | Self::QueryEvent { event } => Some(event),
            _ => None,
        }
    }

    /// The parts that the step reads and the parts that it changes, for the verbs that compute.
    pub(crate) fn parts(&self) -> (Vec<&Part>, Vec<&Part>) {
        match self {
            Self::Copy { from, to, .. } | Self::CopyNow { from, to, .. } => (vec![from], vec![to]),
            Self::Mix { x, y, .. } => (vec![x], vec![y]),
            Self::Fill { to, .. } | Self::FillNow { to, .. } | Self::Churn { to, .. } => {
                (vec![], vec![to])
            }
            Self::Batch { copies, .. } => copies.iter().map(|(from, to)| (from, to)).unzip(),
            _ => (vec![], vec![]),
        }
    }

    pub(crate) fn signal(&self) -> Option<usize> {
        match self {
            Self::Set { signal } | Self::HostSet { signal, .. } | Self::Take { signal } => {
                Some(*signal)
            }
            _ => None,
        }
    }

    /// The buffer that the step passes between scripts.
    pub(crate) fn passes(&self) -> Option<usize> {
        match self {
            Self::Give { buffer, .. } | Self::Receive { buffer, .. } => Some(*buffer),
            _ => None,
        }
    }

    /// The buffers that the step borrows or owns.
    pub(crate) fn buffers(&self) -> Vec<(usize, Hold)> {
        let (read, written) = self.parts();
        let mut all: Vec<(usize, Hold)> = read.iter().map(|p| (p.buffer, Hold::Shared)).collect();
        all.extend(written.iter().map(|p| (p.buffer, Hold::Alone)));
        match self {
            Self::Alloc { buffer, .. }
            | Self::AllocHost { buffer, .. }
            | Self::Drop { buffer }
            | Self::Give { buffer, .. }
            | Self::Receive { buffer, .. }
            | Self::ByHand { buffer }
            | Self::Write { buffer, .. } => all.push((*buffer, Hold::Alone)),
            Self::Read { buffer } => all.push((*buffer, Hold::Shared)),
            Self::Split { buffer, into, .. } => {
                all.extend([(*buffer, Hold::Alone), (*into, Hold::Alone)]);
            }
            _ => {}
        }
        all
    }
}

/// Scripts that run at the same time. A single one runs on the main thread.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Phase {
    pub(crate) scripts: Vec<Vec<Step>>,
}

impl Phase {
    /// Whether scripts wait for each other, or continue on new threads.
    pub(crate) fn needs_turns(&self) -> bool {
        self.scripts.iter().flatten().any(|step| {
            matches!(step, Step::Take { .. } | Step::Receive { .. } | Step::Renew { .. })
        })
    }
}

/// The place of a step: its phase, its script there, and its number in the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct At {
    pub(crate) phase: usize,
    pub(crate) script: usize,
    pub(crate) step: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Program {
    pub(crate) devices: usize,
    pub(crate) streams: Vec<StreamSpec>,
    /// The device of each event.
    pub(crate) events: Vec<usize>,
    /// Calls that the driver refuses: the verb and which of its calls, from 1.
    pub(crate) refusals: Vec<(Verb, u64)>,
    pub(crate) phases: Vec<Phase>,
}

/// Applies the effect of a valid step on the existing buffers.
pub(crate) fn apply(streams: &[StreamSpec], shapes: &mut BTreeMap<usize, Shape>, step: &Step) {
    match step {
        Step::Alloc { buffer, stream, len, .. } => {
            let place = Place::Device(streams[*stream].device);
            shapes.insert(*buffer, Shape { place, len: *len });
        }
        Step::AllocHost { buffer, place, len, .. } => {
            shapes.insert(*buffer, Shape { place: *place, len: *len });
        }
        Step::Drop { buffer } => {
            shapes.remove(buffer);
        }
        Step::Split { buffer, at, into } => {
            let whole = shapes[buffer];
            shapes.insert(*buffer, Shape { len: *at, ..whole });
            shapes.insert(*into, Shape { len: whole.len - at, ..whole });
        }
        _ => {}
    }
}

impl Program {
    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.phases.iter().flat_map(|phase| phase.scripts.iter().flatten())
    }
}
