//! The activities of a trace of PyTorch's profiler, while its events are read.

use super::event::{EventArguments, TraceEvent, number, small};
use super::sink::EventSink;
use crate::chrome::PROCESSES;
use crate::names::NameTable;
use crate::words::{direction, memories, overhead, wait};
use crate::{CLOCK, TraceError, cut, without_time};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use trijet_cupti::file::ACTIVITIES_MAX;
use trijet_ledger::base::units::Nanos;
use trijet_ledger::trace::activity::{
    Activity, ActivityKind, Api, End, EventUse, EventUseKind, MarkKind, NameId, ProcessTrace,
    SyncKind,
};

/// The facts that a trace of Kineto lacks.
const LACKS: &str = "read from a trace in the form of PyTorch's profiler, which does not tell which \
                     streams are blocking, and has no allocations: questions about them cannot be \
                     answered";
/// Maximum number of threads of a process whose names are kept.
const THREADS_MAX: usize = 1 << 16;
/// Maximum number of processes of a file.
const PROCESSES_MAX: usize = 1 << 16;

/// A process in the list of a file that [`crate::chrome`] wrote.
#[derive(Debug, Deserialize)]
struct ListedProcess {
    /// The process of its events on the host. On a device, the number of the device follows.
    key: Value,
    process: u32,
    rank: Option<u32>,
    #[serde(default)]
    command: String,
}

/// An activity with its times on the clock of the file.
#[derive(Debug)]
struct Timed {
    activity: Activity,
    begin: i64,
    /// `None` for an operation that was unfinished when the trace ended.
    end: Option<i64>,
}

/// The activities and names of a process so far.
#[derive(Debug, Default)]
struct ProcessParts {
    names: NameTable,
    timed: Vec<Timed>,
    /// The waits of streams, and the records of events that they wait for, without times.
    events: Vec<EventUse>,
    /// The correlation numbers of these records.
    records: HashSet<u32>,
    left_out: u64,
    /// Events without a time or with a wrong one.
    without_time: u64,
    /// The number of events of each number of a process on the host.
    processes: HashMap<u32, u64>,
    /// The names of threads, by the numbers of process and thread.
    threads: BTreeMap<(u32, u32), String>,
    /// The number of ranges, which are the correlation numbers of their marks.
    ranges: u32,
}

/// The processes of a file so far.
#[derive(Debug, Default)]
pub(super) struct TraceParts {
    /// The processes that the file lists, and the places of their keys.
    listed: Vec<ListedProcess>,
    places: HashMap<String, usize>,
    /// The parts of the listed processes; of one process if the file lists none.
    parts: Vec<ProcessParts>,
    rank: Option<u32>,
    /// Whether there are functions of Python.
    has_stacks: bool,
    /// The nanoseconds that the times of the events are counted from.
    base: i64,
}

/// The text of a process of an event.
fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl TraceParts {
    /// Takes the list of the processes. A list after the events comes too late to tell them apart.
    fn list(&mut self, mut listed: Vec<ListedProcess>) {
        if !self.parts.is_empty() {
            return;
        }
        listed.truncate(PROCESSES_MAX);
        self.places =
            listed.iter().enumerate().map(|(place, one)| (text_of(&one.key), place)).collect();
        self.listed = listed;
    }

    /// The process of an event.
    fn of(&mut self, event: &TraceEvent) -> &mut ProcessParts {
        let text = match self.places.is_empty() {
            true => None,
            false => event.pid.as_ref().map(text_of),
        };
        let place = text.and_then(|text| {
            let host = text.rsplit_once(" device ").map_or(text.as_str(), |(host, _)| host);
            self.places.get(host).copied()
        });
        let place = place.unwrap_or(0);
        if self.parts.len() <= place {
            self.parts.resize_with(place + 1, ProcessParts::default);
        }
        &mut self.parts[place]
    }

    /// The traces of the processes with activities. Each begins with its first activity.
    pub(super) fn traces(self) -> Result<Vec<ProcessTrace>, TraceError> {
        let Self { listed, parts, rank, base, has_stacks, .. } = self;
        let first = parts.iter().filter_map(ProcessParts::first).min();
        let Some(first) = first else {
            let cause = "the trace has no operation of a GPU and no call of CUDA";
            return Err(TraceError::Format(cause.to_owned()));
        };
        // 0 stands for an unknown time, so a clock that begins there is moved.
        let base = base.max(1_i64.saturating_sub(first));
        let mut listed = listed.into_iter();
        let all = parts.into_iter().map(|parts| (listed.next(), parts));
        let with = all.filter(|(_, parts)| !parts.timed.is_empty());
        Ok(with
            .map(|(listed, parts)| match listed {
                Some(ListedProcess { process, rank, command, .. }) => {
                    ProcessTrace { process, rank, command, has_stacks, ..parts.trace(base) }
                }
                None => ProcessTrace { rank, has_stacks, ..parts.trace(base) },
            })
            .collect())
    }
}

impl EventSink for TraceParts {
    fn event(&mut self, event: &TraceEvent) {
        match event.ph.as_str() {
            "X" => {
                self.has_stacks |= event.cat == "python_function";
                if let Some(kind) = kind(event) {
                    self.of(event).take(event, kind);
                }
            }
            // Only files with a list have moments in this category.
            "i" if event.cat == "cpu_instant_event" && !self.places.is_empty() => {
                self.of(event).take(event, ActivityKind::Mark(MarkKind::Moment));
            }
            "M" if event.name == "thread_name" => self.of(event).name_thread(event),
            _ => {}
        }
    }

