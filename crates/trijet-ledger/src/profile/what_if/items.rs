//! The calls and operations of a page, and the frame around them.
#![forbid(unsafe_code)]

use super::super::model::{CALL_NS, CodedRun, PROGRAM_MAX_NS, RunFix};
use crate::base::dag::Dag;
use crate::base::ledger::Op;
use crate::trace::html::{ColumnCode, DistinctWords, SHARED_STYLE, UNPACK, escaped, with_parts};
use crate::trace::json;
use std::ops::Range;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A call or an operation on the page.
pub(super) struct PageItem {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) row: u32,
    pub(super) label: u32,
    pub(super) kind: u64,
    /// The moment of its start. The moment of its end has the next number.
    pub(super) moment: u32,
    /// One more than the index of the call that enqueued an operation; 0 for none.
    pub(super) call: u64,
    pub(super) counts: bool,
}

impl PageItem {
    /// An item without a call, which does not count for the time of the run.
    pub(super) fn new(time: Range<u64>, row: u32, label: u32, kind: u64, moment: u32) -> Self {
        let Range { start: begin, end } = time;
        Self { begin, end, row, label, kind, moment, call: 0, counts: false }
    }
}

/// Adds the columns of the items. `start` is the start of the trace in nanoseconds.
pub(super) fn add_columns(run: &mut CodedRun, items: &[PageItem], start: u64) {
    let numbers = &run.numbers;
    let number = |moment: u32| usize::try_from(moment).map_or(0, |at| u64::from(numbers[at]));
    let columns = &mut run.columns;
    let spans = items.iter().map(|one| (one.begin - start, one.end - start));
    columns.add_spans(["itemBegin", "itemTook"], spans);
    columns.add("itemStart", ColumnCode::Difference, items.iter().map(|one| number(one.moment)));
    columns.add("itemEnd", ColumnCode::Difference, items.iter().map(|one| number(one.moment + 1)));
    columns.add("itemRow", ColumnCode::Plain, items.iter().map(|one| one.row.into()));
    columns.add("itemLabel", ColumnCode::Plain, items.iter().map(|one| one.label.into()));
    columns.add("itemKind", ColumnCode::Plain, items.iter().map(|one| one.kind));
    columns.add("itemCall", ColumnCode::Difference, items.iter().map(|one| one.call));
    columns.add("itemCounts", ColumnCode::Plain, items.iter().map(|one| one.counts.into()));
}

/// The words of a list, as the content of a list in JSON.
pub(super) fn list(words: &DistinctWords) -> String {
    words.words.iter().map(|word| json::string(word)).collect::<Vec<_>>().join(",")
}

/// A ledger, and the facts about its run that its entries do not have.
#[derive(Debug, Clone, Copy)]
pub struct LedgerRun<'a> {
    /// The entries, in the order of the ledger.
    pub ops: &'a [Op],
    /// The graph of the entries.
    pub dag: &'a Dag,
    /// The title of the page.
    pub title: &'a str,
    /// The number of entries of the run that the ledger leaves out.
    pub dropped: u64,
}

/// A page, without the columns of its run.
pub(super) struct WhatIfPage<'a> {
    pub(super) title: &'a str,
    pub(super) device: u32,
    pub(super) rows: &'a DistinctWords,
    pub(super) labels: &'a DistinctWords,
    /// More members of the data in JSON, each with a comma before it.
    pub(super) more: &'a str,
    /// The sections that only pages of this kind have, before and after the timeline, and their
    /// scripts.
    pub(super) sections: [&'a str; 2],
    pub(super) scripts: &'a [&'a str],
    /// The items of the list of what the model assumes.
    pub(super) assumes: &'a str,
}

impl WhatIfPage<'_> {
    /// The page as HTML.
    pub(super) fn render(&self, run: CodedRun) -> String {
        let fix = |(fix, replayed): &(RunFix, u64)| {
            format!("[\"{fix:?}\",\"{}\",{replayed}]", fix.words())
        };
        let fixes: Vec<String> = run.fixes.iter().map(fix).collect();
        let CodedRun { columns, measured, replayed, .. } = run;
        let (heads, packed) = columns.finish();
        let data = format!(
            "{{\"columns\":[{heads}],\"rows\":[{}],\"labels\":[{}],\"fixes\":[{}],\
             \"measured\":{measured},\"replayed\":{replayed},\"device\":{},\
             \"callNs\":{CALL_NS},\"programNs\":{PROGRAM_MAX_NS}{}}}",
            list(self.rows),
            list(self.labels),
            fixes.join(","),
            self.device,
            self.more
        );
        with_parts(PAGE, |name| match name {
            "title" => escaped(self.title).into(),
            "style" => [SHARED_STYLE, STYLE].concat().into(),
            "data" => data.as_str().into(),
            "columns" => packed.as_str().into(),
            "sections" => self.sections[0].into(),
            "after" => self.sections[1].into(),
            "assumes" => self.assumes.into(),
            "script" => [UNPACK, &self.scripts.concat(), SCRIPT].concat().into(),
            other => unreachable!("the page has no part {other}"),
        })
    }
}
