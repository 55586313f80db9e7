//! The clock of the executor on CPU threads.
#![forbid(unsafe_code)]

use crate::base::units::Nanos;
use std::time::Instant;

/// The time of the processor since the driver was opened.
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
