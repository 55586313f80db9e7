//! Remarks about a host that leaves the busiest engine without work.
#![forbid(unsafe_code)]

use super::run::LintRun;
use crate::base::ledger::{HostStep, OpKind, WaitOutcome, Waited};
use crate::base::lint::{Lint, Rule};
use crate::base::span::Union;
use crate::base::units::Nanos;
use std::collections::HashMap;
use std::ops::Range;

/// The host waits for a stream or for the device in a loop, and enqueues more work only after the
/// wait.
///
/// Saved: the idle time of the limiting engine from the start of each of these waits. The time ends
/// with the start of the work that the same thread enqueued next.
pub(super) fn over_sync(run: &LintRun<'_>) -> Vec<Lint> {
    // Reads the entries from the end, and keeps the start of each thread's next work.
    let mut next: HashMap<u64, u64> = HashMap::new();
    let mut resumed = vec![None; run.ops.len()];
    for index in (0..run.ops.len()).rev() {
        let op = &run.ops[index];
        if let OpKind::Host(HostStep::Sync { .. }) = op.kind {
            resumed[index] = next.get(&op.thread).copied();
        } else if let Some(work) = run.dag.work(index) {
            next.insert(op.thread, work.start);
        }
    }
    let idle = run.idle();
    let looped = run.by_place(|op| {
        let OpKind::Host(HostStep::Sync { what, outcome }) = op.kind else { return false };
        outcome == WaitOutcome::Complete && matches!(what, Waited::Stream | Waited::Device)
    });
    let lint = |waits: Vec<usize>| {
        let spans: Vec<_> = waits
            .iter()
            .filter_map(|wait| Some(run.dag.call(*wait)?.start..resumed[*wait]?))
            .collect();
        // The last wait of a program has no work after it, so it is not among the spans.
        if !Rule::OverSync.are_enough(spans.len() + 1) {
            return None;
        }
        let saved = Union::of(spans.iter().cloned()).and(&idle).length().0;
        let each = saved / spans.len().max(1) as u64;
        let text = format!(
            "{} waits for a whole stream or device; the busiest engine was idle for {} per wait",
            waits.len(),
            Nanos(each)
        );
        Some(run.lint(Rule::OverSync, saved, waits, text))
    };
    looped.into_iter().filter_map(lint).filter(|lint| lint.saved.0 > 0).collect()
}

/// The limiting engine waited for a thread that ran code of the program and was in no call.
///
/// Saved: a part of the gaps between operations of the limiting engine. A gap counts until the next
/// operation was enqueued, except for the time in which the enqueuing thread was in a call.
pub(super) fn late(run: &LintRun<'_>) -> Vec<Lint> {
    let Some(limiting) = run.limiting() else { return Vec::new() };
    let mut calls: HashMap<u64, Vec<Range<u64>>> = HashMap::new();
    for (index, op) in run.ops.iter().enumerate() {
        calls.entry(op.thread).or_default().extend(run.dag.call(index));
    }
    let calls: HashMap<u64, Union> =
        calls.into_iter().map(|(thread, spans)| (thread, Union::of(spans))).collect();
    let (mut saved, mut concerned) = (0, Vec::new());
    let mut at = None;
    for &op in &run.engines[limiting].1 {
        let Some(work) = run.dag.work(op) else { continue };
        let free: u64 = at.unwrap_or(work.start);
        let late = free..run.dag.enqueued(op).unwrap_or(0).min(work.start).max(free);
        let in_calls = calls.get(&run.ops[op].thread).map_or(0, |calls| calls.overlap(&late));
        let user = late.end - late.start - in_calls;
        if user > 0 {
            saved += user;
            concerned.push((std::cmp::Reverse(user), op));
        }
        at = Some(free.max(work.end));
    }
    let is_short = !run.is_enough(Rule::HostLate, saved);
    if is_short || concerned.is_empty() || run.is_of_host(saved) {
        return Vec::new();
    }
    concerned.sort_unstable();
    let ops: Vec<usize> = concerned.into_iter().map(|(_, op)| op).collect();
    let count = ops.len();
    let text = format!("the host was late for {count} operations of the device's busiest engine");
    vec![run.lint(Rule::HostLate, saved, ops, text)]
}
