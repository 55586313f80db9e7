//! The page that answers what if: the graph of a run, replayed by a script with the fixes and the
//! edits that a reader chooses.
//!
//! The script has the same rules as `model/fixes.rs`. The page has the times that this crate
//! computes for each fix, so a test compares them with the times of the script.
#![forbid(unsafe_code)]

use super::activities::is_timed;
use super::calls::{Class, ProgramCalls};
use super::device::DeviceProfile;
use super::model::{CodedRun, RunModel};
use super::names::readable;
use super::process::ProcessProfile;
use crate::trace::activity::{
    Activity, ActivityKind, CopyDirection, MemoryKind, NameId, ProcessTrace,
};
use crate::trace::html::{ColumnCode, SHARED_STYLE, UNPACK, escaped};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A call or an operation on the page.
struct PageItem {
    begin: u64,
    end: u64,
    row: u64,
    label: u64,
    kind: u64,
    /// The moment of its start. The moment of its end has the next number.
    moment: u32,
    /// One more than the index of the call that enqueued an operation; 0 for none.
    call: u64,
    counts: bool,
}

/// Labels or rows, each with a number.
#[derive(Default)]
struct TextNumbers {
    names: Vec<String>,
    numbers: HashMap<String, u64>,
}

impl TextNumbers {
    fn of(&mut self, name: String) -> u64 {
        let next = self.names.len() as u64;
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            next
        })
    }

    fn json(&self) -> String {
        let quoted: Vec<String> = self.names.iter().map(|name| json_text(name)).collect();
        format!("[{}]", quoted.join(","))
    }
}

