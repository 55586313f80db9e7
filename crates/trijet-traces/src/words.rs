//! The names that Kineto gives to copies, waits and overheads.

use trijet_ledger::trace::activity::{CopyDirection, MemoryKind, OverheadKind, SyncKind};

/// The directions of copies. Kineto has further names for copies of arrays.
const DIRECTIONS: [(&str, CopyDirection); 10] = [
    ("HtoD", CopyDirection::Upload),
    ("HtoA", CopyDirection::Upload),
    ("DtoH", CopyDirection::Download),
    ("AtoH", CopyDirection::Download),
    ("DtoD", CopyDirection::Within),
    ("AtoA", CopyDirection::Within),
    ("AtoD", CopyDirection::Within),
    ("DtoA", CopyDirection::Within),
    ("PtoP", CopyDirection::Peer),
    ("HtoH", CopyDirection::Host),
];

const MEMORIES: [(&str, MemoryKind); 5] = [
    ("Pageable", MemoryKind::Pageable),
    ("Pinned", MemoryKind::Pinned),
    ("Device", MemoryKind::Device),
    ("Array", MemoryKind::Array),
    ("Managed", MemoryKind::Managed),
];

const WAITS: [(&str, SyncKind); 4] = [
    ("Stream Wait Event", SyncKind::StreamWait),
    ("Event Sync", SyncKind::Event),
    ("Stream Sync", SyncKind::Stream),
    ("Context Sync", SyncKind::Context),
];

const OVERHEADS: [(&str, OverheadKind); 8] = [
    ("Compiler", OverheadKind::Compiler),
    ("Buffer Flush", OverheadKind::Flush),
    ("Instrumentation", OverheadKind::Instrumentation),
    ("Resource", OverheadKind::Resource),
    ("Runtime Triggered Module Loading", OverheadKind::ModuleLoading),
    ("Lazy Function Loading", OverheadKind::LazyLoading),
    ("Command Buffer Full", OverheadKind::CommandBufferFull),
    ("Activity Buffer Request", OverheadKind::BufferRequest),
];

/// The value with a name.
fn named<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(one, _)| *one == name).map(|(_, value)| *value)
}

/// The first name of a value.
fn name_of<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    table.iter().find(|(_, one)| one == value).map_or("Unknown", |(name, _)| name)
}

/// The direction in the name of a copy, such as `Memcpy HtoD (Pinned -> Device)`.
pub(crate) fn direction(name: &str) -> CopyDirection {
    let word = name.split(' ').nth(1).unwrap_or_default();
    named(&DIRECTIONS, word).unwrap_or(CopyDirection::Unknown)
}

/// The kinds of memory in the name of a copy: of its source and of its target.
pub(crate) fn memories(name: &str) -> (MemoryKind, MemoryKind) {
    let inside = name.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    let sides = inside.and_then(|(inside, _)| inside.split_once(" -> "));
    let kind = |text| named(&MEMORIES, text).unwrap_or(MemoryKind::Unknown);
    sides.map_or((MemoryKind::Unknown, MemoryKind::Unknown), |(from, to)| (kind(from), kind(to)))
}

/// The name of a copy.
pub(crate) fn copy_name(direction: CopyDirection, from: MemoryKind, to: MemoryKind) -> String {
    let memory = |kind| name_of(&MEMORIES, &kind);
    format!("Memcpy {} ({} -> {})", name_of(&DIRECTIONS, &direction), memory(from), memory(to))
}

pub(crate) fn wait(name: &str) -> SyncKind {
    named(&WAITS, name).unwrap_or(SyncKind::Unknown)
}

pub(crate) fn wait_name(kind: SyncKind) -> &'static str {
    name_of(&WAITS, &kind)
}

pub(crate) fn overhead(name: &str) -> OverheadKind {
    named(&OVERHEADS, name).unwrap_or(OverheadKind::Unknown)
}

pub(crate) fn overhead_name(kind: OverheadKind) -> &'static str {
    name_of(&OVERHEADS, &kind)
}
