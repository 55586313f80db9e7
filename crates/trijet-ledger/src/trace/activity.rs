//! Activities of a program, as CUPTI reports them: operations of the GPU and calls of the host,
//! each with its times. The program need not use this library.
//!
//! CUPTI reports when an operation ran and on which stream, but not which bytes a kernel accessed.
//! So such a trace suffices for a timeline and for costs, but not for a check for hazards.
#![forbid(unsafe_code)]

use crate::base::ledger::{Engine, StreamClass};
use crate::base::units::Nanos;
use std::collections::BTreeMap;

/// The memory at one end of a copy, as CUPTI reports it. Programs that do not use this library also
/// copy arrays and managed memory, for which a ledger has no [`Place`](crate::base::ledger::Place).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// CUPTI did not report the kind.
    Unknown,
    /// Pageable host memory; the driver stages its copies.
    Pageable,
    /// Page-locked host memory.
    Pinned,
    /// Linear device memory.
    Device,
    /// An array on a device.
    Array,
    /// Managed memory, which the driver moves between host and device.
    Managed,
}

/// The direction of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CopyDirection {
    /// CUPTI did not report the direction.
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

/// The kind of a synchronization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SyncKind {
    /// CUPTI did not report the kind.
    Unknown,
    /// The host waits for an event.
    Event,
    /// A stream waits for an event. The host does not wait.
    StreamWait,
    /// The host waits for a stream.
    Stream,
    /// The host waits for all work of a context.
    Context,
}

/// The cause of an overhead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OverheadKind {
    /// CUPTI did not report the cause.
    Unknown,
    /// Compiling kernels, a cost of the program.
    Compiler,
    /// Delivering CUPTI's records, a cost of tracing.
    Flush,
    /// Instrumenting calls and kernels, a cost of tracing.
    Instrumentation,
    /// Managing CUPTI's resources, a cost of tracing.
    Resource,
    /// Loading a module at its first use, a cost of the program.
    ModuleLoading,
    /// Loading a kernel at its first use, a cost of the program.
    LazyLoading,
    /// Waiting for space in the command buffer, a cost of the program.
    CommandBufferFull,
    /// Requesting a buffer for CUPTI's records, a cost of tracing.
    BufferRequest,
}

impl OverheadKind {
    /// Whether tracing causes the overhead: without tracing, the program would not spend this time.
    #[must_use]
    pub fn is_caused_by_tracing(self) -> bool {
        matches!(self, Self::Flush | Self::Instrumentation | Self::Resource | Self::BufferRequest)
    }
}

/// The API that a call belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Api {
    /// The CUDA runtime; the names of its functions start with `cuda`.
    Runtime,
    /// The CUDA driver; the names of its functions start with `cu`.
    Driver,
}

/// The part of a named range that a mark stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MarkKind {
    /// The start of a range.
    Start,
    /// The end of the range whose start has the same correlation number.
    End,
    /// A moment that the program named.
    Moment,
}

/// The kind of an activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ActivityKind {
    /// A kernel that ran.
    Kernel,
    /// A copy.
    Copy {
        /// The direction of the copy.
        direction: CopyDirection,
        /// The memory that is read.
        from: MemoryKind,
        /// The memory that is written.
        to: MemoryKind,
    },
    /// A fill.
    Fill,
    /// A wait of the host or of a stream.
    Sync(SyncKind),
    /// A call of the host.
    Call(Api),
    /// Time that the driver or the tracing spent outside of the program's calls and operations.
    Overhead(OverheadKind),
    /// A mark that the program set with NVTX.
    Mark(MarkKind),
}

/// The name of an activity, as an index into [`ProcessTrace::names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NameId(pub u32);

/// The node of a CUDA graph that an operation is a run of, as an index into
/// [`ProcessTrace::nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GraphNodeId(pub u32);

/// One operation of the GPU, one call of the host, or one overhead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// The kind of the activity.
    pub kind: ActivityKind,
    /// The start, on the clock of the trace, as CUPTI reported it. CUPTI may report a wrong start.
    pub begin: Nanos,
    /// The end, on the clock of the trace; 0 if the operation was unfinished when the trace ended.
    /// A wrong end may lie before the start.
    pub end: Nanos,
    /// The number of bytes that were copied or filled.
    pub bytes: u64,
    /// The name of the kernel, of the called function, or of the range that a mark starts.
    pub name: Option<NameId>,
    /// The device of an operation.
    pub device: u32,
    /// The context of an operation or a wait.
    pub context: u32,
    /// The stream of an operation or a wait, as CUPTI numbers it.
    pub stream: u32,
    /// The host thread of a call or a mark, as the operating system numbers it.
    pub thread: u32,
    /// A number that an operation shares with the call that enqueued it, and the end of a range
    /// with the start of the range.
    pub correlation: u32,
    /// The node of a graph that launched the operation; `None` for an operation outside of graphs.
    pub node: Option<GraphNodeId>,
}

