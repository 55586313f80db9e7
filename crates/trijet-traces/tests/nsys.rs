//! Exports of Nsight Systems, with each table in the form of the documented schema.

#![expect(clippy::unwrap_used, reason = "a helper that fails should fail its test")]

#[path = "nsys/export.rs"]
mod export;

use export::{ENUMS, Export, PROCESS, TABLES, THREAD};
use trijet_ledger::base::ledger::StreamClass;
use trijet_ledger::base::units::Nanos;
use trijet_ledger::trace::activity::{
    ActivityKind, AllocationKind, Api, ContextInfo, CopyDirection, MarkKind, MemoryKind,
    OverheadKind, ProcessTrace, StreamInfo, SyncKind,
};
use trijet_traces::{kineto, nsys};

/// The time of the zero of the clock.
const START: u64 = 1_767_189_312_000_000_000;

/// An export with a run of one process: a copy, a kernel, a fill and a wait, with their calls.
fn example() -> Export {
    Export::with(&[TABLES, ENUMS]).rows(&format!(
        "INSERT INTO StringIds VALUES (1, '_Z5scalePf'), (2, 'scale(float*)'), (3, 'scale'),
            (4, 'cudaMemcpyAsync_v3020'), (5, 'cudaLaunchKernel_v7000'), (6, 'cuMemsetD8Async'),
            (7, 'cudaStreamSynchronize_v3020'), (8, 'step'), (9, 'loader');
        INSERT INTO ThreadNames VALUES (9, 0, {THREAD}), (9, 0, 5);
        INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES ({START}, '', '');
        INSERT INTO PROCESSES VALUES ({PROCESS}, 77, 'python3');
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES
            (1000, 1500, 0, {THREAD}, 1, 4, 0, NULL), (1600, 2000, 0, {THREAD}, 2, 5, 0, NULL),
            (2100, 2300, 1, {THREAD}, 3, 6, 0, NULL), (2400, 9000, 0, {THREAD}, 4, 7, 0, NULL);
        INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, contextId, streamId,
            correlationId, globalPid, bytes, copyKind, srcKind, dstKind)
            VALUES (1800, 3800, 0, 1, 7, 1, {PROCESS}, 4096, 1, 0, 2);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId,
            correlationId, globalPid, demangledName, shortName, mangledName)
            VALUES (4000, 8000, 0, 1, 7, 2, {PROCESS}, 2, 3, 1);
        INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET (start, end, deviceId, contextId, streamId,
            correlationId, globalPid, value, bytes)
            VALUES (8100, 8200, 0, 1, 7, 3, {PROCESS}, 0, 64);
        INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start, end, deviceId, contextId, streamId,
            correlationId, globalPid, syncType, eventId)
            VALUES (2450, 8900, 0, 1, 7, 4, {PROCESS}, 3, 0);
        INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, textId) VALUES
            (900, 9100, 59, NULL, {THREAD}, 8), (950, 9050, 60, 'other', {THREAD}, NULL),
            (960, NULL, 34, 'now', {THREAD}, NULL), (0, NULL, 75, 'NCCL', {THREAD}, NULL);"
    ))
}

fn only(export: &Export) -> ProcessTrace {
    let mut traces = nsys::read(export.path()).unwrap();
    assert_eq!(traces.len(), 1);
    traces.remove(0)
}

/// The name, the kind, and the times after the start of the clock.
fn rows(trace: &ProcessTrace) -> Vec<(String, ActivityKind, [u64; 2])> {
    let after = |time: Nanos| if time.0 == 0 { 0 } else { time.0 - START };
    let row = |one| (trace.name(one).to_owned(), one.kind, [after(one.begin), after(one.end)]);
    trace.activities.iter().map(row).collect()
}

