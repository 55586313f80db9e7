//! The state of a task from its submission until it is forgotten.
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

/// The number of a task. Tasks are numbered from 1, in the order of their submission.
pub(super) type Number = u64;

/// The conflict that orders a task after an earlier task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Hazard {
    /// The later task reads bytes that the earlier task wrote.
    Raw,
    /// The later task writes bytes that the earlier task read.
    War,
    /// The later task writes bytes that the earlier task wrote.
    Waw,
    /// The parts of both tasks are combined into the same bytes. Only the combinations run one
    /// after the other.
    Reduction,
}

/// How the order of two tasks is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeptBy {
    /// Both tasks are on the same stream.
    SameStream,
    /// The stream had already waited for the earlier task, or for a later operation on the stream
    /// of the earlier task.
    Implied,
    /// The earlier task was known to be complete.
    Complete,
    /// The stream waits for the earlier task.
    Waits,
    /// The later task was held back until the earlier task, which runs on the host, was over.
    HeldBack,
    /// Both tasks are in one graph, which has an edge between their operations.
    Graph,
    /// Both tasks are nodes of one run of workers. The later node waits for the earlier node.
    Workers,
    /// The later task runs on the host, on a thread that waits for the earlier task.
    HostWaits,
}

/// An order between two tasks, and the bytes that cause it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TaskEdge {
    pub(super) from: Number,
    pub(super) datum: u32,
    pub(super) range: Range<u64>,
    pub(super) hazard: Hazard,
    /// How the order is kept; `None` until the later task is issued.
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
    /// Earlier tasks hold the task back.
    Blocked,
    /// The task may be issued.
    Ready,
    /// The function of the task runs.
    Running,
    /// The function of the task has returned, or the task does not run because it was cancelled or
    /// another task failed.
    Over,
}

/// The reason why a task has no result.
#[derive(Debug)]
pub(super) struct Failure {
    /// The number of the task that failed first.
    pub(super) culprit: Number,
    pub(super) name: Name,
    pub(super) error: Error,
}

/// The name of a task.
pub(super) type Name = Cow<'static, str>;
/// The name of a task that the program does not name.
pub(super) const UNNAMED: &str = "task";

/// A task at its submission.
pub(super) struct New {
    pub(super) name: Name,
    pub(super) site: &'static Location<'static>,
    pub(super) is_urgent: bool,
    /// The number of the task's device among the devices of the tasks.
    pub(super) place: usize,
    /// The group of tasks with which the task shares streams.
    pub(super) group: Group,
    pub(super) body: TaskBody,
}

impl New {
    /// The uses to which the program of the task is bound, if the task is for workers. Empty for
    /// other tasks.
    pub(super) fn bound(&self) -> &[DeclaredUse] {
        if let TaskBody::Node(node) = &self.body { node.bound.data.all() } else { &[] }
    }
}

/// The state of a task.
pub(super) struct TaskState {
    pub(super) name: Name,
    pub(super) site: &'static Location<'static>,
    pub(super) progress: TaskProgress,
    /// Whether the task runs on the host.
    pub(super) is_host: bool,
    pub(super) is_urgent: bool,
    /// Whether the library inserted the task to copy bytes between devices.
    pub(super) is_transfer: bool,
    /// The number of the task's device, and the group of tasks with which the task shares streams.
    pub(super) serves: (usize, Group),
    pub(super) is_cancelled: bool,
    pub(super) body: Option<TaskBody>,
    /// The number of the region that holds the task back, if any.
    pub(super) region: Option<u64>,
    /// The number of earlier tasks that hold the task back.
    pub(super) blockers: u32,
    /// The later tasks that this task holds back. The flag of a later task is true if the later
    /// task reads bytes that this task writes.
    pub(super) successors: SmallVec<[(Number, bool); 4]>,
    pub(super) edges: SmallVec<[TaskEdge; 3]>,
    /// The number of the stream on which the task was issued. `end` is the position of the last
    /// operation of the task on this stream.
    pub(super) lane: Option<usize>,
    pub(super) end: Option<Position>,
    pub(super) failure: Option<Arc<Failure>>,
    /// The numbers of the data that the task uses.
    pub(super) data: SmallVec<[u32; 3]>,
}

impl Hazard {
    /// Whether the later task needs values that the earlier task wrote.
    pub(super) fn reads(self) -> bool {
        matches!(self, Self::Raw | Self::Reduction)
    }
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raw => "reads what the earlier task wrote",
            Self::War => "writes what the earlier task read",
            Self::Waw => "writes what the earlier task wrote",
            Self::Reduction => "combines into the same elements as the earlier task",
        })
    }
}

impl fmt::Display for KeptBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SameStream => "they are on one stream",
            Self::Implied => "an earlier wait of the later task's stream implies this order",
            Self::Complete => "the earlier task was complete",
            Self::Waits => "the stream of the later task waits for the earlier task",
            Self::HeldBack => "the later task was held back until the earlier task was complete",
            Self::Workers => "an edge of a run of workers orders the two tasks",
            Self::Graph => "an edge of a graph orders the two tasks",
            Self::HostWaits => "the thread of the later task waits for the earlier task",
        })
    }
}

/// Bytes that a task wrote although it had declared to read them.
pub(super) struct WrongRead {
    /// The line of the program that submitted the task.
    pub(super) site: &'static Location<'static>,
    pub(super) datum: DatumName,
    pub(super) bytes: Range<usize>,
}
