//! Calls of the host, classified by their effect on the GPU.
#![forbid(unsafe_code)]

use super::activities::is_timed;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;
use trijet::trace::Union;
use trijet::trace::activity::{Activity, ActivityKind, ProcessTrace};

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
    /// Anything else.
    Other,
}

/// Functions that allocate, free or page-lock outside of stream order. The names of those in stream
/// order end in `Async`.
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

/// One call of the host.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) class: Class,
    pub(super) time: Range<u64>,
}

/// The calls of all threads, except calls made inside other calls.
#[derive(Debug, Default)]
pub(super) struct Calls {
    list: Vec<Call>,
    /// The index in `list` for each correlation number; inner calls have the index of the outer
    /// call.
    by_correlation: HashMap<u32, usize>,
}

impl Calls {
    pub(super) fn of(trace: &ProcessTrace) -> Self {
        let mut classes = HashMap::new();
        let is_call = |one: &&Activity| matches!(one.kind, ActivityKind::Call(_)) && is_timed(one);
        let mut found: Vec<&Activity> = trace.activities.iter().filter(is_call).collect();
        found.sort_by_key(|one| (one.thread, one.begin, Reverse(one.end)));
        let mut calls = Self::default();
        let mut outer: Option<(u32, u64)> = None;
        for one in found {
            let inside =
                outer.is_some_and(|(thread, end)| thread == one.thread && one.end.0 <= end);
            if !inside {
                let class = *classes.entry(one.name).or_insert_with(|| class(trace.name(one)));
                calls.list.push(Call { class, time: one.begin.0..one.end.0 });
                outer = Some((one.thread, one.end.0));
            }
            calls.by_correlation.insert(one.correlation, calls.list.len() - 1);
        }
        calls
    }

    pub(super) fn count(&self) -> usize {
        self.list.len()
    }

    /// The call that enqueued an operation.
    pub(super) fn enqueuing(&self, operation: &Activity) -> Option<&Call> {
        self.by_correlation.get(&operation.correlation).and_then(|&index| self.list.get(index))
    }

    /// The calls of a class.
    pub(super) fn of_class(&self, class: Class) -> impl Iterator<Item = &Call> {
        self.list.iter().filter(move |call| call.class == class)
    }

    /// The time in which the host was in a call of one of these classes.
    pub(super) fn time_in(&self, classes: &[Class]) -> Union {
        let matching = self.list.iter().filter(|call| classes.contains(&call.class));
        Union::of(matching.map(|call| call.time.clone()))
    }
}
