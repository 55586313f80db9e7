//! Calls of the host, by what they do to the GPU.
#![forbid(unsafe_code)]

use super::activities::is_timed;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;
use trijet::base::span::Union;
use trijet::trace::activity::{Activity, ActivityKind, Recording};

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Class {
    /// Waits for everything on the device.
    DeviceSync,
    /// Waits for a stream or an event.
    StreamSync,
    /// Allocates or frees outside of stream order, or locks pages.
    Alloc,
    /// Copies, and may return before the copy is done.
    CopyAsync,
    /// Copies, and returns when it is done.
    CopySync,
    /// Anything else.
    Other,
}

/// Functions that allocate or free at once. Those in stream order end in `Async`.
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

/// The name in the manual: `cuMemAlloc_v2_ptsz` is `cuMemAlloc`.
pub(super) fn plain(name: &str) -> &str {
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

pub(super) fn class(name: &str) -> Class {
    match plain(name) {
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

/// One call.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) class: Class,
    pub(super) time: Range<u64>,
}

/// The calls of all threads, without those that another one made inside of itself.
#[derive(Debug, Default)]
pub(super) struct Calls {
    list: Vec<Call>,
    /// From correlations, those of inner calls too.
    by_correlation: HashMap<u32, usize>,
}

impl Calls {
    pub(super) fn of(recording: &Recording) -> Self {
        let mut classes = HashMap::new();
        let is_call = |one: &&Activity| matches!(one.kind, ActivityKind::Call(_)) && is_timed(one);
        let mut found: Vec<&Activity> = recording.activities.iter().filter(is_call).collect();
        found.sort_by_key(|one| (one.thread, one.begin, Reverse(one.end)));
        let mut calls = Self::default();
        let mut outer: Option<(u32, u64)> = None;
        for one in found {
            let inside =
                outer.is_some_and(|(thread, end)| thread == one.thread && one.end.0 <= end);
            if !inside {
                let class = *classes.entry(one.name).or_insert_with(|| class(recording.name(one)));
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
    pub(super) fn behind(&self, operation: &Activity) -> Option<&Call> {
        self.by_correlation.get(&operation.correlation).and_then(|&index| self.list.get(index))
    }

    /// The calls of a class.
    pub(super) fn which(&self, class: Class) -> impl Iterator<Item = &Call> {
        self.list.iter().filter(move |call| call.class == class)
    }

    /// When the host was in a call of these classes.
    pub(super) fn within(&self, classes: &[Class]) -> Union {
        let matching = self.list.iter().filter(|call| classes.contains(&call.class));
        Union::of(matching.map(|call| call.time.clone()))
    }
}
