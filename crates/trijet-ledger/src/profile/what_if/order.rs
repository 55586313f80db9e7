//! The columns with which the script `order.js` judges a ledger again after a change.
#![forbid(unsafe_code)]

use super::super::model::{CodedRun, LedgerMoments};
use super::items::LedgerRun;
use crate::base::ledger::StreamClass;
use crate::check::coded::{CodedEntry, CodedLedger, CodedUse};
use crate::trace::html::{ColumnCode, Columns};
use std::fmt::Write;

/// The words of the entries, and the rows of the streams.
pub(super) struct OrderNames<'a> {
    /// For each coded entry, the number of its label.
    pub(super) labels: &'a [u32],
    /// For each coded stream, one more than its row, or 0.
    pub(super) rows: &'a [u32],
    /// For each coded block, its name, in JSON.
    pub(super) blocks: &'a [String],
}

fn how_of_entry(entry: &CodedEntry) -> u64 {
    u64::from(entry.returns[0])
        | u64::from(entry.returns[1]) << 2
        | u64::from(entry.reads_at_call) << 4
        | u64::from(entry.is_async) << 5
}

fn how_of_use(one: &CodedUse) -> u64 {
    one.moment as u64
        | (one.effect as u64) << 2
        | u64::from(one.writes) << 5
        | u64::from(one.in_this_run) << 6
        | u64::from(one.is_owned) << 7
}

fn class_of(class: StreamClass) -> u8 {
    match class {
        StreamClass::NonBlocking => 0,
        StreamClass::Blocking | StreamClass::PerThread => 1,
        StreamClass::Legacy => 2,
    }
}

/// Adds the columns of the order alone.
pub(super) fn add_order(columns: &mut Columns, ledger: &CodedLedger) {
    let mut entry = |name: &str, code: ColumnCode, of: &dyn Fn(&CodedEntry) -> u64| {
        columns.add(name, code, ledger.entries.iter().map(of));
    };
    entry("oAt", ColumnCode::Difference, &|one| one.at as u64);
    entry("oStep", ColumnCode::Plain, &|one| one.step as u64);
    entry("oThread", ColumnCode::Plain, &|one| one.thread as u64);
    entry("oLane", ColumnCode::Plain, &|one| one.lane as u64);
    entry("oAbout", ColumnCode::Plain, &|one| one.about as u64);
    entry("oHow", ColumnCode::Plain, &how_of_entry);
    entry("oBegun", ColumnCode::Plain, &|one| one.since_begin as u64);
    entry("oPageable", ColumnCode::Plain, &|one| one.pageable as u64);
    entry("oUses", ColumnCode::Plain, &|one| one.uses.len() as u64);
    let mut used = |name: &str, code: ColumnCode, of: &dyn Fn(&CodedUse) -> u64| {
        columns.add(name, code, ledger.uses.iter().map(of));
    };
    used("uBlock", ColumnCode::Plain, &|one| one.block as u64);
    used("uCell", ColumnCode::Difference, &|one| one.cells.start as u64);
    used("uCells", ColumnCode::Plain, &|one| one.cells.len() as u64);
    used("uHow", ColumnCode::Plain, &how_of_use);
    let cells = ledger.cells.bytes.iter().map(|bytes| (bytes.start, bytes.end));
    columns.add_spans(["cellBegin", "cellBytes"], cells);
    columns.add("blockBegin", ColumnCode::Plain, ledger.blocks.iter().map(|(_, first)| *first));
}

/// Adds the columns that lead from the order to the words and the moments of the page.
pub(super) fn add_order_names(
    run: &mut CodedRun,
    ledger: &CodedLedger,
    page: &LedgerRun<'_>,
    moments: &LedgerMoments,
    names: &OrderNames<'_>,
) {
    let ops = page.ops;
    let number = |moment: u32| usize::try_from(moment).map_or(0, |at| u64::from(run.numbers[at]));
    // The moments of the work of an operation, or of the call of another entry.
    let of = |entry: &CodedEntry| {
        let at = entry.at;
        let (start, is_timed) = match ops[at].kind.is_in_stream() {
            true => (moments.work[at], page.dag.work(at).is_some()),
            false => (moments.call[at], page.dag.call(at).is_some()),
        };
        (number(start), number(start + u32::from(is_timed)))
    };
    let both: Vec<(u64, u64)> = ledger.entries.iter().map(of).collect();
    let columns = &mut run.columns;
    columns.add("oStart", ColumnCode::Difference, both.iter().map(|(start, _)| *start));
    columns.add("oEnd", ColumnCode::Difference, both.iter().map(|(_, end)| *end));
    let chunks = ledger.entries.iter().map(|entry| ops[entry.at].chunk);
    let chunks = chunks.map(|chunk| chunk.map_or(0, |chunk| chunk.saturating_add(1)));
    columns.add("oChunk", ColumnCode::Difference, chunks);
    columns.add("oLabel", ColumnCode::Plain, names.labels.iter().map(|label| u64::from(*label)));
}

/// The facts about the order that are no columns, as the content of an object in JSON.
pub(super) fn facts(ledger: &CodedLedger, names: &OrderNames<'_>) -> String {
    let mut lanes = String::new();
    for (lane, row) in ledger.lanes.iter().zip(names.rows) {
        let comma = if lanes.is_empty() { "" } else { "," };
        let (class, device) = (class_of(lane.class), lane.device);
        // The entry of an opening, as a number of the order.
        let opened = ledger.entries.partition_point(|entry| entry.at < lane.opened);
        write!(lanes, "{comma}[{class},{device},{opened},{row}]").expect("writing to a string");
    }
    format!(
        "\"lanes\":[{lanes}],\"threads\":{},\"events\":{},\"graphs\":{},\"devices\":{},\
         \"blocks\":[{}]",
        ledger.threads,
        ledger.events,
        ledger.graphs,
        ledger.devices,
        names.blocks.join(",")
    )
}
