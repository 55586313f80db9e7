//! The processor's clock, which times the work of the executor on threads.
#![forbid(unsafe_code)]

use crate::base::units::Nanos;
use std::time::Instant;

/// The processor's clock since the driver opened.
#[derive(Debug)]
pub(super) struct WallClock(Instant);

impl WallClock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}
