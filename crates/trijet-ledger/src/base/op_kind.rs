//! The kind of an entry of the ledger, with the facts that the kind states about the call.
#![forbid(unsafe_code)]

use crate::base::id::{BlockId, Position};
use serde::{Deserialize, Serialize};

/// When the sources of a batch of copies may be read (law [A19](crate::laws#a19)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SourceOrder {
    /// In stream order.
    Stream,
    /// Before the call returns. The program may change the sources after that.
    DuringCall,
    /// At any time after the start of the call, even out of stream order.
    Any,
}

/// The origin of a record or a wait: the program, or the ordering of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Asked {
    /// The program, with its own event.
    User,
    /// The ordering of the library.
    Ordering,
}

/// The work that a host thread waited for, or asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Waited {
    /// An event, by the driver's handle.
    Event(u64),
    /// Everything that the stream held: everything up to the entry's position in its lane. For the
    /// legacy stream, this includes what the blocking streams held (law [A14](crate::laws#a14)).
    Stream,
    /// Everything that the streams of the device held.
    Device,
    /// The record of an event that a future waits for: the last record before the future was made.
    /// The value is the driver's handle of the event. While the future lives, a later record of the
    /// event uses another handle.
    Recorded(u64),
}

/// The outcome of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum WaitOutcome {
    /// The wait had not returned when the trace was taken, so it orders nothing yet.
    Pending,
    /// The wait succeeded: the thread follows the work that it waited for.
    Complete,
    /// The wait failed, or was a query that found unfinished work, so it orders nothing.
    Failed,
}

/// The object that a name belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Named {
    /// The stream of the entry's lane, until another stream opens the lane.
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
    /// The signal is set from now on. A thread or host function that finds the signal set follows
    /// the first call that set the signal.
    Set,
    /// A wait for the signal began. The entry is made at the call, whether or not the wait
    /// succeeds.
    Wait,
    /// A wait or a query found the signal set.
    Found,
    /// The last handle of the signal was dropped.
    Gone,
    /// A wait with a time limit began. The wait ends without the signal when the limit is over.
    /// Files before version 6 have [`Signalled::Wait`] instead.
    LimitedWait,
}

/// A use of a handle of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Handled {
    /// The handle is the first handle of a new signal.
    Made,
    /// The handle was cloned from another handle.
    Cloned,
    /// The handle was used, and its previous use was by another thread or host function.
    Used,
    /// The handle was dropped.
    Dropped,
}

/// Work of a stream. Such an entry has its own number in its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamWork {
    /// A stream-ordered allocation.
    Alloc,
    /// A stream-ordered free.
    Free,
    /// A copy. The engine of the entry tells its direction.
    Copy,
    /// A copy in the legacy stream, for which the host may wait (law [A18](crate::laws#a18)).
    CopyNow,
    /// A batch of copies, which may run in any order (law [A19](crate::laws#a19)).
    Batch(SourceOrder),
    /// A memory set.
    Fill,
    /// A memory set in the legacy stream.
    FillNow,
    /// A kernel.
    Kernel,
    /// A host function. Its accesses are the accesses that the program declares for it.
    HostFn,
}

/// A record of an event, or a wait for one, in the order of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamMark {
    /// An event recorded in the lane.
    Record {
        /// The driver's handle of the event.
        event: u64,
        /// The origin of the record: the program, or the ordering of the library.
        by: Asked,
    },
    /// A wait for an event, enqueued in the lane.
    Wait {
        /// The driver's handle of the event.
        event: u64,
        /// The position whose completion the event stands for.
        on: Position,
        /// The origin of the wait: the program, or the ordering of the library.
        by: Asked,
    },
}

/// An allocation or a free that takes effect at its call, in no stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryCall {
    /// An allocation of device memory or page-locked memory.
    AllocNow,
    /// A free. The driver may wait in the call, but no documented rule makes the call wait for
    /// users of the memory (law [A24](crate::laws#a24)).
    FreeNow,
    /// A heap gave an allocation its memory. Other allocations may have had the bytes before, and
    /// their operations may be pending.
    FromHeap {
        /// The offset of the first byte in the heap of the entry's device. Two allocations share
        /// bytes of the heap only where their offsets overlap.
        place: u64,
    },
    /// An allocation gave its memory back to its heap. Operations that use the memory may be
    /// pending.
    ToHeap,
}

/// A step of a host thread that is no [`MemoryCall`] and no [`SignalStep`]. It is in no stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostStep {
    /// The thread waits, or queries. The entry is made at the call, because the wait is for the
    /// work at that time.
    Sync {
        /// The work that is waited for.
        what: Waited,
        /// The outcome of the wait.
        outcome: WaitOutcome,
    },
    /// The thread uses memory itself.
    Access,
    /// A future of memory was made. The thread that gets the memory from the future follows
    /// everything that the maker of the future knew to be complete. The future does not wait for
    /// that work again.
    Lent,
    /// A call that may wait begins: a synchronous copy, or a copy within the host or of pageable
    /// memory. The operation of the call is the next entry of this thread in this lane, made when
    /// the call has returned. The operation follows what the lane holds now. Operations that other
    /// threads enqueue until the call returns may come before or after this operation. The entry
    /// has the position of the last operation counted so far. The entry has the accesses of the
    /// call, and none of these accesses has happened yet.
    Begin,
    /// The call that began with [`HostStep::Begin`] returned an error. Its operation may or may not
    /// be in the stream.
    Failed,
    /// A stream was created. If the lane served another stream before, the work of that stream is
    /// complete. The numbers of the lane continue from the position of the entry.
    Open,
    /// A kernel was loaded. The call may wait for running work (law [A42](crate::laws#a42)).
    Load,
    /// A pool released memory to the device at a synchronisation (law [A25](crate::laws#a25)). The
    /// entry has the number of bytes.
    Release,
    /// A call of this crate inside a host function was refused (law [A28](crate::laws#a28)). The
    /// label names the call, and the site is where the host function was enqueued.
    Refused,
    /// A call reported that the context is lost (law [A40](crate::laws#a40)).
    Fault {
        /// The operation that failed, if the driver names the operation.
        culprit: Option<Position>,
    },
}

