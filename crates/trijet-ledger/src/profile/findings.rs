//! The habits of a program that cost time, each found by its own rule.
#![forbid(unsafe_code)]

use super::activities::{Cover, bytes, is_kernel, is_pageable};
use super::calls::{Class, ProgramCalls};
use super::collectives::Communication;
use super::engine::ProgramEngine;
use super::idle::{Idle, IdleCause, caused_by};
use super::operations::Operations;
use super::queues::{self, SharedQueues};
use crate::base::lint::{FEWER_LAUNCHES, Rule};
use crate::base::units::Nanos;
use crate::trace::activity::{Activity, ProcessTrace};
use crate::trace::{StreamClass, Union, rate};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::ops::Range;

/// Maximum number of intervals that a finding lists.
const PLACES_MAX: usize = 3;

/// A habit of the program that costs time.
#[derive(Debug)]
pub struct Habit {
    /// The rule that found the habit.
    pub rule: Rule,
    /// The number of operations or calls that the finding is about.
    pub count: usize,
    /// The time in which the habit kept the device from its work. A fix may save less.
    pub cost: Nanos,
    /// The time that a replay of the run without the habit saves. `None` if the model of the run
    /// does not have the change.
    pub gain: Option<Nanos>,
    /// The longest intervals of the cost, on the clock of the trace, the longest first.
    pub places: Vec<Range<u64>>,
    /// The measured facts, as text.
    pub seen: String,
    /// The recommended change: the fix of the rule, or of the cause of idle time.
    pub fix: &'static str,
}

impl Habit {
    /// A habit that costs `time`, with the fix of its rule.
    pub(super) fn new(rule: Rule, count: usize, time: &Union, seen: String) -> Self {
        let (cost, places) = cost(time);
        Self { rule, count, cost, gain: None, places, seen, fix: rule.fix() }
    }

    /// The time that the fix saves: the gain, or the cost if no replay has the fix.
    #[must_use]
    pub fn saves(&self) -> Nanos {
        self.gain.unwrap_or(self.cost)
    }
}

/// The streams of a process.
#[derive(Debug)]
pub(super) struct ProcessStreams {
    /// The legacy streams: the number of the context and the number of the stream.
    legacy: HashSet<(u32, u32)>,
    /// The streams that the process created as blocking streams: the number of the context and the
    /// number of the stream.
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

    pub(super) fn has_blocking(&self) -> bool {
        !self.blocking.is_empty()
    }

    /// Whether this is the legacy stream of its context. A stream is the number of its context and
    /// its own.
    pub(super) fn is_legacy(&self, stream: (u32, u32)) -> bool {
        self.legacy.contains(&stream)
    }

    pub(super) fn is_blocking(&self, stream: (u32, u32)) -> bool {
        self.blocking.contains(&stream)
    }
}

/// The facts about a process that the rules for its devices share.
pub(super) struct Facts<'a> {
    pub(super) calls: &'a ProgramCalls,
    pub(super) streams: ProcessStreams,
    /// The time in which kernels or modules were loaded.
    pub(super) loading: Cover,
}

/// All findings that cost time, the most costly first.
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
        over_sync(operations, calls),
        gaps(operations, calls, idle),
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

/// Sorts findings by the time that their fixes save, and by their costs where this is unknown.
pub(super) fn sort(findings: &mut [Habit]) {
    findings.sort_by_key(|finding| Reverse((finding.saves(), finding.cost)));
}

/// The length of `time`, and its longest parts.
fn cost(time: &Union) -> (Nanos, Vec<Range<u64>>) {
    let mut places: Vec<&Range<u64>> = time.intervals().iter().collect();
    places.sort_by_key(|place| (Reverse(place.end - place.start), place.start));
    (time.length(), places.into_iter().take(PLACES_MAX).cloned().collect())
}

/// The copies between host and device.
fn over_the_link<'a>(operations: &Operations<'a>) -> impl Iterator<Item = &'a Activity> {
    operations.on(ProgramEngine::Upload).chain(operations.on(ProgramEngine::Download))
}

/// The time in the calls that enqueued these activities, and the time in which one of the
/// activities or of the calls ran.
fn with_calls(list: &[&Activity], calls: &ProgramCalls) -> (Union, Union) {
    let calling =
        Union::of(list.iter().filter_map(|one| calls.enqueuing(one)).map(|c| c.time.clone()));
    let ran = list.iter().map(|one| one.begin.0..one.end.0);
    let either = Union::of(calling.intervals().iter().cloned().chain(ran));
    (calling, either)
}

/// The part of `of` that is in the window and in which no kernel computed.
fn uncovered(operations: &Operations<'_>, of: &Union) -> Union {
    of.minus(&operations.kernels).and(&Union::of([operations.window.clone()]))
}

/// Whether the call of the copy waits until the copy is complete.
fn is_waited_for(one: &Activity, calls: &ProgramCalls) -> bool {
    calls.enqueuing(one).is_some_and(|call| call.class == Class::CopySync)
}

