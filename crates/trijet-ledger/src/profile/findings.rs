//! The habits of a program that cost time, each found by its own rule.
#![forbid(unsafe_code)]

use super::activities::{Cover, bytes, is_kernel};
use super::calls::{Class, ProgramCalls};
use super::collectives::Communication;
use super::engine::ProgramEngine;
use super::idle::{Idle, IdleCause, caused_by};
use super::operations::Operations;
use super::queues::{self, SharedQueues};
use crate::base::units::Nanos;
use crate::trace::activity::{Activity, ActivityKind, MemoryKind, ProcessTrace};
use crate::trace::{StreamClass, Union, rate};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::ops::Range;

/// Copies of fewer bytes do not reach half of the link's rate: on an H200, copies of 64 KiB reach
/// 16 and 21 GB/s of 55 GB/s.
const SMALL_BYTES: u64 = 64 << 10;
/// Minimum number of small copies for a finding.
const SMALL_COUNT_MIN: usize = 100;

/// Maximum number of intervals of a finding.
const PLACES_MAX: usize = 3;

/// A habit of the program that costs time.
#[derive(Debug)]
pub struct Habit {
    /// The name for filters, which does not change between versions.
    pub key: &'static str,
    /// The habit in a few words.
    pub title: &'static str,
    /// The number of occurrences.
    pub count: usize,
    /// The time that a fix may gain.
    pub cost: Nanos,
    /// The parts of the cost that last longest, on the clock of the trace, the longest first.
    pub places: Vec<Range<u64>>,
    /// The measured facts.
    pub seen: String,
    /// The recommended change.
    pub fix: &'static str,
}

/// The streams of a process.
#[derive(Debug)]
pub(super) struct ProcessStreams {
    /// The legacy streams, each with its context.
    legacy: HashSet<(u32, u32)>,
    /// The streams that the process created as blocking ones.
    blocking: HashSet<(u32, u32)>,
}

impl ProcessStreams {
    pub(super) fn of(trace: &ProcessTrace) -> Self {
        let blocking =
            trace.streams.iter().filter(|info| info.class == Some(StreamClass::Blocking));
        Self {
            legacy: trace.contexts.iter().map(|info| (info.context, info.null_stream)).collect(),
            blocking: blocking.map(|info| (info.context, info.stream)).collect(),
        }
    }
}

/// The facts about a process that the rules for its devices share.
pub(super) struct Facts<'a> {
    pub(super) calls: &'a ProgramCalls,
    pub(super) streams: ProcessStreams,
    /// The time in which kernels or modules were loaded.
    pub(super) loading: Cover,
}

/// All findings that cost time, by descending cost.
pub(super) fn all(
    operations: &Operations<'_>,
    facts: &Facts<'_>,
    idle: &Idle,
    communication: &Communication,
) -> Vec<Habit> {
    let calls = facts.calls;
    let rules = [
        pageable(operations, calls),
        legacy(operations, facts),
        device_sync(operations, calls),
        stream_sync(operations, calls),
        gaps(operations, idle),
        exposed_copies(operations),
        exposed_communication(operations, communication),
        allocations(operations, calls),
        small(operations, calls),
        sync_copies(operations, calls),
        lazy_loading(operations, &facts.loading),
        queue_shared(operations, calls),
    ];
    let mut found: Vec<Habit> =
        rules.into_iter().flatten().filter(|finding| finding.cost.0 > 0).collect();
    sort(&mut found);
    found
}

/// Sorts findings by descending cost.
pub(super) fn sort(findings: &mut [Habit]) {
    findings.sort_by_key(|finding| Reverse(finding.cost));
}

/// The length of the time that a finding costs, and its longest parts.
pub(super) fn cost(time: &Union) -> (Nanos, Vec<Range<u64>>) {
    let mut places: Vec<&Range<u64>> = time.intervals().iter().collect();
    places.sort_by_key(|place| (Reverse(place.end - place.start), place.start));
    (time.length(), places.into_iter().take(PLACES_MAX).cloned().collect())
}

/// The copies between host and device.
fn over_the_link<'a>(operations: &Operations<'a>) -> impl Iterator<Item = &'a Activity> {
    operations.on(ProgramEngine::Upload).chain(operations.on(ProgramEngine::Download))
}

fn is_pageable(one: &Activity) -> bool {
    matches!(one.kind, ActivityKind::Copy { from, to, .. }
        if from == MemoryKind::Pageable || to == MemoryKind::Pageable)
}

