//! Entries of the ledger. An entry describes one call of the driver or one act of the host, and the
//! memory that it uses.
#![forbid(unsafe_code)]

use crate::base::id::{BlockId, DeviceId, Position};
use crate::base::op_kind::OpKind;
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
    /// No engine: events, waits, allocations.
    None,
    /// Kernels of other libraries that move data between devices: collectives by NCCL.
    Communication,
}

/// The devices of a copy between devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Route {
    /// The device whose memory is read.
    pub from: DeviceId,
    /// The device whose memory is written.
    pub to: DeviceId,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.from.0, self.to.0)
    }
}

/// The way in which an operation uses bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// The operation only reads the bytes.
    Read,
    /// The operation overwrites all or some of the bytes.
    Write,
    /// The operation reads and writes the bytes.
    Update,
}

impl Mode {
    /// Whether the bytes may change.
    #[must_use]
    #[inline]
    pub fn writes(self) -> bool {
        self != Self::Read
    }
}

/// The kind of memory of an allocation, as far as the laws distinguish kinds. A place has no number
/// of a device: the operation has its device, and a copy between devices has its [`Route`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Place {
    /// Memory of a device.
    Device,
    /// Page-locked memory of the host.
    Pinned,
    /// Pageable memory of the host, whose copies are staged (law [A17](crate::laws#a17)).
    Pageable,
}

/// Whether the library or the program orders the uses of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OrderedBy {
    /// The library. It inserts the waits, and Rust's ownership rules order the calls that use the
    /// allocation (law [A44](crate::laws#a44)).
    Library,
    /// The program, by its own events. The library inserts no waits, and ownership orders nothing.
    Program,
}

/// One declared access of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The allocation. In a trace that was taken, allocations are numbered by first appearance.
    pub block: BlockId,
    /// The kind of memory of the allocation.
    pub place: Place,
    /// The range of bytes within the allocation.
    pub range: Range<u64>,
    /// Whether the bytes are read, written, or both.
    pub mode: Mode,
    /// Whether the library or the program orders the access.
    pub ordered: OrderedBy,
}

/// The accesses of an operation. Most operations have at most two, a source and a target, for which
/// the list needs no allocation.
pub type Accesses = SmallVec<[Access; 2]>;

/// How a stream relates to the legacy default stream (laws [A13](crate::laws#a13) and
/// [A15](crate::laws#a15)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum StreamClass {
    /// The legacy stream.
    Legacy,
    /// The default stream of a thread, which is a blocking stream.
    PerThread,
    /// A blocking stream: work of the legacy stream waits for earlier work of this stream, and work
    /// of this stream waits for earlier work of the legacy stream.
    Blocking,
    /// A non-blocking stream: it has no order with the legacy stream.
    #[default]
    NonBlocking,
}

impl StreamClass {
    /// Whether a stream of this class is a default stream of the device or of a thread.
    #[must_use]
    pub fn is_default(self) -> bool {
        match self {
            Self::Legacy | Self::PerThread => true,
            Self::Blocking | Self::NonBlocking => false,
        }
    }
}

/// An interval on the device's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// The start. If a pair of events measured the start, it is the time at which the operation was
    /// ready: everything before the operation in its lane was done, including every wait.
    pub begin: Nanos,
    /// The end.
    pub end: Nanos,
}

/// Whether the accesses of an operation are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Declared {
    /// All accesses are listed.
    All,
    /// No access is listed, and the operation may use any memory, for example a kernel of another
    /// program.
    Nothing,
}

/// A line of a program's source.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Site {
    /// The path of the file.
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

/// One entry of the ledger.
#[derive(Debug, Clone)]
pub struct Op {
    /// The kind of the entry.
    pub kind: OpKind,
    /// The engine that executes the operation.
    pub engine: Engine,
    /// The device of the entry's lane.
    pub device: DeviceId,
    /// The class of the entry's stream.
    pub stream: StreamClass,
    /// The lane of the entry, and its number in that lane. If the entry is outside of streams, the
    /// position has no meaning.
    pub position: Position,
    /// The accesses that the operation declares.
    pub accesses: Accesses,
    /// Whether `accesses` lists all accesses of the operation.
    pub declared: Declared,
    /// The number of bytes that the operation moves or sets.
    pub bytes: u64,
    /// The devices of a copy between devices. Files before version 5 do not have them.
    pub route: Option<Route>,
    /// The number of the graph that the operation launches. The launch follows the previous launch
    /// of that graph (law [A31](crate::laws#a31)). Files before version 6 do not have the number.
    pub graph: Option<u64>,
    /// A name to print, for example the name of the kernel.
    pub label: Cow<'static, str>,
    /// The chunk of a pipeline that the operation belongs to.
    pub chunk: Option<u64>,
    /// The line of the program that made the call, if the line is known.
    pub site: Option<Site>,
    /// The host thread that made the call. In a trace that was taken, threads are numbered by first
    /// appearance.
    pub thread: u64,
    /// The positions that the thread knew to be complete at the call, one per lane. The entries of
    /// a thread share the list until the thread learns more. Files do not have the list.
    pub thread_known: Option<Arc<[Position]>>,
    /// The interval in which the host was in the call, as exactly as it can be stated on the
    /// device's clock.
    pub call: Option<Times>,
    /// The interval in which the device executed the operation, once the interval is known.
    pub times: Option<Times>,
}

impl Op {
    /// An entry at `position` of `device`, without a name, accesses or times.
    ///
    /// ```
    /// use trijet::trace::{DeviceId, LaneId, Position};
    /// use trijet::trace::{Engine, Op, StreamWork};
    ///
    /// let position = Position { lane: LaneId(1), seq: 1 };
    /// let fill = Op::new(StreamWork::Fill, Engine::Compute, DeviceId(0), position);
    /// let op = Op { bytes: 64, ..fill };
    /// assert!(op.kind.is_work() && op.times.is_none());
    /// ```
    #[must_use]
    pub fn new(
        kind: impl Into<OpKind>,
        engine: Engine,
        device: DeviceId,
        position: Position,
    ) -> Self {
        Self {
            kind: kind.into(),
            engine,
            device,
            stream: StreamClass::NonBlocking,
            position,
            accesses: Accesses::new(),
            declared: Declared::All,
            bytes: 0,
            route: None,
            graph: None,
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
