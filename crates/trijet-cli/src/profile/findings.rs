//! The habits of a program that cost time, each found by its own rule.
#![forbid(unsafe_code)]

use super::activities::{bytes, is_kernel, overhead, times};
use super::calls::{Call, Calls, Class};
use super::idle::caused_by;
use super::operations::Operations;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use trijet::Nanos;
use trijet::trace::activity::{
    Activity, ActivityKind, Direction, Memory, OverheadKind, ProcessTrace,
};
use trijet::trace::{StreamClass, Union, rate};

/// Copies of fewer bytes do not reach half of the link's rate: on an H200, copies of 64 KiB reach
/// 16 and 21 GB/s of 55 GB/s.
const SMALL_BYTES: u64 = 64 << 10;
/// The fewest small copies that are a finding.
const SMALL_COUNT_MIN: usize = 100;

/// A habit of the program that costs time.
#[derive(Debug)]
pub struct Finding {
    /// The name for filters, which does not change between versions.
    pub key: &'static str,
    /// The habit in a few words.
    pub title: &'static str,
    /// The number of occurrences.
    pub count: usize,
    /// The time that a fix may gain.
    pub cost: Nanos,
    /// The measured facts.
    pub seen: String,
    /// The recommended change.
    pub fix: &'static str,
}

/// All findings, by descending cost.
pub(super) fn all(
    operations: &Operations<'_>,
    trace: &ProcessTrace,
    calls: &Calls,
) -> Vec<Finding> {
    let rules = [
        pageable(operations, calls),
        legacy(operations, trace, calls),
        device_sync(operations, calls),
        stream_sync(operations, calls),
        gaps(operations),
        exposed(operations),
        allocations(operations, calls),
        small(operations, calls),
        sync_copies(operations, calls),
        lazy_loading(operations, trace),
    ];
    let mut found: Vec<Finding> = rules.into_iter().flatten().collect();
    found.sort_by_key(|finding| Reverse(finding.cost));
    found
}

/// The copies between host and device.
fn over_the_link<'a>(operations: &Operations<'a>) -> impl Iterator<Item = &'a Activity> {
    operations.copies(Direction::Upload).chain(operations.copies(Direction::Download))
}

fn is_pageable(one: &Activity) -> bool {
    matches!(one.kind, ActivityKind::Copy { from, to, .. }
        if from == Memory::Pageable || to == Memory::Pageable)
}

/// The times of the calls that enqueued these, and of these or their calls.
fn with_calls(list: &[&Activity], calls: &Calls) -> (Union, Union) {
    let calling =
        Union::of(list.iter().filter_map(|one| calls.enqueuing(one)).map(|c| c.time.clone()));
    let ran = list.iter().map(|one| one.begin.0..one.end.0);
    let either = Union::of(calling.intervals().iter().cloned().chain(ran));
    (calling, either)
}

/// The part of `of` in which no kernel ran, within the window.
fn uncovered(operations: &Operations<'_>, of: &Union) -> Nanos {
    of.minus(&operations.kernels).and(&Union::of([operations.window.clone()])).length()
}

fn pageable(operations: &Operations<'_>, calls: &Calls) -> Option<Finding> {
    let list: Vec<_> = over_the_link(operations).filter(|one| is_pageable(one)).collect();
    let (calling, either) = with_calls(&list, calls);
    let (bytes, ran) = (bytes(list.iter().copied()), times(list.iter().copied()).length());
    (!list.is_empty()).then(|| Finding {
        key: "PERF/PAGEABLE",
        title: "copies from or to pageable host memory",
        count: list.len(),
        cost: uncovered(operations, &either),
        seen: format!(
            "{bytes} at {}; the calls took {} of the host's time, the copies {ran}",
            rate(bytes, ran),
            calling.length()
        ),
        fix: "copy from and to page-locked memory; the driver stages other memory, and the call \
              waits for that",
    })
}

