//! The state of a task, until it is forgotten.
#![forbid(unsafe_code)]

use super::bound::NodeBody;
use super::declared::{DatumName, DeclaredUse, StreamBody};
use super::lanes::Group;
use crate::base::error::{Error, Result};
use crate::base::id::Position;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

/// The number of a task. The tasks of a program are numbered from 1, in the order in which they
/// were submitted.
pub(super) type Number = u64;

/// The conflict for which a task comes after another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Hazard {
    /// It reads bytes that the other one wrote.
    Raw,
    /// It writes bytes that the other one read.
    War,
    /// It writes bytes that the other one wrote.
    Waw,
    /// Both combine a part into the same bytes. Only the combinations run one after the other.
    Reduction,
}

/// How the order of two tasks is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeptBy {
    /// Both are on the same stream.
    SameStream,
    /// The stream had waited before for the other task, or for a later operation of the stream of
    /// the other task.
    Implied,
    /// The other task was known to be complete.
    Complete,
    /// The stream waits for the other task.
    Waits,
    /// The task was held back until the other one, which runs on the host, was complete.
    HeldBack,
    /// Both are in one graph, which has an edge between their operations.
    Graph,
    /// Both are nodes of one run of workers, in which the later one waits for the earlier one.
    Workers,
    /// The task runs on the host, on a thread that waits for the other task.
    HostWaits,
}

/// The fact that a task comes after another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TaskEdge {
    pub(super) from: Number,
    pub(super) datum: u32,
    pub(super) range: Range<u64>,
    pub(super) hazard: Hazard,
    /// `None` until the task is issued.
    pub(super) kept_by: Option<KeptBy>,
}

/// A function that computes on a thread of the host.
pub(super) type HostBody = Box<dyn FnOnce() -> Result<()> + Send>;

/// The function of a task.
pub(super) enum TaskBody {
    Stream(StreamBody),
    Node(NodeBody),
    Host(HostBody),
}

/// The progress of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskProgress {
    /// Earlier tasks hold it back.
    Blocked,
    /// It may be issued.
    Ready,
    /// Its function runs.
    Running,
    /// Its work is enqueued, or complete if it ran on the host; or it failed.
    Over,
}

/// The reason why a task has no result.
#[derive(Debug)]
pub(super) struct Failure {
    /// The task that failed first.
    pub(super) culprit: Number,
    pub(super) name: Name,
    pub(super) error: Error,
}

/// The name of a task.
pub(super) type Name = Cow<'static, str>;
/// The name of a task to which the program gives none.
pub(super) const UNNAMED: &str = "task";

/// A task that is submitted.
pub(super) struct New {
    pub(super) name: Name,
    pub(super) site: &'static Location<'static>,
    pub(super) is_urgent: bool,
    /// The device.
    pub(super) place: usize,
    /// The tasks with which it shares streams.
    pub(super) group: Group,
    pub(super) body: TaskBody,
}

impl New {
    /// The data of its program, if it is a task for workers.
    pub(super) fn bound(&self) -> &[DeclaredUse] {
        if let TaskBody::Node(node) = &self.body { node.bound.data.all() } else { &[] }
    }
}

/// The state of a task.
pub(super) struct TaskState {
    pub(super) name: Name,
    pub(super) site: &'static Location<'static>,
    pub(super) progress: TaskProgress,
    /// Whether it runs on the host.
    pub(super) is_host: bool,
    pub(super) is_urgent: bool,
    /// Whether it is a copy between devices that no call asked for.
    pub(super) is_transfer: bool,
    /// Its device, and the tasks with which it shares streams.
    pub(super) serves: (usize, Group),
    pub(super) is_cancelled: bool,
    pub(super) body: Option<TaskBody>,
    /// The region that it is held back for.
    pub(super) region: Option<u64>,
    /// The number of earlier tasks that hold it back.
    pub(super) blockers: u32,
    /// Later tasks that it holds back, and whether each of them reads bytes that it writes.
    pub(super) successors: SmallVec<[(Number, bool); 4]>,
    pub(super) edges: SmallVec<[TaskEdge; 3]>,
    /// The stream on which it was issued, and its last operation there.
    pub(super) lane: Option<usize>,
    pub(super) end: Option<Position>,
    pub(super) failure: Option<Arc<Failure>>,
    /// The data that it uses.
    pub(super) data: SmallVec<[u32; 3]>,
}

impl Hazard {
    /// Whether the later task needs values that the earlier one wrote.
    pub(super) fn reads(self) -> bool {
        matches!(self, Self::Raw | Self::Reduction)
    }
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raw => "reads what it wrote",
            Self::War => "writes what it read",
            Self::Waw => "writes what it wrote",
            Self::Reduction => "combines into the same elements",
        })
    }
}

impl fmt::Display for KeptBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SameStream => "they are on one stream",
            Self::Implied => "an earlier wait of its stream implies it",
            Self::Complete => "the earlier one was complete",
            Self::Waits => "its stream waits",
            Self::HeldBack => "it was held back until the earlier one was complete",
            Self::Workers => "an edge of their run of workers orders them",
            Self::Graph => "an edge of their graph orders them",
            Self::HostWaits => "its thread waits",
        })
    }
}

/// Bytes that a task wrote although it had declared to read them.
pub(super) struct WrongRead {
    /// Where the task was submitted.
    pub(super) site: &'static Location<'static>,
    pub(super) datum: DatumName,
    pub(super) bytes: Range<usize>,
}
