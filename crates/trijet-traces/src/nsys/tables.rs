//! The tables of an export.

use super::codes;
use super::database::{Database, TableRow};
use super::processes::{Processes, thread};
use crate::TraceError;
use trijet_ledger::base::units::Nanos;
use trijet_ledger::trace::activity::{
    Activity, ActivityKind, Allocation, AllocationKind, Api, ContextInfo, CopyDirection,
    MemoryKind, StreamInfo, SyncKind,
};

/// Maximum number of warnings of the tool that become notes.
const WARNINGS_MAX: usize = 5;
/// Maximum number of threads of a process whose names are kept.
const THREADS_MAX: usize = 1 << 16;
/// The severity of a warning. Errors have a higher one.
const WARNING: i64 = 2;

/// An activity without its times.
fn plain(kind: ActivityKind) -> Activity {
    Activity {
        kind,
        begin: Nanos(0),
        end: Nanos(0),
        bytes: 0,
        name: None,
        device: 0,
        context: 0,
        stream: 0,
        thread: 0,
        correlation: 0,
        node: None,
    }
}

/// The first columns of each table of the device. The third is the process.
const DEVICE: [&str; 7] =
    ["start", "end", "globalPid", "deviceId", "contextId", "streamId", "correlationId"];

/// An activity of the device, from the columns of [`DEVICE`].
fn of_device(kind: ActivityKind, row: &TableRow<'_>) -> Activity {
    Activity {
        device: row.small(3),
        context: row.small(4),
        stream: row.small(5),
        correlation: row.small(6),
        ..plain(kind)
    }
}

/// The columns of a table of the device.
fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    DEVICE.iter().chain(more).copied().collect()
}

fn bytes(value: Option<i64>) -> u64 {
    value.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0)
}

pub(super) fn calls(all: &mut Processes<'_>) -> Result<(), TraceError> {
    let columns = ["start", "end", "globalTid", "nameId", "correlationId"];
    let database = all.database;
    database.rows("CUPTI_ACTIVITY_KIND_RUNTIME", &columns, |row| {
        let global = row.number(2);
        let name = all.name(global, row.number(3))?;
        let text = name.map_or("", |name| all.known_name(global, name));
        let is_of_driver = text
            .strip_prefix("cu")
            .is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_uppercase()));
        let api = if is_of_driver { Api::Driver } else { Api::Runtime };
        let call = Activity {
            name,
            thread: global.map_or(0, thread),
            correlation: row.small(4),
            ..plain(ActivityKind::Call(api))
        };
        all.add(global, call, row);
        Ok(())
    })?;
    all.settle_only();
    Ok(())
}

pub(super) fn kernels(all: &mut Processes<'_>) -> Result<(), TraceError> {
    // The raw name, as other tools have it; older versions have the readable ones only.
    let columns = with(&["mangledName", "demangledName", "shortName"]);
    let database = all.database;
    database.rows("CUPTI_ACTIVITY_KIND_KERNEL", &columns, |row| {
        let global = row.number(2);
        let mut name = None;
        for column in 7..10 {
            if name.is_none() {
                name = all.name(global, row.number(column))?;
            }
        }
        let kernel = Activity { name, ..of_device(ActivityKind::Kernel, row) };
        all.add(global, kernel, row);
        Ok(())
    })
}

/// Launches of graphs that were recorded as a whole. They keep the device busy as a kernel does.
pub(super) fn graphs(all: &mut Processes<'_>) -> Result<(), TraceError> {
    let database = all.database;
    database.rows("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", &DEVICE, |row| {
        let global = row.number(2);
        let name = all.text(global, "a CUDA graph, recorded as a whole");
        all.add(global, Activity { name, ..of_device(ActivityKind::Kernel, row) }, row);
        if let Some(rows) = all.of(global) {
            rows.graphs += 1;
        }
        Ok(())
    })
}

