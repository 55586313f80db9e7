//! Sets of activities: the times in which they ran, and the number of bytes that they moved.
#![forbid(unsafe_code)]

use crate::base::units::Bytes;
use crate::trace::Union;
use crate::trace::activity::{Activity, ActivityKind, MemoryKind, OverheadKind, ProcessTrace};
use std::ops::Range;

/// Whether both times of an activity are known and in order.
pub(super) fn is_timed(one: &Activity) -> bool {
    one.begin.0 != 0 && one.end >= one.begin
}

pub(super) fn is_kernel(one: &Activity) -> bool {
    one.kind == ActivityKind::Kernel
}

/// Whether the overhead is the loading of kernels or modules.
pub(super) fn loads(kind: OverheadKind) -> bool {
    matches!(kind, OverheadKind::LazyLoading | OverheadKind::ModuleLoading)
}

/// Whether the activity is a copy from or to pageable memory.
pub(super) fn is_pageable(one: &Activity) -> bool {
    matches!(one.kind, ActivityKind::Copy { from, to, .. }
        if from == MemoryKind::Pageable || to == MemoryKind::Pageable)
}

/// The time in which at least one of these activities ran.
pub(super) fn times<'a>(list: impl IntoIterator<Item = &'a Activity>) -> Union {
    Union::of(list.into_iter().map(|one| one.begin.0..one.end.0))
}

/// The number of bytes that these activities moved or set.
pub(super) fn bytes<'a>(list: impl IntoIterator<Item = &'a Activity>) -> Bytes {
    // A damaged file may hold absurd counts.
    Bytes(list.into_iter().fold(0, |sum, one| sum.saturating_add(one.bytes)))
}

/// The times of the overhead records whose kind `of` accepts.
pub(super) fn overhead(trace: &ProcessTrace, of: impl Fn(OverheadKind) -> bool) -> Union {
    let timed = trace.activities.iter().filter(|one| is_timed(one));
    times(timed.filter(|one| matches!(one.kind, ActivityKind::Overhead(kind) if of(kind))))
}

/// A union of times that computes how much of an interval the union covers. The cost is logarithmic
/// in the number of intervals of the union.
#[derive(Debug, Default)]
pub(super) struct Cover {
    times: Union,
    /// For each interval, by its index: the sum in nanoseconds of the lengths of all earlier
    /// intervals.
    before: Vec<u64>,
}

impl Cover {
    pub(super) fn of(times: Union) -> Self {
        let mut sum = 0;
        let before = times.intervals().iter().map(|one| {
            let before = sum;
            sum += one.end - one.start;
            before
        });
        Self { before: before.collect(), times }
    }

    /// The length in nanoseconds of the part of the union before `time`.
    fn until(&self, time: u64) -> u64 {
        let list = self.times.intervals();
        let next = list.partition_point(|one| one.start < time);
        let Some(last) = next.checked_sub(1) else { return 0 };
        self.before[last] + (list[last].end.min(time) - list[last].start)
    }

    /// The length in nanoseconds of the part of the union inside `span`.
    pub(super) fn within(&self, span: &Range<u64>) -> u64 {
        self.until(span.end).saturating_sub(self.until(span.start))
    }

    /// The length in nanoseconds of the part of the union inside `spans`.
    pub(super) fn within_all(&self, spans: &Union) -> u64 {
        spans.intervals().iter().map(|span| self.within(span)).sum()
    }

    /// The intervals of the union that share a part with `span`.
    pub(super) fn inside(&self, span: &Range<u64>) -> &[Range<u64>] {
        let list = self.times.intervals();
        let first = list.partition_point(|one| one.end <= span.start);
        let last = list.partition_point(|one| one.start < span.end);
        &list[first..last.max(first)]
    }

    /// The part of the union inside `spans`.
    pub(super) fn and(&self, spans: &Union) -> Union {
        Union::of(spans.intervals().iter().flat_map(|span| {
            let clipped = |one: &Range<u64>| one.start.max(span.start)..one.end.min(span.end);
            self.inside(span).iter().map(clipped)
        }))
    }
}
