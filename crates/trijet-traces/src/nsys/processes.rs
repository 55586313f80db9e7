//! The processes of an export, while its tables are read.

use super::database::{Database, TableRow};
use crate::TraceError;
use crate::names::NameTable;
use std::collections::{BTreeMap, HashMap};
use trijet_cupti::file::ACTIVITIES_MAX;
use trijet_ledger::base::units::Nanos;
use trijet_ledger::trace::activity::{
    Activity, ActivityKind, Allocation, ContextInfo, End, MarkKind, NameId, ProcessTrace,
    StreamInfo,
};

/// Maximum number of contexts, and of streams, of all processes. The rows about them name a process
/// by its number alone, which processes of several machines may share.
const STREAMS_MAX: usize = 1 << 16;
/// Maximum number of processes of a file.
const PROCESSES_MAX: usize = 1 << 16;

/// The facts that an export may lack: the table, and the questions that stay open without it.
const OPEN: [(&str, &str); 5] = [
    (
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        "no calls of CUDA: it cannot be answered what the host did, and what a call cost",
    ),
    (
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        "no waits (their calls may be recorded): it cannot be answered which streams wait for events",
    ),
    (
        "CUDA_GPU_MEMORY_USAGE_EVENTS",
        "no allocations: questions about them cannot be answered, except by their calls",
    ),
    (
        "TARGET_INFO_CUDA_STREAM",
        "no kinds of streams: it cannot be answered which of them are blocking",
    ),
    ("NVTX_EVENTS", "no named ranges: steps are found by the names of kernels alone"),
];

/// The bits of a number of a thread that are the thread within its process.
const THREAD_BITS: u32 = 24;

/// The number of a process in an export. It also has the number of its machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ProcessKey(i64);

impl ProcessKey {
    /// The process of a number of a thread, or of a process.
    pub(super) fn of(global: i64) -> Self {
        Self(global >> THREAD_BITS)
    }

    /// The number that the system gave the process.
    pub(super) fn process(self) -> u32 {
        u32::try_from(self.0 & 0xff_ffff).unwrap_or(0)
    }
}

/// The number that the system gave a thread.
pub(super) fn thread(global: i64) -> u32 {
    u32::try_from(global & 0xff_ffff).unwrap_or(0)
}

/// The end of an activity without an end, until its times are moved.
const NO_END: Nanos = Nanos(i64::MIN.cast_unsigned());

/// A time on the clock of the file, until it is moved. It may be negative.
fn unmoved(time: i64) -> Nanos {
    Nanos(time.cast_unsigned())
}

/// One process.
#[derive(Debug, Default)]
pub(super) struct ProcessRows {
    names: NameTable,
    /// The names by the numbers of the file.
    by_number: HashMap<i64, Option<NameId>>,
    /// The activities and allocations, whose times are [`unmoved`].
    activities: Vec<Activity>,
    allocations: Vec<Allocation>,
    pub(super) contexts: Vec<ContextInfo>,
    pub(super) streams: Vec<StreamInfo>,
    pub(super) command: String,
    /// The names of threads.
    pub(super) threads: BTreeMap<u32, String>,
    pub(super) rank: Option<u32>,
    /// The number of ranges and moments, which are the correlation numbers of the marks.
    marks: u32,
    /// Launches of graphs whose operations were not recorded.
    pub(super) graphs: u64,
    without_time: u64,
    left_out: u64,
}

impl ProcessRows {
    /// Adds a range, or a moment.
    pub(super) fn mark(&mut self, mark: Activity, row: &TableRow<'_>) {
        self.marks = self.marks.saturating_add(1);
        let mark = Activity { correlation: self.marks, ..mark };
        let (begin, end) = (row.number(0), row.number(1));
        self.push(mark, begin, begin);
        if let (ActivityKind::Mark(MarkKind::Start), Some(_)) = (mark.kind, end) {
            let kind = ActivityKind::Mark(MarkKind::End);
            self.push(Activity { kind, name: None, ..mark }, end, end);
        }
    }

