//! Traces of PyTorch's profiler (Kineto): a JSON object in the form of Chrome's traces, also
//! compressed by gzip.
//!
//! An event with a duration is an operation of the GPU, a call of the CUDA runtime or driver, a
//! wait, an overhead, or a range that the program named. Times are microseconds. The events of
//! operators, of Python functions and of other devices are passed over, and events are read one
//! after another, so the memory grows with the activities alone.

use crate::microseconds::nanoseconds;
use crate::names::NameTable;
use crate::words::{direction, memories, overhead, wait};
use crate::{CLOCK, TraceError, plain, without_time};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::fmt;
use std::io::Read;
use trijet_cupti::file::ACTIVITIES_MAX;
use trijet_ledger::base::units::Nanos;
use trijet_ledger::trace::activity::{
    Activity, ActivityKind, Api, End, MarkKind, NameId, ProcessTrace,
};

/// The facts that a trace of Kineto lacks.
const LACKS: &str = "read from a trace of PyTorch's profiler, which does not tell which streams are \
                     blocking, and has no allocations: questions about them cannot be answered";

/// Reads a trace.
///
/// ```
/// let json = r#"{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "scale", "ts": 10.5,
///     "dur": 2, "args": {"device": 0, "context": 1, "stream": 7, "correlation": 3}}]}"#;
/// let trace = trijet_traces::kineto::read(json.as_bytes())?;
/// assert_eq!(trace.activities.len(), 1);
/// assert_eq!(trace.name(&trace.activities[0]), "scale");
/// # Ok::<(), trijet_traces::TraceError>(())
/// ```
///
/// # Errors
/// The file cannot be read, is no JSON, or has no events of a GPU and no calls of CUDA.
pub fn read(file: impl Read) -> Result<ProcessTrace, TraceError> {
    let mut found = TraceParts::default();
    let mut json = serde_json::Deserializer::from_reader(plain(file)?);
    let read = TraceObject(&mut found).deserialize(&mut json).and_then(|()| json.end());
    read.map_err(|error| match error.classify() {
        serde_json::error::Category::Io => TraceError::Io(error.into()),
        _ => TraceError::Format(format!("the file is no trace of PyTorch's profiler: {error}")),
    })?;
    found.trace()
}

/// An activity with its times on the clock of the file.
#[derive(Debug)]
struct Timed {
    activity: Activity,
    begin: i64,
    /// `None` for an operation that was unfinished when the trace ended.
    end: Option<i64>,
}

/// The activities and names so far.
#[derive(Debug, Default)]
struct TraceParts {
    names: NameTable,
    timed: Vec<Timed>,
    left_out: u64,
    /// Events without a time or with a wrong one.
    without_time: u64,
    /// The number of events of each host process.
    processes: HashMap<u32, u64>,
    rank: Option<u32>,
    /// The nanoseconds that the times of the events are counted from.
    base: i64,
    /// The number of ranges, which are the correlation numbers of their marks.
    ranges: u32,
}

/// The object of the file.
struct TraceObject<'a>(&'a mut TraceParts);

impl<'de> DeserializeSeed<'de> for TraceObject<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TraceObject<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with traceEvents, or an array of events")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "traceEvents" => map.next_value_seed(EventArray(self.0))?,
                "distributedInfo" => {
                    let value: Value = map.next_value()?;
                    let rank = value.get("rank").and_then(Value::as_u64);
                    self.0.rank = rank.and_then(|rank| u32::try_from(rank).ok());
                }
                "baseTimeNanoseconds" => {
                    let value: Value = map.next_value()?;
                    self.0.base = value.as_i64().unwrap_or(0);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'de>>(self, seq: S) -> Result<(), S::Error> {
        EventArray(self.0).visit_seq(seq)
    }
}

/// The array of events.
struct EventArray<'a>(&'a mut TraceParts);

impl<'de> DeserializeSeed<'de> for EventArray<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for EventArray<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of events")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<(), S::Error> {
        while let Some(event) = seq.next_element::<TraceEvent>()? {
            self.0.take(&event);
        }
        Ok(())
    }
}

/// An event. A process or a thread may be a number or a text, and a time any number.
#[derive(Debug, Deserialize)]
struct TraceEvent {
    #[serde(default)]
    ph: String,
    #[serde(default)]
    cat: String,
    #[serde(default)]
    name: String,
    pid: Option<Value>,
    tid: Option<Value>,
    ts: Option<Box<RawValue>>,
    dur: Option<Box<RawValue>>,
    args: Option<EventArguments>,
}

/// The arguments that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EventArguments {
    device: Option<Value>,
    context: Option<Value>,
    stream: Option<Value>,
    correlation: Option<Value>,
    bytes: Option<Value>,
    cuda_sync_kind: Option<Value>,
}

