//! Calls of the host, classified by their effect on the GPU.
#![forbid(unsafe_code)]

use super::activities::{Cover, is_timed};
use crate::trace::Union;
use crate::trace::activity::{Activity, ActivityKind, NameId, ProcessTrace};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

/// The effect of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Class {
    /// Waits for everything on the device.
    DeviceSync,
    /// Waits for a stream or an event.
    StreamSync,
    /// Allocates or frees memory outside of stream order, or page-locks memory.
    Alloc,
    /// Copies, and may return before the copy is complete.
    CopyAsync,
    /// Copies, and returns when the copy is complete.
    CopySync,
    /// Has none of these effects.
    Other,
}

/// Functions that allocate, free or page-lock outside of stream order. The names of the
/// stream-ordered functions end in `Async`.
const ALLOCATING: &[&str] = &[
    "cudaMalloc",
    "cudaFree",
    "cudaMallocHost",
    "cudaFreeHost",
    "cudaHostAlloc",
    "cudaHostRegister",
    "cudaHostUnregister",
    "cudaMallocPitch",
    "cudaMalloc3D",
    "cudaMallocArray",
    "cudaMalloc3DArray",
    "cudaFreeArray",
    "cudaMallocManaged",
    "cuMemAlloc",
    "cuMemFree",
    "cuMemAllocPitch",
    "cuMemAllocHost",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemAllocManaged",
    "cuMemHostRegister",
    "cuMemHostUnregister",
    "cuArrayCreate",
    "cuArrayDestroy",
    "cuMemCreate",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemRelease",
    "cuMemSetAccess",
    "cuMemAddressReserve",
    "cuMemAddressFree",
];

/// The name of a function as the manual has it: `cuMemAlloc` for `cuMemAlloc_v2_ptsz`.
pub(super) fn documented_name(name: &str) -> &str {
    let mut name = name;
    loop {
        let Some((head, tail)) = name.rsplit_once('_') else { return name };
        let version = tail.strip_prefix('v').unwrap_or("");
        let is_version = !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit());
        if !is_version && tail != "ptsz" && tail != "ptds" {
            return name;
        }
        name = head;
    }
}

/// Whether the function makes a stream wait for another stream, or launches work that contains
/// waits.
fn orders_streams(name: &str) -> bool {
    matches!(
        documented_name(name),
        "cudaStreamWaitEvent" | "cuStreamWaitEvent" | "cudaGraphLaunch" | "cuGraphLaunch"
    )
}

/// The class of the function `name`.
pub(super) fn class(name: &str) -> Class {
    match documented_name(name) {
        "cudaDeviceSynchronize" | "cudaThreadSynchronize" | "cuCtxSynchronize" => Class::DeviceSync,
        "cudaStreamSynchronize"
        | "cudaEventSynchronize"
        | "cuStreamSynchronize"
        | "cuEventSynchronize" => Class::StreamSync,
        name if ALLOCATING.contains(&name) => Class::Alloc,
        name if name.starts_with("cudaMemcpy") || name.starts_with("cuMemcpy") => {
            if name.contains("Async") { Class::CopyAsync } else { Class::CopySync }
        }
        _ => Class::Other,
    }
}

impl Class {
    /// The index of the class in tables.
    fn index(self) -> usize {
        match self {
            Self::DeviceSync => 0,
            Self::StreamSync => 1,
            Self::Alloc => 2,
            Self::CopyAsync => 3,
            Self::CopySync => 4,
            Self::Other => 5,
        }
    }
}

const CLASSES: [Class; 6] = [
    Class::DeviceSync,
    Class::StreamSync,
    Class::Alloc,
    Class::CopyAsync,
    Class::CopySync,
    Class::Other,
];

/// The effects that explain idle time. Idle time during calls with several effects counts for the
/// effect that is first in this list.
pub(super) const EFFECTS: [&[Class]; 4] = [
    &[Class::DeviceSync, Class::StreamSync],
    &[Class::Alloc],
    &[Class::CopySync, Class::CopyAsync],
    &[Class::Other],
];

/// One call of the host, with its effect and its time in nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct ProgramCall {
    pub(super) class: Class,
    pub(super) time: Range<u64>,
    pub(super) name: Option<NameId>,
    /// The number of the thread.
    pub(super) thread: u32,
    /// The number that the call shares with its operation or its wait.
    pub(super) correlation: u32,
    /// Whether the call frees memory outside of stream order, which waits for the device.
    pub(super) frees: bool,
}

/// The calls of one class.
#[derive(Debug, Default)]
struct OfClass {
    /// The starts of the calls in nanoseconds, sorted.
    begins: Vec<u64>,
    /// The times of the calls, sorted by end.
    by_end: Vec<Range<u64>>,
    cover: Cover,
}

/// The calls of all threads, except calls made inside other calls.
#[derive(Debug, Default)]
pub(super) struct ProgramCalls {
    list: Vec<ProgramCall>,
    /// Pairs of a correlation number and an index in `list`, sorted by the number. The number of a
    /// call inside another call has the index of the outer call.
    by_correlation: Vec<(u32, u32)>,
    by_class: [OfClass; CLASSES.len()],
    order_streams: bool,
    /// For each of `EFFECTS`, by its index: the time in calls with this effect or an earlier effect
    /// of the list.
    effects: [Cover; EFFECTS.len()],
}

