//! The named ranges of a program on its page: rows for each thread that opened ranges.
#![forbid(unsafe_code)]

use super::timeline::{TimelineBuilder, thread_label};
use crate::profile::names::readable;
use crate::profile::process::ProcessProfile;
use crate::profile::ranges::{NamedRanges, RangeTime};
use crate::trace::activity::ProcessTrace;
use crate::trace::html::{FigureTable, Item, NO_TRACK, Section, TimelineTrack, TrackKind};
use std::collections::BTreeMap;

/// Maximum number of rows of a thread. A range inside so many others has no row.
const LEVELS_MAX: usize = 8;

/// The table of the named ranges of a process; `None` if it named none.
pub(super) fn ranges_section(process: &ProcessProfile) -> Option<Section> {
    let row = |range: &RangeTime| {
        let RangeTime { name, ranges, open, operations, ran } = range;
        let figures = [ranges.to_string(), open.to_string(), operations.to_string()];
        [name.clone()].into_iter().chain(figures).chain([ran.to_string()]).collect()
    };
    (!process.ranges.is_empty()).then(|| Section {
        title: format!("Named ranges of process {}, over the whole run", process.process),
        table: FigureTable {
            head: ["name", "ranges", "open", "operations", "GPU busy"].map(str::to_owned).to_vec(),
            rows: process.ranges.iter().map(row).collect(),
        },
        ..Section::default()
    })
}

impl TimelineBuilder {
    /// Adds the named ranges of the process with the index `number`. A range is drawn in the first
    /// row of its thread that is free at its start, so a nested range is below the range around it.
    pub(super) fn add_ranges(&mut self, number: usize, trace: &ProcessTrace) {
        let ranges = NamedRanges::without_operations(trace);
        if ranges.list.is_empty() {
            return;
        }
        let kind = self.kinds.number("named range");
        // For each thread, the ends of the last ranges in its rows.
        let mut rows: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        let mut is_hidden = false;
        for range in &ranges.list {
            let its = rows.entry(range.thread).or_default();
            let free = its.iter().position(|end| *end <= range.time.start);
            let row = free.unwrap_or(its.len());
            if row == its.len() {
                if row == LEVELS_MAX {
                    is_hidden = true;
                    continue;
                }
                its.push(0);
            }
            its[row] = range.time.end;
            let Some(call) = self.on_page(&range.time) else { continue };
            let level = u32::try_from(row + 1).unwrap_or(u32::MAX);
            let thread = self.track((number, None, 2, range.thread, level), || TimelineTrack {
                kind: TrackKind::Thread,
                group: format!("process {}, host", trace.process),
                name: thread_label("ranges", trace, range.thread),
            });
            let name =
                range.own_name.and_then(|name| trace.names.get(usize::try_from(name.0).ok()?));
            let label = self.label(&readable(name.map_or("", String::as_str)));
            let (engine, stream) = (NO_TRACK, NO_TRACK);
            let (call, work, bytes) = (Some(call), None, 0);
            self.sheet.items.push(Item { work, call, bytes, label, kind, engine, stream, thread });
        }
        self.hidden += usize::from(is_hidden);
    }
}
