//! Traces of PyTorch's profiler, with each kind of event as Kineto writes it.

#![expect(clippy::unwrap_used, reason = "a helper that fails should fail its test")]

use std::io::Write;
use trijet_ledger::base::units::Nanos;
use trijet_ledger::trace::activity::{
    Activity, ActivityKind, Api, CopyDirection, EventUse, EventUseKind, MarkKind, MemoryKind,
    OverheadKind, ProcessTrace, SyncKind,
};
use trijet_traces::TraceError;

/// The trace of a file with one process.
fn read(file: &[u8]) -> Result<ProcessTrace, TraceError> {
    let mut traces = trijet_traces::kineto::read(file)?;
    assert_eq!(traces.len(), 1);
    Ok(traces.remove(0))
}

/// A trace of rank 3, whose events are these.
fn trace(events: &str) -> String {
    format!(
        r#"{{"schemaVersion": 1, "deviceProperties": [{{"id": 0, "name": "NVIDIA H100"}}],
        "distributedInfo": {{"backend": "nccl", "rank": 3, "world_size": 4}},
        "traceEvents": [{events}], "traceName": "x.json", "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 1000000}}"#
    )
}

/// An event that has a duration of 2.5 microseconds, 10 microseconds after the start of the clock.
fn event(category: &str, name: &str, arguments: &str) -> String {
    format!(
        r#"{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": 77, "tid": 78, "ts": 10.000,
        "dur": 2.5, "args": {{{arguments}}}}}"#
    )
}

fn only(category: &str, name: &str, arguments: &str) -> (ProcessTrace, Activity) {
    let found = read(trace(&event(category, name, arguments)).as_bytes()).unwrap();
    let one = found.activities[0];
    (found, one)
}

#[test]
fn an_operation_has_its_times_and_its_stream() {
    let arguments =
        r#""device": 1, "context": 2, "stream": 20, "correlation": 5, "grid": [4, 1, 1]"#;
    let (found, one) = only("kernel", "scale", arguments);
    assert_eq!((one.kind, found.name(&one)), (ActivityKind::Kernel, "scale"));
    assert_eq!((one.begin, one.end), (Nanos(1_010_000), Nanos(1_012_500)));
    assert_eq!((one.device, one.context, one.stream, one.correlation), (1, 2, 20, 5));
    assert_eq!((found.began, found.rank), (Nanos(1_010_000), Some(3)));
    assert_eq!(found.end.unwrap().activities, 1);
}

