//! The writer of a trace file of processes: functions that append one block each to a vector.
#![deny(clippy::wildcard_enum_match_arm)]
#![forbid(unsafe_code)]

use crate::base::ledger::StreamClass;
use crate::base::units::Nanos;
use crate::trace::activity::{
    Activity, ActivityKind, Allocation, AllocationKind, Api, ContextInfo, CopyDirection, End,
    EnvironmentSample, EventUse, EventUseKind, GraphEdge, GraphNode, GraphNodeId, MarkKind,
    MemoryKind, NameId, OverheadKind, SampleOf, StreamInfo, SyncKind,
};
use trijet_cupti::file::{
    self, Allocated, NO_NAME, NO_SYNC, Row, Totals, event, kind, mark, sample as values,
};

pub use trijet_cupti::file::{command, note, rank, trouble};

/// Begins the trace of a process. `interface` is the version of CUPTI.
pub fn header(out: &mut Vec<u8>, process: u32, interface: u32, began: Nanos) {
    file::header(out, process, interface, began.0);
}

/// Appends the name with the number `id`. The first name has the number 0, and each further name
/// the next number. A name of more than 4096 bytes is cut.
pub fn name(out: &mut Vec<u8>, id: NameId, text: &[u8]) {
    file::name(out, id.0, text);
}

/// Appends a context.
pub fn context(out: &mut Vec<u8>, info: &ContextInfo) {
    file::context(out, info.context, info.device, info.null_stream);
}

/// Appends a stream.
pub fn stream(out: &mut Vec<u8>, info: &StreamInfo) {
    let class = match info.class {
        None => 0,
        Some(StreamClass::Blocking) => 1,
        Some(StreamClass::NonBlocking) => 2,
        Some(StreamClass::Legacy) => 3,
        Some(StreamClass::PerThread) => 4,
    };
    file::stream(out, info.context, info.stream, class);
}

/// Appends an activity.
pub fn activity(out: &mut Vec<u8>, one: &Activity) {
    let row = Row {
        kind: code(one.kind),
        device: one.device,
        context: one.context,
        stream: one.stream,
        thread: one.thread,
        correlation: one.correlation,
        name: one.name.map_or(NO_NAME, |name| name.0),
        node: one.node.map_or(0, |node| node.0.saturating_add(1)),
        bytes: one.bytes,
        begin: one.begin.0,
        end: one.end.0,
    };
    file::activity(out, &row);
}

/// Appends an allocation or a free.
pub fn allocation(out: &mut Vec<u8>, one: &Allocation) {
    let allocated = Allocated {
        what: match one.what {
            AllocationKind::Allocate => 1,
            AllocationKind::Free => 2,
        },
        memory: memory(one.memory),
        in_order: one.in_order,
        device: one.device,
        context: one.context,
        stream: one.stream,
        correlation: one.correlation,
        address: one.address,
        bytes: one.bytes,
        at: one.at.0,
    };
    file::allocation(out, &allocated);
}

/// Appends the node with the number `id`. The first node has the number 0, and each further node
/// the next number.
pub fn node(out: &mut Vec<u8>, id: GraphNodeId, node: &GraphNode) {
    let of = file::GraphNode { graph: node.graph, node: node.node.unwrap_or(0) };
    file::node(out, id.0, of);
}

/// Appends an edge of a graph.
pub fn edge(out: &mut Vec<u8>, one: &GraphEdge) {
    let GraphEdge { graph, from, to } = *one;
    file::edge(out, file::GraphEdge { graph, from, to });
}

/// Appends a use of an event.
pub fn event_use(out: &mut Vec<u8>, one: &EventUse) {
    let of_event = file::EventUse {
        what: match one.what {
            EventUseKind::Record => event::RECORD,
            EventUseKind::Wait => event::WAIT,
        },
        context: one.context,
        stream: one.stream,
        correlation: one.correlation,
        event: one.event,
        sync: one.sync.unwrap_or(NO_SYNC),
        at: one.at.0,
    };
    file::event_use(out, &of_event);
}

/// Appends a sample of the environment.
pub fn sample(out: &mut Vec<u8>, one: &EnvironmentSample) {
    let (what, values) = match one.of {
        SampleOf::Clocks { sm, memory, reasons } => (values::CLOCKS, [sm, memory, reasons]),
        SampleOf::Temperature(degrees) => (values::TEMPERATURE, [degrees, 0, 0]),
        SampleOf::Power { power, limit } => (values::POWER, [power, limit, 0]),
        SampleOf::Fan(percent) => (values::FAN, [percent, 0, 0]),
    };
    file::sample(out, &file::Sample { what, device: one.device, at: one.at.0, values });
}

/// The kind as four bytes. `read::kind` decodes them.
fn code(kind: ActivityKind) -> [u8; 4] {
    match kind {
        ActivityKind::Kernel => [kind::KERNEL, 0, 0, 0],
        ActivityKind::Copy { direction, from, to } => {
            let way = match direction {
                CopyDirection::Unknown => 0,
                CopyDirection::Upload => 1,
                CopyDirection::Download => 2,
                CopyDirection::Within => 3,
                CopyDirection::Peer => 4,
                CopyDirection::Host => 5,
            };
            [kind::COPY, way, memory(from), memory(to)]
        }
        ActivityKind::Fill => [kind::FILL, 0, 0, 0],
        ActivityKind::Sync(kind) => {
            let kind = match kind {
                SyncKind::Unknown => 0,
                SyncKind::Event => 1,
                SyncKind::StreamWait => 2,
                SyncKind::Stream => 3,
                SyncKind::Context => 4,
            };
            [kind::SYNC, kind, 0, 0]
        }
        ActivityKind::Call(Api::Runtime) => [kind::CALL, 0, 0, 0],
        ActivityKind::Call(Api::Driver) => [kind::CALL, 1, 0, 0],
        ActivityKind::Overhead(kind) => {
            let kind = match kind {
                OverheadKind::Unknown => 0,
                OverheadKind::Compiler => 1,
                OverheadKind::Flush => 2,
                OverheadKind::Instrumentation => 3,
                OverheadKind::Resource => 4,
                OverheadKind::ModuleLoading => 5,
                OverheadKind::LazyLoading => 6,
                OverheadKind::CommandBufferFull => 7,
                OverheadKind::BufferRequest => 8,
            };
            [kind::OVERHEAD, kind, 0, 0]
        }
        ActivityKind::Mark(part) => {
            let part = match part {
                MarkKind::Start => mark::START,
                MarkKind::End => mark::END,
                MarkKind::Moment => mark::MOMENT,
            };
            [kind::MARK, part, 0, 0]
        }
    }
}

fn memory(kind: MemoryKind) -> u8 {
    match kind {
        MemoryKind::Unknown => 0,
        MemoryKind::Pageable => 1,
        MemoryKind::Pinned => 2,
        MemoryKind::Device => 3,
        MemoryKind::Array => 4,
        MemoryKind::Managed => 5,
    }
}

/// Ends the trace of a process.
pub fn end(out: &mut Vec<u8>, totals: &End) {
    let End { activities, dropped, unknown, declined, own_time, at } = *totals;
    let (own_time, at) = (own_time.0, at.0);
    file::end(out, &Totals { activities, dropped, unknown, declined, own_time, at });
}