#[test]
fn an_export_is_read_to_its_activities() {
    use ActivityKind::{Call, Copy, Fill, Kernel, Mark, Sync};
    let found = only(&example());
    let (from, to) = (MemoryKind::Pageable, MemoryKind::Device);
    let copy = Copy { direction: CopyDirection::Upload, from, to };
    let expected = [
        ("cudaMemcpyAsync", Call(Api::Runtime), [1000, 1500]),
        ("cudaLaunchKernel", Call(Api::Runtime), [1600, 2000]),
        ("cuMemsetD8Async", Call(Api::Driver), [2100, 2300]),
        ("cudaStreamSynchronize", Call(Api::Runtime), [2400, 9000]),
        ("_Z5scalePf", Kernel, [4000, 8000]),
        ("", copy, [1800, 3800]),
        ("", Fill, [8100, 8200]),
        ("", Sync(SyncKind::Stream), [2450, 8900]),
        ("step", Mark(MarkKind::Start), [900, 900]),
        ("", Mark(MarkKind::End), [9100, 9100]),
        ("other", Mark(MarkKind::Start), [950, 950]),
        ("", Mark(MarkKind::End), [9050, 9050]),
        ("now", Mark(MarkKind::Moment), [960, 960]),
    ];
    let expected = expected.map(|(name, kind, times)| (name.to_owned(), kind, times));
    assert_eq!(rows(&found), expected);
    let places: Vec<_> = found
        .activities
        .iter()
        .map(|one| (one.thread, one.context, one.stream, one.correlation, one.bytes))
        .collect();
    assert_eq!(places[1], (78, 0, 0, 2, 0), "a call");
    assert_eq!(
        places[4..8],
        [(0, 1, 7, 2, 0), (0, 1, 7, 1, 4096), (0, 1, 7, 3, 64), (0, 1, 7, 4, 0)]
    );
    let marks: Vec<_> = places[8..].iter().map(|place| (place.0, place.3)).collect();
    assert_eq!(marks, [(78, 1), (78, 1), (78, 2), (78, 2), (78, 3)]);
    assert_eq!((found.process, found.command.as_str()), (77, "python3"));
    assert_eq!((found.thread_name(78), found.threads.len()), (Some("loader"), 1));
    assert_eq!(found.began, Nanos(START + 900));
    assert_eq!(found.end.unwrap().activities, 13);
}

/// The same run in the form of PyTorch's profiler, whose times have the same digits.
#[test]
fn the_same_run_in_two_forms_has_the_same_activities() {
    let event = |category: &str, name: &str, at: u32, length: u32, more: &str| {
        format!(
            r#"{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": 77, "tid": 78,
            "ts": {}.{:03}, "dur": {}.{:03}, "args": {{{more}}}}}"#,
            at / 1000,
            at % 1000,
            length / 1000,
            length % 1000
        )
    };
    let place =
        |number| format!(r#""device": 0, "context": 1, "stream": 7, "correlation": {number}"#);
    let call = |number| format!(r#""correlation": {number}"#);
    let copy = format!(r#"{}, "bytes": 4096"#, place(1));
    let fill = format!(r#"{}, "bytes": 64"#, place(3));
    let events = [
        event("cuda_runtime", "cudaMemcpyAsync", 1000, 500, &call(1)),
        event("cuda_runtime", "cudaLaunchKernel", 1600, 400, &call(2)),
        event("cuda_driver", "cuMemsetD8Async", 2100, 200, &call(3)),
        event("cuda_runtime", "cudaStreamSynchronize", 2400, 6600, &call(4)),
        event("kernel", "_Z5scalePf", 4000, 4000, &place(2)),
        event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 1800, 2000, &copy),
        event("gpu_memset", "Memset (Device)", 8100, 100, &fill),
        event("cuda_sync", "Stream Sync", 2450, 6450, &place(4)),
        event("user_annotation", "step", 900, 8200, ""),
        event("user_annotation", "other", 950, 8100, ""),
    ];
    let json =
        format!(r#"{{"baseTimeNanoseconds": {START}, "traceEvents": [{}]}}"#, events.join(","));
    let (own, other) = (only(&example()), kineto::read(json.as_bytes()).unwrap().remove(0));
    // PyTorch's profiler has no moments.
    assert_eq!(rows(&own)[..12], rows(&other));
    let places = |trace: &ProcessTrace| -> Vec<_> {
        let place = trace.activities.iter().take(12);
        place.map(|one| (one.stream, one.thread, one.correlation, one.bytes)).collect()
    };
    assert_eq!((places(&own), own.process), (places(&other), other.process));
}

/// Older versions have no tables of labels, no raw names and no processes in tables of the device.
#[test]
fn an_export_of_an_older_version_is_read() {
    let export = Export::with(&[]).rows(&format!(
        "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
        INSERT INTO StringIds VALUES (1, 'scale(float*)'), (2, 'cudaLaunchKernel');
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT,
            correlationId INT, nameId INT);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (10, 20, {THREAD}, 1, 2);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, contextId INT,
            streamId INT, correlationId INT, demangledName INT);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (30, 40, 1, 1, 7, 1, 1);
        CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT, deviceId INT, streamId INT,
            bytes INT, copyKind INT, srcKind INT, dstKind INT);
        INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (50, 60, 1, 7, 8, 2, 2, 1);"
    ));
    let found = only(&export);
    assert_eq!(found.process, 77);
    assert_eq!(found.name(&found.activities[1]), "scale(float*)");
    let (from, to) = (MemoryKind::Device, MemoryKind::Pinned);
    let copy = ActivityKind::Copy { direction: CopyDirection::Download, from, to };
    assert_eq!(found.activities[2].kind, copy);
    let notes = found.notes.join("\n");
    for part in ["no waits", "no allocations", "no kinds of streams", "when its clock began"] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
}

