//! Remarks about memory that is allocated, and kernels that are loaded, at the wrong time.
#![forbid(unsafe_code)]

use super::run::LintRun;
use crate::base::ledger::{HostStep, MemoryCall, OpKind, StreamWork};
use crate::base::lint::{Lint, Rule};

/// Memory is allocated and freed outside of streams, in a loop.
///
/// Saved: the time in these calls, except for the first allocation and the last free.
pub(super) fn sync_alloc(run: &LintRun<'_>) -> Vec<Lint> {
    let is_free = |op: &usize| run.ops[*op].kind == OpKind::Memory(MemoryCall::FreeNow);
    let frees: Vec<usize> = (0..run.ops.len()).filter(is_free).collect();
    let looped = run.by_place(|op| op.kind == OpKind::Memory(MemoryCall::AllocNow));
    let lint = |allocs: Vec<usize>| {
        let (first, last) = (*allocs.first()?, *allocs.last()?);
        // Without frees between the first and the last allocation, the loop only allocates memory
        // that it keeps.
        let between = |free: &&usize| (first..last).contains(*free);
        let freed: Vec<usize> = frees.iter().filter(between).copied().collect();
        let is_loop = |entries| Rule::SyncAlloc.are_enough(entries);
        if !is_loop(allocs.len()) || !is_loop(freed.len() + 1) {
            return None;
        }
        let calls = allocs[1..].iter().chain(&freed);
        let saved = calls.map(|op| run.call_time(*op)).sum();
        let text = format!("allocated {} times and freed in between", allocs.len());
        Some(run.lint(Rule::SyncAlloc, saved, allocs, text))
    };
    looped.into_iter().filter_map(lint).collect()
}

/// Whether the entry is a stream-ordered allocation, from a pool or from a heap.
fn is_alloc(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Work(StreamWork::Alloc) | OpKind::Memory(MemoryCall::FromHeap { .. }))
}

/// A pool or a heap releases memory at synchronisations, and then allocates it again.
///
/// Saved: for each release before an allocation on the same device, the sum of two times. The first
/// time is the time of the release. The second time is the time of that allocation, less the time
/// of the shortest stream-ordered allocation of the run.
pub(super) fn pool_thrash(run: &LintRun<'_>) -> Vec<Lint> {
    let allocs = || (0..run.ops.len()).filter(|op| is_alloc(&run.ops[*op].kind));
    let Some(quick) = allocs().map(|op| run.call_time(op)).min() else { return Vec::new() };
    let mut released: Option<usize> = None;
    let (mut saved, mut concerned) = (0, Vec::new());
    for (index, op) in run.ops.iter().enumerate() {
        if op.kind == OpKind::Host(HostStep::Release) {
            released = Some(index);
        } else if is_alloc(&op.kind) {
            let same = released.take_if(|release| run.ops[*release].device == op.device);
            if let Some(release) = same {
                saved += run.call_time(release) + run.call_time(index) - quick;
                concerned.push(index);
            }
        }
    }
    if !Rule::PoolThrash.are_enough(concerned.len()) {
        return Vec::new();
    }
    let text = format!("memory was released and allocated again {} times", concerned.len());
    vec![run.lint(Rule::PoolThrash, saved, concerned, text)]
}

/// A kernel is loaded after the first kernel was enqueued (law A42).
///
/// Saved: the time in the calls that load these kernels.
pub(super) fn first_use_load(run: &LintRun<'_>) -> Vec<Lint> {
    let is_kernel = |op: &usize| run.ops[*op].kind == OpKind::Work(StreamWork::Kernel);
    let Some(first) = (0..run.ops.len()).find(is_kernel) else { return Vec::new() };
    let is_load = |op: &usize| run.ops[*op].kind == OpKind::Host(HostStep::Load);
    let loads: Vec<usize> = (first..run.ops.len()).filter(is_load).collect();
    if loads.is_empty() {
        return Vec::new();
    }
    let saved = loads.iter().map(|op| run.call_time(*op)).sum();
    let names: Vec<&str> = loads.iter().take(4).map(|op| &*run.ops[*op].label).collect();
    let text = format!("loaded after kernels had begun to run: {}", names.join(", "));
    vec![run.lint(Rule::FirstUseLoad, saved, loads, text)]
}