/// A number of a field that may have another value. -1 stands for none in Kineto.
fn number(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn small(value: Option<&Value>) -> u32 {
    number(value).and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}

impl TraceParts {
    fn take(&mut self, event: &TraceEvent) {
        if event.ph != "X" {
            return;
        }
        let Some(kind) = kind(event) else { return };
        let begin = event.ts.as_deref().and_then(|time| nanoseconds(time.get()));
        let end = event.dur.as_deref().map(|length| begin?.checked_add(nanoseconds(length.get())?));
        let (Some(begin), None | Some(Some(_))) = (begin, end) else {
            self.without_time += 1;
            return;
        };
        let end = end.flatten();
        let is_of_host = matches!(kind, ActivityKind::Call(_) | ActivityKind::Mark(_));
        if is_of_host {
            *self.processes.entry(small(event.pid.as_ref())).or_default() += 1;
        }
        let none = EventArguments::default();
        let arguments = event.args.as_ref().unwrap_or(&none);
        let activity = Activity {
            kind,
            begin: Nanos(0),
            end: Nanos(0),
            bytes: number(arguments.bytes.as_ref()).unwrap_or(0),
            name: self.name(kind, &event.name),
            device: small(arguments.device.as_ref()),
            context: small(arguments.context.as_ref()),
            stream: small(arguments.stream.as_ref()),
            thread: if is_of_host { small(event.tid.as_ref()) } else { 0 },
            correlation: small(arguments.correlation.as_ref()),
        };
        match kind {
            ActivityKind::Mark(_) => {
                self.ranges = self.ranges.saturating_add(1);
                let of_range = Activity { correlation: self.ranges, ..activity };
                self.add(of_range, begin, Some(begin));
                let kind = ActivityKind::Mark(MarkKind::End);
                if let Some(end) = end {
                    self.add(Activity { kind, name: None, ..of_range }, end, Some(end));
                }
            }
            _ => self.add(activity, begin, end),
        }
    }

    /// The name of an activity. Copies, fills, waits and overheads have none.
    fn name(&mut self, kind: ActivityKind, name: &str) -> Option<NameId> {
        let has_name =
            matches!(kind, ActivityKind::Kernel | ActivityKind::Call(_) | ActivityKind::Mark(_));
        if has_name { self.names.of(name) } else { None }
    }

    fn add(&mut self, activity: Activity, begin: i64, end: Option<i64>) {
        if self.timed.len() as u64 >= ACTIVITIES_MAX {
            self.left_out += 1;
        } else {
            self.timed.push(Timed { activity, begin, end });
        }
    }

    /// The trace, which begins with the first activity.
    fn trace(self) -> Result<ProcessTrace, TraceError> {
        let first = self.timed.iter().map(|one| one.begin).min();
        let Some(first) = first else {
            let cause = "the trace has no operation of a GPU and no call of CUDA";
            return Err(TraceError::Format(cause.to_owned()));
        };
        // 0 stands for an unknown time, so a clock that begins there is moved.
        let base = self.base.max(1_i64.saturating_sub(first));
        let at = |time: i64| Nanos(base.saturating_add(time).max(0).cast_unsigned());
        let place = |one: &Timed| {
            let end = one.end.map_or(Nanos(0), at);
            Activity { begin: at(one.begin), end, ..one.activity }
        };
        let activities: Vec<Activity> = self.timed.iter().map(place).collect();
        let last = activities.iter().map(|one| one.end).max().unwrap_or(Nanos(0));
        let most = self.processes.iter().max_by_key(|(process, events)| (**events, **process));
        let mut notes = vec![LACKS.to_owned(), CLOCK.to_owned()];
        if self.without_time > 0 {
            notes.push(without_time(self.without_time));
        }
        let end = End { activities: activities.len() as u64, at: last, ..End::default() };
        Ok(ProcessTrace {
            process: most.map_or(0, |(process, _)| *process),
            began: at(first),
            tool: Some("PyTorch's profiler"),
            rank: self.rank,
            names: self.names.all,
            activities,
            left_out: self.left_out,
            notes,
            end: Some(end),
            ..ProcessTrace::default()
        })
    }
}

/// The kind of an event. `None` for one that is passed over.
fn kind(event: &TraceEvent) -> Option<ActivityKind> {
    let name = event.name.as_str();
    Some(match event.cat.as_str() {
        "kernel" | "Kernel" => ActivityKind::Kernel,
        "gpu_memcpy" | "Memcpy" => {
            let (from, to) = memories(name);
            ActivityKind::Copy { direction: direction(name), from, to }
        }
        "gpu_memset" | "Memset" => ActivityKind::Fill,
        "cuda_runtime" | "Runtime" => ActivityKind::Call(Api::Runtime),
        "cuda_driver" => ActivityKind::Call(Api::Driver),
        "cuda_sync" => {
            let arguments = event.args.as_ref();
            let kind = arguments.and_then(|arguments| arguments.cuda_sync_kind.as_ref());
            ActivityKind::Sync(wait(kind.and_then(Value::as_str).unwrap_or(name)))
        }
        "overhead" => ActivityKind::Overhead(overhead(name)),
        "user_annotation" => ActivityKind::Mark(MarkKind::Start),
        _ => return None,
    })
}