impl ProgramCalls {
    pub(super) fn of(trace: &ProcessTrace) -> Self {
        let mut classes = HashMap::new();
        let is_call = |one: &&Activity| matches!(one.kind, ActivityKind::Call(_)) && is_timed(one);
        let mut found: Vec<&Activity> = trace.activities.iter().filter(is_call).collect();
        found.sort_by_key(|one| (one.thread, one.begin, Reverse(one.end)));
        let ordering = found.iter().any(|one| orders_streams(trace.name(one)));
        let mut calls = Self { order_streams: ordering, ..Self::default() };
        let mut outer: Option<(u32, u64)> = None;
        for one in found {
            let inside =
                outer.is_some_and(|(thread, end)| thread == one.thread && one.end.0 <= end);
            if !inside {
                let (class, frees) = *classes.entry(one.name).or_insert_with(|| {
                    let name = trace.name(one);
                    (class(name), class(name) == Class::Alloc && name.contains("Free"))
                });
                let Activity { name, thread, correlation, .. } = *one;
                let time = one.begin.0..one.end.0;
                calls.list.push(ProgramCall { class, time, name, thread, correlation, frees });
                outer = Some((one.thread, one.end.0));
            }
            // The reader of a trace refuses more calls than a u32 can count.
            let index = u32::try_from(calls.list.len() - 1).unwrap_or(u32::MAX);
            calls.by_correlation.push((one.correlation, index));
        }
        // If several calls have the same number, the last call counts.
        calls.by_correlation.sort_by_key(|(correlation, _)| *correlation);
        for class in CLASSES {
            calls.by_class[class.index()] = OfClass::of(&calls.list, class);
        }
        let mut until_now = Vec::new();
        for (effect, classes) in EFFECTS.iter().enumerate() {
            until_now.extend_from_slice(classes);
            let times = calls.list.iter().filter(|call| until_now.contains(&call.class));
            calls.effects[effect] = Cover::of(Union::of(times.map(|call| call.time.clone())));
        }
        calls
    }

    /// Whether a call made a stream wait for another stream.
    pub(super) fn order_streams(&self) -> bool {
        self.order_streams
    }

    pub(super) fn count(&self) -> usize {
        self.list.len()
    }

    /// The calls, sorted by thread and start.
    pub(super) fn list(&self) -> &[ProgramCall] {
        &self.list
    }

    /// The call that enqueued an operation.
    pub(super) fn enqueuing(&self, operation: &Activity) -> Option<&ProgramCall> {
        self.enqueuing_index(operation).map(|index| &self.list[index])
    }

    /// The index in the list of the call that enqueued an operation.
    pub(super) fn enqueuing_index(&self, operation: &Activity) -> Option<usize> {
        self.index_of(operation.correlation)
    }

    /// The index in the list of the call with this number, or of the call around it.
    pub(super) fn index_of(&self, wanted: u32) -> Option<usize> {
        let after = self.by_correlation.partition_point(|(number, _)| *number <= wanted);
        let (number, index) = *self.by_correlation.get(after.checked_sub(1)?)?;
        let index = usize::try_from(index).ok().filter(|_| number == wanted)?;
        (index < self.list.len()).then_some(index)
    }

    /// The number of calls of a class that have a part inside `window`.
    pub(super) fn count_in(&self, class: Class, window: &Range<u64>) -> usize {
        let OfClass { begins, by_end, .. } = &self.by_class[class.index()];
        let begun = begins.partition_point(|begin| *begin < window.end);
        let ended = by_end.partition_point(|call| call.end <= window.start);
        begun.saturating_sub(ended)
    }

    /// The calls of a class that end inside `window`.
    pub(super) fn ending_in(&self, class: Class, window: &Range<u64>) -> &[Range<u64>] {
        let OfClass { by_end, .. } = &self.by_class[class.index()];
        let first = by_end.partition_point(|call| call.end < window.start);
        let last = by_end.partition_point(|call| call.end <= window.end);
        &by_end[first..last.max(first)]
    }

    /// The time in calls of one class.
    pub(super) fn cover(&self, class: Class) -> &Cover {
        &self.by_class[class.index()].cover
    }

    /// The time in calls that wait for the GPU.
    pub(super) fn waiting(&self) -> &Cover {
        &self.effects[0]
    }

    /// The length in nanoseconds of the part of `spans` in calls with this effect or an earlier
    /// effect of `EFFECTS`. `effect` is an index in `EFFECTS`.
    pub(super) fn explained(&self, effect: usize, spans: &Union) -> u64 {
        self.effects[effect].within_all(spans)
    }
}

impl OfClass {
    fn of(list: &[ProgramCall], class: Class) -> Self {
        let mut by_end: Vec<Range<u64>> =
            list.iter().filter(|call| call.class == class).map(|call| call.time.clone()).collect();
        by_end.sort_unstable_by_key(|call| call.end);
        let mut begins: Vec<u64> = by_end.iter().map(|call| call.start).collect();
        begins.sort_unstable();
        Self { cover: Cover::of(Union::of(by_end.iter().cloned())), begins, by_end }
    }
}
