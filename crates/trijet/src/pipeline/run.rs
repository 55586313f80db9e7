//! A run of a pipeline, step by step.
#![forbid(unsafe_code)]

use super::allocate::Resources;
use super::budget::Need;
use super::builder::{Pipeline, Traced};
use super::drive::{drive, load};
use super::measure::Measurement;
use super::report::Report;
use super::tune::tune;
use super::validate::Job;
use crate::base::error::Result;
use std::time::Instant;

impl Pipeline<'_> {
    /// Runs the pipeline, and returns when every row is written.
    ///
    /// # Errors
    /// `InvalidValue` for parts that do not fit together; `OutOfMemory` when even the smallest
    /// chunk does not fit; `Cancelled`; the error of a source, stage or sink, with its chunk. After
    /// an error nothing more is enqueued, and everything enqueued has ended.
    pub fn run(self) -> Result<Report> {
        let start = Instant::now();
        let mut job = Job::validate(self)?;
        let mut resources = prepare(&mut job)?;
        let measurement = Measurement::begin(&job, &resources.streams, start)?;
        let outcome = drive(&mut job, &mut resources, &measurement.host_work);
        measurement.end(&job, resources, outcome)
    }
}

/// Everything before the first chunk: chunk sizes, memory and kernels.
fn prepare(job: &mut Job<'_>) -> Result<Resources> {
    tune(job)?;
    let mut resources = Resources::allocate(job)?;
    let need = Need::of(job, &resources.plan);
    let settings = &mut job.settings;
    let too_large = settings.host_memory.is_some_and(|limit| !need.leaves_a_trace(limit));
    if too_large && settings.traced == Traced::Yes {
        settings.traced = Traced::TooLarge;
    }
    load(&mut resources, &job.stages)?;
    Ok(resources)
}