/// The text as a string in JSON that may stand in an element of a script.
fn json_text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"'
            | '\\'
            | '<'
            | '>'
            | '&'
            | '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{2028}'
            | '\u{2029}' => {
                write!(quoted, "\\u{:04x}", u32::from(letter)).expect("writing to a string");
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// The number of the kind of a call, as the script of the page has it.
fn kind_of_call(class: Class) -> u64 {
    match class {
        Class::DeviceSync | Class::StreamSync => 0,
        Class::CopySync => 1,
        Class::CopyAsync => 2,
        Class::Alloc => 3,
        Class::Other => 4,
    }
}

/// The number of the kind of an operation, as the script of the page has it, and its label.
fn operation_words(
    one: &Activity,
    trace: &ProcessTrace,
    names: &mut HashMap<Option<NameId>, String>,
) -> (u64, String) {
    match one.kind {
        ActivityKind::Copy { direction, from, to } => {
            let words = match direction {
                CopyDirection::Upload => "upload",
                CopyDirection::Download => "download",
                CopyDirection::Peer => "copy between devices",
                CopyDirection::Host => "copy on the host",
                CopyDirection::Within | CopyDirection::Unknown => "copy within the device",
            };
            let is_pageable = from == MemoryKind::Pageable || to == MemoryKind::Pageable;
            let kind = match direction {
                CopyDirection::Upload if is_pageable => 9,
                CopyDirection::Download if is_pageable => 10,
                CopyDirection::Upload => 7,
                CopyDirection::Download => 8,
                _ => 6,
            };
            (kind, format!("{words}{}", if is_pageable { ", pageable" } else { "" }))
        }
        ActivityKind::Fill => (6, "fill".to_owned()),
        _ => (5, names.entry(one.name).or_insert_with(|| readable(trace.name(one))).clone()),
    }
}

/// The page of the device of a process with the most operations, as HTML. `profile` is the profile
/// of `trace`. `None` if the trace has no operation with known times, or if its records have no
/// order.
///
/// ```
/// use trijet_ledger::profile::{FiguresOf, analyse, what_if};
/// let mut trace = trijet_ledger::trace::activity::ProcessTrace::default();
/// let profile = analyse(&mut trace, FiguresOf::Steps);
/// assert!(what_if(&trace, &profile, "empty").is_none());
/// ```
#[must_use]
pub fn what_if(trace: &ProcessTrace, profile: &ProcessProfile, title: &str) -> Option<String> {
    let operations = |device: &&DeviceProfile| -> usize {
        device.engines.iter().map(|engine| engine.operations).sum()
    };
    let device = profile.devices.iter().max_by_key(operations)?;
    let window = device.began.0..device.began.0.saturating_add(device.elapsed.0);
    let device = device.device;
    let calls = ProgramCalls::of(trace);
    let mut run = RunModel::of(trace, &calls)?.coded(device, &window)?;
    let mut labels = TextNumbers::default();
    let rows = add_items(&mut run, trace, &calls, &mut labels, |one| {
        one.device == device && one.begin.0 >= window.start && one.end.0 <= window.end
    });
    let fixes: Vec<String> = run
        .fixes
        .iter()
        .map(|(fix, replayed)| format!("[\"{fix:?}\",\"{}\",{replayed}]", fix.words()))
        .collect();
    let CodedRun { columns, measured, replayed, .. } = run;
    let (heads, packed) = columns.finish();
    let data = format!(
        "{{\"columns\":[{heads}],\"rows\":{},\"labels\":{},\"fixes\":[{}],\"measured\":{measured},\
         \"replayed\":{replayed},\"device\":{device}}}",
        rows.json(),
        labels.json(),
        fixes.join(",")
    );
    // The data are inserted last, because a name in them may contain a mark such as `/*STYLE*/`.
    let page = PAGE.replacen("/*STYLE*/", &[SHARED_STYLE, STYLE].concat(), 1);
    let page = page.replacen("/*SCRIPT*/", &[UNPACK, SCRIPT].concat(), 1);
    let page = page.replacen("/*COLUMNS*/", &packed, 1).replacen("/*DATA*/", &data, 1);
    Some(page.replace("/*TITLE*/", &escaped(title)))
}

/// Adds the columns of the calls and operations. Returns the names of their rows.
fn add_items(
    run: &mut CodedRun,
    trace: &ProcessTrace,
    calls: &ProgramCalls,
    labels: &mut TextNumbers,
    counts: impl Fn(&Activity) -> bool,
) -> TextNumbers {
    let mut operations: Vec<&Activity> =
        trace.activities.iter().filter(|one| one.engine().is_some() && is_timed(one)).collect();
    operations.sort_by_key(|one| (one.begin, one.end));
    let mut rows = TextNumbers::default();
    let mut items = Vec::new();
    let (list, mut names) = (calls.list(), HashMap::new());
    let mut known: HashMap<Option<NameId>, u64> = HashMap::new();
    let mut call_labels = |name: Option<NameId>, labels: &mut TextNumbers| {
        *known.entry(name).or_insert_with(|| {
            let index = name.and_then(|name| usize::try_from(name.0).ok());
            let text = index.and_then(|index| trace.names.get(index));
            labels.of(readable(text.map_or("", String::as_str)))
        })
    };
    let streams: BTreeSet<RowOfStream> =
        operations.iter().map(|one| RowOfStream::of(one)).collect();
    let contexts: BTreeSet<u32> = streams.iter().map(|row| row.context).collect();
    let row = |of: &RowOfStream| (*of, rows.of(of.name(contexts.len())));
    let stream_rows: BTreeMap<RowOfStream, u64> = streams.iter().map(row).collect();
    let mut threads: HashMap<u32, u64> = HashMap::new();
    for (at, call) in list.iter().enumerate() {
        items.push(PageItem {
            begin: call.time.start,
            end: call.time.end,
            row: *threads
                .entry(call.thread)
                .or_insert_with(|| rows.of(format!("thread {}", call.thread))),
            label: call_labels(call.name, labels),
            kind: kind_of_call(call.class),
            moment: u32::try_from(2 * at + 1).unwrap_or(u32::MAX),
            call: 0,
            counts: false,
        });
    }
    for (at, one) in operations.iter().enumerate() {
        let (kind, words) = operation_words(one, trace, &mut names);
        items.push(PageItem {
            begin: one.begin.0,
            end: one.end.0,
            row: stream_rows[&RowOfStream::of(one)],
            label: labels.of(words),
            kind,
            moment: u32::try_from(2 * (list.len() + at) + 1).unwrap_or(u32::MAX),
            call: calls.enqueuing_index(one).map_or(0, |call| call as u64 + 1),
            counts: counts(one),
        });
    }
    let first = items.iter().map(|one| one.begin).min().unwrap_or(0);
    let numbers = &run.numbers;
    let number = |moment: u32| usize::try_from(moment).map_or(0, |at| u64::from(numbers[at]));
    let columns = &mut run.columns;
    let spans = items.iter().map(|one| (one.begin - first, one.end - first));
    columns.add_spans(["itemBegin", "itemTook"], spans);
    columns.add("itemStart", ColumnCode::Difference, items.iter().map(|one| number(one.moment)));
    columns.add("itemEnd", ColumnCode::Difference, items.iter().map(|one| number(one.moment + 1)));
    columns.add("itemRow", ColumnCode::Plain, items.iter().map(|one| one.row));
    columns.add("itemLabel", ColumnCode::Plain, items.iter().map(|one| one.label));
    columns.add("itemKind", ColumnCode::Plain, items.iter().map(|one| one.kind));
    columns.add("itemCall", ColumnCode::Difference, items.iter().map(|one| one.call));
    columns.add("itemCounts", ColumnCode::Plain, items.iter().map(|one| u64::from(one.counts)));
    rows
}

/// The stream of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RowOfStream {
    device: u32,
    context: u32,
    stream: u32,
}

impl RowOfStream {
    fn of(one: &Activity) -> Self {
        Self { device: one.device, context: one.context, stream: one.stream }
    }

    /// The name of the row, with the context if the program has several.
    fn name(self, contexts: usize) -> String {
        let Self { device, context, stream } = self;
        let of_context = if contexts > 1 { format!(", context {context}") } else { String::new() };
        format!("GPU {device}{of_context}, stream {stream}")
    }
}