    fn field(&mut self, name: &str, value: Value) {
        match name {
            "distributedInfo" => {
                let rank = value.get("rank").and_then(Value::as_u64);
                self.rank = rank.and_then(|rank| u32::try_from(rank).ok());
            }
            "baseTimeNanoseconds" => self.base = value.as_i64().unwrap_or(0),
            // A list in another form is the list of another tool.
            PROCESSES => self.list(serde_json::from_value(value).unwrap_or_default()),
            _ => {}
        }
    }
}

impl ProcessParts {
    fn first(&self) -> Option<i64> {
        self.timed.iter().map(|one| one.begin).min()
    }

    /// Adds an activity of this kind.
    fn take(&mut self, event: &TraceEvent, kind: ActivityKind) {
        let Some((begin, end)) = event.times() else {
            self.without_time += 1;
            return;
        };
        let is_of_host = matches!(kind, ActivityKind::Call(_) | ActivityKind::Mark(_));
        if is_of_host {
            *self.processes.entry(small(event.pid.as_ref())).or_default() += 1;
        }
        let none = EventArguments::default();
        let arguments = event.arguments().unwrap_or(&none);
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
            node: None,
        };
        match kind {
            ActivityKind::Mark(_) => {
                self.ranges = self.ranges.saturating_add(1);
                let of_range = Activity { correlation: self.ranges, ..activity };
                self.add(of_range, begin, Some(begin));
                let is_range = kind == ActivityKind::Mark(MarkKind::Start);
                let kind = ActivityKind::Mark(MarkKind::End);
                if let Some(end) = end.filter(|_| is_range) {
                    self.add(Activity { kind, name: None, ..of_range }, end, Some(end));
                }
            }
            _ => {
                if kind == ActivityKind::Sync(SyncKind::StreamWait) {
                    self.wait(&activity, arguments);
                }
                self.add(activity, begin, end);
            }
        }
    }

    /// Keeps a stream's wait, and the record of its event. The number of the record's call stands
    /// for the record. -1, which is no number, stands for a record before the trace.
    fn wait(&mut self, activity: &Activity, arguments: &EventArguments) {
        let field = |value: &Option<Value>| {
            number(value.as_ref()).and_then(|number| u32::try_from(number).ok())
        };
        let Some(of_record) = field(&arguments.wait_on_cuda_event_record_corr_id) else { return };
        let Some(recorded) = field(&arguments.wait_on_stream) else { return };
        if self.events.len() as u64 >= ACTIVITIES_MAX {
            return;
        }
        let Activity { context, stream, correlation, .. } = *activity;
        let wait = EventUse {
            what: EventUseKind::Wait,
            context,
            stream,
            correlation,
            event: small(arguments.wait_on_cuda_event_id.as_ref()),
            sync: Some(u64::from(of_record)),
            at: Nanos(0),
        };
        if self.records.insert(of_record) {
            let (what, stream, correlation) = (EventUseKind::Record, recorded, of_record);
            self.events.push(EventUse { what, stream, correlation, ..wait });
        }
        self.events.push(wait);
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

    /// Keeps the name of a thread of the host.
    fn name_thread(&mut self, event: &TraceEvent) {
        let name = event.arguments().and_then(|arguments| arguments.name.as_ref());
        let thread = small(event.tid.as_ref());
        if let Some(name) = name.and_then(Value::as_str)
            && self.threads.len() < THREADS_MAX
        {
            let key = (small(event.pid.as_ref()), thread);
            self.threads.insert(key, cut(own_name(name, thread)));
        }
    }

    /// The trace, whose times are moved by `base`.
    fn trace(self, base: i64) -> ProcessTrace {
        let at = |time: i64| Nanos(base.saturating_add(time).max(0).cast_unsigned());
        let began = self.first().map_or(Nanos(0), at);
        let place = |one: &Timed| {
            let end = one.end.map_or(Nanos(0), at);
            Activity { begin: at(one.begin), end, ..one.activity }
        };
        let activities: Vec<Activity> = self.timed.iter().map(place).collect();
        let last = activities.iter().map(|one| one.end).max().unwrap_or(Nanos(0));
        let most = self.processes.iter().max_by_key(|(process, events)| (**events, **process));
        let process = most.map_or(0, |(process, _)| *process);
        let mut notes = vec![LACKS.to_owned(), CLOCK.to_owned()];
        if self.without_time > 0 {
            notes.push(without_time(self.without_time));
        }
        let end = End { activities: activities.len() as u64, at: last, ..End::default() };
        // Streams have names too, which are threads of a process with the number of the device.
        let threads = self.threads.into_iter().filter(|((of, _), _)| *of == process);
        ProcessTrace {
            process,
            began,
            tool: Some("PyTorch's profiler"),
            names: self.names.all,
            threads: threads.map(|((_, thread), name)| (thread, name)).collect(),
            activities,
            events: self.events,
            moved: base,
            left_out: self.left_out,
            notes,
            end: Some(end),
            ..ProcessTrace::default()
        }
    }
}

/// The name of a thread without the words that Kineto writes around it: `thread 78 (worker)`.
fn own_name(name: &str, thread: u32) -> &str {
    let inside = name.strip_prefix(&format!("thread {thread} (") as &str);
    inside.and_then(|rest| rest.strip_suffix(')')).unwrap_or(name)
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
            let arguments = event.arguments();
            let kind = arguments.and_then(|arguments| arguments.cuda_sync_kind.as_ref());
            ActivityKind::Sync(wait(kind.and_then(Value::as_str).unwrap_or(name)))
        }
        "overhead" => ActivityKind::Overhead(overhead(name)),
        "user_annotation" => ActivityKind::Mark(MarkKind::Start),
        _ => return None,
    })
}