impl Activity {
    /// The engine that executed the activity; `None` for an activity of the host.
    #[must_use]
    pub fn engine(&self) -> Option<Engine> {
        match self.kind {
            ActivityKind::Kernel | ActivityKind::Fill => Some(Engine::Compute),
            ActivityKind::Copy { direction, .. } => match direction {
                CopyDirection::Upload => Some(Engine::Upload),
                CopyDirection::Download => Some(Engine::Download),
                CopyDirection::Peer => Some(Engine::Peer),
                CopyDirection::Within | CopyDirection::Unknown => Some(Engine::Compute),
                CopyDirection::Host => Some(Engine::Host),
            },
            ActivityKind::Sync(_)
            | ActivityKind::Call(_)
            | ActivityKind::Overhead(_)
            | ActivityKind::Mark(_) => None,
        }
    }
}

/// An allocation of memory by the program, or a free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// Whether memory was allocated or freed.
    pub what: AllocationKind,
    /// The kind of the memory.
    pub memory: MemoryKind,
    /// Whether the allocation or the free is stream-ordered.
    pub in_order: bool,
    /// The device that CUPTI reports for the call.
    pub device: u32,
    /// The context of the stream.
    pub context: u32,
    /// The stream of the allocation or the free, as CUPTI numbers it.
    pub stream: u32,
    /// The number that the allocation or the free shares with its call.
    pub correlation: u32,
    /// The address of the memory.
    pub address: u64,
    /// The size of the memory in bytes.
    pub bytes: u64,
    /// The time of the call, on the clock of the trace.
    pub at: Nanos,
}

/// An allocation or a free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AllocationKind {
    /// An allocation.
    Allocate,
    /// A free.
    Free,
}

/// A node of a CUDA graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GraphNode {
    /// The number of the graph, as CUPTI numbers instantiated graphs.
    pub graph: u32,
    /// The number of the node; `None` for a launch of the graph that was recorded as a whole.
    pub node: Option<u64>,
}

/// An edge between two nodes of a CUDA graph that was instantiated. A node of an edge need not have
/// operations: an empty node and a host node have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphEdge {
    /// The number of the graph, as CUPTI numbers it.
    pub graph: u32,
    /// The number of the earlier node.
    pub from: u64,
    /// The number of the node that follows it.
    pub to: u64,
}

/// A use of a CUDA event by a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventUse {
    /// The kind of the use.
    pub what: EventUseKind,
    /// The context of the stream.
    pub context: u32,
    /// The stream, as CUPTI numbers it.
    pub stream: u32,
    /// The number that the use shares with its call.
    pub correlation: u32,
    /// The number of the event. A program may record an event many times.
    pub event: u32,
    /// A number that the waits for a record of an event share with this record; `None` if CUPTI did
    /// not report it.
    pub sync: Option<u64>,
    /// The start of a wait's call, on the clock of the trace; 0 for a record.
    pub at: Nanos,
}

/// The kind of a use of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventUseKind {
    /// A stream records the event.
    Record,
    /// A stream waits for the event.
    Wait,
}

/// A sample of the environment of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnvironmentSample {
    /// The number of the device.
    pub device: u32,
    /// The time of the sample, on the clock of the trace.
    pub at: Nanos,
    /// The measured values.
    pub of: SampleOf,
}

/// The values of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleOf {
    /// The clocks.
    Clocks {
        /// The clock of the multiprocessors in MHz.
        sm: u32,
        /// The clock of the memory in MHz.
        memory: u32,
        /// The reasons why clocks are low: the bits of `CUpti_EnvironmentClocksThrottleReason`.
        reasons: u32,
    },
    /// The temperature in degrees Celsius.
    Temperature(u32),
    /// The power.
    Power {
        /// The power in milliwatts.
        power: u32,
        /// The power at which the device lowers its clocks, in milliwatts.
        limit: u32,
    },
    /// The speed of the fan in percent.
    Fan(u32),
}

/// A CUDA context of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextInfo {
    /// The number of the context.
    pub context: u32,
    /// The device of the context.
    pub device: u32,
    /// The number of the legacy default stream of the context.
    pub null_stream: u32,
}

