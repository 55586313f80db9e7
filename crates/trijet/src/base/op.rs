//! Entries of the ledger: what a call of the driver or of the host was, and what it used.
#![forbid(unsafe_code)]

use crate::base::id::{BlockId, DeviceId, Position};
use crate::base::units::Nanos;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

/// The hardware queue that executes an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Engine {
    /// Copies from host to device.
    Upload,
    /// Kernels, fills and copies within a device.
    Compute,
    /// Copies from device to host.
    Download,
    /// Copies between devices.
    Peer,
    /// Host functions.
    Host,
    /// Takes no engine: events, waits, allocations.
    None,
}

/// How an operation uses bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// It only reads them.
    Read,
    /// It overwrites them, all or some.
    Write,
    /// It reads and writes them.
    ReadWrite,
}

impl Mode {
    /// Whether bytes may change.
    #[must_use]
    #[inline]
    pub fn writes(self) -> bool {
        self != Self::Read
    }
}

/// The kind of memory of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Place {
    /// Of a device.
    Device,
    /// Of the host, page-locked.
    Pinned,
    /// Of the host, pageable: copies are staged (law A17).
    Pageable,
}

/// Whether the library or the program orders the uses of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OrderedBy {
    /// The library: it inserts the waits, and who holds the allocation is known to Rust, so that a
    /// call that uses it follows the calls before it (law A44).
    Library,
    /// The program, by its own events: nothing is inserted, and nothing follows from ownership.
    Program,
}

/// One declared access of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The allocation, by generation; in a record that was taken, numbered by first appearance.
    pub block: BlockId,
    /// Where it lies.
    pub place: Place,
    /// The bytes of it.
    pub range: Range<u64>,
    /// Whether the bytes are read, written, or both.
    pub mode: Mode,
    /// Whether the library or the program orders the access.
    pub ordered: OrderedBy,
}

/// The accesses of an operation. Most have no more than two, a source and a target, and need no
/// memory of their own for them.
pub type Accesses = SmallVec<[Access; 2]>;

/// How a stream relates to the legacy default stream (laws A13 and A15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum StreamClass {
    /// It is the legacy stream.
    Legacy,
    /// The default stream of a thread, which is a blocking stream.
    PerThread,
    /// Work of the legacy stream waits for it, and it waits for the legacy stream's.
    Blocking,
    /// It has nothing to do with the legacy stream.
    #[default]
    NonBlocking,
}

impl StreamClass {
    /// Whether it is a default stream of the device or of a thread.
    #[must_use]
    pub fn is_default(self) -> bool {
        match self {
            Self::Legacy | Self::PerThread => true,
            Self::Blocking | Self::NonBlocking => false,
        }
    }
}

/// When the sources of a batch of copies may be read (law A19).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SourceOrder {
    /// In stream order.
    Stream,
    /// Before the call returns: the sources are free then.
    DuringCall,
    /// At any time, even after the call and out of stream order.
    Any,
}

/// The origin of a record or a wait: the program, or the ordering of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Asked {
    /// The program, by its own event.
    User,
    /// The ordering.
    Ordering,
}

/// The work that a host thread waited for, or asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Waited {
    /// An event, by the driver's handle.
    Event(u64),
    /// Everything that the stream held: up to the record's position in its lane, and with the
    /// legacy stream what the blocking ones held (law A14).
    Stream,
    /// Everything that the streams of the device held.
    Device,
    /// The record that an event had when a future of it was made, by the driver's handle: while the
    /// future lives, the next record is made with another handle.
    Recorded(u64),
}

/// The outcome of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Outcome {
    /// It had not returned when the record was taken: it orders nothing yet.
    Pending,
    /// It returned: the thread follows what it waited for.
    Complete,
    /// It failed, or was a query that found work pending: it orders nothing.
    Failed,
}

/// A call of the host that touches no memory of the program, and that may take long or wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum HostCall {
    /// A kernel is loaded, which may wait for work that runs (law A42).
    Load,
    /// A pool gives memory back to the device at a synchronisation (law A25); the record's bytes say
    /// how much.
    Release,
    /// A call of this crate inside a host function, which was refused (law A28). The label names the
    /// call; the site is that of the host function.
    InHostFn,
    /// The call that [`OpKind::Begin`] stands for returned an error: its operation may or may not be
    /// in the stream.
    Failed,
}

/// The object that a name belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Named {
    /// The stream of the entry's lane, until another one opens the lane.
    Stream,
    /// An allocation.
    Block(BlockId),
    /// An event, by the driver's handle.
    Event(u64),
}

/// A use of a signal. Host threads and host functions hand over to each other by signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Signalled {
    /// It was set, for good: who finds it set follows who set it first.
    Set,
    /// Somebody waits until it is set. Recorded at the call, whatever becomes of the wait.
    Wait,
    /// It was found to be set, by a wait or by a query.
    Found,
    /// Its last handle was dropped.
    Gone,
}

