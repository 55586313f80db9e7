//! What a profiling interface saw of a program that need not be ours: operations of the GPU and
//! calls of the host, each with its time.
//!
//! It knows when something ran and on which stream, but not which bytes a kernel touched. So there
//! is enough for a timeline and for costs, and not enough to judge an order.
#![forbid(unsafe_code)]

use crate::base::ledger::{Engine, StreamClass};
use crate::base::units::Nanos;

/// The memory at one end of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Memory {
    /// Not said.
    Unknown,
    /// Of the host; the driver stages its copies.
    Pageable,
    /// Of the host, page-locked.
    Pinned,
    /// Of a device.
    Device,
    /// Of a device, as an array.
    Array,
    /// Moved by the driver between host and device.
    Managed,
}

/// Which way a copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Not said.
    Unknown,
    /// From host to device.
    Upload,
    /// From device to host.
    Download,
    /// Within a device.
    Within,
    /// Between devices.
    Peer,
    /// Within the host.
    Host,
}

/// What a host thread, or a stream, waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SyncKind {
    /// Not said.
    Unknown,
    /// The host, for an event.
    Event,
    /// A stream, for an event. It takes no time of the host.
    StreamWait,
    /// The host, for a stream.
    Stream,
    /// The host, for everything in the context.
    Context,
}

/// What the recording interface, or the driver on the side, spent time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OverheadKind {
    /// Not said.
    Unknown,
    /// Compiling kernels: the program's own cost.
    Compiler,
    /// Handing over records: the recording's cost.
    Flush,
    /// Instrumenting calls and kernels: the recording's cost.
    Instrumentation,
    /// Keeping resources for records: the recording's cost.
    Resource,
    /// Loading a module at its first use: the program's own cost.
    ModuleLoading,
    /// Loading a kernel at its first use: the program's own cost.
    LazyLoading,
    /// Waiting for space in the command buffer: the program's own cost.
    CommandBufferFull,
    /// Asking for a buffer for records: the recording's cost.
    BufferRequest,
}

impl OverheadKind {
    /// Whether the program would not have it without the recording.
    #[must_use]
    pub fn is_of_the_recording(self) -> bool {
        matches!(self, Self::Flush | Self::Instrumentation | Self::Resource | Self::BufferRequest)
    }
}

/// The interface that a call belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Api {
    /// Names start with `cuda`.
    Runtime,
    /// Names start with `cu`.
    Driver,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ActivityKind {
    /// A kernel ran.
    Kernel,
    /// Bytes were copied.
    Copy {
        /// Which way.
        direction: Direction,
        /// Out of what.
        from: Memory,
        /// Into what.
        to: Memory,
    },
    /// Bytes were set.
    Fill,
    /// Somebody waited.
    Sync(SyncKind),
    /// The host was in a call.
    Call(Api),
    /// Time went elsewhere.
    Overhead(OverheadKind),
}

/// The name of an activity, as an index into the names of its recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NameId(pub u32);

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// What happened.
    pub kind: ActivityKind,
    /// From when, on the clock of the recording.
    pub begin: Nanos,
    /// Until when. 0 when the operation had no times yet as the recording ended.
    pub end: Nanos,
    /// Bytes moved or set.
    pub bytes: u64,
    /// The kernel, or the function that was called.
    pub name: Option<NameId>,
    /// The device of an operation.
    pub device: u32,
    /// The context of an operation or a wait.
    pub context: u32,
    /// The stream of an operation or a wait, by a number of the recording interface.
    pub stream: u32,
    /// The host thread of a call, by the system's number.
    pub thread: u32,
    /// The same number for an operation and the call that enqueued it.
    pub correlation: u32,
}

impl Activity {
    /// The engine that it kept busy; `None` for what only the host did.
    #[must_use]
    pub fn engine(&self) -> Option<Engine> {
        match self.kind {
            ActivityKind::Kernel | ActivityKind::Fill => Some(Engine::Compute),
            ActivityKind::Copy { direction, .. } => match direction {
                Direction::Upload => Some(Engine::Upload),
                Direction::Download => Some(Engine::Download),
                Direction::Peer => Some(Engine::Peer),
                Direction::Within | Direction::Unknown => Some(Engine::Compute),
                Direction::Host => Some(Engine::Host),
            },
            ActivityKind::Sync(_) | ActivityKind::Call(_) | ActivityKind::Overhead(_) => None,
        }
    }
}

/// A context that the recording saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextInfo {
    /// Its number.
    pub context: u32,
    /// Its device.
    pub device: u32,
    /// The number of its legacy default stream.
    pub null_stream: u32,
}

/// A stream whose making the recording saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamInfo {
    /// Its context.
    pub context: u32,
    /// Its number.
    pub stream: u32,
    /// How it relates to the legacy stream, where that was said.
    pub class: Option<StreamClass>,
}

/// How a recording ended, in its own count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct End {
    /// Activities written.
    pub activities: u64,
    /// Records that the interface had no space for.
    pub dropped: u64,
    /// Records that the recorder could not read.
    pub unknown: u64,
    /// Buffers that the recorder refused to give, at its limit.
    pub declined: u64,
    /// Time in the recorder's own code: reading records and writing them.
    pub host: Nanos,
    /// When, on the clock of the recording.
    pub at: Nanos,
}

/// What one process left.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// The process.
    pub process: u32,
    /// The version that the recording interface states; 0 without one.
    pub interface: u32,
    /// When it began, on its own clock.
    pub began: Nanos,
    /// Names of kernels and functions, by [`NameId`].
    pub names: Vec<String>,
    /// Contexts.
    pub contexts: Vec<ContextInfo>,
    /// Streams that were made.
    pub streams: Vec<StreamInfo>,
    /// Everything else, in no order.
    pub activities: Vec<Activity>,
    /// What kept the recorder from recording, in words.
    pub troubles: Vec<String>,
    /// How it ended; `None` when the process ended without its exit handlers.
    pub end: Option<End>,
}

impl Recording {
    /// The name of an activity, or the empty string.
    #[must_use]
    pub fn name(&self, activity: &Activity) -> &str {
        let index = activity.name.and_then(|name| usize::try_from(name.0).ok());
        index.and_then(|index| self.names.get(index)).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_recording_causes_is_its_overhead() {
        let own = [
            OverheadKind::Flush,
            OverheadKind::Instrumentation,
            OverheadKind::Resource,
            OverheadKind::BufferRequest,
        ];
        assert!(own.iter().all(|kind| kind.is_of_the_recording()));
        for kind in [OverheadKind::LazyLoading, OverheadKind::Compiler, OverheadKind::Unknown] {
            assert!(!kind.is_of_the_recording(), "{kind:?}");
        }
    }
}
