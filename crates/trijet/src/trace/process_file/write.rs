//! The writer of a trace file of processes: functions that append one block each to a vector.
//!
//! They allocate nothing but the growth of the vector, which the tracing library uses again.
#![deny(clippy::wildcard_enum_match_arm)]
#![forbid(unsafe_code)]

use super::format::{
    ACTIVITY, CONTEXT, END, HEADER, MAGIC, NAME, NAME_BYTES_MAX, NO_NAME, STREAM, TROUBLE, VERSION,
};
use crate::base::ledger::StreamClass;
use crate::base::units::Nanos;
use crate::trace::activity::{
    Activity, ActivityKind, Api, ContextInfo, Direction, End, Memory, NameId, OverheadKind,
    StreamInfo, SyncKind,
};

/// Appends the head of a block whose payload will have `length` bytes.
fn start(out: &mut Vec<u8>, tag: u8, length: usize) {
    let length = u16::try_from(length).expect("no payload is longer than its limit");
    out.extend([tag, 0]);
    out.extend(length.to_le_bytes());
}

/// Begins the trace of a process. `interface` is the version of CUPTI.
pub fn header(out: &mut Vec<u8>, process: u32, interface: u32, began: Nanos) {
    start(out, HEADER.0, HEADER.1);
    out.extend(MAGIC);
    for word in [VERSION, process, interface, 0] {
        out.extend(word.to_le_bytes());
    }
    out.extend(began.0.to_le_bytes());
}

/// Appends the name with the number `id`. The first name has the number 0, and each further name
/// the next number. A name of more than [`NAME_BYTES_MAX`] bytes is cut.
pub fn name(out: &mut Vec<u8>, id: NameId, text: &[u8]) {
    let text = &text[..text.len().min(NAME_BYTES_MAX)];
    start(out, NAME, 4 + text.len());
    out.extend(id.0.to_le_bytes());
    out.extend(text);
}

/// Appends a context.
pub fn context(out: &mut Vec<u8>, info: &ContextInfo) {
    start(out, CONTEXT.0, CONTEXT.1);
    for word in [info.context, info.device, info.null_stream] {
        out.extend(word.to_le_bytes());
    }
}

/// Appends a stream.
pub fn stream(out: &mut Vec<u8>, info: &StreamInfo) {
    start(out, STREAM.0, STREAM.1);
    let class: u32 = match info.class {
        None => 0,
        Some(StreamClass::Blocking) => 1,
        Some(StreamClass::NonBlocking) => 2,
        Some(StreamClass::Legacy) => 3,
        Some(StreamClass::PerThread) => 4,
    };
    for word in [info.context, info.stream, class] {
        out.extend(word.to_le_bytes());
    }
}

/// Appends an activity.
pub fn activity(out: &mut Vec<u8>, one: &Activity) {
    start(out, ACTIVITY.0, ACTIVITY.1);
    let (kind, a, b, c) = code(one.kind);
    out.extend([kind, a, b, c, 0, 0, 0, 0]);
    let name = one.name.map_or(NO_NAME, |name| name.0);
    for word in [one.device, one.context, one.stream, one.thread, one.correlation, name] {
        out.extend(word.to_le_bytes());
    }
    for word in [one.bytes, one.begin.0, one.end.0] {
        out.extend(word.to_le_bytes());
    }
}

/// A kind as four bytes, which `read::kind` decodes.
fn code(kind: ActivityKind) -> (u8, u8, u8, u8) {
    match kind {
        ActivityKind::Kernel => (1, 0, 0, 0),
        ActivityKind::Copy { direction, from, to } => {
            let way = match direction {
                Direction::Unknown => 0,
                Direction::Upload => 1,
                Direction::Download => 2,
                Direction::Within => 3,
                Direction::Peer => 4,
                Direction::Host => 5,
            };
            (2, way, memory(from), memory(to))
        }
        ActivityKind::Fill => (3, 0, 0, 0),
        ActivityKind::Sync(kind) => {
            let kind = match kind {
                SyncKind::Unknown => 0,
                SyncKind::Event => 1,
                SyncKind::StreamWait => 2,
                SyncKind::Stream => 3,
                SyncKind::Context => 4,
            };
            (4, kind, 0, 0)
        }
        ActivityKind::Call(Api::Runtime) => (5, 0, 0, 0),
        ActivityKind::Call(Api::Driver) => (5, 1, 0, 0),
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
            (6, kind, 0, 0)
        }
    }
}

fn memory(kind: Memory) -> u8 {
    match kind {
        Memory::Unknown => 0,
        Memory::Pageable => 1,
        Memory::Pinned => 2,
        Memory::Device => 3,
        Memory::Array => 4,
        Memory::Managed => 5,
    }
}

/// Appends the reason why the process, or a part of it, was not traced. A text of more than
/// [`NAME_BYTES_MAX`] bytes is cut.
pub fn trouble(out: &mut Vec<u8>, text: &str) {
    let mut length = text.len().min(NAME_BYTES_MAX);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    start(out, TROUBLE, length);
    out.extend(&text.as_bytes()[..length]);
}

/// Ends the trace of a process.
pub fn end(out: &mut Vec<u8>, totals: &End) {
    start(out, END.0, END.1);
    let End { activities, dropped, unknown, declined, own_time, at } = *totals;
    let words = [activities, dropped, unknown, declined, own_time.0, at.0];
    for word in words {
        out.extend(word.to_le_bytes());
    }
}
