//! The clock of the executor on CPU threads.
#![forbid(unsafe_code)]

use crate::base::units::Nanos;
use std::time::Instant;

/// The time of the processor since the driver was opened.
#[derive(Debug)]
pub(in crate::device::host) struct WallClock(Instant);

impl WallClock {
    pub(in crate::device::host) fn start() -> Self {
        Self(Instant::now())
    }

    pub(in crate::device::host) fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}
