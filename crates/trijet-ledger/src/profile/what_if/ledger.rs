//! The page that answers what if for a ledger: the graph of the run, and the order of its accesses.
#![forbid(unsafe_code)]

use super::super::model::{CodedRun, LedgerMoments, RunModel, call_time, direction, is_staged};
use super::super::names::readable;
use super::items::{LedgerRun, PageItem, WhatIfPage, add_columns};
use super::order::{OrderNames, add_order, add_order_names, facts};
use super::ring::RunRing;
use crate::base::dag::Dag;
use crate::base::id::{BlockId, LaneId};
use crate::base::ledger::{
    Engine, HostStep, LedgerNote, MemoryCall, Named, Op, OpKind, StreamMark, StreamWork, Waited,
};
use crate::check::coded::{CodedLedger, NotJudged};
use crate::check::{CheckOptions, Checker, Finding};
use crate::trace::activity::CopyDirection;
use crate::trace::html::{ColumnCode, DistinctWords};
use crate::trace::json;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The sections, the assumptions and the scripts of the pages of ledgers.
const SECTIONS: [&str; 2] = [include_str!("ledger.html"), include_str!("ring.html")];
const ASSUMES: &str = include_str!("ledger_assumes.html");
const ORDER: &str = include_str!("order.js");
const LEDGER: &str = include_str!("ledger.js");
const RING: &str = include_str!("ring.js");

/// The calls and operations of the page, with what leads from them to the order.
#[derive(Default)]
struct LedgerItems<'a> {
    items: Vec<PageItem>,
    rows: DistinctWords,
    labels: DistinctWords,
    /// The labels so far: the label of the entry, its words without a label, and whether it copies
    /// pageable memory.
    labelled: HashMap<(&'a str, &'static str, bool), u32>,
    /// For each item, the index of its entry in the ledger, and whether it stands for the entry.
    entries: Vec<(usize, bool)>,
    /// The waits of streams.
    waits: Vec<StreamWait>,
    /// For each lane, the waits since its last operation, as indices of `waits`.
    open: BTreeMap<LaneId, Vec<usize>>,
    /// For each lane, its row.
    lanes: BTreeMap<LaneId, u32>,
    threads: BTreeMap<u64, u32>,
}

/// A wait of a stream for an event.
struct StreamWait {
    /// The index of the wait in the ledger.
    at: usize,
    /// The number of the item that waits, if there is one.
    item: Option<usize>,
    /// The lane of the record that it waits for.
    on: LaneId,
}

/// The page of a ledger as HTML: it shows the device with the most operations. `None` if the ledger
/// has no operation with known times.
///
/// ```
/// use trijet_ledger::profile::{LedgerRun, what_if_ledger};
/// use trijet_ledger::trace::dag::{Dag, Kernels};
/// let dag = Dag::new(&[], Kernels::Several);
/// let run = LedgerRun { ops: &[], dag: &dag, title: "empty", dropped: 0 };
/// assert!(what_if_ledger(&run).is_none());
/// ```
#[must_use]
pub fn what_if_ledger(run: &LedgerRun<'_>) -> Option<String> {
    let LedgerRun { ops, dag, .. } = *run;
    let device = largest_device(ops, dag)?;
    let (model, moments) = RunModel::of_ledger(ops, dag)?;
    let mut coded = model.coded(device, &(0..u64::MAX))?;
    let ledger = match run.dropped {
        0 => CodedLedger::of(ops),
        _ => Err(NotJudged::Incomplete),
    };
    let mut items = LedgerItems::default();
    items.add_rows(ops);
    for at in 0..ops.len() {
        items.add(run, device, &moments, at);
    }
    add_columns(&mut coded, &items.items, moments.start);
    items.add_columns(&mut coded, run, &moments, ledger.as_ref().ok());
    let order = match &ledger {
        Ok(ledger) => items.add_order(&mut coded, run, ledger, &moments),
        Err(reason) => format!("\"notJudged\":{}", json::string(reason.words())),
    };
    let without: Vec<String> = { items.sampled_waits().into_iter() }
        .map(|(number, at)| format!("[{number},{}]", model.without_wait(device, moments.work[at])))
        .collect();
    let ring = RunRing::of(ops, dag, device).map_or("null".to_owned(), |ring| ring.json());
    let more = format!(
        ",\"ledger\":{{{order},{},\"without\":[{}]}},\"ring\":{ring}",
        verdict(ops),
        without.join(",")
    );
    let page = WhatIfPage {
        title: run.title,
        device,
        rows: &items.rows,
        labels: &items.labels,
        more: &more,
        sections: SECTIONS,
        scripts: &[ORDER, RING, LEDGER],
        assumes: ASSUMES,
    };
    Some(page.render(coded))
}