pub(super) fn copies(all: &mut Processes<'_>) -> Result<(), TraceError> {
    let (directions, memories) = (codes::directions(all.database)?, codes::memories(all.database)?);
    let columns = with(&["bytes", "copyKind", "srcKind", "dstKind"]);
    let database = all.database;
    database.rows("CUPTI_ACTIVITY_KIND_MEMCPY", &columns, |row| {
        let memory = |column| memories.value(row.number(column)).unwrap_or(MemoryKind::Unknown);
        let direction = directions.value(row.number(8)).unwrap_or(CopyDirection::Unknown);
        let kind = ActivityKind::Copy { direction, from: memory(9), to: memory(10) };
        let copy = Activity { bytes: bytes(row.number(7)), ..of_device(kind, row) };
        all.add(row.number(2), copy, row);
        Ok(())
    })
}

pub(super) fn fills(all: &mut Processes<'_>) -> Result<(), TraceError> {
    let database = all.database;
    database.rows("CUPTI_ACTIVITY_KIND_MEMSET", &with(&["bytes"]), |row| {
        let fill = Activity { bytes: bytes(row.number(7)), ..of_device(ActivityKind::Fill, row) };
        all.add(row.number(2), fill, row);
        Ok(())
    })
}

pub(super) fn waits(all: &mut Processes<'_>) -> Result<(), TraceError> {
    let kinds = codes::waits(all.database)?;
    let database = all.database;
    database.rows("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", &with(&["syncType"]), |row| {
        let kind = ActivityKind::Sync(kinds.value(row.number(7)).unwrap_or(SyncKind::Unknown));
        all.add(row.number(2), of_device(kind, row), row);
        Ok(())
    })
}

pub(super) fn overheads(all: &mut Processes<'_>) -> Result<(), TraceError> {
    let columns = ["start", "end", "globalTid", "nameId"];
    let database = all.database;
    database.rows("PROFILER_OVERHEAD", &columns, |row| {
        let global = row.number(2);
        let name = all.name(global, row.number(3))?;
        let text = name.map_or("", |name| all.known_name(global, name));
        let kind = ActivityKind::Overhead(codes::overhead(text));
        all.add(global, plain(kind), row);
        Ok(())
    })
}

/// Ranges of NVTX, both of a thread and from one thread to another, and moments.
pub(super) fn marks(all: &mut Processes<'_>) -> Result<(), TraceError> {
    let kinds = codes::marks(all.database)?;
    let columns = ["start", "end", "globalTid", "eventType", "text", "textId"];
    let database = all.database;
    database.rows("NVTX_EVENTS", &columns, |row| {
        let Some(kind) = kinds.value(row.number(3)) else { return Ok(()) };
        let global = row.number(2);
        let name = match row.text(4) {
            Some(text) => all.text(global, &text),
            None => all.name(global, row.number(5))?,
        };
        let thread = global.map_or(0, thread);
        let mark = Activity { name, thread, ..plain(ActivityKind::Mark(kind)) };
        if let Some(rows) = all.of(global) {
            rows.mark(mark, row);
        }
        Ok(())
    })
}

pub(super) fn allocations(all: &mut Processes<'_>) -> Result<(), TraceError> {
    let memories = codes::memories(all.database)?;
    let columns = [
        "start",
        "memoryOperationType",
        "globalPid",
        "deviceId",
        "contextId",
        "streamId",
        "correlationId",
        "address",
        "bytes",
        "memKind",
        "localMemoryPoolAddress",
    ];
    let database = all.database;
    database.rows("CUDA_GPU_MEMORY_USAGE_EVENTS", &columns, |row| {
        let what = match row.number(1) {
            Some(0) => AllocationKind::Allocate,
            Some(1) => AllocationKind::Free,
            _ => return Ok(()),
        };
        let allocation = Allocation {
            what,
            memory: memories.value(row.number(9)).unwrap_or(MemoryKind::Unknown),
            in_order: row.number(10).is_some_and(|pool| pool != 0),
            device: row.small(3),
            context: row.small(4),
            stream: row.small(5),
            correlation: row.small(6),
            address: row.number(7).unwrap_or(0).cast_unsigned(),
            bytes: bytes(row.number(8)),
            at: Nanos(0),
        };
        if let Some(rows) = all.of(row.number(2)) {
            rows.allocation(allocation, row.number(0));
        }
        Ok(())
    })
}

