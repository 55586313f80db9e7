//! The operations of one device, with the time in which each kind of them ran.
#![forbid(unsafe_code)]

use super::activities::{is_kernel, is_timed, times};
use std::ops::Range;
use trijet::Nanos;
use trijet::base::span::Union;
use trijet::trace::activity::{Activity, ActivityKind, Direction};

/// The operations of a device, and when they ran.
pub(super) struct Operations<'a> {
    pub(super) device: u32,
    /// Those with times.
    pub(super) all: Vec<&'a Activity>,
    pub(super) window: Range<u64>,
    /// When kernels ran.
    pub(super) kernels: Union,
    /// When nothing ran, within the window.
    pub(super) idle: Union,
}

impl<'a> Operations<'a> {
    /// The operations of a device; `None` when nothing with times ran on it.
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

    /// The operations that copy this way.
    pub(super) fn copies(&self, way: Direction) -> impl Iterator<Item = &'a Activity> {
        self.all.iter().copied().filter(move |one| goes(one, way))
    }
}

/// Whether an activity is a copy in the direction `way`.
pub(super) fn goes(one: &Activity, way: Direction) -> bool {
    matches!(one.kind, ActivityKind::Copy { direction, .. } if direction == way)
}
