//! The laws that every record of a trace obeys, whatever the program did. CUPTI sometimes returns
//! records that violate them. Such a record is set apart before anything is computed: it is counted
//! and named, and no figure includes it.
//!
//! A law allows for everything that a correct record may do. The clocks of host and device differ.
//! A dependent kernel may start before the previous kernel has ended. The branches of a graph may
//! run at the same time. Another process may use the device at any time.
#![forbid(unsafe_code)]

use super::activities::is_timed;
use super::names::{clean, readable};
use crate::base::units::{Bytes, Nanos};
use crate::trace::activity::{
    Activity, ActivityKind, Allocation, AllocationKind, MemoryKind, ProcessTrace,
};
use std::collections::BTreeMap;

/// The assumed error between the clocks of host and device, in nanoseconds. CUPTI reports times of
/// the device on the clock of the host, which the system may adjust by 500 us in a second.
const CLOCKS_NS: u64 = 1_000_000;
/// The assumed error between two times of one device, in nanoseconds. Some devices count in units
/// of 1 us.
const DEVICE_NS: u64 = 10_000;
/// Maximum time, in nanoseconds, for which other processes are assumed to use a device during a
/// copy.
const STALL_NS: u64 = 100_000_000;
/// The maximum time of a byte in nanoseconds, for the slowest copies. This is the time at 50 MB/s,
/// which is hundreds of times slower than the memory of any device, and slower than any link.
const SLOWEST_NS_PER_BYTE: u64 = 20;
/// A number of bytes per nanosecond that no memory reaches: 100 TB/s. This is 12 times the rate of
/// the fastest memory and 100 times the rate of the fastest link.
const FASTEST_BYTES_PER_NS: u64 = 100_000;
/// The shortest time that the clock of a device can distinguish from zero, in nanoseconds.
const TICK_NS: u64 = 2_000;
/// Maximum number of grids that run on a device at the same time, by the CUDA C++ Programming
/// Guide.
const GRIDS_MAX: usize = 128;
/// Maximum number of operations of a group that are marked one after the other. Without this limit
/// and [`OVERLAPS_MAX`], a damaged file could take hours.
const ROUNDS_MAX: usize = 64;
/// Maximum number of later operations with which an operation of a group is compared.
const OVERLAPS_MAX: usize = 1024;
/// Maximum number of records that are named for each law.
const EXAMPLES_MAX: usize = 3;

/// The laws, in the order in which contradictions are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Law {
    Start,
    End,
    Life,
    Call,
    Fast,
    Slow,
    Order,
}

impl Law {
    /// The name for filters, and how the records violate the law.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Start => ("start", "start at 0"),
            Self::End => ("end", "end before they start"),
            Self::Life => ("life", "lie before the trace began or after the process ended"),
            Self::Call => ("call", "start before the call that enqueued them"),
            Self::Fast => ("fast", "move bytes faster than any memory"),
            Self::Slow => ("slow", "move bytes hundreds of times slower than any memory"),
            Self::Order => ("order", "overlap operations before or after them in their stream"),
        }
    }
}

/// The records of a process that violate one law.
#[derive(Debug)]
pub struct Contradiction {
    /// The name of the law for filters.
    pub key: &'static str,
    /// How the records violate the law.
    pub law: &'static str,
    /// The number of records that violate the law.
    pub count: usize,
    /// Some of the records, as text.
    pub examples: Vec<String>,
}

/// Removes the records that violate a law from the trace.
pub(super) fn set_apart(trace: &mut ProcessTrace) -> Vec<Contradiction> {
    let life = Life::of(trace);
    let mut broken: Vec<Option<Law>> =
        trace.activities.iter().map(|one| life.broken_by(one)).collect();
    let calls = Enqueued::of(trace, &broken);
    for (one, law) in trace.activities.iter().zip(&mut broken) {
        let has_call = !matches!(
            one.kind,
            ActivityKind::Call(_) | ActivityKind::Overhead(_) | ActivityKind::Mark(_)
        );
        if law.is_none() && has_call && calls.is_after(one.correlation, one.begin) {
            *law = Some(Law::Call);
        }
    }
    order(trace, &calls, &mut broken);
    let of_memory = |one: &Allocation| {
        let law = life.breaks(one.at, one.at);
        law.or(calls.is_after(one.correlation, one.at).then_some(Law::Call))
    };
    let mut found: BTreeMap<Law, (usize, Vec<String>)> = BTreeMap::new();
    let mut name = |law: Law, words: &dyn Fn() -> String| {
        let (count, examples) = found.entry(law).or_default();
        *count += 1;
        if examples.len() < EXAMPLES_MAX {
            examples.push(words());
        }
    };
    for (one, law) in trace.activities.iter().zip(&broken) {
        law.iter().for_each(|law| name(*law, &|| activity(trace, one)));
    }
    for one in &trace.allocations {
        of_memory(one).iter().for_each(|law| name(*law, &|| allocation(trace, one)));
    }
    if !found.is_empty() {
        let mut laws = broken.iter();
        trace.activities.retain(|_| laws.next().is_none_or(Option::is_none));
        trace.allocations.retain(|one| of_memory(one).is_none());
    }
    let contradiction = |(law, (count, examples)): (Law, _)| {
        let (key, law) = law.words();
        Contradiction { key, law, count, examples }
    };
    found.into_iter().map(contradiction).collect()
}

