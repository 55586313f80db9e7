//! The second step of a run: opens the streams, and allocates the memory of the slots.
#![forbid(unsafe_code)]

use super::budget::{HostBuffers, fitting, places};
use super::enqueue::Slot;
use super::paced::Pace;
use super::streams::Streams;
use crate::base::error::Result;
use crate::base::units::Bytes;
use crate::memory::PinnedBuffer;
use crate::pipeline::describe::builder::{Input, Output};
use crate::pipeline::describe::validate::Job;
use crate::pipeline::plan::Plan;
use crate::pipeline::plan::schedule::Table;

/// Everything a run allocates.
pub(super) struct Resources {
    pub(super) plan: Plan,
    pub(super) streams: Streams,
    /// The state of a bulk run, which paces its copies to leave time for small jobs; `None` for
    /// other runs.
    pub(super) pace: Option<Pace>,
    pub(super) slots: Vec<Slot>,
    /// Page-locked buffers for the chunks of a source. Empty for an input in page-locked memory.
    pub(super) pinned_in: Vec<PinnedBuffer<u8>>,
    /// Page-locked buffers for the results of a sink. Empty for an output in page-locked memory.
    pub(super) pinned_out: Vec<PinnedBuffer<u8>>,
    /// The number of chunks that a parallel source reads at once.
    pub(super) reads_at_once: usize,
}

impl Resources {
    /// Allocates the resources for the plan of the job. If the plan does not fit into memory or
    /// into the limit of the job, tries plans with smaller and smaller chunks.
    pub(super) fn allocate(job: &Job<'_, '_>) -> Result<Self> {
        fitting(job, |plan| Self::try_allocate(job, plan))
    }

    /// Allocates the resources for this plan.
    pub(super) fn try_allocate(job: &Job<'_, '_>, plan: Plan) -> Result<Self> {
        let (stages, slots) = (&job.stages, plan.slots());
        let table = Table::new(plan.schedule, stages.stages.len(), slots);
        let (places, in_place) = places(job, &plan);
        let sharing = job.settings.sharing;
        let streams = Streams::open(&job.device, table, plan.schedule, sharing, in_place)?;
        let pace =
            streams.bulk().map(|copies| Pace::new(copies, &job.device, slots)).transpose()?;
        let (rows_in, rows_out) = (plan.input_rows_max(), plan.rows_max());
        let slot = |index: usize| {
            let stream = &streams.all()[index % streams.all().len()];
            let buffer =
                |bytes: &Bytes| stream.alloc::<u8>(bytes.to_usize())?.expect_crossing(Some(stream));
            let buffers = places.iter().map(buffer).collect::<Result<_>>()?;
            Ok(Slot { buffers, in_place })
        };
        let pinned = |bytes: u64, count: usize| -> Result<Vec<PinnedBuffer<u8>>> {
            let buffer =
                |_| job.device.pinned::<u8>(Bytes(bytes).to_usize())?.expect_crossing(None);
            (0..count).map(buffer).collect()
        };
        let buffers = HostBuffers::of(job, &plan);
        let slots = (0..slots).map(slot).collect::<Result<_>>()?;
        let pinned_in = match job.input {
            Input::Source(_) => pinned(rows_in.saturating_mul(stages.row_in()), buffers.source)?,
            Input::Pinned { .. } => Vec::new(),
        };
        let pinned_out = match job.output {
            Output::Sink(_) => pinned(rows_out.saturating_mul(stages.row_out()), buffers.sink)?,
            Output::Pinned { .. } => Vec::new(),
        };
        let reads_at_once = buffers.reads_at_once;
        Ok(Self { plan, streams, pace, slots, pinned_in, pinned_out, reads_at_once })
    }
}