/// The numbers of kinds are those of the labels in the file.
#[test]
fn a_file_states_what_its_numbers_mean() {
    let export = example().rows(
        "UPDATE ENUM_CUDA_MEMCPY_OPER SET id = id + 100;
        UPDATE ENUM_CUDA_MEM_KIND SET id = id + 100;
        UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET copyKind = 110, srcKind = 103, dstKind = 2;",
    );
    let copy = only(&export).activities[5];
    let (from, to) = (MemoryKind::Array, MemoryKind::Unknown);
    assert_eq!(copy.kind, ActivityKind::Copy { direction: CopyDirection::Peer, from, to });
}

#[test]
fn each_process_is_a_trace_with_its_rank() {
    let other = 78 << 24;
    let export = example().rows(&format!(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId,
            correlationId, globalPid, demangledName, shortName)
            VALUES (5000, 6000, 1, 1, 7, 2, {other}, 2, 3);
        INSERT INTO PROCESSES VALUES ({other}, 78, 'python3'), (999, 0, 'unrelated');
        CREATE TABLE MPI_RANKS (globalTid INTEGER, rank INTEGER);
        INSERT INTO MPI_RANKS VALUES ({THREAD}, 0), ({}, 1);",
        other + 5
    ));
    let traces = nsys::read(export.path()).unwrap();
    let found: Vec<_> =
        traces.iter().map(|one| (one.process, one.rank, one.activities.len())).collect();
    assert_eq!(found, [(77, Some(0), 13), (78, Some(1), 1)]);
    assert_eq!(traces[1].name(&traces[1].activities[0]), "scale(float*)");
    assert_eq!(traces[1].activities[0].begin, Nanos(START + 5000), "one clock for all");
}

#[test]
fn streams_allocations_and_overheads_are_read() {
    let export = example().rows(&format!(
        "INSERT INTO TARGET_INFO_CUDA_CONTEXT_INFO VALUES (7, 0, 0, 77, 0, 1);
        INSERT INTO TARGET_INFO_CUDA_STREAM VALUES (13, 0, 0, 77, 1, 0, 2), (14, 0, 0, 77, 1, 0, 1);
        INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS (start, globalPid, deviceId, contextId, address, pc,
            bytes, memKind, memoryOperationType, correlationId, localMemoryPoolAddress) VALUES
            (1100, {PROCESS}, 0, 1, 512, 0, 256, 2, 0, 9, NULL),
            (1200, {PROCESS}, 0, 1, 512, 0, 256, 2, 1, 10, 4096);
        INSERT INTO StringIds VALUES (20, 'CUDA lazy loading'), (21, 'CUPTI buffer flush');
        INSERT INTO PROFILER_OVERHEAD VALUES (1300, 1400, {THREAD}, 1, 20, 0),
            (1500, 1600, {THREAD}, 1, 21, 0);"
    ));
    let found = only(&export);
    assert_eq!(found.contexts, [ContextInfo { context: 1, device: 0, null_stream: 7 }]);
    let classes = [Some(StreamClass::NonBlocking), Some(StreamClass::Blocking)];
    let streams = [13, 14].into_iter().zip(classes);
    let streams: Vec<_> =
        streams.map(|(stream, class)| StreamInfo { context: 1, stream, class }).collect();
    assert_eq!(found.streams, streams);
    let seen: Vec<_> = found
        .allocations
        .iter()
        .map(|one| (one.what, one.in_order, one.address, one.bytes, one.at.0 - START))
        .collect();
    let (first, last) = (AllocationKind::Allocate, AllocationKind::Free);
    assert_eq!(seen, [(first, false, 512, 256, 1100), (last, true, 512, 256, 1200)]);
    let kinds: Vec<_> = found.activities.iter().map(|one| one.kind).collect();
    for kind in [OverheadKind::LazyLoading, OverheadKind::Flush] {
        assert!(kinds.contains(&ActivityKind::Overhead(kind)), "{kind:?}");
    }
}