/// A stream that the program created while it was traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamInfo {
    /// The context of the stream.
    pub context: u32,
    /// The number of the stream.
    pub stream: u32,
    /// How the stream relates to the legacy stream; `None` if CUPTI did not report it.
    pub class: Option<StreamClass>,
}

/// The totals of a trace, which the tracing library writes when the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct End {
    /// The number of activities that the tracing library wrote.
    pub activities: u64,
    /// The number of CUPTI's records that were lost because its buffers were full.
    pub dropped: u64,
    /// The number of CUPTI's records that the tracing library could not read.
    pub unknown: u64,
    /// The number of buffers that the tracing library did not give to CUPTI because of the limit of
    /// the library.
    pub declined: u64,
    /// The time of the tracing library's own code, which reads CUPTI's records and writes
    /// activities.
    pub own_time: Nanos,
    /// The end of the trace, on the clock of the trace.
    pub at: Nanos,
}

/// The activities of one process.
#[derive(Debug, Clone, Default)]
pub struct ProcessTrace {
    /// The number of the process.
    pub process: u32,
    /// The version that CUPTI states; 0 if CUPTI was not opened.
    pub interface: u32,
    /// The tool that wrote the trace; `None` for the recorder of `trijet trace`.
    pub tool: Option<&'static str>,
    /// The start of the trace, on the clock of the trace.
    pub began: Nanos,
    /// The nanoseconds that the reader added to the times of a file of another tool.
    pub moved: i64,
    /// Whether the file of another tool has the stacks of calls.
    pub has_stacks: bool,
    /// The command line of the process; empty if it is unknown.
    pub command: String,
    /// The rank of the process, as its environment stated it when the process first used CUDA. A
    /// process that inherits the variable from another process has the same rank.
    pub rank: Option<u32>,
    /// The names of kernels and functions, by [`NameId`].
    pub names: Vec<String>,
    /// The contexts of the process.
    pub contexts: Vec<ContextInfo>,
    /// The streams that the process created.
    pub streams: Vec<StreamInfo>,
    /// The names of host threads, by the numbers of the operating system.
    pub threads: BTreeMap<u32, String>,
    /// The activities, in any order.
    pub activities: Vec<Activity>,
    /// The nodes of CUDA graphs, by [`GraphNodeId`].
    pub nodes: Vec<GraphNode>,
    /// The edges of CUDA graphs: all edges of a graph, or none if they are unknown.
    pub edges: Vec<GraphEdge>,
    /// The allocations and frees, in any order.
    pub allocations: Vec<Allocation>,
    /// The uses of events by streams, in any order.
    pub events: Vec<EventUse>,
    /// The samples of the environment, in any order.
    pub samples: Vec<EnvironmentSample>,
    /// The number of activities that the reader left out because of its limit.
    pub left_out: u64,
    /// The reasons why the process, or a part of it, could not be traced.
    pub troubles: Vec<String>,
    /// Facts about the tracing that a reader of the trace should know.
    pub notes: Vec<String>,
    /// The totals; `None` if the process ended without running its exit handlers.
    pub end: Option<End>,
}

impl ProcessTrace {
    /// The name of an activity; empty if it has none.
    #[must_use]
    pub fn name(&self, activity: &Activity) -> &str {
        let index = activity.name.and_then(|name| usize::try_from(name.0).ok());
        index.and_then(|index| self.names.get(index)).map_or("", String::as_str)
    }

    /// The node of a graph that an operation is a run of. `None` for an operation outside of
    /// graphs.
    #[must_use]
    pub fn node(&self, operation: &Activity) -> Option<GraphNode> {
        let index = usize::try_from(operation.node?.0).ok()?;
        self.nodes.get(index).copied()
    }

    /// The name of a host thread. `None` if it is unknown.
    #[must_use]
    pub fn thread_name(&self, thread: u32) -> Option<&str> {
        self.threads.get(&thread).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_overheads_are_caused_by_tracing() {
        let own = [
            OverheadKind::Flush,
            OverheadKind::Instrumentation,
            OverheadKind::Resource,
            OverheadKind::BufferRequest,
        ];
        assert!(own.iter().all(|kind| kind.is_caused_by_tracing()));
        for kind in [OverheadKind::LazyLoading, OverheadKind::Compiler, OverheadKind::Unknown] {
            assert!(!kind.is_caused_by_tracing(), "{kind:?}");
        }
    }
}