fn legacy(operations: &Operations<'_>, trace: &ProcessTrace, calls: &Calls) -> Option<Finding> {
    let nulls: HashSet<(u32, u32)> =
        trace.contexts.iter().map(|info| (info.context, info.null_stream)).collect();
    let stream = |one: &Activity| (one.context, one.stream);
    let is_legacy = |one: &&Activity| nulls.contains(&stream(one));
    let (mine, others): (Vec<&Activity>, Vec<&Activity>) =
        operations.all.iter().copied().partition(is_legacy);
    let kernels = mine.iter().filter(|one| is_kernel(one)).count();
    if kernels == 0 || others.is_empty() {
        return None;
    }
    let classes: HashMap<(u32, u32), Option<StreamClass>> =
        trace.streams.iter().map(|info| ((info.context, info.stream), info.class)).collect();
    let is_blocking = |one: &&Activity| {
        classes.get(&stream(one)).copied().flatten() == Some(StreamClass::Blocking)
    };
    let blocking: Vec<_> = others.iter().copied().filter(is_blocking).collect();
    let (at_legacy, at_blocking) = (times(mine.iter().copied()), times(blocking.iter().copied()));
    let blocking_waited = Union::of(waits(&blocking, calls)).and(&at_legacy);
    let legacy_waited = Union::of(waits(&mine, calls)).and(&at_blocking);
    let barrier =
        Union::of(blocking_waited.intervals().iter().chain(legacy_waited.intervals()).cloned())
            .length();
    let alone = times(mine.iter().copied()).minus(&times(others.iter().copied())).length();
    let count =
        |list: &[&Activity]| list.iter().map(|one| stream(one)).collect::<HashSet<_>>().len();
    Some(Finding {
        key: "PERF/LEGACY-STREAM",
        title: "kernels on the legacy default stream while other streams are used",
        count: kernels,
        cost: barrier,
        seen: format!(
            "other streams: {}, {} of them blocking; the cost is the time in which enqueued work \
             of one side waited while the other side ran; legacy work ran alone for {alone}",
            count(&others),
            count(&blocking)
        ),
        fix: "create a non-blocking stream for them, and use events where an order is needed",
    })
}

/// The time that each operation waited: from the begin of its call, or the end of the operation
/// before it in its stream if that is later, to its begin.
fn waits(list: &[&Activity], calls: &Calls) -> Vec<Range<u64>> {
    let mut sorted = list.to_vec();
    sorted.sort_by_key(|one| (one.context, one.stream, one.begin, one.end));
    let mut last: Option<&Activity> = None;
    let mut found = Vec::new();
    for one in sorted {
        let same = |other: &&Activity| (other.context, other.stream) == (one.context, one.stream);
        let free = last.filter(same).map_or(0, |other| other.end.0);
        if let Some(call) = calls.enqueuing(one) {
            found.push(call.time.start.max(free)..one.begin.0);
        }
        last = Some(one);
    }
    found
}

/// The count, the cost and the facts of the waits of one class.
fn sync(
    operations: &Operations<'_>,
    calls: &Calls,
    class: Class,
) -> Option<(usize, Nanos, String)> {
    let in_window = |call: &&Call| {
        call.time.end > operations.window.start && call.time.start < operations.window.end
    };
    let list: Vec<&Call> = calls.of_class(class).filter(in_window).collect();
    if list.is_empty() {
        return None;
    }
    let host = Union::of(list.iter().map(|call| call.time.clone()));
    let caused = caused_by(&operations.idle, list.iter().copied());
    let seen = format!(
        "the host waited for {}; the GPU was idle for {} of that time",
        host.length(),
        host.and(&operations.idle).length()
    );
    Some((list.len(), caused.length(), seen))
}

fn device_sync(operations: &Operations<'_>, calls: &Calls) -> Option<Finding> {
    let (count, cost, seen) = sync(operations, calls, Class::DeviceSync)?;
    Some(Finding {
        key: "PERF/DEVICE-SYNC",
        title: "waits for the whole device",
        count,
        cost,
        seen,
        fix: "enqueue the next work first, then wait for an event of the result that is needed",
    })
}

fn stream_sync(operations: &Operations<'_>, calls: &Calls) -> Option<Finding> {
    let (count, cost, seen) = sync(operations, calls, Class::StreamSync)?;
    Some(Finding {
        key: "PERF/STREAM-SYNC",
        title: "waits for a stream or an event",
        count,
        cost,
        seen,
        fix: "enqueue the next work before the wait; use two buffers in turn, each with its event",
    })
}

fn gaps(operations: &Operations<'_>) -> Option<Finding> {
    let gaps = operations.idle.intervals();
    let longest = gaps.iter().map(|gap| gap.end - gap.start).max()?;
    Some(Finding {
        key: "PERF/GPU-IDLE",
        title: "gaps with no kernel and no copy",
        count: gaps.len(),
        cost: operations.idle.length(),
        seen: format!(
            "the longest gap took {}; `idle` above shows what the host did meanwhile",
            Nanos(longest)
        ),
        fix: "enqueue work earlier; replace many short launches by a CUDA graph",
    })
}