/// The asynchronous copies between host and device that are staged by the driver.
fn staged_copies<'a>(
    operations: &Operations<'a>,
    calls: &ProgramCalls,
) -> impl Iterator<Item = &'a Activity> {
    over_the_link(operations).filter(move |one| is_pageable(one) && !is_waited_for(one, calls))
}

fn pageable(operations: &Operations<'_>, calls: &ProgramCalls) -> Option<Habit> {
    let list: Vec<_> = staged_copies(operations, calls).collect();
    let (calling, either) = with_calls(&list, calls);
    let ran = operations.ran(list.iter().copied()).length();
    let bytes = bytes(list.iter().copied());
    let seen = format!(
        "{bytes} at {}; the calls took {} of the host's time, the copies {ran}",
        rate(bytes, ran),
        calling.length()
    );
    let time = uncovered(operations, &either);
    (!list.is_empty()).then(|| Habit::new(Rule::Pageable, list.len(), &time, seen))
}

fn legacy(operations: &Operations<'_>, facts: &Facts<'_>) -> Option<Habit> {
    let stream = |one: &Activity| (one.context, one.stream);
    let is_legacy = |one: &&Activity| facts.streams.is_legacy(stream(one));
    let (mine, others): (Vec<&Activity>, Vec<&Activity>) =
        operations.all.iter().copied().partition(is_legacy);
    let kernels = mine.iter().filter(|one| is_kernel(one)).count();
    if kernels == 0 || others.is_empty() {
        return None;
    }
    let is_blocking = |one: &&Activity| facts.streams.is_blocking(stream(one));
    let blocking: Vec<_> = others.iter().copied().filter(is_blocking).collect();
    let at_legacy = operations.ran(mine.iter().copied());
    let at_blocking = operations.ran(blocking.iter().copied());
    let blocking_waited = Union::of(waits(&blocking, facts.calls)).and(&at_legacy);
    let legacy_waited = Union::of(waits(&mine, facts.calls)).and(&at_blocking);
    let time = Union::all([&blocking_waited, &legacy_waited]);
    let alone = at_legacy.minus(&operations.ran(others.iter().copied())).length();
    let count =
        |list: &[&Activity]| list.iter().map(|one| stream(one)).collect::<HashSet<_>>().len();
    let seen = format!(
        "{kernels} kernels are on the legacy stream; other streams: {}, {} of them blocking; the \
         cost is the time in which legacy work waited while blocking streams ran, or the reverse; \
         legacy work ran alone for {alone}",
        count(&others),
        count(&blocking)
    );
    Some(Habit::new(Rule::LegacyBarrier, kernels, &time, seen))
}

/// For each operation, the time for which it waited before its start. The wait begins with the call
/// of the operation, or with the end of the previous operation in its stream if that end is later.
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

/// The waits of the host for the device, a stream or an event.
fn over_sync(operations: &Operations<'_>, calls: &ProgramCalls) -> Option<Habit> {
    let classes = [Class::DeviceSync, Class::StreamSync];
    let [of_device, of_streams] = classes.map(|class| calls.count_in(class, &operations.window));
    let caused = classes
        .map(|class| caused_by(&operations.idle, calls.ending_in(class, &operations.window)));
    let (caused, cover) = (Union::all(&caused), calls.waiting());
    let seen = format!(
        "{of_device} waits for the whole device, {of_streams} for a stream or an event; the host \
         waited for {}, and the GPU was idle for {} of that time; if the next \
         work is enqueued before the wait, this idle time can be saved: {} in and after the \
         waits, at most the length of each wait",
        Nanos(cover.within(&operations.window)),
        Nanos(cover.within_all(&operations.idle)),
        caused.length()
    );
    let count = of_device + of_streams;
    (count > 0).then(|| Habit::new(Rule::OverSync, count, &caused, seen))
}

/// A cause of idle time as text, and its fix. If another rule finds this cause, the fix is the fix
/// of that rule.
fn idle_words(cause: IdleCause, has_staged: bool) -> (&'static str, &'static str) {
    match cause {
        IdleCause::Waits => ("while the host waited for the GPU", Rule::OverSync.fix()),
        IdleCause::Allocations => {
            ("while the host allocated or freed memory", Rule::SyncAlloc.fix())
        }
        IdleCause::Copies => {
            let rule = if has_staged { Rule::Pageable } else { Rule::SyncCopy };
            ("while the host was in calls that copy", rule.fix())
        }
        IdleCause::Launches => {
            ("in gaps of less than 50 us, as they occur between launches", FEWER_LAUNCHES)
        }
        IdleCause::Calls => (
            "while the host was in calls that neither wait, allocate nor copy",
            "make calls that create or load before the loop, and launch each kernel once before the \
             loop: the first launch of a kernel loads the kernel",
        ),
        IdleCause::Program => ("while the host was outside of CUDA", Rule::HostLate.fix()),
    }
}

