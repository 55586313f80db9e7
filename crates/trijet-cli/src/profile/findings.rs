//! What costs time, each by its own rule.
#![forbid(unsafe_code)]

use super::activities::{bytes, is_kernel, overhead, times};
use super::calls::{Call, Calls, Class};
use super::idle::left_by;
use super::operations::Operations;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use trijet::Nanos;
use trijet::base::ledger::StreamClass;
use trijet::base::span::Union;
use trijet::base::units::rate;
use trijet::trace::activity::{Activity, ActivityKind, Direction, Memory, OverheadKind, Recording};

/// A copy below this does not reach half of the link's rate: on an H200, 64 KiB go at 16 and 21
/// GB/s where 55 are possible.
const SMALL_BYTES: u64 = 64 << 10;
/// So many small copies are a habit.
const SMALL_COUNT: usize = 100;

/// Something that costs time.
#[derive(Debug)]
pub struct Finding {
    /// Its stable name.
    pub key: &'static str,
    /// What it is, in words.
    pub title: &'static str,
    /// How often it happened.
    pub count: usize,
    /// What mending it may gain.
    pub cost: Nanos,
    /// What was seen.
    pub seen: String,
    /// What to do.
    pub fix: &'static str,
}

/// Everything that is to be said, the dearest first.
pub(super) fn all(
    operations: &Operations<'_>,
    recording: &Recording,
    calls: &Calls,
) -> Vec<Finding> {
    let rules = [
        pageable(operations, calls),
        legacy(operations, recording, calls),
        device_sync(operations, calls),
        stream_sync(operations, calls),
        gaps(operations),
        exposed(operations),
        allocations(operations, calls),
        small(operations, calls),
        sync_copies(operations, calls),
        lazy_loading(operations, recording),
    ];
    let mut found: Vec<Finding> = rules.into_iter().flatten().collect();
    found.sort_by_key(|finding| Reverse(finding.cost));
    found
}

/// Copies over the link, in either direction.
fn over_the_link<'a>(operations: &Operations<'a>) -> impl Iterator<Item = &'a Activity> {
    operations.copies(Direction::Upload).chain(operations.copies(Direction::Download))
}

fn is_pageable(one: &Activity) -> bool {
    matches!(one.kind, ActivityKind::Copy { from, to, .. }
        if from == Memory::Pageable || to == Memory::Pageable)
}

/// When these went on, or the calls that made them.
fn with_calls(list: &[&Activity], calls: &Calls) -> (Union, Union) {
    let held = Union::of(list.iter().filter_map(|one| calls.behind(one)).map(|c| c.time.clone()));
    let ran = list.iter().map(|one| one.begin.0..one.end.0);
    let either = Union::of(held.intervals().iter().cloned().chain(ran));
    (held, either)
}

/// The part in which no kernel ran, within the window.
fn uncovered(operations: &Operations<'_>, of: &Union) -> Nanos {
    of.minus(&operations.kernels).and(&Union::of([operations.window.clone()])).length()
}

fn pageable(operations: &Operations<'_>, calls: &Calls) -> Option<Finding> {
    let list: Vec<_> = over_the_link(operations).filter(|one| is_pageable(one)).collect();
    let (held, either) = with_calls(&list, calls);
    let (bytes, ran) = (bytes(list.iter().copied()), times(list.iter().copied()).length());
    (!list.is_empty()).then(|| Finding {
        key: "PERF/PAGEABLE",
        title: "copies from or to pageable host memory",
        count: list.len(),
        cost: uncovered(operations, &either),
        seen: format!(
            "{bytes} at {}; their calls held the host for {}, their copies took {ran}",
            rate(bytes, ran),
            held.length()
        ),
        fix: "copy from and to page-locked memory; the driver stages anything else, and the call \
              waits for it",
    })
}

fn legacy(operations: &Operations<'_>, recording: &Recording, calls: &Calls) -> Option<Finding> {
    let nulls: HashSet<(u32, u32)> =
        recording.contexts.iter().map(|info| (info.context, info.null_stream)).collect();
    let stream = |one: &Activity| (one.context, one.stream);
    let is_legacy = |one: &&Activity| nulls.contains(&stream(one));
    let (mine, others): (Vec<&Activity>, Vec<&Activity>) =
        operations.all.iter().copied().partition(is_legacy);
    let kernels = mine.iter().filter(|one| is_kernel(one)).count();
    if kernels == 0 || others.is_empty() {
        return None;
    }
    let classes: HashMap<(u32, u32), Option<StreamClass>> =
        recording.streams.iter().map(|info| ((info.context, info.stream), info.class)).collect();
    let is_blocking = |one: &&Activity| {
        classes.get(&stream(one)).copied().flatten() == Some(StreamClass::Blocking)
    };
    let blocking: Vec<_> = others.iter().copied().filter(is_blocking).collect();
    let (at_legacy, at_blocking) = (times(mine.iter().copied()), times(blocking.iter().copied()));
    let held = Union::of(waits(&blocking, calls)).and(&at_legacy);
    let holding = Union::of(waits(&mine, calls)).and(&at_blocking);
    let barrier = Union::of(held.intervals().iter().chain(holding.intervals()).cloned()).length();
    let alone = times(mine.iter().copied()).minus(&times(others.iter().copied())).length();
    let count =
        |list: &[&Activity]| list.iter().map(|one| stream(one)).collect::<HashSet<_>>().len();
    Some(Finding {
        key: "PERF/LEGACY-STREAM",
        title: "kernels on the legacy default stream beside other streams",
        count: kernels,
        cost: barrier,
        seen: format!(
            "streams beside it: {}, of them blocking: {}; the cost is how long enqueued work of \
             one side waited while the other side ran; legacy work ran alone for {alone}",
            count(&others),
            count(&blocking)
        ),
        fix: "use a stream of your own, made non-blocking, and events where there is an order",
    })
}

