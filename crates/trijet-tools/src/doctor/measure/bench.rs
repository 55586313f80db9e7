//! The state that all measurements share (the device, the plan and the findings), and functions
//! that take samples.

use crate::bare::lab::Lab;
use crate::doctor::findings::{Absent, Findings};
use crate::doctor::plan::Plan;
use crate::stats::Samples;
use std::time::Instant;
use trijet::{Device, Result};

/// A measurement, which adds its results to the findings.
pub(super) type Measurement = fn(&mut Bench) -> Result<()>;

/// The state that all measurements share.
pub(super) struct Bench {
    pub(super) device: Device,
    pub(super) plan: Plan,
    /// The objects for bare driver calls. `None` for a host device, and if they could not be
    /// created.
    pub(super) lab: Option<Lab>,
    /// The number of rounds of the kernel `WORK` that take a millisecond.
    pub(super) rounds_per_ms: f64,
    pub(super) found: Findings,
}

impl Bench {
    /// Adds a measurement that does not apply to the device, and the reason, to the findings.
    pub(super) fn absent(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.found.absent.push(Absent { what: what.into(), why: why.into() });
    }

    /// Makes a measurement. If it fails, adds its error to the findings.
    pub(super) fn run(&mut self, what: &'static str, measure: Measurement) {
        let outcome = measure(self).and_then(|()| self.device.synchronize());
        if let Err(error) = outcome {
            self.found.failed.push(Absent { what: what.to_owned(), why: error.to_string() });
        }
    }
}

/// Takes `count` samples after one warm-up, which is not counted.
pub(super) fn samples(count: usize, mut sample: impl FnMut() -> Result<f64>) -> Result<Samples> {
    sample()?;
    let mut samples = Samples::default();
    for _ in 0..count {
        samples.push(sample()?);
    }
    Ok(samples)
}

/// The host time that `call` takes, in microseconds.
pub(super) fn timed_us(call: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    call()?;
    Ok(micros(start))
}

/// The time since an instant, in microseconds.
pub(super) fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}