    pub(super) fn allocation(&mut self, allocation: Allocation, at: Option<i64>) {
        match at {
            Some(at) if (self.allocations.len() as u64) < ACTIVITIES_MAX => {
                self.allocations.push(Allocation { at: unmoved(at), ..allocation });
            }
            Some(_) => self.left_out += 1,
            None => self.without_time += 1,
        }
    }

    fn push(&mut self, activity: Activity, begin: Option<i64>, end: Option<i64>) {
        let Some(begin) = begin else {
            self.without_time += 1;
            return;
        };
        if self.activities.len() as u64 >= ACTIVITIES_MAX {
            self.left_out += 1;
        } else {
            let end = end.map_or(NO_END, unmoved);
            self.activities.push(Activity { begin: unmoved(begin), end, ..activity });
        }
    }

    fn is_empty(&self) -> bool {
        self.activities.is_empty() && self.allocations.is_empty()
    }

    /// The earliest time.
    fn first(&self) -> Option<i64> {
        let times = self.activities.iter().map(|one| one.begin);
        let times = times.chain(self.allocations.iter().map(|one| one.at));
        times.map(|time| time.0.cast_signed()).min()
    }

    /// The trace of the process, whose times are moved by `base`.
    fn trace(mut self, key: ProcessKey, base: i64, mut notes: Vec<String>) -> ProcessTrace {
        let at = |time: i64| Nanos(base.saturating_add(time).max(0).cast_unsigned());
        let began = self.first().map_or(Nanos(0), at);
        // In place, because a second list of all activities would double the memory.
        for one in &mut self.activities {
            one.begin = at(one.begin.0.cast_signed());
            one.end = if one.end == NO_END { Nanos(0) } else { at(one.end.0.cast_signed()) };
        }
        for one in &mut self.allocations {
            one.at = at(one.at.0.cast_signed());
        }
        let last = self.activities.iter().map(|one| one.end).max().unwrap_or(began);
        if self.graphs > 0 {
            notes.push(format!(
                "{} as one kernel each: it cannot be answered what ran inside \
                 (`nsys profile --cuda-graph-trace=node` records it)",
                crate::counted(self.graphs, "launch of a graph is", "launches of graphs are")
            ));
        }
        if self.without_time > 0 {
            notes.push(crate::without_time(self.without_time));
        }
        let end = End { activities: self.activities.len() as u64, at: last, ..End::default() };
        ProcessTrace {
            process: key.process(),
            began,
            tool: Some("Nsight Systems"),
            command: self.command,
            rank: self.rank,
            names: self.names.all,
            contexts: self.contexts,
            streams: self.streams,
            threads: self.threads,
            allocations: self.allocations,
            activities: self.activities,
            left_out: self.left_out,
            notes,
            end: Some(end),
            ..ProcessTrace::default()
        }
    }
}

/// All processes.
#[derive(Debug)]
pub(super) struct Processes<'a> {
    pub(super) database: &'a Database,
    all: BTreeMap<ProcessKey, ProcessRows>,
    /// The process of rows that name none.
    only: ProcessKey,
}

impl<'a> Processes<'a> {
    pub(super) fn new(database: &'a Database) -> Self {
        Self { database, all: BTreeMap::new(), only: ProcessKey(0) }
    }

    /// The process with a number; `global` is `None` in tables of versions that do not name the
    /// process. `None` if there are too many processes.
    pub(super) fn of(&mut self, global: Option<i64>) -> Option<&mut ProcessRows> {
        let key = global.map_or(self.only, ProcessKey::of);
        if self.all.len() >= PROCESSES_MAX && !self.all.contains_key(&key) {
            return None;
        }
        Some(self.all.entry(key).or_default())
    }

