//! Traces as JSON in the form of Chrome's traces, with the categories and fields of PyTorch's
//! profiler: for Perfetto, for `chrome://tracing`, and for tools that read such traces.

use crate::words::{copy_name, overhead_name, wait_name};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Write};
use trijet_ledger::base::units::Nanos;
use trijet_ledger::trace::activity::{
    Activity, ActivityKind, Api, EventUse, EventUseKind, MarkKind, ProcessTrace,
};

/// The field of a file with its processes, in the order of the traces. It stands before
/// `traceEvents`, even if a tool sorts the fields.
pub(crate) const PROCESSES: &str = "processesOfTrijet";

/// Writes the activities of all processes. An operation that was unfinished at the end of the trace
/// has no duration.
///
/// ```
/// # let events = r#"{"ph": "X", "cat": "kernel", "name": "scale", "ts": 1, "dur": 2}"#;
/// # let json = format!(r#"{{"traceEvents": [{events}]}}"#);
/// let traces = trijet_traces::kineto::read(json.as_bytes())?;
/// let mut written = Vec::new();
/// trijet_traces::chrome::write(&traces, &mut written)?;
/// let again = trijet_traces::kineto::read(written.as_slice())?;
/// assert_eq!(again[0].name(&again[0].activities[0]), "scale");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Errors of `out`.
pub fn write(traces: &[ProcessTrace], out: &mut dyn Write) -> io::Result<()> {
    let base = traces.iter().map(|one| one.began.0).min().unwrap_or(0);
    out.write_all(b"{\"schemaVersion\":1,")?;
    if let [one] = traces
        && let Some(rank) = one.rank
    {
        write!(out, "\"distributedInfo\":{},", json!({ "rank": rank }))?;
    }
    let keys = keys(traces);
    let processes = traces.iter().zip(&keys).map(|(one, key)| {
        json!({ "key": key, "process": one.process, "rank": one.rank, "command": one.command })
    });
    write!(out, "\"{PROCESSES}\":{},", Value::from_iter(processes))?;
    write!(out, "\"displayTimeUnit\":\"ns\",\"baseTimeNanoseconds\":{base},\"traceEvents\":[")?;
    let mut separator = "\n";
    for (trace, key) in traces.iter().zip(&keys) {
        let found = LinkedRecords { ends: ends(trace), records: records(trace) };
        let events = trace.activities.iter().filter_map(|one| event(trace, one, &found, base, key));
        for event in metadata(trace, key).into_iter().chain(events) {
            write!(out, "{separator}{event}")?;
            separator = ",\n";
        }
    }
    out.write_all(b"\n]}\n")?;
    // The caller may have a buffer, whose drop would hide an error.
    out.flush()
}

/// The process of the events of each trace: its number, or a text if several have this number.
fn keys(traces: &[ProcessTrace]) -> Vec<Value> {
    let mut seen: HashMap<u32, u32> = HashMap::new();
    let key = |trace: &ProcessTrace| {
        let count = seen.entry(trace.process).or_default();
        *count += 1;
        match *count {
            1 => json!(trace.process),
            number => json!(format!("{} ({number})", trace.process)),
        }
    };
    traces.iter().map(key).collect()
}

/// The process of the events of a device.
fn of_device(key: &Value, device: u32) -> Value {
    match key {
        Value::String(text) => json!(format!("{text} device {device}")),
        number => json!(format!("{number} device {device}")),
    }
}

/// The events that name a process and its threads.
fn metadata(trace: &ProcessTrace, key: &Value) -> Vec<Value> {
    let named = |what: &str, thread: u32, name: &str| {
        json!({ "ph": "M", "name": what, "pid": key, "tid": thread, "ts": 0,
            "args": { "name": name } })
    };
    let rank = trace.rank.map_or(String::new(), |rank| format!("rank {rank} "));
    let process = format!("{rank}{}", trace.command);
    let process = (!process.is_empty()).then(|| named("process_name", 0, process.trim_end()));
    let threads = trace.threads.iter().map(|(thread, name)| named("thread_name", *thread, name));
    process.into_iter().chain(threads).collect()
}

