//! Remarks about copies that take more time than their bytes need.
#![forbid(unsafe_code)]

use super::run::LintRun;
use crate::base::ledger::{Engine, Op, OpKind, Place, StreamWork};
use crate::base::lint::{Lint, Rule};
use crate::base::span::Union;
use crate::base::units::{Bytes, Nanos};
use std::collections::BTreeMap;

/// A copy of this size or more is a bulk copy.
const BULK_MIN: u64 = 1 << 20;
/// A copy up to this size counts as small when it waits for bulk copies.
const URGENT_MAX: u64 = 256 << 10;
/// A small copy starves when it waits for this many times its own duration.
const STARVED_MIN: u64 = 5;

fn uses_copy_engine(op: &Op) -> bool {
    matches!(op.engine, Engine::Upload | Engine::Download)
}

fn is_pageable(op: &Op) -> bool {
    op.accesses.iter().any(|access| access.place == Place::Pageable)
}

/// Asynchronous copies from or to pageable memory.
///
/// Saved: for each of these calls, the time that the call took beyond a usual enqueue, but only
/// while the limiting engine was idle.
pub(super) fn pageable(run: &LintRun<'_>) -> Vec<Lint> {
    let wanted = |op: &Op| {
        matches!(op.kind, OpKind::Work(StreamWork::Copy | StreamWork::Batch(_)))
            && uses_copy_engine(op)
            && is_pageable(op)
    };
    let usual = run.usual_call();
    let idle = run.idle();
    let lint = |ops: Vec<usize>| {
        let blocked = ops.iter().filter_map(|op| run.dag.call(*op)).map(|call| {
            let from = (call.start + usual).min(call.end);
            idle.overlap(&(from..call.end))
        });
        let (saved, count) = (blocked.sum(), ops.len());
        let bytes: u64 = ops.iter().map(|op| run.ops[*op].bytes).sum();
        let text = format!("asynchronous copies of pageable memory: {count}, {}", Bytes(bytes));
        run.lint(Rule::Pageable, saved, ops, text)
    };
    run.by_place(wanted).into_iter().map(lint).collect()
}

/// Copies that the host waits for, in a loop.
///
/// Saved: the time in these calls while the compute engine of their device was idle.
pub(super) fn sync_copy(run: &LintRun<'_>) -> Vec<Lint> {
    let looped =
        run.by_place(|op| op.kind == OpKind::Work(StreamWork::CopyNow) && uses_copy_engine(op));
    let lint = |ops: Vec<usize>| {
        let device = run.ops[ops[0]].device;
        let compute = run.engines.iter().position(|(e, _)| *e == (device, Engine::Compute));
        let calls = Union::of(ops.iter().filter_map(|op| run.dag.call(*op)));
        let idle = compute.map_or_else(|| calls.clone(), |engine| calls.minus(&run.busy[engine]));
        let text = format!("the host waits for each of {} copies", ops.len());
        run.lint(Rule::SyncCopy, idle.length().0, ops, text)
    };
    let is_loop = |ops: &Vec<usize>| Rule::SyncCopy.are_enough(ops.len());
    looped.into_iter().filter(is_loop).map(lint).collect()
}

/// Many small copies in one direction from one site.
///
/// Saved: the larger of two times, minus the average of this time for one copy. The first time is
/// the time in the calls, because a batch is one call. The second time is the part of the copies'
/// time that their bytes do not need. A byte needs the time that it takes at the best rate of a
/// bulk copy of the run in this direction. Without a bulk copy, the second time is 0.
pub(super) fn small_copy(run: &LintRun<'_>) -> Vec<Lint> {
    let bytes_max = Rule::SmallCopy.limits().bytes_max;
    let wanted = |op: &Op| {
        op.kind == OpKind::Work(StreamWork::Copy) && uses_copy_engine(op) && op.bytes <= bytes_max
    };
    let lint = |ops: Vec<usize>| {
        let engine = run.ops[ops[0]].engine;
        let rate = (0..run.ops.len())
            .filter(|op| run.ops[*op].engine == engine && run.ops[*op].bytes >= BULK_MIN)
            .filter_map(|op| Some((op, run.dag.work(op)?)))
            .map(|(op, span)| run.ops[op].bytes as f64 / (span.end - span.start).max(1) as f64)
            .fold(f64::INFINITY, |best, rate| if best.is_finite() { best.max(rate) } else { rate });
        let took = |op: &usize| run.dag.work(*op).map_or(0, |span| span.end - span.start);
        let beyond = |op: &usize| {
            let bytes = Nanos::from_seconds(run.ops[*op].bytes as f64 / rate * 1e-9);
            took(op).saturating_sub(bytes.0)
        };
        let copies = if rate.is_finite() { ops.iter().map(beyond).sum() } else { 0 };
        let calls: u64 = ops.iter().map(|op| run.call_time(*op)).sum();
        let most = calls.max(copies);
        let saved = most - most / ops.len() as u64;
        let bytes: u64 = ops.iter().map(|op| run.ops[*op].bytes).sum();
        let text = format!("{} copies move {} in all", ops.len(), Bytes(bytes));
        run.lint(Rule::SmallCopy, saved, ops, text)
    };
    let are_many = |ops: &Vec<usize>| Rule::SmallCopy.are_enough(ops.len());
    run.by_place(wanted).into_iter().filter(are_many).map(lint).collect()
}

/// Small copies that wait for bulk copies of another stream in the same direction (law A43).
///
/// Saved: for each copy, the time from the moment at which the copy was ready to its start. A copy
/// is ready when it is enqueued and everything that it follows is done.
pub(super) fn starved(run: &LintRun<'_>) -> Vec<Lint> {
    let mut streams: BTreeMap<_, (u64, Vec<usize>)> = BTreeMap::new();
    for ((_, engine), list) in &run.engines {
        if !matches!(engine, Engine::Upload | Engine::Download) {
            continue;
        }
        for pair in list.windows(2) {
            let (op, span) = (&run.ops[pair[1]], run.dag.work(pair[1]));
            let behind = &run.ops[pair[0]];
            let bulk = behind.bytes >= BULK_MIN && behind.position.lane != op.position.lane;
            let (Some(span), true, true) = (span, bulk, op.bytes <= URGENT_MAX) else { continue };
            let enqueued = run.dag.enqueued(pair[1]).unwrap_or(span.start);
            let ready = run.dag.held_by(pair[1]).map_or(0, |held| held.until).max(enqueued);
            let waited = span.start.saturating_sub(ready);
            if waited > STARVED_MIN * (span.end - span.start) {
                let entry = streams.entry(op.position.lane).or_default();
                entry.0 += waited;
                entry.1.push(pair[1]);
            }
        }
    }
    let lint = |(saved, ops): (u64, Vec<usize>)| {
        let text =
            format!("{} small copies waited behind bulk copies of another stream", ops.len());
        run.lint(Rule::SmallCopyStarved, saved, ops, text)
    };
    streams.into_values().map(lint).collect()
}
