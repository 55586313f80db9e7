//! A run of a pipeline, step by step: tuning, allocation, chunks, report.
#![forbid(unsafe_code)]

mod allocate;
pub(super) mod budget;
pub(super) mod choose;
mod copy_streams;
mod crew;
mod drive;
mod enqueue;
mod measure;
mod paced;
mod pass;
pub(super) mod prepared;
mod reader;
mod remember;
mod replayer;
mod spans;
mod streams;
mod tune;
mod writer;

use super::describe::builder::{Pipeline, Traced};
use super::describe::validate::Job;
use super::report::Report;
use crate::base::error::Result;
use allocate::Resources;
use budget::{Needs, fitting, has_room_for_trace};
use drive::drive;
use enqueue::load;
use measure::Measurement;
use std::time::Instant;
use tune::tune;

impl Pipeline<'_> {
    /// Runs the pipeline, and returns when every row is written.
    ///
    /// # Errors
    /// `InvalidValue` for parts that do not fit together; `OutOfMemory` if even chunks of the
    /// smallest size do not fit into memory; `Cancelled` if the run was cancelled; the error of a
    /// source, stage or sink, with its chunk. After an error nothing more is enqueued, and the run
    /// waits for everything that was enqueued.
    pub fn run(self) -> Result<Report> {
        let start = Instant::now();
        let mut job = Job::validate(self)?;
        let mut resources = prepare(&mut job)?;
        let measurement = Measurement::begin(&job, &resources.streams, start)?;
        let outcome = drive(&mut job, &mut resources, &measurement.host_work);
        measurement.end(&job, resources, outcome)
    }

    /// The plan of a run with this source, these stages and this sink, and the memory that the run
    /// needs. Nothing is allocated and nothing is measured. A tuned run on a GPU may choose other
    /// chunks. A run that finds too little memory on the device chooses smaller chunks.
    ///
    /// ```
    /// use trijet::Pipeline;
    /// use trijet::pipeline::rows_of;
    /// use trijet::{Bytes, Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let mut y: Vec<u8> = Vec::new();
    /// let pipeline = Pipeline::on(&device).source(rows_of(vec![0u8; 8000], 10)).sink(&mut y);
    /// let needs = pipeline.chunk(Bytes(1000)).depth(2).needs()?;
    /// // Two slots on the device, and three buffers for the source and three for the sink.
    /// assert_eq!(needs.plan.chunks.len(), 8);
    /// assert_eq!((needs.device, needs.pinned), (Bytes(2000), Bytes(6000)));
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`run`](Self::run) that occur before the first chunk.
    pub fn needs(self) -> Result<Needs> {
        let job = Job::validate(self)?;
        fitting(&job, |plan| Ok(Needs::of(&job, plan)))
    }
}

/// Does everything that comes before the first chunk: chooses the chunk size, allocates memory and
/// loads kernels.
fn prepare(job: &mut Job<'_, '_>) -> Result<Resources> {
    tune(job)?;
    let mut resources = Resources::allocate(job)?;
    if job.settings.traced == Traced::Yes && !has_room_for_trace(job, &resources.plan) {
        job.settings.traced = Traced::TooLarge;
    }
    load(&resources.streams, &mut resources.slots, &job.stages)?;
    Ok(resources)
}