/// The device with the most operations with known times.
fn largest_device(ops: &[Op], dag: &Dag) -> Option<u32> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for (at, op) in ops.iter().enumerate() {
        if op.engine != Engine::None && dag.work(at).is_some() {
            *counts.entry(op.device.0).or_default() += 1;
        }
    }
    counts.into_iter().max_by_key(|(device, count)| (*count, Reverse(*device))).map(|one| one.0)
}

/// The verdict of the checker about the unchanged run, as the content of an object in JSON: the
/// number of conflicts, and the number of operations without declared accesses. The script of the
/// page must find the same conflicts.
fn verdict(ops: &[Op]) -> String {
    let mut checker = Checker::new(CheckOptions::new());
    ops.iter().for_each(|op| checker.push(op));
    let verdict = checker.finish();
    let conflicts = verdict.findings.iter().filter(|finding| finding.conflict.is_some());
    let pair = |finding: &Finding| {
        (finding.first.as_ref().map(|first| first.op), finding.second.op, finding.block)
    };
    let pairs: BTreeSet<_> = conflicts.map(pair).collect();
    let pairs = if verdict.more == 0 { pairs.len().to_string() } else { "null".to_owned() };
    format!("\"conflicts\":{pairs},\"undeclared\":{}", verdict.undeclared)
}

/// The number of the kind of a call, as the script of the page has it.
fn kind_of_call(op: &Op) -> u64 {
    match op.kind {
        OpKind::Host(HostStep::Sync { .. }) => 0,
        OpKind::Work(StreamWork::CopyNow | StreamWork::FillNow) => 1,
        OpKind::Work(StreamWork::Copy | StreamWork::Batch(_)) => 2,
        OpKind::Work(StreamWork::Alloc | StreamWork::Free) | OpKind::Memory(_) => 3,
        _ => 4,
    }
}

/// The number of the kind of an operation, as the script of the page has it.
fn kind_of_operation(op: &Op) -> u64 {
    match (direction(op), op.kind) {
        (Some(CopyDirection::Upload), _) => 7 + 2 * u64::from(is_staged(op)),
        (Some(_), _) => 8 + 2 * u64::from(is_staged(op)),
        (None, OpKind::Work(StreamWork::Kernel)) => 5,
        _ => 6,
    }
}

/// The words for an entry without a label.
fn words_of(op: &Op) -> &'static str {
    match op.kind {
        OpKind::Work(StreamWork::Alloc) | OpKind::Memory(MemoryCall::AllocNow) => "allocation",
        OpKind::Work(StreamWork::Free) | OpKind::Memory(MemoryCall::FreeNow) => "free",
        OpKind::Memory(MemoryCall::FromHeap { .. }) => "memory from a heap",
        OpKind::Memory(MemoryCall::ToHeap) => "memory to a heap",
        OpKind::Work(StreamWork::Fill | StreamWork::FillNow) => "fill",
        OpKind::Work(StreamWork::Kernel) => "kernel",
        OpKind::Work(StreamWork::HostFn) => "host function",
        OpKind::Work(_) => match op.engine {
            Engine::Upload => "upload",
            Engine::Download => "download",
            _ => "copy",
        },
        OpKind::Host(HostStep::Sync { what, .. }) => match what {
            Waited::Event(_) | Waited::Recorded(_) => "wait for an event",
            Waited::Stream => "wait for a stream",
            Waited::Device => "wait for the device",
        },
        OpKind::Host(HostStep::Access) => "access by the host",
        OpKind::Host(HostStep::Load) => "load of a kernel",
        OpKind::Mark(StreamMark::Record { .. }) => "record",
        OpKind::Mark(StreamMark::Wait { .. }) => "wait",
        _ => "call",
    }
}