pub(super) fn contexts(all: &mut Processes<'_>) -> Result<(), TraceError> {
    let columns = ["processId", "contextId", "deviceId", "nullStreamId"];
    all.add_infos("TARGET_INFO_CUDA_CONTEXT_INFO", &columns, |rows, row| {
        let (context, device, null_stream) = (row.small(1), row.small(2), row.small(3));
        rows.contexts.push(ContextInfo { context, device, null_stream });
    })
}

pub(super) fn streams(all: &mut Processes<'_>) -> Result<(), TraceError> {
    let classes = codes::classes(all.database)?;
    let columns = ["processId", "contextId", "streamId", "flag"];
    all.add_infos("TARGET_INFO_CUDA_STREAM", &columns, |rows, row| {
        let (context, stream, class) = (row.small(1), row.small(2), classes.value(row.number(3)));
        rows.streams.push(StreamInfo { context, stream, class });
    })
}

/// The names of the processes.
pub(super) fn commands(all: &mut Processes<'_>) -> Result<(), TraceError> {
    let database = all.database;
    database.rows("PROCESSES", &["globalPid", "name"], |row| {
        let (global, name) = (row.number(0), row.text(1));
        if let (Some(rows), Some(name)) = (global.and_then(|global| all.known(global)), name) {
            rows.command = name;
        }
        Ok(())
    })
}

/// The names of the threads of the processes.
pub(super) fn threads(all: &mut Processes<'_>) -> Result<(), TraceError> {
    let database = all.database;
    database.rows("ThreadNames", &["globalTid", "nameId"], |row| {
        let (Some(global), Some(id)) = (row.number(0), row.number(1)) else { return Ok(()) };
        let has_room = all.known(global).is_some_and(|rows| rows.threads.len() < THREADS_MAX);
        if let Some(name) = if has_room { database.string(id)? } else { None }
            && let Some(rows) = all.known(global)
        {
            rows.threads.insert(thread(global), crate::cut(&name));
        }
        Ok(())
    })
}

/// The ranks of processes that use MPI.
pub(super) fn ranks(all: &mut Processes<'_>) -> Result<(), TraceError> {
    let database = all.database;
    database.rows("MPI_RANKS", &["globalTid", "rank"], |row| {
        let rank = row.number(1).and_then(|rank| u32::try_from(rank).ok());
        if let Some(rows) = row.number(0).and_then(|global| all.known(global)) {
            rows.rank = rank;
        }
        Ok(())
    })
}

/// The time at which the clock of the file began, in nanoseconds since 1970.
pub(super) fn session_start(database: &Database) -> Result<Option<i64>, TraceError> {
    let mut start = None;
    database.rows("TARGET_INFO_SESSION_START_TIME", &["utcEpochNs"], |row| {
        start = row.number(0).filter(|time| *time > 0);
        Ok(())
    })?;
    Ok(start)
}

/// The warnings and errors of the tool about its own recording.
pub(super) fn warnings(database: &Database) -> Result<Vec<String>, TraceError> {
    let mut found: Vec<String> = Vec::new();
    database.rows("DIAGNOSTIC_EVENT", &["severity", "text"], |row| {
        let text = row.text(1).filter(|_| row.number(0).is_some_and(|number| number >= WARNING));
        if let Some(text) = text
            && found.len() < WARNINGS_MAX
        {
            found.push(crate::cut(&text));
        }
        Ok(())
    })?;
    Ok(found)
}