/// For each operation, the time from its call, or the end of the one before it in its stream, to
/// its begin: it had been enqueued and did not run.
fn waits(list: &[&Activity], calls: &Calls) -> Vec<Range<u64>> {
    let mut sorted = list.to_vec();
    sorted.sort_by_key(|one| (one.context, one.stream, one.begin, one.end));
    let mut last: Option<&Activity> = None;
    let mut found = Vec::new();
    for one in sorted {
        let same = |other: &&Activity| (other.context, other.stream) == (one.context, one.stream);
        let free = last.filter(same).map_or(0, |other| other.end.0);
        if let Some(call) = calls.behind(one) {
            found.push(call.time.start.max(free)..one.begin.0);
        }
        last = Some(one);
    }
    found
}

/// Synchronisations of one kind: what they cost, and how it is told.
fn sync(
    operations: &Operations<'_>,
    calls: &Calls,
    class: Class,
) -> Option<(usize, Nanos, String)> {
    let in_window = |call: &&Call| {
        call.time.end > operations.window.start && call.time.start < operations.window.end
    };
    let list: Vec<&Call> = calls.which(class).filter(in_window).collect();
    if list.is_empty() {
        return None;
    }
    let host = Union::of(list.iter().map(|call| call.time.clone()));
    let left = left_by(&operations.idle, list.iter().copied());
    let seen = format!(
        "the host waited for {}; the GPU stood still for {} of it",
        host.length(),
        host.and(&operations.idle).length()
    );
    Some((list.len(), left.length(), seen))
}

fn device_sync(operations: &Operations<'_>, calls: &Calls) -> Option<Finding> {
    let (count, cost, seen) = sync(operations, calls, Class::DeviceSync)?;
    Some(Finding {
        key: "PERF/DEVICE-SYNC",
        title: "waiting for the whole device",
        count,
        cost,
        seen,
        fix: "wait for an event of the one result that is needed, after the next work is enqueued",
    })
}

fn stream_sync(operations: &Operations<'_>, calls: &Calls) -> Option<Finding> {
    let (count, cost, seen) = sync(operations, calls, Class::StreamSync)?;
    Some(Finding {
        key: "PERF/STREAM-SYNC",
        title: "waiting for a stream or an event",
        count,
        cost,
        seen,
        fix: "enqueue the next work before waiting; keep two buffers in turn, each with its event",
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
            "the longest took {}; see `idle` above for what the host did",
            Nanos(longest)
        ),
        fix: "enqueue ahead of the GPU; where launches are many and short, record them as a graph",
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
        seen: format!("copies took {}, {hidden:.1} % of it behind kernels", ran.length()),
        fix: "copy the next part on a stream of its own while the kernels of this one run",
    })
}

fn allocations(operations: &Operations<'_>, calls: &Calls) -> Option<Finding> {
    let window = Union::of([operations.window.clone()]);
    let inside: Vec<&Call> = calls
        .which(Class::Alloc)
        .filter(|call| {
            call.time.end > operations.window.start && call.time.start < operations.window.end
        })
        .collect();
    let host = Union::of(inside.iter().map(|call| call.time.clone())).and(&window);
    (!inside.is_empty()).then(|| Finding {
        key: "PERF/SYNC-ALLOC",
        title: "allocating, freeing and page-locking between operations",
        count: inside.len(),
        cost: host.and(&operations.idle).length(),
        seen: format!("the calls took {} of the host", host.length()),
        fix: "allocate before the loop, or from a stream-ordered pool with a release threshold",
    })
}

fn small(operations: &Operations<'_>, calls: &Calls) -> Option<Finding> {
    let list: Vec<_> = over_the_link(operations).filter(|one| one.bytes < SMALL_BYTES).collect();
    let (held, either) = with_calls(&list, calls);
    let bytes = bytes(list.iter().copied());
    (list.len() >= SMALL_COUNT).then(|| Finding {
        key: "PERF/SMALL-COPY",
        title: "many copies of less than 64 KiB",
        count: list.len(),
        cost: uncovered(operations, &either),
        seen: format!("{bytes} in all; their calls took {} of the host", held.length()),
        fix: "gather them into one buffer and copy that, or let a kernel read page-locked memory",
    })
}

fn sync_copies(operations: &Operations<'_>, calls: &Calls) -> Option<Finding> {
    let waits = |one: &&Activity| {
        !is_pageable(one) && calls.behind(one).is_some_and(|call| call.class == Class::CopySync)
    };
    let list: Vec<_> = over_the_link(operations).filter(waits).collect();
    let (held, either) = with_calls(&list, calls);
    (!list.is_empty()).then(|| Finding {
        key: "PERF/SYNC-COPY",
        title: "copies that the call waits for",
        count: list.len(),
        cost: uncovered(operations, &either),
        seen: format!("their calls held the host for {}", held.length()),
        fix: "use the Async call on a stream; with page-locked memory it returns at once",
    })
}

fn lazy_loading(operations: &Operations<'_>, recording: &Recording) -> Option<Finding> {
    let is_loading = |kind| matches!(kind, OverheadKind::LazyLoading | OverheadKind::ModuleLoading);
    let window = Union::of([operations.window.clone()]);
    let loading = overhead(recording, is_loading).and(&window);
    (loading.length().0 > 0).then(|| Finding {
        key: "PERF/LAZY-LOADING",
        title: "kernels loaded at their first use",
        count: loading.intervals().len(),
        cost: loading.and(&operations.idle).length(),
        seen: format!("loading took {}; it waits for kernels that run", loading.length()),
        fix: "launch each kernel once before the work starts, or set CUDA_MODULE_LOADING=EAGER",
    })
}