#[test]
fn a_copy_has_its_direction_and_both_kinds_of_memory() {
    use CopyDirection::{Download, Peer, Upload, Within};
    use MemoryKind::{Device, Pageable, Pinned, Unknown};
    let cases = [
        ("Memcpy HtoD (Pageable -> Device)", Upload, Pageable, Device),
        ("Memcpy HtoD (Pinned -> Device)", Upload, Pinned, Device),
        ("Memcpy DtoH (Device -> Pinned)", Download, Device, Pinned),
        ("Memcpy DtoD (Device -> Device)", Within, Device, Device),
        ("Memcpy PtoP (Device -> Device)", Peer, Device, Device),
        ("Memcpy HtoD (Host -> Device)", Upload, Unknown, Device),
        ("Memcpy", CopyDirection::Unknown, Unknown, Unknown),
    ];
    for (name, direction, from, to) in cases {
        let (_, one) = only("gpu_memcpy", name, r#""bytes": 4096"#);
        assert_eq!(one.kind, ActivityKind::Copy { direction, from, to }, "{name}");
        assert_eq!(one.bytes, 4096);
    }
}

#[test]
fn each_category_has_its_kind() {
    let cases = [
        ("gpu_memset", "Memset (Device)", ActivityKind::Fill),
        ("Memset", "Memset (Device)", ActivityKind::Fill),
        ("Kernel", "scale", ActivityKind::Kernel),
        ("Runtime", "cudaLaunchKernel", ActivityKind::Call(Api::Runtime)),
        ("cuda_runtime", "cudaLaunchKernel", ActivityKind::Call(Api::Runtime)),
        ("cuda_driver", "cuLaunchKernel", ActivityKind::Call(Api::Driver)),
        ("cuda_sync", "Stream Sync", ActivityKind::Sync(SyncKind::Stream)),
        ("cuda_sync", "Stream Wait Event", ActivityKind::Sync(SyncKind::StreamWait)),
        ("cuda_sync", "Event Sync", ActivityKind::Sync(SyncKind::Event)),
        ("cuda_sync", "Context Sync", ActivityKind::Sync(SyncKind::Context)),
        ("overhead", "Instrumentation", ActivityKind::Overhead(OverheadKind::Instrumentation)),
        ("overhead", "Lazy Function Loading", ActivityKind::Overhead(OverheadKind::LazyLoading)),
    ];
    for (category, name, kind) in cases {
        let (found, one) = only(category, name, r#""correlation": 9"#);
        assert_eq!((one.kind, one.correlation), (kind, 9), "{category} {name}");
        let is_call = matches!(kind, ActivityKind::Call(_));
        assert_eq!(one.thread, if is_call { 78 } else { 0 }, "{category} {name}");
        assert_eq!(found.process, if is_call { 77 } else { 0 }, "{category} {name}");
    }
}

/// A stream's wait names the call that recorded its event, and the stream of this record. Kineto
/// writes -1 for a record before the trace.
#[test]
fn a_wait_of_a_stream_names_the_record_of_its_event() {
    let wait = |correlation: u32, of_record: i32, stream: i32| {
        let arguments = format!(
            r#""context": 1, "stream": 20, "correlation": {correlation}, "wait_on_stream": {stream},
            "wait_on_cuda_event_record_corr_id": {of_record}, "wait_on_cuda_event_id": 3"#
        );
        event("cuda_sync", "Stream Wait Event", &arguments)
    };
    let all = [wait(9, 5, 7), wait(10, 5, 7), wait(11, -1, 7), wait(12, 6, -1)];
    let found = read(trace(&all.join(",")).as_bytes()).unwrap();
    let uses = |trace: &ProcessTrace| -> Vec<_> {
        let fields = |one: &EventUse| (one.what, one.stream, one.correlation, one.event, one.sync);
        trace.events.iter().map(fields).collect()
    };
    let (record, wait) = (EventUseKind::Record, EventUseKind::Wait);
    let of = |what, stream, correlation| (what, stream, correlation, 3, Some(5));
    assert_eq!(uses(&found), [of(record, 7, 5), of(wait, 20, 9), of(wait, 20, 10)]);
    assert!(found.events.iter().all(|one| one.context == 1));

    let mut written = Vec::new();
    trijet_traces::chrome::write(std::slice::from_ref(&found), &mut written).unwrap();
    assert_eq!(uses(&read(&written).unwrap()), uses(&found), "written and read again");
}

/// The marks of a range have a number of their own, because ranges may have the same name.
#[test]
fn a_named_range_is_a_start_and_an_end() {
    let range = event("user_annotation", "ProfilerStep#1", "");
    let found = read(trace(&format!("{range},{range}")).as_bytes()).unwrap();
    let marks: Vec<_> =
        found.activities.iter().map(|one| (one.kind, one.begin.0, one.correlation)).collect();
    let (start, end) = (ActivityKind::Mark(MarkKind::Start), ActivityKind::Mark(MarkKind::End));
    let (first, last) = (1_010_000, 1_012_500);
    assert_eq!(marks, [(start, first, 1), (end, last, 1), (start, first, 2), (end, last, 2)]);
    assert_eq!(found.name(&found.activities[0]), "ProfilerStep#1");
}

#[test]
fn other_events_are_passed_over() {
    let others = [
        event("cpu_op", "aten::mm", r#""Input Dims": [[1, 2], []]"#),
        event("python_function", "train.py(3): step", ""),
        event("gpu_user_annotation", "step", ""),
        r#"{"ph": "M", "name": "process_name", "pid": "Spans", "tid": 0, "ts": 1, "args": {"labels": ""}}"#
            .to_owned(),
        r#"{"ph": "s", "id": 1, "pid": 0, "tid": 7, "ts": 3, "cat": "ac2g", "name": "ac2g"}"#.to_owned(),
        r#"{"ph": "X", "cat": "Trace", "ts": 1, "dur": 2, "pid": "Spans", "tid": "PyTorch Profiler",
            "name": "PyTorch Profiler (0)", "args": {"Op count": 0}}"#
            .to_owned(),
    ];
    let error = read(trace(&others.join(",")).as_bytes()).unwrap_err();
    assert!(error.to_string().contains("no operation of a GPU"), "{error}");
    let with = others.iter().cloned().chain([event("kernel", "k", "")]).collect::<Vec<_>>();
    assert_eq!(read(trace(&with.join(",")).as_bytes()).unwrap().activities.len(), 1);
}

#[test]
fn the_file_may_be_compressed_or_an_array() {
    let json = trace(&event("kernel", "k", ""));
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(json.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    assert_eq!(read(packed.as_slice()).unwrap().activities.len(), 1);
    let array = format!("[{}]", event("kernel", "k", ""));
    assert_eq!(read(array.as_bytes()).unwrap().activities.len(), 1);
    let error = read(&packed[..packed.len() / 2]).unwrap_err();
    assert!(matches!(error, TraceError::Io(_)), "{error:?}");
}

/// A trace of Chrome's own clock may begin at 0, and an event without a duration is unfinished.
#[test]
fn each_time_is_known_or_marked_as_unknown() {
    let events = r#"{"ph": "X", "cat": "kernel", "name": "k", "ts": 0, "dur": 2, "args": null},
        {"ph": "X", "cat": "kernel", "name": "k", "ts": -3.5},
        {"ph": "X", "cat": "user_annotation", "name": "open", "ts": 4}"#;
    let found = read(format!(r#"{{"traceEvents": [{events}]}}"#).as_bytes()).unwrap();
    let times: Vec<_> = found.activities.iter().map(|one| (one.begin.0, one.end.0)).collect();
    assert_eq!(times, [(3501, 5501), (1, 0), (7501, 7501)]);
    assert_eq!(found.began, Nanos(1));
    let mut written = Vec::new();
    trijet_traces::chrome::write(std::slice::from_ref(&found), &mut written).unwrap();
    assert_eq!(read(written.as_slice()).unwrap().activities, found.activities);
}

/// Facts that a file does not tell are in the notes, and events with wrong times are counted there.
#[test]
fn the_notes_have_what_is_not_known() {
    let wrong = r#"{"ph": "X", "cat": "kernel", "name": "k", "ts": "now", "dur": 1}"#;
    let found = read(trace(&format!("{wrong},{}", event("kernel", "k", ""))).as_bytes()).unwrap();
    assert_eq!(found.activities.len(), 1);
    let notes = found.notes.join("\n");
    for part in ["cannot be answered", "clocks agree", "1 event has no time"] {
        assert!(notes.contains(part), "{notes}");
    }
}

/// A full disk: nothing can be written.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The bytes may still be in a buffer, which hides the error when it is dropped.
#[test]
fn a_full_disk_is_an_error_of_the_writer() {
    let found = [read(trace(&event("kernel", "k", "")).as_bytes()).unwrap()];
    let json = trijet_traces::chrome::write(&found, &mut std::io::BufWriter::new(Full));
    let csv = trijet_traces::table::write(&found, &mut std::io::BufWriter::new(Full));
    for written in [json, csv] {
        assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    }
}

/// Processes of several files may have the same number.
#[test]
fn several_processes_are_read_back_with_their_ranks_and_threads() {
    let of_rank = |rank: u32, process: u32| {
        let thread = r#"{"ph": "M", "name": "thread_name", "pid": 77, "tid": 78, "ts": 0,
            "args": {"name": "thread 78 (worker)"}}"#;
        let stream = thread.replace("77", "0").replace("78", "7");
        let events = [
            event("cuda_runtime", "cudaLaunchKernel", r#""correlation": 1"#),
            event("kernel", "k", r#""device": 0, "stream": 7, "correlation": 1"#),
            event("user_annotation", "step", ""),
            thread.to_owned(),
            stream,
        ];
        let one = read(trace(&events.join(",")).as_bytes()).unwrap();
        assert_eq!(one.thread_name(78), Some("worker"));
        assert_eq!(one.threads.len(), 1, "a stream is no thread");
        ProcessTrace { rank: Some(rank), process, command: "train.py".to_owned(), ..one }
    };
    let ranks = [of_rank(0, 77), of_rank(1, 77), of_rank(2, 9)];
    let mut written = Vec::new();
    trijet_traces::chrome::write(&ranks, &mut written).unwrap();
    let again = trijet_traces::kineto::read(written.as_slice()).unwrap();
    assert_eq!(again.len(), 3);
    for (one, other) in ranks.iter().zip(&again) {
        assert_eq!(one.activities, other.activities);
        let facts = |trace: &ProcessTrace| {
            (trace.rank, trace.process, trace.command.clone(), trace.began, trace.names.clone())
        };
        assert_eq!(facts(one), facts(other));
    }
    for (one, other) in ranks.iter().zip(&again) {
        assert_eq!(one.threads, other.threads);
    }
    // A tool that sorts the fields.
    let sorted: serde_json::Value = serde_json::from_slice(&written).unwrap();
    let again = trijet_traces::kineto::read(sorted.to_string().as_bytes()).unwrap();
    let ranks_of = |all: &[ProcessTrace]| all.iter().map(|one| one.rank).collect::<Vec<_>>();
    assert_eq!(ranks_of(&again), ranks_of(&ranks));
}

/// A converter sorts the fields, numbers processes anew, and may put the arguments one level down.
#[test]
fn a_file_that_was_converted_from_perfettos_form_is_read() {
    let fields = r#""cat":"kernel","dur":2.5,"name":"scale","ph":"X","pid":1,"tid":2,"ts":10.5"#;
    let arguments = r#"{"correlation":5,"device":1,"stream":7}"#;
    for arguments in [arguments.to_owned(), format!(r#"{{"args":{arguments}}}"#)] {
        let file = format!(
            r#"{{"traceEvents":[{{"args":{arguments},{fields}}}],"metadata":{{"clock-domain":1}}}}"#
        );
        let found = read(file.as_bytes()).unwrap();
        let one = found.activities[0];
        assert_eq!((one.begin, one.end), (Nanos(10_500), Nanos(13_000)));
        assert_eq!((one.device, one.stream, one.correlation), (1, 7, 5), "{file}");
    }
}

/// Traits of public traces: no list of ranks, calls without a GPU, calls of ROCm, numbers beyond 32
/// bits, and times with and without a part of a microsecond.
#[test]
fn traces_of_other_machines_are_read() {
    let calls = [
        event("cuda_runtime", "hipLaunchKernel", r#""kernel": "scale", "correlation": 3"#),
        event("cuda_runtime", "cudaFree", r#""External id": 18446744073709551615"#),
        event("kernel", "scale", r#""device": 2, "stream": 0, "correlation": 4294967296"#)
            .replace("10.000", "1707417525512110"),
        event("kernel", "ncclKernel_AllReduce_RING_LL_Sum_float", r#""device": 2, "stream": 20"#),
    ];
    let cpu_only = format!(r#"{{"traceEvents": [{}, {}]}}"#, calls[0], calls[1]);
    let found = read(cpu_only.as_bytes()).unwrap();
    assert_eq!((found.activities.len(), found.rank), (2, None));
    let found = read(trace(&calls.join(",")).as_bytes()).unwrap();
    let devices: Vec<_> = found.activities.iter().map(|one| one.device).collect();
    assert_eq!(devices, [0, 0, 2, 2]);
    assert_eq!(found.activities[2].correlation, 0, "a number that no call has");
    assert_eq!(found.activities[2].begin, Nanos(1_707_417_525_513_110_000));
}

/// Functions of other threads and of other times are not around a moment.
#[test]
fn the_stack_of_a_moment_is_what_is_around_it() {
    use trijet_traces::kineto::{StackMoment, stacks};
    let function = |name: &str, thread: u32, at: u32, length: u32| {
        format!(
            r#"{{"ph": "X", "cat": "python_function", "name": "{name}", "pid": 77, "tid": {thread},
            "ts": {at}, "dur": {length}}}"#
        )
    };
    let events = [
        function("main", 78, 0, 100),
        function("load", 78, 10, 5),
        function("step", 78, 20, 60),
        function("copy", 78, 30, 10),
        function("worker", 79, 0, 100),
        event("cpu_op", "aten::copy_", ""),
    ];
    let moments = [(78, 35_000), (78, 50_000), (79, 35_000), (5, 35_000)];
    let moments = moments.map(|(thread, at)| StackMoment { thread, at });
    let found = stacks(trace(&events.join(",")).as_bytes(), &moments).unwrap();
    assert_eq!(found, [vec!["copy", "step", "main"], vec!["step", "main"], vec!["worker"], vec![]]);
    let deep: Vec<String> = (0..1000)
        .map(|level| function(&format!("f{level}"), 78, level, 3000 - 2 * level))
        .collect();
    let moment = [StackMoment { thread: 78, at: 1_500_000 }];
    let found = stacks(trace(&deep.join(",")).as_bytes(), &moment).unwrap();
    assert_eq!((found[0].len(), found[0][0].as_str()), (32, "f999"), "the innermost are kept");
}