/// A use of a signal or of one of its handles, for a hand-over between host threads and host
/// functions. It is no call of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SignalStep {
    /// A use of a signal.
    Use {
        /// The number of the signal.
        signal: u64,
        /// The way in which the signal was used.
        what: Signalled,
        /// The host function that used the signal; `None` if the thread of the entry did.
        inside: Option<Position>,
    },
    /// A use of a handle of a signal. A thread or host function without a handle cannot set the
    /// signal. The entry orders nothing.
    Handle {
        /// The number of the signal.
        signal: u64,
        /// The number of the handle.
        handle: u64,
        /// The way in which the handle was used.
        what: Handled,
        /// The host function that used the handle; `None` if the thread of the entry did.
        inside: Option<Position>,
    },
}

/// A fact about a run that is no call of a thread of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LedgerNote {
    /// An event was destroyed. Another event may get its handle from now on.
    Gone {
        /// The driver's handle of the event.
        event: u64,
    },
    /// The host function at the entry's position has returned. It ran on a thread of the driver, so
    /// the entry is not in the order of any thread of the program.
    Ran,
    /// The library found this event complete when it assigned a lane to another stream. The work
    /// before the event is complete. The program did not ask for the state of the event, so no
    /// thread of the program knows that this work is complete.
    Settled {
        /// The driver's handle of the event.
        event: u64,
    },
    /// The program gave a name to an object. The label of the entry is that name.
    Name {
        /// The object that has the name.
        of: Named,
    },
    /// The host thread has ended: it makes no more calls.
    ThreadGone,
}

/// The kind of an entry. The kinds are grouped, so a reader that handles all kinds of a group alike
/// needs one arm for the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpKind {
    /// Work of a stream.
    Work(StreamWork),
    /// A record of an event, or a wait for one, in a stream.
    Mark(StreamMark),
    /// An allocation or a free outside of streams.
    Memory(MemoryCall),
    /// Another step of a host thread.
    Host(HostStep),
    /// A use of a signal.
    Signal(SignalStep),
    /// A fact that is no call of a thread.
    Note(LedgerNote),
}

impl From<StreamWork> for OpKind {
    fn from(work: StreamWork) -> Self {
        Self::Work(work)
    }
}

impl From<StreamMark> for OpKind {
    fn from(mark: StreamMark) -> Self {
        Self::Mark(mark)
    }
}

impl From<MemoryCall> for OpKind {
    fn from(call: MemoryCall) -> Self {
        Self::Memory(call)
    }
}

impl From<HostStep> for OpKind {
    fn from(step: HostStep) -> Self {
        Self::Host(step)
    }
}

impl From<SignalStep> for OpKind {
    fn from(step: SignalStep) -> Self {
        Self::Signal(step)
    }
}

impl From<LedgerNote> for OpKind {
    fn from(note: LedgerNote) -> Self {
        Self::Note(note)
    }
}

/// The effect of an entry on the memory of its accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The memory exists from now on.
    Allocates,
    /// A heap gives the memory, whose bytes may have had other users.
    Obtains,
    /// A heap takes the memory back.
    Returns,
    /// The memory does not exist any more.
    Frees,
    /// The memory is read or written.
    Uses,
    /// No effect. The entry announces a later use of the memory, or states that a future holds the
    /// memory.
    Announces,
}

impl OpKind {
    /// The effect of the entry on the memory of its accesses, if it has any.
    #[must_use]
    #[inline]
    pub fn effect(&self) -> Effect {
        match self {
            Self::Work(StreamWork::Alloc) | Self::Memory(MemoryCall::AllocNow) => Effect::Allocates,
            Self::Work(StreamWork::Free) | Self::Memory(MemoryCall::FreeNow) => Effect::Frees,
            Self::Memory(MemoryCall::FromHeap { .. }) => Effect::Obtains,
            Self::Memory(MemoryCall::ToHeap) => Effect::Returns,
            Self::Host(HostStep::Begin | HostStep::Lent) => Effect::Announces,
            Self::Work(StreamWork::Copy | StreamWork::CopyNow | StreamWork::Batch(_))
            | Self::Work(StreamWork::Fill | StreamWork::FillNow)
            | Self::Work(StreamWork::Kernel | StreamWork::HostFn)
            | Self::Mark(_)
            | Self::Host(HostStep::Sync { .. } | HostStep::Access | HostStep::Open)
            | Self::Host(HostStep::Load | HostStep::Release | HostStep::Refused)
            | Self::Host(HostStep::Failed | HostStep::Fault { .. })
            | Self::Signal(_)
            | Self::Note(_) => Effect::Uses,
        }
    }

    /// Whether the entry puts work into a stream. Such an entry has its own number in its lane.
    #[must_use]
    #[inline]
    pub fn is_work(&self) -> bool {
        matches!(self, Self::Work(_))
    }

    /// Whether the entry is in the order of a stream: work, a record of an event, or a wait for
    /// one. Every other entry takes effect at its call, in its host thread or inside a host
    /// function.
    #[must_use]
    #[inline]
    pub fn is_in_stream(&self) -> bool {
        matches!(self, Self::Work(_) | Self::Mark(_))
    }
}