impl<'a> LedgerItems<'a> {
    /// The number of the label of an entry.
    fn label(&mut self, op: &'a Op) -> u32 {
        let name = if op.kind.is_work() { &*op.label } else { "" };
        let (words, is_staged) = (words_of(op), is_staged(op));
        *self.labelled.entry((name, words, is_staged)).or_insert_with(|| {
            let name = if name.is_empty() { words.to_owned() } else { readable(name) };
            let pageable = if is_staged { ", pageable" } else { "" };
            self.labels.number(&format!("{name}{pageable}"))
        })
    }

    /// Adds the rows of all streams, and then of all threads.
    fn add_rows(&mut self, ops: &[Op]) {
        let (mut lanes, mut names) = (BTreeSet::new(), BTreeMap::new());
        let mut threads = BTreeSet::new();
        for op in ops {
            if op.kind.is_in_stream() {
                lanes.insert((op.device, op.position.lane));
            }
            if op.kind == OpKind::Note(LedgerNote::Name { of: Named::Stream }) {
                names.insert(op.position.lane, readable(&op.label));
            }
            threads.insert(op.thread);
        }
        for (device, lane) in lanes {
            let plain = format!("stream {}", lane.0);
            let mut row = match names.get(&lane) {
                Some(name) => format!("GPU {}, {name}", device.0),
                None => format!("GPU {}, {plain}", device.0),
            };
            if self.rows.words.contains(&row) {
                row = format!("{row}, {plain}");
            }
            self.lanes.insert(lane, self.rows.number(&row));
        }
        for thread in threads {
            self.threads.insert(thread, self.rows.number(&format!("thread {thread}")));
        }
    }

    /// Adds the call and the work of an entry.
    fn add(&mut self, run: &LedgerRun<'a>, device: u32, moments: &LedgerMoments, at: usize) {
        let op = &run.ops[at];
        let lane = op.position.lane;
        if let OpKind::Mark(StreamMark::Wait { on, .. }) = op.kind {
            self.open.entry(lane).or_default().push(self.waits.len());
            self.waits.push(StreamWait { at, item: None, on: on.lane });
        }
        let is_shown = matches!(
            op.kind,
            OpKind::Work(_)
                | OpKind::Memory(_)
                | OpKind::Host(HostStep::Sync { .. } | HostStep::Access | HostStep::Load)
        );
        if !is_shown {
            return;
        }
        let (mut call, label) = (0, self.label(op));
        if let Some(time) = call_time(run.dag, at) {
            let row = self.threads.get(&op.thread).copied().unwrap_or(0);
            let kind = kind_of_call(op);
            self.entries.push((at, !op.kind.is_work()));
            self.items.push(PageItem::new(time, row, label, kind, moments.call[at]));
            call = self.items.len() as u64;
        }
        let time = run.dag.work(at).filter(|_| op.engine != Engine::None);
        let Some((time, row)) = time.zip(self.lanes.get(&lane).copied()) else { return };
        for wait in self.open.remove(&lane).into_iter().flatten() {
            self.waits[wait].item = Some(self.items.len());
        }
        self.entries.push((at, true));
        let item = PageItem::new(time, row, label, kind_of_operation(op), moments.work[at]);
        self.items.push(PageItem { call, counts: op.device.0 == device, ..item });
    }