/// The start and the end of a process, in nanoseconds; 0 if unknown.
struct Life {
    began: u64,
    ended: u64,
}

impl Life {
    fn of(trace: &ProcessTrace) -> Self {
        Self { began: trace.began.0, ended: trace.end.map_or(0, |end| end.at.0) }
    }

    /// The law that an activity with these times violates.
    fn breaks(&self, begin: Nanos, end: Nanos) -> Option<Law> {
        if begin.0 == 0 {
            return Some(Law::Start);
        }
        if end.0 != 0 && end < begin {
            return Some(Law::End);
        }
        let last = begin.max(end).0;
        let is_late = self.ended != 0 && last > self.ended.saturating_add(CLOCKS_NS);
        is_late.then_some(Law::Life)
    }

    /// The law that a record violates on its own.
    fn broken_by(&self, one: &Activity) -> Option<Law> {
        // A call or an overhead may have started before the recorder was loaded.
        let is_operation = one.engine().is_some();
        let is_early = is_operation && one.begin.0.saturating_add(CLOCKS_NS) < self.began;
        let law = self.breaks(one.begin, one.end).or(is_early.then_some(Law::Life));
        law.or_else(|| is_timed(one).then(|| speed(one)).flatten())
    }
}

/// The law of speed that a copy or a fill violates.
fn speed(one: &Activity) -> Option<Law> {
    // A copy from or to other memory may take longer, because the host may read pages from a disk.
    let is_near =
        |memory| matches!(memory, MemoryKind::Pinned | MemoryKind::Device | MemoryKind::Array);
    let is_near = match one.kind {
        ActivityKind::Copy { from, to, .. } => is_near(from) && is_near(to),
        ActivityKind::Fill => true,
        _ => return None,
    };
    let took = one.end.0 - one.begin.0;
    let slowest = one.bytes.saturating_mul(SLOWEST_NS_PER_BYTE).saturating_add(STALL_NS);
    if one.bytes > took.saturating_add(TICK_NS).saturating_mul(FASTEST_BYTES_PER_NS) {
        Some(Law::Fast)
    } else {
        (is_near && took > slowest).then_some(Law::Slow)
    }
}

/// The calls that enqueue, sorted by their correlation number.
struct Enqueued(Vec<Enqueuing>);

/// The calls with one correlation number.
struct Enqueuing {
    correlation: u32,
    begin: u64,
    /// Whether the call has launch attributes. If so, its kernel may be a dependent launch.
    has_attributes: bool,
}

impl Enqueued {
    fn of(trace: &ProcessTrace, broken: &[Option<Law>]) -> Self {
        let with_attributes: Vec<bool> =
            trace.names.iter().map(|name| name.contains("LaunchKernelEx")).collect();
        let calls = trace
            .activities
            .iter()
            .zip(broken)
            .filter(|(one, law)| matches!(one.kind, ActivityKind::Call(_)) && law.is_none());
        let mut list: Vec<Enqueuing> = calls
            .map(|(one, _)| {
                let name = one.name.and_then(|name| usize::try_from(name.0).ok());
                Enqueuing {
                    correlation: one.correlation,
                    begin: one.begin.0,
                    has_attributes: name
                        .and_then(|name| with_attributes.get(name))
                        .is_some_and(|has| *has),
                }
            })
            .collect();
        list.sort_unstable_by_key(|call| (call.correlation, call.begin));
        list.dedup_by(|later, first| {
            let same = later.correlation == first.correlation;
            first.has_attributes |= same && later.has_attributes;
            same
        });
        Self(list)
    }

    fn with(&self, correlation: u32) -> Option<&Enqueuing> {
        let at = self.0.binary_search_by_key(&correlation, |call| call.correlation).ok()?;
        self.0.get(at)
    }

    /// Whether the call with this correlation number starts after `time` by more than the assumed
    /// error of the clocks.
    fn is_after(&self, correlation: u32, time: Nanos) -> bool {
        let call = self.with(correlation);
        call.is_some_and(|call| time.0.saturating_add(CLOCKS_NS) < call.begin)
    }
}

/// The kind of an operation, for the order of its stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OperationKind {
    Transfer,
    Kernel,
    /// A kernel that may start before the previous kernel has ended.
    Dependent,
}

impl OperationKind {
    fn of(one: &Activity, calls: &Enqueued) -> Self {
        match (one.kind, calls.with(one.correlation)) {
            (ActivityKind::Kernel, Some(call)) if !call.has_attributes => Self::Kernel,
            (ActivityKind::Kernel, _) => Self::Dependent,
            _ => Self::Transfer,
        }
    }
}

