//! The operations of one device, the times in which kernels ran, and the times in which nothing
//! ran.
#![forbid(unsafe_code)]

use super::activities::{is_kernel, times};
use super::engine::{Communicating, ProgramEngine, engine};
use crate::base::units::Nanos;
use crate::trace::Union;
use crate::trace::activity::Activity;
use std::ops::Range;

/// The operations of a device.
pub(super) struct Operations<'a> {
    pub(super) device: u32,
    /// The operations with known times.
    pub(super) all: Vec<&'a Activity>,
    /// The interval in nanoseconds that the figures are about: from the start of the first
    /// operation or step to the end of the last operation or step.
    pub(super) window: Range<u64>,
    /// The time in which kernels computed. Kernels that communicate do not count.
    pub(super) kernels: Union,
    /// The part of the window in which nothing ran.
    pub(super) idle: Union,
    communicating: &'a Communicating,
}

impl<'a> Operations<'a> {
    /// The operations of `device` that have a part inside `window`. Without a window, all
    /// operations of `device`. `None` if no operation has known times.
    pub(super) fn of(
        device: u32,
        mut all: Vec<&'a Activity>,
        window: Option<Range<u64>>,
        communicating: &'a Communicating,
    ) -> Option<Self> {
        if let Some(window) = &window {
            all.retain(|one| one.begin.0 < window.end && one.end.0 > window.start);
        }
        let busy = times(all.iter().copied());
        let hull = busy.hull()?;
        let window = window.unwrap_or(hull);
        let idle = Union::of([window.clone()]).minus(&busy);
        let computes = |one: &&Activity| is_kernel(one) && !communicating.has(one);
        let kernels = times(all.iter().copied().filter(computes));
        let kernels = kernels.and(&Union::of([window.clone()]));
        Some(Self { device, all, window, kernels, idle, communicating })
    }

    /// The part of the window in which at least one activity of `list` ran.
    pub(super) fn ran(&self, list: impl IntoIterator<Item = &'a Activity>) -> Union {
        times(list).and(&Union::of([self.window.clone()]))
    }

    pub(super) fn elapsed(&self) -> Nanos {
        Nanos(self.window.end - self.window.start)
    }

    /// The engine that an operation counts for.
    pub(super) fn engine(&self, one: &Activity) -> ProgramEngine {
        engine(one, self.communicating).unwrap_or(ProgramEngine::Within)
    }

    /// The operations of this engine.
    pub(super) fn on(&self, wanted: ProgramEngine) -> impl Iterator<Item = &'a Activity> {
        self.all.iter().copied().filter(move |one| self.engine(one) == wanted)
    }
}
