//! Readings of the host's clock.
#![forbid(unsafe_code)]

use crate::base::units::Nanos;
use crate::device::driver::Driver;
use std::time::Instant;

/// A reading of the host's clock, or of the driver's clock if the driver simulates it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reading {
    Driver(Nanos),
    System(Instant),
}

impl Reading {
    pub(crate) fn now(driver: &dyn Driver) -> Self {
        match driver.simulation() {
            Some(simulation) => Self::Driver(simulation.host_time()),
            None => Self::System(Instant::now()),
        }
    }

    pub(crate) fn since(self, zero: Self) -> Nanos {
        match (self, zero) {
            (Self::Driver(now), Self::Driver(zero)) => Nanos(now.0.saturating_sub(zero.0)),
            (Self::System(now), Self::System(zero)) => {
                let elapsed = now.saturating_duration_since(zero).as_nanos();
                Nanos(u64::try_from(elapsed).unwrap_or(u64::MAX))
            }
            // A driver either always simulates the clock, or never.
            (Self::Driver(_), Self::System(_)) | (Self::System(_), Self::Driver(_)) => Nanos(0),
        }
    }
}
