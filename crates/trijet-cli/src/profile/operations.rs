//! The operations of one device, and the times in which kernels ran or nothing ran.
#![forbid(unsafe_code)]

use super::activities::{is_kernel, times};
use super::engine::{Communicating, Engine, engine};
use std::ops::Range;
use trijet::Nanos;
use trijet::trace::Union;
use trijet::trace::activity::Activity;

/// The operations of a device.
pub(super) struct Operations<'a> {
    pub(super) device: u32,
    /// The operations with known times.
    pub(super) all: Vec<&'a Activity>,
    /// From the begin of the first operation to the end of the last one.
    pub(super) window: Range<u64>,
    /// The time in which kernels ran that compute. Kernels that communicate are not among them.
    pub(super) kernels: Union,
    /// The part of the window in which nothing ran.
    pub(super) idle: Union,
    communicating: &'a Communicating,
}

impl<'a> Operations<'a> {
    /// The operations of `device`; `None` when there is none with known times.
    pub(super) fn of(
        device: u32,
        all: Vec<&'a Activity>,
        communicating: &'a Communicating,
    ) -> Option<Self> {
        let busy = times(all.iter().copied());
        let window = busy.hull()?;
        let idle = Union::of([window.clone()]).minus(&busy);
        let computes = |one: &&Activity| is_kernel(one) && !communicating.has(one);
        let kernels = times(all.iter().copied().filter(computes));
        Some(Self { device, all, window, kernels, idle, communicating })
    }

    pub(super) fn elapsed(&self) -> Nanos {
        Nanos(self.window.end - self.window.start)
    }

    /// The engine that an operation counts for.
    pub(super) fn engine(&self, one: &Activity) -> Engine {
        engine(one, self.communicating).unwrap_or(Engine::Within)
    }

    /// The operations of this engine.
    pub(super) fn on(&self, wanted: Engine) -> impl Iterator<Item = &'a Activity> {
        self.all.iter().copied().filter(move |one| self.engine(one) == wanted)
    }
}