/// The times of the calls that enqueued these, and the times of these or their calls.
fn with_calls(list: &[&Activity], calls: &ProgramCalls) -> (Union, Union) {
    let calling =
        Union::of(list.iter().filter_map(|one| calls.enqueuing(one)).map(|c| c.time.clone()));
    let ran = list.iter().map(|one| one.begin.0..one.end.0);
    let either = Union::of(calling.intervals().iter().cloned().chain(ran));
    (calling, either)
}

/// The part of `of` in which no kernel computed, within the window.
fn uncovered(operations: &Operations<'_>, of: &Union) -> Union {
    of.minus(&operations.kernels).and(&Union::of([operations.window.clone()]))
}

fn pageable(operations: &Operations<'_>, calls: &ProgramCalls) -> Option<Habit> {
    let list: Vec<_> = over_the_link(operations).filter(|one| is_pageable(one)).collect();
    let (calling, either) = with_calls(&list, calls);
    let ran = operations.ran(list.iter().copied()).length();
    let bytes = bytes(list.iter().copied());
    let (cost, places) = cost(&uncovered(operations, &either));
    (!list.is_empty()).then(|| Habit {
        key: "PERF/PAGEABLE",
        title: "copies from or to pageable host memory",
        count: list.len(),
        cost,
        places,
        seen: format!(
            "{bytes} at {}; the calls took {} of the host's time, the copies {ran}",
            rate(bytes, ran),
            calling.length()
        ),
        fix: "copy from and to page-locked memory; the driver stages other memory, and the call \
              waits for that",
    })
}

fn legacy(operations: &Operations<'_>, facts: &Facts<'_>) -> Option<Habit> {
    let stream = |one: &Activity| (one.context, one.stream);
    let is_legacy = |one: &&Activity| facts.streams.legacy.contains(&stream(one));
    let (mine, others): (Vec<&Activity>, Vec<&Activity>) =
        operations.all.iter().copied().partition(is_legacy);
    let kernels = mine.iter().filter(|one| is_kernel(one)).count();
    if kernels == 0 || others.is_empty() {
        return None;
    }
    let is_blocking = |one: &&Activity| facts.streams.blocking.contains(&stream(one));
    let blocking: Vec<_> = others.iter().copied().filter(is_blocking).collect();
    let at_legacy = operations.ran(mine.iter().copied());
    let at_blocking = operations.ran(blocking.iter().copied());
    let blocking_waited = Union::of(waits(&blocking, facts.calls)).and(&at_legacy);
    let legacy_waited = Union::of(waits(&mine, facts.calls)).and(&at_blocking);
    let (cost, places) = cost(&Union::all([&blocking_waited, &legacy_waited]));
    let alone = at_legacy.minus(&operations.ran(others.iter().copied())).length();
    let count =
        |list: &[&Activity]| list.iter().map(|one| stream(one)).collect::<HashSet<_>>().len();
    Some(Habit {
        key: "PERF/LEGACY-STREAM",
        title: "kernels on the legacy default stream while other streams are used",
        count: kernels,
        cost,
        places,
        seen: format!(
            "other streams: {}, {} of them blocking; the cost is the time in which enqueued work \
             of one side waited while the other side ran; legacy work ran alone for {alone}",
            count(&others),
            count(&blocking)
        ),
        fix: "create a non-blocking stream for them, and use events where an order is needed",
    })
}