    /// Adds the columns that lead from the items to the ledger and to the waits of streams.
    fn add_columns(
        &mut self,
        coded: &mut CodedRun,
        run: &LedgerRun<'_>,
        moments: &LedgerMoments,
        ledger: Option<&CodedLedger>,
    ) {
        self.waits.retain(|wait| wait.item.is_some());
        self.waits.sort_by_key(|wait| (wait.item, wait.at));
        let number = |moment: u32| usize::try_from(moment).map_or(0, |at| coded.numbers[at].into());
        // One more than the number of an entry in the order.
        let entry = |at: usize| {
            let entries = ledger.map_or(&[][..], |ledger| &ledger.entries);
            entries.binary_search_by_key(&at, |entry| entry.at).map_or(0, |at| at as u64 + 1)
        };
        let follows = following(run.ops, moments);
        let follower = |(at, stands): &(usize, bool)| match run.ops[*at].kind.is_work() && *stands {
            true => number(follows[*at]),
            false => 0,
        };
        let followers: Vec<u64> = self.entries.iter().map(follower).collect();
        let marks: Vec<u64> = self.waits.iter().map(|wait| number(moments.work[wait.at])).collect();
        let columns = &mut coded.columns;
        let chunk = |at: usize| run.ops[at].chunk.map_or(0, |chunk| chunk.saturating_add(1));
        columns.add(
            "itemChunk",
            ColumnCode::Difference,
            self.entries.iter().map(|one| chunk(one.0)),
        );
        columns.add("itemAt", ColumnCode::Difference, self.entries.iter().map(|one| one.0 as u64));
        columns.add("itemNext", ColumnCode::Difference, followers.into_iter());
        let entries = self.entries.iter().map(|(at, stands)| if *stands { entry(*at) } else { 0 });
        columns.add("itemEntry", ColumnCode::Difference, entries);
        let waits = || self.waits.iter();
        columns.add("waitEntry", ColumnCode::Difference, waits().map(|wait| entry(wait.at)));
        columns.add("waitMoment", ColumnCode::Difference, marks.into_iter());
        let items = waits().map(|wait| wait.item.unwrap_or(0) as u64);
        columns.add("waitItem", ColumnCode::Difference, items);
        let on = |wait: &StreamWait| self.lanes.get(&wait.on).map_or(0, |row| u64::from(*row) + 1);
        columns.add("waitOn", ColumnCode::Plain, waits().map(on));
    }

    /// Some waits of streams, by their numbers on the page and in the ledger. The page has the
    /// times without them, with which its script must agree.
    fn sampled_waits(&self) -> Vec<(usize, usize)> {
        let count = self.waits.len();
        let mut numbers = vec![count / 4, count / 2, count.saturating_sub(1)];
        numbers.dedup();
        numbers
            .into_iter()
            .filter_map(|number| Some((number, self.waits.get(number)?.at)))
            .collect()
    }

    /// Adds the columns of the order. Returns its facts, as the content of an object in JSON.
    fn add_order(
        &mut self,
        coded: &mut CodedRun,
        run: &LedgerRun<'a>,
        ledger: &CodedLedger,
        moments: &LedgerMoments,
    ) -> String {
        let labels: Vec<u32> =
            ledger.entries.iter().map(|entry| self.label(&run.ops[entry.at])).collect();
        let rows =
            ledger.lanes.iter().map(|lane| self.lanes.get(&lane.id).map_or(0, |row| row + 1));
        let rows: Vec<u32> = rows.collect();
        let mut names: HashMap<BlockId, &str> = HashMap::new();
        for op in run.ops {
            if let OpKind::Note(LedgerNote::Name { of: Named::Block(block) }) = op.kind {
                names.insert(block, &op.label);
            }
        }
        let name = |(block, _): &(BlockId, u64)| match names.get(block) {
            Some(name) => json::string(&readable(name)),
            None => json::string(&format!("block{}", block.0)),
        };
        let blocks: Vec<String> = ledger.blocks.iter().map(name).collect();
        let names = OrderNames { labels: &labels, rows: &rows, blocks: &blocks };
        add_order(&mut coded.columns, ledger);
        add_order_names(coded, ledger, run, moments, &names);
        facts(ledger, &names)
    }
}

/// For each entry of a stream, the moment of the start of the next entry of the stream, or 0.
fn following(ops: &[Op], moments: &LedgerMoments) -> Vec<u32> {
    let mut next = vec![0; ops.len()];
    let mut last: HashMap<LaneId, u32> = HashMap::new();
    for (at, op) in ops.iter().enumerate().rev() {
        if op.kind.is_in_stream() {
            let after = last.insert(op.position.lane, moments.work[at]);
            next[at] = after.unwrap_or(0);
        }
    }
    next
}
