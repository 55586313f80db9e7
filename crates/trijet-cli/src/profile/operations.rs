//! The operations of one device, and the times in which kernels ran or nothing ran.
#![forbid(unsafe_code)]

use super::activities::{is_kernel, is_timed, times};
use std::ops::Range;
use trijet::Nanos;
use trijet::trace::Union;
use trijet::trace::activity::{Activity, ActivityKind, Direction};

/// The operations of a device.
pub(super) struct Operations<'a> {
    pub(super) device: u32,
    /// The operations with known times.
    pub(super) all: Vec<&'a Activity>,
    /// From the begin of the first operation to the end of the last one.
    pub(super) window: Range<u64>,
    /// The time in which kernels ran.
    pub(super) kernels: Union,
    /// The part of the window in which nothing ran.
    pub(super) idle: Union,
}

impl<'a> Operations<'a> {
    /// The operations of `device`; `None` when there is none with known times.
    pub(super) fn of(operations: &[&'a Activity], device: u32) -> Option<Self> {
        let mine = operations.iter().filter(|one| one.device == device && is_timed(one));
        let all: Vec<&Activity> = mine.copied().collect();
        let busy = times(all.iter().copied());
        let window = busy.hull()?;
        let idle = Union::of([window.clone()]).minus(&busy);
        let kernels = times(all.iter().copied().filter(|one| is_kernel(one)));
        Some(Self { device, all, window, kernels, idle })
    }

    pub(super) fn elapsed(&self) -> Nanos {
        Nanos(self.window.end - self.window.start)
    }

    /// The copies in this direction.
    pub(super) fn copies(&self, direction: Direction) -> impl Iterator<Item = &'a Activity> {
        self.all.iter().copied().filter(move |one| is_copy(one, direction))
    }
}

/// Whether an activity is a copy in the direction `wanted`.
pub(super) fn is_copy(one: &Activity, wanted: Direction) -> bool {
    matches!(one.kind, ActivityKind::Copy { direction, .. } if direction == wanted)
}