fn exposed(operations: &Operations<'_>) -> Option<Finding> {
    let list: Vec<_> =
        over_the_link(operations).chain(operations.copies(Direction::Peer)).collect();
    let ran = times(list.iter().copied());
    let cost = uncovered(operations, &ran);
    if cost.0 == 0 {
        return None;
    }
    let bare = ran.minus(&operations.kernels);
    let is_exposed = |one: &&&Activity| {
        let next = bare.intervals().partition_point(|part| part.end <= one.begin.0);
        bare.intervals().get(next).is_some_and(|part| part.start < one.end.0)
    };
    let count = list.iter().filter(is_exposed).count();
    let hidden = 100.0 - 100.0 * cost.0 as f64 / ran.length().0.max(1) as f64;
    Some(Finding {
        key: "PERF/EXPOSED-COPY",
        title: "copies while no kernel ran",
        count,
        cost,
        seen: format!(
            "copies took {}; kernels ran during {hidden:.1} % of that time",
            ran.length()
        ),
        fix: "copy the next chunk on another stream while the kernels of this chunk run",
    })
}

fn allocations(operations: &Operations<'_>, calls: &Calls) -> Option<Finding> {
    let window = Union::of([operations.window.clone()]);
    let inside: Vec<&Call> = calls
        .of_class(Class::Alloc)
        .filter(|call| {
            call.time.end > operations.window.start && call.time.start < operations.window.end
        })
        .collect();
    let host = Union::of(inside.iter().map(|call| call.time.clone())).and(&window);
    (!inside.is_empty()).then(|| Finding {
        key: "PERF/SYNC-ALLOC",
        title: "allocations, frees and page-locking between operations",
        count: inside.len(),
        cost: host.and(&operations.idle).length(),
        seen: format!("the calls took {} of the host's time", host.length()),
        fix: "allocate before the loop, or from a stream-ordered pool with a release threshold",
    })
}

fn small(operations: &Operations<'_>, calls: &Calls) -> Option<Finding> {
    let list: Vec<_> = over_the_link(operations).filter(|one| one.bytes < SMALL_BYTES).collect();
    let (calling, either) = with_calls(&list, calls);
    let bytes = bytes(list.iter().copied());
    (list.len() >= SMALL_COUNT_MIN).then(|| Finding {
        key: "PERF/SMALL-COPY",
        title: "many copies of less than 64 KiB",
        count: list.len(),
        cost: uncovered(operations, &either),
        seen: format!("{bytes} in total; the calls took {} of the host's time", calling.length()),
        fix: "gather them in one buffer and copy that, or let a kernel read page-locked memory",
    })
}

fn sync_copies(operations: &Operations<'_>, calls: &Calls) -> Option<Finding> {
    let waits = |one: &&Activity| {
        !is_pageable(one) && calls.enqueuing(one).is_some_and(|call| call.class == Class::CopySync)
    };
    let list: Vec<_> = over_the_link(operations).filter(waits).collect();
    let (calling, either) = with_calls(&list, calls);
    (!list.is_empty()).then(|| Finding {
        key: "PERF/SYNC-COPY",
        title: "copies whose calls wait for them",
        count: list.len(),
        cost: uncovered(operations, &either),
        seen: format!("the calls took {} of the host's time", calling.length()),
        fix: "use the Async function on a stream; with page-locked memory it returns immediately",
    })
}

fn lazy_loading(operations: &Operations<'_>, trace: &ProcessTrace) -> Option<Finding> {
    let is_loading = |kind| matches!(kind, OverheadKind::LazyLoading | OverheadKind::ModuleLoading);
    let window = Union::of([operations.window.clone()]);
    let loading = overhead(trace, is_loading).and(&window);
    (loading.length().0 > 0).then(|| Finding {
        key: "PERF/LAZY-LOADING",
        title: "kernels loaded at their first launch",
        count: loading.intervals().len(),
        cost: loading.and(&operations.idle).length(),
        seen: format!("loading took {}; it waits for running kernels", loading.length()),
        fix: "launch each kernel once before the work begins, or set CUDA_MODULE_LOADING=EAGER",
    })
}