/// The end of each named range, by the number of the range.
fn ends(trace: &ProcessTrace) -> HashMap<u32, Nanos> {
    let is_end = |one: &&Activity| one.kind == ActivityKind::Mark(MarkKind::End);
    trace.activities.iter().filter(is_end).map(|one| (one.correlation, one.begin)).collect()
}

/// The record of an event for each wait of a stream, by the correlation number of the wait.
fn records(trace: &ProcessTrace) -> HashMap<u32, &EventUse> {
    let with = |what: EventUseKind| trace.events.iter().filter(move |one| one.what == what);
    let by_sync: HashMap<u64, &EventUse> =
        with(EventUseKind::Record).filter_map(|one| Some((one.sync?, one))).collect();
    let record = |one: &EventUse| Some((one.correlation, *by_sync.get(&one.sync?)?));
    with(EventUseKind::Wait).filter_map(record).collect()
}

/// The activities that belong to others.
struct LinkedRecords<'a> {
    ends: HashMap<u32, Nanos>,
    records: HashMap<u32, &'a EventUse>,
}

/// Microseconds after the base, with all digits.
fn micros(nanos: u64) -> Value {
    let text = format!("{}.{:03}", nanos / 1000, nanos % 1000);
    // A decimal number is JSON as it stands.
    serde_json::from_str(&text).unwrap_or(Value::Null)
}

/// The event of an activity. `None` for the end of a range, which is a part of its start.
fn event(
    trace: &ProcessTrace,
    one: &Activity,
    found: &LinkedRecords<'_>,
    base: u64,
    key: &Value,
) -> Option<Value> {
    let (name, mut end) = (trace.name(one).to_owned(), one.end);
    let (category, name) = match one.kind {
        ActivityKind::Kernel => ("kernel", name),
        ActivityKind::Copy { direction, from, to } => {
            ("gpu_memcpy", copy_name(direction, from, to))
        }
        ActivityKind::Fill => ("gpu_memset", "Memset (Device)".to_owned()),
        ActivityKind::Call(Api::Runtime) => ("cuda_runtime", name),
        ActivityKind::Call(Api::Driver) => ("cuda_driver", name),
        ActivityKind::Sync(kind) => ("cuda_sync", wait_name(kind).to_owned()),
        ActivityKind::Overhead(kind) => ("overhead", overhead_name(kind).to_owned()),
        ActivityKind::Mark(MarkKind::Start) => {
            end = found.ends.get(&one.correlation).copied().unwrap_or(Nanos(0));
            ("user_annotation", name)
        }
        ActivityKind::Mark(MarkKind::Moment) => ("cpu_instant_event", name),
        ActivityKind::Mark(MarkKind::End) => return None,
        // A kind that was added later has no category.
        _ => return None,
    };
    let is_of_device = one.engine().is_some() || matches!(one.kind, ActivityKind::Sync(_));
    let (process, thread) = match is_of_device {
        true => (of_device(key, one.device), one.stream),
        false => (key.clone(), one.thread),
    };
    let mut arguments = json!({ "correlation": one.correlation });
    if is_of_device {
        arguments["device"] = one.device.into();
        arguments["context"] = one.context.into();
        arguments["stream"] = one.stream.into();
    }
    if one.bytes > 0 {
        arguments["bytes"] = one.bytes.into();
    }
    if let ActivityKind::Sync(kind) = one.kind {
        arguments["cuda_sync_kind"] = wait_name(kind).into();
        if let Some(record) = found.records.get(&one.correlation) {
            arguments["wait_on_stream"] = record.stream.into();
            arguments["wait_on_cuda_event_record_corr_id"] = record.correlation.into();
            arguments["wait_on_cuda_event_id"] = record.event.into();
        }
    }
    let phase = if category == "cpu_instant_event" { "i" } else { "X" };
    let mut event = json!({
        "ph": phase,
        "cat": category,
        "name": name,
        "pid": process,
        "tid": thread,
        "ts": micros(one.begin.0.saturating_sub(base)),
        "args": arguments,
    });
    if phase == "X" && end.0 != 0 {
        event["dur"] = micros(end.0.saturating_sub(one.begin.0));
    }
    Some(event)
}