fn gaps(operations: &Operations<'_>, calls: &ProgramCalls, idle: &Idle) -> Option<Habit> {
    let gaps = operations.idle.intervals();
    let has_staged = staged_copies(operations, calls).next().is_some();
    let (cause, part) = idle.cause();
    let (meanwhile, fix) = idle_words(cause, has_staged);
    let shorter = match gaps.len() - idle.gaps {
        0 => String::new(),
        1 => "; 1 gap shorter than 5 us is not counted".to_owned(),
        more => format!("; {more} gaps shorter than 5 us are not counted"),
    };
    let seen = format!(
        "the longest gap took {}; the largest part of the idle time, {part}, passed {meanwhile}{shorter}",
        idle.longest
    );
    (!gaps.is_empty())
        .then(|| Habit { fix, ..Habit::new(Rule::GpuIdle, idle.gaps, &operations.idle, seen) })
}

/// The number of activities in `list` that ran during some part of `bare`.
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
    let (length, hidden) = (ran.length(), hidden(&ran, bare.length()));
    let seen = format!("copies took {length}; kernels computed during {hidden:.1} % of that time");
    let count = count_in(&list, &bare);
    (!list.is_empty()).then(|| Habit::new(Rule::ExposedCopy, count, &bare, seen))
}

fn exposed_communication(
    operations: &Operations<'_>,
    communication: &Communication,
) -> Option<Habit> {
    let list: Vec<_> = operations.on(ProgramEngine::Communication).collect();
    let Communication { ran, exposed: bare, by_name, .. } = communication;
    let (length, hidden) = (ran.length(), hidden(ran, bare.length()));
    let most = by_name.first().map_or(String::new(), |most| {
        format!("; the most exposed kernel: {} in {} x {}", most.exposed, most.count, most.name)
    });
    let seen = format!(
        "communication took {length}; other kernels ran during {hidden:.1} % of that time{most}; a rank \
         that arrives late makes the others wait here too"
    );
    let count = count_in(&list, bare);
    (!list.is_empty()).then(|| Habit::new(Rule::ExposedComm, count, bare, seen))
}

fn allocations(operations: &Operations<'_>, calls: &ProgramCalls) -> Option<Habit> {
    let count = calls.count_in(Class::Alloc, &operations.window);
    let cover = calls.cover(Class::Alloc);
    let host = Nanos(cover.within(&operations.window));
    let seen = format!(
        "calls that page-lock memory are counted too; all these calls took {host} of the host's time"
    );
    let time = cover.and(&operations.idle);
    (count > 0).then(|| Habit::new(Rule::SyncAlloc, count, &time, seen))
}

fn small(operations: &Operations<'_>, calls: &ProgramCalls) -> Option<Habit> {
    let is_small = |one: &&Activity| one.bytes <= Rule::SmallCopy.limits().bytes_max;
    let list: Vec<_> = over_the_link(operations).filter(is_small).collect();
    let (calling, either) = with_calls(&list, calls);
    let bytes = bytes(list.iter().copied());
    let seen = format!("{bytes} in total; the calls took {} of the host's time", calling.length());
    let time = uncovered(operations, &either);
    Rule::SmallCopy
        .are_enough(list.len())
        .then(|| Habit::new(Rule::SmallCopy, list.len(), &time, seen))
}

fn sync_copies(operations: &Operations<'_>, calls: &ProgramCalls) -> Option<Habit> {
    let waits = |one: &&Activity| is_waited_for(one, calls);
    let list: Vec<_> = over_the_link(operations).filter(waits).collect();
    let pageable = list.iter().filter(|one| is_pageable(one)).count();
    let (calling, either) = with_calls(&list, calls);
    let seen = format!(
        "{pageable} of these copies use pageable memory; the calls took {} of the host's time",
        calling.length()
    );
    let time = uncovered(operations, &either);
    (!list.is_empty()).then(|| Habit::new(Rule::SyncCopy, list.len(), &time, seen))
}

fn lazy_loading(operations: &Operations<'_>, loading: &Cover) -> Option<Habit> {
    let length = Nanos(loading.within(&operations.window));
    let count = loading.inside(&operations.window).len();
    let seen = format!(
        "loading took {length}; a load waits for running kernels; with CUDA_MODULE_LOADING=EAGER \
         the driver loads all kernels at the start"
    );
    let time = loading.and(&operations.idle);
    (length.0 > 0).then(|| Habit::new(Rule::FirstUseLoad, count, &time, seen))
}

fn queue_shared(operations: &Operations<'_>, calls: &ProgramCalls) -> Option<Habit> {
    let SharedQueues { crowd, streams } = queues::shared(operations, calls)?;
    let is_enough = Rule::QueueShared.is_enough(crowd.waited.length().0, operations.elapsed().0);
    let seen = format!(
        "{} streams had their next operation enqueued before a kernel ended, but the default is 8 \
         hardware queues; the kernels waited for {} in total, on the streams {streams}",
        crowd.in_row, crowd.sum
    );
    is_enough.then(|| Habit::new(Rule::QueueShared, crowd.runs.len(), &crowd.waited, seen))
}