/// A use of a handle of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Handled {
    /// It is the first one: the signal was made.
    Made,
    /// It was cloned from another one.
    Cloned,
    /// The thread or host function used it that had not used it last.
    Used,
    /// It was dropped.
    Dropped,
}

/// The kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OpKind {
    /// A stream-ordered allocation.
    Alloc,
    /// A stream-ordered free.
    Free,
    /// A copy; the direction is the engine.
    Copy,
    /// A copy in the legacy stream, for which the host may wait (law A18).
    CopyNow,
    /// Copies without order among them (law A19).
    Batch(SourceOrder),
    /// A memory set.
    Fill,
    /// A memory set in the legacy stream.
    FillNow,
    /// A kernel.
    Kernel,
    /// A host function. Its accesses are those that the program declares for it.
    HostFn,
    /// An allocation at the call, in no stream: of a device or of page-locked memory.
    AllocNow,
    /// A free at the call, in no stream. The driver may wait in it; no documented rule makes it wait
    /// for users of the memory (law A24).
    FreeNow,
    /// A call reported that the context is lost (law A40).
    Fault {
        /// The operation that failed, where the driver names it.
        culprit: Option<Position>,
    },
    /// An event recorded in the lane.
    Record {
        /// The driver's handle of the event.
        event: u64,
        /// The program, or the ordering of the library.
        by: Asked,
    },
    /// A host thread waits, or asks. Recorded at the call, which is what the wait stands for.
    Sync {
        /// The work that is waited for.
        what: Waited,
        /// Whether it came to an end.
        outcome: Outcome,
    },
    /// A host thread uses memory itself.
    Host,
    /// Another call of a host thread, outside of all streams.
    Call(HostCall),
    /// An event was destroyed; its handle may be that of another one from now on.
    Gone {
        /// The driver's handle.
        event: u64,
    },
    /// A stream was created. Its lane may have been that of another one, whose work was complete;
    /// the numbers go on from the position.
    Open,
    /// A wait for an event, enqueued in the lane.
    Wait {
        /// The driver's handle of the event.
        event: u64,
        /// The position whose completion the event stands for.
        on: Position,
        /// The program, or the ordering of the library.
        by: Asked,
    },
    /// A hand-over between host threads and host functions: no call of the driver.
    Signal {
        /// Which signal.
        signal: u64,
        /// The use.
        what: Signalled,
        /// The host function that did it; `None` when the thread did.
        inside: Option<Position>,
    },
    /// A call that may wait begins: a copy at once, one within the host or of pageable memory. Its
    /// operation is the next one of this thread in this lane, recorded when the call has returned. It
    /// follows what the lane had been given by now; what other threads enqueue until it returns may
    /// come before it or after it. The entry's position is that of the last operation counted so far,
    /// its accesses are those of the call, none of which has happened.
    Begin,
    /// The host function at the entry's position has returned. On a thread of the driver, so it says
    /// nothing of any thread's order.
    Ran,
    /// The library found this event complete when it handed a lane out again, without being asked by
    /// the program: what it stands for is complete, but no thread of the program knows.
    Settled {
        /// The driver's handle of the event.
        event: u64,
    },
    /// The program gave something a name, which is the entry's label.
    Name {
        /// What.
        of: Named,
    },
    /// The host thread has ended: it makes no more calls.
    ThreadGone,
    /// A handle of a signal: whoever has none cannot set the signal. Says nothing of any thread's order.
    Handle {
        /// Which signal.
        signal: u64,
        /// Which handle of it.
        handle: u64,
        /// The use.
        what: Handled,
        /// The host function that did it; `None` when the thread did.
        inside: Option<Position>,
    },
    /// A future of memory was made. Whoever is lent the memory by it follows what its maker knew to be
    /// complete: that is why the future does not wait for it.
    Lent,
}

/// Where an entry stands in the order of the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// It puts work into a stream.
    Work,
    /// It is an event's record or wait, in the order of a stream.
    Mark,
    /// It is in no stream: in the order of its host thread, inside a host function, or in none.
    Outside,
}

/// What an entry does to the memory of its accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The memory exists from now on.
    Allocates,
    /// The memory does not exist any more.
    Frees,
    /// The memory is read or written.
    Uses,
    /// Nothing: the entry says who uses the memory later, or who holds it.
    Announces,
}

impl OpKind {
    /// Where the entry stands in the order of the calls.
    pub(crate) fn scope(&self) -> Scope {
        match self {
            Self::Alloc
            | Self::Free
            | Self::Copy
            | Self::CopyNow
            | Self::Batch(_)
            | Self::Fill
            | Self::FillNow
            | Self::Kernel
            | Self::HostFn => Scope::Work,
            Self::Record { .. } | Self::Wait { .. } => Scope::Mark,
            Self::AllocNow
            | Self::FreeNow
            | Self::Fault { .. }
            | Self::Sync { .. }
            | Self::Host
            | Self::Call(_)
            | Self::Gone { .. }
            | Self::Open
            | Self::Signal { .. }
            | Self::Begin
            | Self::Ran
            | Self::Settled { .. }
            | Self::Name { .. }
            | Self::ThreadGone
            | Self::Lent
            | Self::Handle { .. } => Scope::Outside,
        }
    }