/// Facts that a file does not tell are in the notes, and so are rows without a time.
#[test]
fn the_notes_have_what_is_not_known() {
    let export = example().rows(&format!(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT, end INT, deviceId INT,
            contextId INT, streamId INT, correlationId INT, globalPid INT, graphId INT);
        INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (1, 2, 0, 1, 7, 2, {PROCESS}, 1);
        INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET (start, end, deviceId, contextId, streamId,
            correlationId, globalPid, value, bytes)
            VALUES ('soon', 8200, 0, 1, 7, 3, {PROCESS}, 0, 64);
        CREATE TABLE DIAGNOSTIC_EVENT (timestamp INT, source INT, severity INT, text TEXT);
        INSERT INTO DIAGNOSTIC_EVENT VALUES (1, 1, 1, 'fine'), (1, 1, 2, 'Not all events\u{1b}[1m');
        DROP TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;"
    ));
    let notes = only(&export).notes.join("\n");
    for part in [
        "1 launch of a graph is as one kernel each",
        "1 event has no time",
        "warned: Not all events",
        "no waits",
    ] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    for part in ["fine", "no named ranges", "no calls"] {
        assert!(!notes.contains(part), "{part}: {notes}");
    }
}

/// A view, a virtual table or a computed column could run for ever.
#[test]
fn only_stored_rows_are_read() {
    let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x FROM n";
    let export = example().rows(&format!(
        "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL;
        CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT x AS start, x AS end FROM ({endless});
        ALTER TABLE CUPTI_ACTIVITY_KIND_MEMSET ADD COLUMN memory AS (zeroblob(9999999999));"
    ));
    let kinds: Vec<_> = only(&export).activities.iter().map(|one| one.kind).collect();
    assert!(!kinds.contains(&ActivityKind::Kernel) && kinds.contains(&ActivityKind::Fill));
}

/// The pages below an interior page of a table: where each number is in the file, and the number.
fn pages_below(bytes: &[u8], page: u32) -> Vec<(usize, u32)> {
    let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]).into();
    let start = (usize::try_from(page).unwrap() - 1) * export::PAGE_BYTES;
    assert_eq!(bytes[start], 5, "an interior page of a table");
    let cells: usize = word(start + 3);
    let places = (0..cells).map(|cell| start + word(start + 12 + 2 * cell));
    places.map(|at| (at, u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()))).collect()
}

/// The entries of an interior page all lead to another interior page, instead of to leaves.
#[test]
fn rows_that_a_damaged_file_repeats_are_an_error() {
    let mut text = "BEGIN;".to_owned();
    for number in 0..4000 {
        text += &format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET (start, end, deviceId, contextId, streamId,
                value, bytes) VALUES ({number}, 2, 0, 1, 7, 0, 64);"
        );
    }
    let export = Export::with(&[TABLES]).rows(&(text + "COMMIT;"));
    assert_eq!(only(&export).activities.len(), 4000);
    let mut bytes = std::fs::read(export.path()).unwrap();
    let top = pages_below(&bytes, export.root_page("CUPTI_ACTIVITY_KIND_MEMSET"));
    let other = top[1].1.to_be_bytes();
    for (at, _) in pages_below(&bytes, top[0].1) {
        bytes[at..at + 4].copy_from_slice(&other);
    }
    std::fs::write(export.path(), bytes).unwrap();
    let error = nsys::read(export.path()).unwrap_err().to_string();
    assert!(error.contains("more rows than the file has room for"), "{error}");
}

#[test]
fn another_file_is_refused_with_the_reason() {
    let refused = |export: &Export, words: &str| {
        let error = nsys::read(export.path()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    let other = Export::with(&[]).rows("CREATE TABLE people (name TEXT);");
    refused(&other, "no operation of a GPU and no call of CUDA in tables of an export");
    std::fs::write(other.path(), b"SQLite format 3\0 and no more").unwrap();
    refused(&other, "cannot be read");
    let missing = nsys::read("no/such/file.sqlite".as_ref()).unwrap_err();
    assert!(matches!(missing, trijet_traces::TraceError::Io(_)), "{missing:?}");
}
