//! The page that answers what if: the graph of a run, replayed by a script with the fixes and the
//! edits that a reader chooses.
//!
//! The script has the same rules as `model/fixes.rs`. The page has the times that this crate
//! computes for each fix, so a test compares them with the times of the script.
#![forbid(unsafe_code)]

mod items;
mod ledger;
mod order;
mod ring;
#[cfg(test)]
mod tests;

pub use items::LedgerRun;
pub use ledger::what_if_ledger;

use super::activities::is_pageable;
use super::calls::{Class, ProgramCalls};
use super::device::DeviceProfile;
use super::model::{CodedRun, SortedTrace};
use super::names::readable;
use super::process::analyse;
use super::steps::FiguresOf;
use crate::trace::activity::{Activity, ActivityKind, CopyDirection, NameId, ProcessTrace};
use crate::trace::html::DistinctWords;
use items::{PageItem, WhatIfPage, add_columns};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The assumptions of the model of a trace.
const ASSUMES: &str = include_str!("trace.html");

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

/// The number of the kind of an operation, as the script of the page has it.
fn kind_of_operation(one: &Activity) -> u64 {
    match one.kind {
        ActivityKind::Kernel => 5,
        ActivityKind::Copy { direction: CopyDirection::Upload, .. } if is_pageable(one) => 9,
        ActivityKind::Copy { direction: CopyDirection::Download, .. } if is_pageable(one) => 10,
        ActivityKind::Copy { direction: CopyDirection::Upload, .. } => 7,
        ActivityKind::Copy { direction: CopyDirection::Download, .. } => 8,
        _ => 6,
    }
}

/// The labels of calls and operations.
struct ItemLabels<'a> {
    trace: &'a ProcessTrace,
    /// For each name of the trace, the number of its label.
    of: HashMap<Option<NameId>, u32>,
    all: DistinctWords,
}

impl ItemLabels<'_> {
    fn of_name(&mut self, name: Option<NameId>) -> u32 {
        *self.of.entry(name).or_insert_with(|| {
            let index = name.and_then(|name| usize::try_from(name.0).ok());
            let text = index.and_then(|index| self.trace.names.get(index));
            self.all.number(&readable(text.map_or("", String::as_str)))
        })
    }

    fn of_operation(&mut self, one: &Activity) -> u32 {
        let ActivityKind::Copy { direction, .. } = one.kind else {
            return match one.kind {
                ActivityKind::Fill => self.all.number("fill"),
                _ => self.of_name(one.name),
            };
        };
        let words = match direction {
            CopyDirection::Upload => "upload",
            CopyDirection::Download => "download",
            CopyDirection::Peer => "copy between devices",
            CopyDirection::Host => "copy on the host",
            CopyDirection::Within | CopyDirection::Unknown => "copy within the device",
        };
        let pageable = if is_pageable(one) { ", pageable" } else { "" };
        self.all.number(&format!("{words}{pageable}"))
    }
}

/// The page of the device of a process with the most operations, as HTML. The records that violate
/// the laws of CUDA are removed from the trace. `file` is the title of a trace without a command
/// line. `None` if the trace has no operation with known times, or if its records have no order.
///
/// ```
/// use trijet_ledger::profile::{FiguresOf, what_if};
/// let mut trace = trijet_ledger::trace::activity::ProcessTrace::default();
/// assert!(what_if(&mut trace, FiguresOf::Steps, "empty").is_none());
/// ```
#[must_use]
pub fn what_if(trace: &mut ProcessTrace, extent: FiguresOf, file: &str) -> Option<String> {
    let profile = analyse(trace, extent);
    let operations = |device: &&DeviceProfile| -> usize {
        device.engines.iter().map(|engine| engine.operations).sum()
    };
    let device = profile.devices.iter().max_by_key(operations)?;
    let window = device.began.0..device.began.0.saturating_add(device.elapsed.0);
    let device = device.device;
    let mut run = profile.model?.coded(device, &window)?;
    let (rows, labels) = add_items(&mut run, trace, |one| {
        one.device == device && one.begin.0 >= window.start && one.end.0 <= window.end
    })?;
    let title = if profile.command.is_empty() { file } else { &profile.command };
    let page = WhatIfPage {
        title,
        device,
        rows: &rows,
        labels: &labels,
        more: "",
        sections: ["", ""],
        scripts: &[],
        assumes: ASSUMES,
    };
    Some(page.render(run))
}

/// Adds the columns of the calls and operations. Returns the names of their rows, and the labels.
/// `None` without operations.
fn add_items(
    run: &mut CodedRun,
    trace: &ProcessTrace,
    counts: impl Fn(&Activity) -> bool,
) -> Option<(DistinctWords, DistinctWords)> {
    let calls = ProgramCalls::of(trace);
    let sorted = SortedTrace::of(trace, &calls)?;
    let (mut rows, mut items) = (DistinctWords::default(), Vec::new());
    let mut labels = ItemLabels { trace, of: HashMap::new(), all: DistinctWords::default() };
    let activities = || sorted.operations.iter().map(|one| one.activity);
    let streams: BTreeSet<RowOfStream> = activities().map(RowOfStream::of).collect();
    let contexts: BTreeSet<u32> = streams.iter().map(|row| row.context).collect();
    let row = |of: &RowOfStream| (*of, rows.number(&of.name(contexts.len())));
    let stream_rows: BTreeMap<RowOfStream, u32> = streams.iter().map(row).collect();
    let mut threads: HashMap<u32, u32> = HashMap::new();
    for (at, call) in sorted.calls.iter().enumerate() {
        let row = threads.entry(call.thread);
        items.push(PageItem {
            begin: call.time.start,
            end: call.time.end,
            row: *row.or_insert_with(|| rows.number(&format!("thread {}", call.thread))),
            label: labels.of_name(call.name),
            kind: kind_of_call(call.class),
            moment: sorted.of_call(at),
            call: 0,
            counts: false,
        });
    }
    for (at, one) in sorted.operations.iter().enumerate() {
        items.push(PageItem {
            begin: one.activity.begin.0,
            end: one.activity.end.0,
            row: stream_rows[&RowOfStream::of(one.activity)],
            label: labels.of_operation(one.activity),
            kind: kind_of_operation(one.activity),
            moment: sorted.of_operation(at),
            call: one.call.map_or(0, |call| call as u64 + 1),
            counts: counts(one.activity),
        });
    }
    add_columns(run, &items, sorted.start);
    Some((rows, labels.all))
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