    /// What the entry does to the memory of its accesses, if it has any.
    pub(crate) fn effect(&self) -> Effect {
        match self {
            Self::Alloc | Self::AllocNow => Effect::Allocates,
            Self::Free | Self::FreeNow => Effect::Frees,
            Self::Begin | Self::Lent => Effect::Announces,
            Self::Copy
            | Self::CopyNow
            | Self::Batch(_)
            | Self::Fill
            | Self::FillNow
            | Self::Kernel
            | Self::HostFn
            | Self::Host
            | Self::Record { .. }
            | Self::Wait { .. }
            | Self::Fault { .. }
            | Self::Sync { .. }
            | Self::Call(_)
            | Self::Gone { .. }
            | Self::Open
            | Self::Signal { .. }
            | Self::Ran
            | Self::Settled { .. }
            | Self::Name { .. }
            | Self::ThreadGone
            | Self::Handle { .. } => Effect::Uses,
        }
    }

    /// Whether the entry puts work into a stream, which has a number of its own in its lane.
    #[must_use]
    pub fn is_work(&self) -> bool {
        self.scope() == Scope::Work
    }

    /// Whether the entry is in the order of a stream: work, or an event's record or wait. Everything
    /// else happens at its call and is in the order of the host thread, or inside a host function.
    #[must_use]
    pub fn is_in_stream(&self) -> bool {
        self.scope() != Scope::Outside
    }
}

/// From when to when something happened, on the device's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// When it began. From pairs of events: when everything before it in its lane, and every wait,
    /// was done.
    pub begin: Nanos,
    /// When it was done.
    pub end: Nanos,
}

/// Whether the accesses of an operation are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Declared {
    /// Those that are listed are all.
    All,
    /// It may touch anything: a kernel of another program.
    Nothing,
}

/// A place in a program's source.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Site {
    /// The file.
    pub file: Cow<'static, str>,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl From<&'static Location<'static>> for Site {
    fn from(place: &'static Location<'static>) -> Self {
        Self { file: Cow::Borrowed(place.file()), line: place.line(), column: place.column() }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One record.
#[derive(Debug, Clone)]
pub struct Op {
    /// The kind of the entry.
    pub kind: OpKind,
    /// The engine that executes it.
    pub engine: Engine,
    /// The device of its lane.
    pub device: DeviceId,
    /// The class of its stream.
    pub stream: StreamClass,
    /// Its lane and number. Of no meaning for what is in no stream.
    pub position: Position,
    /// The declared accesses.
    pub accesses: Accesses,
    /// Whether they are all that it makes.
    pub declared: Declared,
    /// The bytes that it moves over a link or within memory, or sets.
    pub bytes: u64,
    /// A name for people, for example the kernel's.
    pub label: Cow<'static, str>,
    /// The chunk of a pipeline it belongs to.
    pub chunk: Option<u64>,
    /// Where in the user's program it was enqueued, if that is known.
    pub site: Option<Site>,
    /// The enqueuing host thread; in a record that was taken, numbered by first appearance.
    pub thread: u64,
    /// What that thread knew to be complete when it enqueued, one position per lane; shared by the
    /// records until it learns more. Not in a file.
    pub thread_known: Option<Arc<[Position]>>,
    /// When the host was in the call, on the device's clock as well as that is known there.
    pub call: Option<Times>,
    /// When it ran, once known.
    pub times: Option<Times>,
}

impl Op {
    /// A record about `position` of `device` and about nothing else yet: no name, no accesses, no
    /// times.
    ///
    /// ```
    /// use trijet::trace::{DeviceId, LaneId, Position};
    /// use trijet::trace::{Engine, Op, OpKind};
    ///
    /// let position = Position { lane: LaneId(1), seq: 1 };
    /// let op = Op { bytes: 64, ..Op::new(OpKind::Fill, Engine::Compute, DeviceId(0), position) };
    /// assert!(op.kind.is_work() && op.times.is_none());
    /// ```
    #[must_use]
    pub fn new(kind: OpKind, engine: Engine, device: DeviceId, position: Position) -> Self {
        Self {
            kind,
            engine,
            device,
            stream: StreamClass::NonBlocking,
            position,
            accesses: Accesses::new(),
            declared: Declared::All,
            bytes: 0,
            label: Cow::Borrowed(""),
            chunk: None,
            site: None,
            thread: 0,
            thread_known: None,
            call: None,
            times: None,
        }
    }
}
