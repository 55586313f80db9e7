//! Traces as CSV: a row for each activity.

use std::io::{self, Write};
use trijet_ledger::trace::activity::{Activity, ActivityKind, Api, MarkKind, ProcessTrace};

/// The names of the columns. Times are nanoseconds on the clock of the trace; the end of an
/// operation that was unfinished is 0.
const COLUMNS: [&str; 13] = [
    "process",
    "rank",
    "kind",
    "name",
    "device",
    "context",
    "stream",
    "thread",
    "thread_name",
    "correlation",
    "begin_ns",
    "end_ns",
    "bytes",
];

/// Writes the activities of all processes.
///
/// ```
/// # let events = r#"{"ph": "X", "cat": "kernel", "name": "a,b", "ts": 1, "dur": 2}"#;
/// # let json = format!(r#"{{"traceEvents": [{events}]}}"#);
/// let traces = trijet_traces::kineto::read(json.as_bytes())?;
/// let mut written = Vec::new();
/// trijet_traces::table::write(&traces, &mut written)?;
/// let text = String::from_utf8(written)?;
/// assert_eq!(text.lines().nth(1), Some("0,,kernel,\"a,b\",0,0,0,0,,0,1000,3000,0"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Errors of `out`.
pub fn write(traces: &[ProcessTrace], out: &mut dyn Write) -> io::Result<()> {
    let mut table = csv::Writer::from_writer(out);
    table.write_record(COLUMNS)?;
    for trace in traces {
        let rank = trace.rank.map_or(String::new(), |rank| rank.to_string());
        for one in &trace.activities {
            let places = [one.device, one.context, one.stream, one.thread];
            let numbers = [one.correlation.into(), one.begin.0, one.end.0, one.bytes];
            let process = trace.process.to_string();
            let places = places.map(|number| number.to_string());
            let numbers = numbers.map(|number: u64| number.to_string());
            let thread = trace.thread_name(one.thread).unwrap_or_default();
            let texts = [process.as_str(), rank.as_str(), kind(one), trace.name(one)];
            let places = places.iter().map(String::as_str).chain([thread]);
            let numbers = numbers.iter().map(String::as_str);
            table.write_record(texts.into_iter().chain(places).chain(numbers))?;
        }
    }
    table.flush()
}

fn kind(one: &Activity) -> &'static str {
    use trijet_ledger::trace::activity::CopyDirection::{Download, Host, Peer, Upload, Within};
    match one.kind {
        ActivityKind::Kernel => "kernel",
        ActivityKind::Copy { direction: Upload, .. } => "upload",
        ActivityKind::Copy { direction: Download, .. } => "download",
        ActivityKind::Copy { direction: Within, .. } => "copy within the device",
        ActivityKind::Copy { direction: Peer, .. } => "copy between devices",
        ActivityKind::Copy { direction: Host, .. } => "copy within the host",
        ActivityKind::Copy { .. } => "copy",
        ActivityKind::Fill => "fill",
        ActivityKind::Sync(_) => "wait",
        ActivityKind::Call(Api::Runtime) => "call of the runtime",
        ActivityKind::Call(Api::Driver) => "call of the driver",
        ActivityKind::Overhead(_) => "overhead",
        ActivityKind::Mark(MarkKind::Start) => "start of a range",
        ActivityKind::Mark(MarkKind::End) => "end of a range",
        ActivityKind::Mark(MarkKind::Moment) => "moment",
        _ => "other",
    }
}