/// The time that each operation waited, up to its start. It counts from the start of its call, or
/// from the end of the previous operation in its stream if that is later.
fn waits(list: &[&Activity], calls: &ProgramCalls) -> Vec<Range<u64>> {
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

/// The finding of the waits of one class.
fn sync(
    operations: &Operations<'_>,
    calls: &ProgramCalls,
    class: Class,
    (key, title, fix): (&'static str, &'static str, &'static str),
) -> Option<Habit> {
    let count = calls.count_in(class, &operations.window);
    if count == 0 {
        return None;
    }
    let cover = calls.cover(class);
    let caused = caused_by(&operations.idle, calls.ending_in(class, &operations.window));
    let (cost, places) = cost(&caused);
    Some(Habit {
        key,
        title,
        count,
        cost,
        places,
        seen: format!(
            "the host waited for {}, and the GPU was idle for {} of that time; this idle time ends if \
             the next work is enqueued before the wait: {cost} in and after the waits, for each at \
             most its length",
            Nanos(cover.within(&operations.window)),
            Nanos(cover.within_all(&operations.idle))
        ),
        fix,
    })
}

fn device_sync(operations: &Operations<'_>, calls: &ProgramCalls) -> Option<Habit> {
    let words = (
        "PERF/DEVICE-SYNC",
        "waits for the whole device",
        "enqueue the next work first, then wait for an event of the result that is needed",
    );
    sync(operations, calls, Class::DeviceSync, words)
}

fn stream_sync(operations: &Operations<'_>, calls: &ProgramCalls) -> Option<Habit> {
    let words = (
        "PERF/STREAM-SYNC",
        "waits for a stream or an event",
        "enqueue the next work before the wait; use two buffers in turn, each with its event",
    );
    sync(operations, calls, Class::StreamSync, words)
}

/// The cause of the largest part of the idle time in words, and its fix.
fn idle_words(cause: IdleCause, has_pageable: bool) -> (&'static str, &'static str) {
    match cause {
        IdleCause::Waits => (
            "while the host waited for the GPU",
            "enqueue the next work before the host waits for the work before it",
        ),
        IdleCause::Allocations => (
            "while the host allocated or freed memory",
            "allocate before the loop, or from a stream-ordered pool with a release threshold",
        ),
        IdleCause::Copies if has_pageable => (
            "while the host was in calls that copy",
            "copy from and to page-locked memory with the Async functions: a call that copies other \
             memory waits while the driver stages it",
        ),
        IdleCause::Copies => (
            "while the host was in calls that copy",
            "copy with the Async functions on a stream, and enqueue the next work before the copy is \
             needed",
        ),
        IdleCause::Launches => (
            "in gaps of less than 50 us, about as long as a launch takes",
            "replace many short launches by a CUDA graph, or give each kernel more work",
        ),
        IdleCause::Calls => (
            "while the host was in calls that neither wait, allocate nor copy",
            "make calls that create or load before the loop, and launch each kernel once before it: its \
             first launch loads it",
        ),
        IdleCause::Program => (
            "while the host was outside of CUDA",
            "the program's own host code holds the GPU up: do its work, such as reading, preparing and \
             logging, on another thread or earlier, so that the next work is enqueued in time",
        ),
    }
}

fn gaps(operations: &Operations<'_>, idle: &Idle) -> Option<Habit> {
    let gaps = operations.idle.intervals();
    let has_pageable = over_the_link(operations).any(is_pageable);
    let (cause, part) = idle.cause();
    let (meanwhile, fix) = idle_words(cause, has_pageable);
    let (cost, places) = cost(&operations.idle);
    let shorter = match gaps.len() - idle.gaps {
        0 => String::new(),
        1 => "; 1 shorter than 5 us is not counted".to_owned(),
        more => format!("; {more} shorter than 5 us are not counted"),
    };
    (!gaps.is_empty()).then(|| Habit {
        key: "PERF/GPU-IDLE",
        title: "gaps with no kernel and no copy",
        count: idle.gaps,
        cost,
        places,
        seen: format!(
            "the longest gap took {}; the largest part of the idle time, {part}, passed {meanwhile}\
             {shorter}",
            idle.longest
        ),
        fix,
    })
}

/// The number of these that ran in a part of `bare`.
fn count_in(list: &[&Activity], bare: &Union) -> usize {
    let bare = bare.intervals();
    let is_exposed = |one: &&&Activity| {
        let next = bare.partition_point(|part| part.end <= one.begin.0);
        bare.get(next).is_some_and(|part| part.start < one.end.0)
    };
    list.iter().filter(is_exposed).count()
}

/// The share of `ran` in which kernels computed, in percent.
fn hidden(ran: &Union, exposed: Nanos) -> f64 {
    100.0 - 100.0 * exposed.0 as f64 / ran.length().0.max(1) as f64
}

fn exposed_copies(operations: &Operations<'_>) -> Option<Habit> {
    let list: Vec<_> =
        over_the_link(operations).chain(operations.on(ProgramEngine::Peer)).collect();
    let ran = operations.ran(list.iter().copied());
    let bare = uncovered(operations, &ran);
    let (cost, places) = cost(&bare);
    let (length, hidden) = (ran.length(), hidden(&ran, cost));
    (!list.is_empty()).then(|| Habit {
        key: "PERF/EXPOSED-COPY",
        title: "copies while no kernel computed",
        count: count_in(&list, &bare),
        cost,
        places,
        seen: format!("copies took {length}; kernels computed during {hidden:.1} % of that time"),
        fix: "copy the next chunk on another stream while the kernels of this chunk run",
    })
}

fn exposed_communication(
    operations: &Operations<'_>,
    communication: &Communication,
) -> Option<Habit> {
    let list: Vec<_> = operations.on(ProgramEngine::Communication).collect();
    let Communication { ran, exposed: bare, by_name, .. } = communication;
    let (cost, places) = cost(bare);
    let (length, hidden) = (ran.length(), hidden(ran, cost));
    let most = by_name.first().map_or(String::new(), |most| {
        format!("; the most exposed kernel: {} in {} x {}", most.exposed, most.count, most.name)
    });
    (!list.is_empty()).then(|| Habit {
        key: "PERF/EXPOSED-COMM",
        title: "communication between GPUs while no other kernel ran",
        count: count_in(&list, bare),
        cost,
        places,
        seen: format!(
            "communication took {length}; other kernels ran during {hidden:.1} % of that time{most}"
        ),
        fix: "start the collective of a part when the part is ready, on a stream of its own, while \
              the next part is computed; a rank that arrives late makes the others wait here too",
    })
}

fn allocations(operations: &Operations<'_>, calls: &ProgramCalls) -> Option<Habit> {
    let count = calls.count_in(Class::Alloc, &operations.window);
    let cover = calls.cover(Class::Alloc);
    let host = Nanos(cover.within(&operations.window));
    let (cost, places) = cost(&cover.and(&operations.idle));
    (count > 0).then(|| Habit {
        key: "PERF/SYNC-ALLOC",
        title: "allocations, frees and page-locking between operations",
        count,
        cost,
        places,
        seen: format!("the calls took {host} of the host's time"),
        fix: "allocate before the loop, or from a stream-ordered pool with a release threshold",
    })
}

fn small(operations: &Operations<'_>, calls: &ProgramCalls) -> Option<Habit> {
    let list: Vec<_> = over_the_link(operations).filter(|one| one.bytes < SMALL_BYTES).collect();
    let (calling, either) = with_calls(&list, calls);
    let bytes = bytes(list.iter().copied());
    let (cost, places) = cost(&uncovered(operations, &either));
    (list.len() >= SMALL_COUNT_MIN).then(|| Habit {
        key: "PERF/SMALL-COPY",
        title: "many copies of less than 64 KiB",
        count: list.len(),
        cost,
        places,
        seen: format!("{bytes} in total; the calls took {} of the host's time", calling.length()),
        fix: "gather them in one buffer and copy that, or let a kernel read page-locked memory",
    })
}

fn sync_copies(operations: &Operations<'_>, calls: &ProgramCalls) -> Option<Habit> {
    let waits = |one: &&Activity| {
        !is_pageable(one) && calls.enqueuing(one).is_some_and(|call| call.class == Class::CopySync)
    };
    let list: Vec<_> = over_the_link(operations).filter(waits).collect();
    let (calling, either) = with_calls(&list, calls);
    let (cost, places) = cost(&uncovered(operations, &either));
    (!list.is_empty()).then(|| Habit {
        key: "PERF/SYNC-COPY",
        title: "copies whose calls wait for them",
        count: list.len(),
        cost,
        places,
        seen: format!("the calls took {} of the host's time", calling.length()),
        fix: "use the Async function on a stream; with page-locked memory it returns immediately",
    })
}

fn lazy_loading(operations: &Operations<'_>, loading: &Cover) -> Option<Habit> {
    let length = Nanos(loading.within(&operations.window));
    let (cost, places) = cost(&loading.and(&operations.idle));
    (length.0 > 0).then(|| Habit {
        key: "PERF/LAZY-LOADING",
        title: "kernels loaded at their first launch",
        count: loading.inside(&operations.window).len(),
        cost,
        places,
        seen: format!("loading took {length}; it waits for running kernels"),
        fix: "launch each kernel once before the work begins, or set CUDA_MODULE_LOADING=EAGER",
    })
}

fn queue_shared(operations: &Operations<'_>, calls: &ProgramCalls) -> Option<Habit> {
    let SharedQueues { crowd, streams } = queues::shared(operations, calls)?;
    let (cost, places) = cost(&crowd.waited);
    Some(Habit {
        key: "PERF/QUEUE-SHARED",
        title: "ready kernels that waited while 8 ran, the number of hardware queues by default",
        count: crowd.runs.len(),
        cost,
        places,
        seen: format!(
            "{} streams had operations in a row; the kernels waited for {} in total, on the streams \
             {streams}",
            crowd.in_row, crowd.sum
        ),
        fix: "use no more streams than hardware queues, or set CUDA_DEVICE_MAX_CONNECTIONS to 32 \
              before the program starts",
    })
}
