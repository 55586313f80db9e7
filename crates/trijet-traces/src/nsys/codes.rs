//! The numbers that an export has for kinds. Each kind has a table with its numbers and labels; the
//! numbers differ between versions, so a number means what the table of the file states. Without a
//! table, the documented numbers hold.

use super::database::Database;
use crate::TraceError;
use std::collections::HashMap;
use trijet_ledger::base::ledger::StreamClass;
use trijet_ledger::trace::activity::{CopyDirection, MarkKind, MemoryKind, OverheadKind, SyncKind};

/// Maximum number of rows of a table of labels that are kept.
const LABELS_MAX: usize = 4096;

/// The values of the numbers of one kind.
#[derive(Debug)]
pub(super) struct Codes<T>(HashMap<i64, T>);

impl<T: Copy> Codes<T> {
    /// The codes of a table with labels; the given ones if the file has no such table. `value` gets
    /// name and label in lower case.
    fn of(
        database: &Database,
        table: &str,
        documented: &[(i64, T)],
        value: impl Fn(&str) -> Option<T>,
    ) -> Result<Self, TraceError> {
        let mut codes = HashMap::new();
        database.rows(table, &["id", "name", "label"], |row| {
            let words = [row.text(1), row.text(2)].map(Option::unwrap_or_default).join(" ");
            let value = value(&words.to_lowercase());
            if let (Some(number), Some(value)) = (row.number(0), value)
                && codes.len() < LABELS_MAX
            {
                codes.insert(number, value);
            }
            Ok(())
        })?;
        if codes.is_empty() {
            codes.extend(documented.iter().copied());
        }
        Ok(Self(codes))
    }

    /// The value of a number.
    pub(super) fn value(&self, number: Option<i64>) -> Option<T> {
        self.0.get(&number?).copied()
    }
}

/// The value of the first words that a label has.
fn first<T: Copy>(label: &str, table: &[(&str, T)]) -> Option<T> {
    table.iter().find(|(words, _)| label.contains(words)).map(|(_, value)| *value)
}

/// Directions of copies, by the end of their names. Arrays are memory of a device.
const DIRECTIONS: [(&str, CopyDirection); 10] = [
    ("htod", CopyDirection::Upload),
    ("htoa", CopyDirection::Upload),
    ("dtoh", CopyDirection::Download),
    ("atoh", CopyDirection::Download),
    ("dtod", CopyDirection::Within),
    ("atoa", CopyDirection::Within),
    ("atod", CopyDirection::Within),
    ("dtoa", CopyDirection::Within),
    ("ptop", CopyDirection::Peer),
    ("htoh", CopyDirection::Host),
];

pub(super) fn directions(database: &Database) -> Result<Codes<CopyDirection>, TraceError> {
    use CopyDirection::{Download, Host, Peer, Upload, Within};
    let documented = [
        (1, Upload),
        (2, Download),
        (3, Upload),
        (4, Download),
        (5, Within),
        (6, Within),
        (7, Within),
        (8, Within),
        (9, Host),
        (10, Peer),
        (11, Upload),
        (12, Download),
        (13, Within),
    ];
    Codes::of(database, "ENUM_CUDA_MEMCPY_OPER", &documented, |label| first(label, &DIRECTIONS))
}

pub(super) fn memories(database: &Database) -> Result<Codes<MemoryKind>, TraceError> {
    use MemoryKind::{Array, Device, Managed, Pageable, Pinned};
    let documented = [
        (0, Pageable),
        (1, Pinned),
        (2, Device),
        (3, Array),
        (4, Managed),
        (5, Device),
        (6, Managed),
    ];
    let words = [
        ("pageable", Pageable),
        ("pinned", Pinned),
        ("managed", Managed),
        ("array", Array),
        ("device", Device),
    ];
    Codes::of(database, "ENUM_CUDA_MEM_KIND", &documented, |label| first(label, &words))
}

pub(super) fn waits(database: &Database) -> Result<Codes<SyncKind>, TraceError> {
    use SyncKind::{Context, Event, Stream, StreamWait};
    let documented = [(1, Event), (2, StreamWait), (3, Stream), (4, Context)];
    let words = [
        ("stream_wait", StreamWait),
        ("stream wait", StreamWait),
        ("event", Event),
        ("stream", Stream),
        ("context", Context),
    ];
    Codes::of(database, "ENUM_CUPTI_SYNC_TYPE", &documented, |label| first(label, &words))
}

/// Whether an event of NVTX is a range or a moment. Other events name threads and domains.
pub(super) fn marks(database: &Database) -> Result<Codes<MarkKind>, TraceError> {
    use MarkKind::{Moment, Start};
    let documented = [(34, Moment), (59, Start), (60, Start), (70, Start), (71, Start)];
    let words = [("pushpoprange", Start), ("startendrange", Start), ("nvtxmark", Moment)];
    Codes::of(database, "ENUM_NSYS_EVENT_TYPE", &documented, |label| first(label, &words))
}

pub(super) fn classes(database: &Database) -> Result<Codes<StreamClass>, TraceError> {
    use StreamClass::{Blocking, Legacy, NonBlocking};
    let documented = [(1, Blocking), (2, NonBlocking), (3, Legacy)];
    let words = [
        ("non_blocking", NonBlocking),
        ("non-blocking", NonBlocking),
        ("nonblocking", NonBlocking),
        ("null", Legacy),
        ("default", Blocking),
    ];
    Codes::of(database, "ENUM_CUPTI_STREAM_TYPE", &documented, |label| first(label, &words))
}

/// The cause of an overhead, by the words in its name.
pub(super) fn overhead(name: &str) -> OverheadKind {
    let words = [
        ("flush", OverheadKind::Flush),
        ("instrument", OverheadKind::Instrumentation),
        ("resource", OverheadKind::Resource),
        ("lazy", OverheadKind::LazyLoading),
        ("module load", OverheadKind::ModuleLoading),
        ("compil", OverheadKind::Compiler),
        ("command buffer full", OverheadKind::CommandBufferFull),
        ("buffer request", OverheadKind::BufferRequest),
    ];
    first(&name.to_lowercase(), &words).unwrap_or(OverheadKind::Unknown)
}