    /// Adds the facts of each row of a table to the processes with the number in its first column.
    pub(super) fn add_infos(
        &mut self,
        table: &str,
        columns: &[&str],
        add: impl Fn(&mut ProcessRows, &TableRow<'_>),
    ) -> Result<(), TraceError> {
        let mut of_number: HashMap<i64, Vec<ProcessKey>> = HashMap::new();
        for key in self.all.keys() {
            of_number.entry(key.process().into()).or_default().push(*key);
        }
        let (database, mut room) = (self.database, STREAMS_MAX);
        database.rows(table, columns, |row| {
            for key in
                row.number(0).and_then(|process| of_number.get(&process)).into_iter().flatten()
            {
                if let (Some(rows), true) = (self.all.get_mut(key), room > 0) {
                    add(rows, row);
                    room -= 1;
                }
            }
            Ok(())
        })
    }

    /// The process so far with this number.
    pub(super) fn known(&mut self, global: i64) -> Option<&mut ProcessRows> {
        self.all.get_mut(&ProcessKey::of(global))
    }

    /// Takes the only process so far as the one of rows that name none.
    pub(super) fn settle_only(&mut self) {
        let mut keys = self.all.keys();
        if let (Some(key), None) = (keys.next(), keys.next()) {
            self.only = *key;
        }
    }

    /// The number of a name of the file in its process.
    pub(super) fn name(
        &mut self,
        global: Option<i64>,
        number: Option<i64>,
    ) -> Result<Option<NameId>, TraceError> {
        let database = self.database;
        let (Some(number), Some(rows)) = (number, self.of(global)) else { return Ok(None) };
        if let Some(known) = rows.by_number.get(&number) {
            return Ok(*known);
        }
        let name = database.string(number)?.and_then(|text| rows.names.of(documented(&text)));
        rows.by_number.insert(number, name);
        Ok(name)
    }

    /// The text of a name in its process.
    pub(super) fn known_name(&self, global: Option<i64>, name: NameId) -> &str {
        let rows = self.all.get(&global.map_or(self.only, ProcessKey::of));
        let index = usize::try_from(name.0).ok();
        let text = rows.zip(index).and_then(|(rows, index)| rows.names.all.get(index));
        text.map_or("", String::as_str)
    }

    /// The number of a text in its process.
    pub(super) fn text(&mut self, global: Option<i64>, text: &str) -> Option<NameId> {
        self.of(global)?.names.of(text)
    }

    /// Adds an activity of a row whose first two columns are its times.
    pub(super) fn add(&mut self, global: Option<i64>, activity: Activity, row: &TableRow<'_>) {
        if let Some(rows) = self.of(global) {
            rows.push(activity, row.number(0), row.number(1));
        }
    }

    /// The traces. `start` is the time of the zero of the clock.
    pub(super) fn traces(
        self,
        start: Option<i64>,
        warnings: &[String],
    ) -> Result<Vec<ProcessTrace>, TraceError> {
        let first = self.all.values().filter_map(ProcessRows::first).min();
        let Some(first) = first else {
            let cause = "the file has no operation of a GPU and no call of CUDA in tables of an \
                         export of Nsight Systems";
            return Err(TraceError::Format(cause.to_owned()));
        };
        // 0 stands for an unknown time, so a clock that begins there is moved.
        let base = start.unwrap_or(0).max(1_i64.saturating_sub(first));
        let mut notes: Vec<String> = OPEN
            .iter()
            .filter(|(table, _)| !self.database.has(table))
            .map(|(_, words)| format!("the export of Nsight Systems has {words}"))
            .collect();
        notes.push(match start {
            Some(_) => crate::CLOCK.to_owned(),
            None => "the export does not tell when its clock began, so its times are not compared \
                     with those of other files"
                .to_owned(),
        });
        notes.extend(warnings.iter().map(|text| format!("Nsight Systems warned: {text}")));
        let with = self.all.into_iter().filter(|(_, rows)| !rows.is_empty());
        Ok(with.map(|(key, rows)| rows.trace(key, base, notes.clone())).collect())
    }
}

/// The name of a function of the runtime without the version of its interface, as the manual and
/// other tools have it: `cudaLaunchKernel` for `cudaLaunchKernel_v7000`.
fn documented(name: &str) -> &str {
    let Some((head, version)) = name.rsplit_once("_v") else { return name };
    let is_version = version.len() >= 4 && version.bytes().all(|byte| byte.is_ascii_digit());
    if name.starts_with("cuda") && is_version { head } else { name }
}
