//! Sets of activities: when they ran, and how many bytes they moved.
#![forbid(unsafe_code)]

use trijet::Bytes;
use trijet::trace::Union;
use trijet::trace::activity::{Activity, ActivityKind, OverheadKind, ProcessTrace};

/// Whether both times of an activity are known and in order.
pub(super) fn is_timed(one: &Activity) -> bool {
    one.begin.0 != 0 && one.end >= one.begin
}

pub(super) fn is_kernel(one: &Activity) -> bool {
    one.kind == ActivityKind::Kernel
}

/// The time in which at least one of these ran.
pub(super) fn times<'a>(list: impl IntoIterator<Item = &'a Activity>) -> Union {
    Union::of(list.into_iter().map(|one| one.begin.0..one.end.0))
}

/// The number of bytes that these moved or set.
pub(super) fn bytes<'a>(list: impl IntoIterator<Item = &'a Activity>) -> Bytes {
    // A damaged file may hold absurd counts.
    Bytes(list.into_iter().fold(0, |sum, one| sum.saturating_add(one.bytes)))
}

/// The time of overhead of the kinds that `of` accepts.
pub(super) fn overhead(trace: &ProcessTrace, of: impl Fn(OverheadKind) -> bool) -> Union {
    let timed = trace.activities.iter().filter(|one| is_timed(one));
    times(timed.filter(|one| matches!(one.kind, ActivityKind::Overhead(kind) if of(kind))))
}