/// Marks operations that overlap other operations of their stream. Two operations exclude each
/// other if they overlap and the laws do not allow the overlap. Among operations that exclude each
/// other, the operation that excludes the most others is marked.
fn order(trace: &ProcessTrace, calls: &Enqueued, broken: &mut [Option<Law>]) {
    let list = &trace.activities;
    let stream = |at: usize| (list[at].device, list[at].context, list[at].stream);
    let counts =
        |at: &usize| broken[*at].is_none() && list[*at].engine().is_some() && is_timed(&list[*at]);
    let mut operations: Vec<usize> = (0..list.len()).filter(counts).collect();
    // The branches of a graph may be reported on streams that several graphs share. So a call with
    // operations on several streams is left out.
    operations.sort_unstable_by_key(|&at| (list[at].correlation, stream(at)));
    let launches = operations.chunk_by(|&a, &b| list[a].correlation == list[b].correlation);
    let on_one = launches.filter(|all| stream(all[0]) == stream(all[all.len() - 1]));
    let mut operations: Vec<usize> = on_one.flatten().copied().collect();
    operations.sort_unstable_by_key(|&at| (stream(at), list[at].begin, list[at].end));
    for operations in operations.chunk_by(|&a, &b| stream(a) == stream(b)) {
        let mut group: Vec<Operation<'_>> = Vec::new();
        let mut last = 0;
        for &at in operations {
            if list[at].begin.0.saturating_add(DEVICE_NS) >= last {
                resolve(&mut group, broken);
                group.clear();
            }
            last = last.max(list[at].end.0);
            group.push(Operation { at, one: &list[at], kind: OperationKind::of(&list[at], calls) });
        }
        resolve(&mut group, broken);
    }
}

/// An operation of a group whose operations overlap.
#[derive(Clone, Copy)]
struct Operation<'a> {
    /// The index of the operation in the trace.
    at: usize,
    one: &'a Activity,
    kind: OperationKind,
}

/// Marks operations of a group that exclude each other. Each round marks the operation that
/// excludes the most others, until no operations exclude each other. After the last round, all
/// operations that still exclude others are marked. The operations of the group are sorted by their
/// starts.
fn resolve(group: &mut Vec<Operation<'_>>, broken: &mut [Option<Law>]) {
    if group.len() < 2 {
        return;
    }
    for _ in 0..ROUNDS_MAX {
        let excluded = excluded(group);
        let most = (0..group.len()).max_by_key(|&one| (excluded[one], group[one].one.end));
        match most.filter(|&one| excluded[one] > 0) {
            Some(one) => broken[group.remove(one).at] = Some(Law::Order),
            None => return,
        }
    }
    for (one, count) in group.iter().zip(excluded(group)) {
        if count > 0 {
            broken[one.at] = Some(Law::Order);
        }
    }
}

/// For each operation, by its index: the number of other operations that it excludes.
fn excluded(group: &[Operation<'_>]) -> Vec<usize> {
    let mut counts = vec![0; group.len()];
    for (first, one) in group.iter().enumerate() {
        let mut grids = 1;
        let after = group.iter().enumerate().skip(first + 1).take(OVERLAPS_MAX);
        let overlaps =
            |other: &Operation<'_>| other.one.begin.0.saturating_add(DEVICE_NS) < one.one.end.0;
        for (second, other) in after.take_while(|(_, other)| overlaps(other)) {
            if one.one.correlation == other.one.correlation {
                continue;
            }
            let depends =
                one.kind != OperationKind::Transfer && other.kind == OperationKind::Dependent;
            grids += usize::from(depends);
            if !depends || grids > GRIDS_MAX {
                counts[first] += 1;
                counts[second] += 1;
            }
        }
    }
    counts
}

/// The time from the start of the trace to `time`; 0 if `time` is before the start of the trace.
fn since(trace: &ProcessTrace, time: Nanos) -> Nanos {
    Nanos(time.0.saturating_sub(trace.began.0))
}

fn activity(trace: &ProcessTrace, one: &Activity) -> String {
    let what = match one.kind {
        ActivityKind::Kernel => format!("kernel {}", readable(trace.name(one))),
        ActivityKind::Copy { from, to, .. } => {
            format!("copy of {} from {from:?} to {to:?}", Bytes(one.bytes))
        }
        ActivityKind::Fill => format!("fill of {}", Bytes(one.bytes)),
        ActivityKind::Call(_) => format!("call {}", clean(trace.name(one))),
        other => format!("{other:?}"),
    };
    let (begin, end) = (since(trace, one.begin), since(trace, one.end));
    let times = format!("{what} from {begin} to {end}");
    if one.engine().is_none() {
        return times;
    }
    let Activity { stream, device, correlation, .. } = one;
    format!("{times} on stream {stream} of device {device}, enqueued by call {correlation}")
}

fn allocation(trace: &ProcessTrace, one: &Allocation) -> String {
    let what = match one.what {
        AllocationKind::Allocate => "allocation",
        AllocationKind::Free => "free",
    };
    let at = since(trace, one.at);
    format!("{what} of {} at {at}, made by call {}", Bytes(one.bytes), one.correlation)
}
