//! The memory of the host that a run may use, and the memory that a plan needs.
#![forbid(unsafe_code)]

use super::crew::Crew;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::units::Bytes;
use crate::pipeline::describe::builder::{Input, Output};
use crate::pipeline::describe::host_work::{CHUNKS_AT_ONCE, HostWork};
use crate::pipeline::describe::validate::Job;
use crate::pipeline::plan::Plan;
use crate::pipeline::plan::schedule::Schedule;

/// Maximum memory for the trace of one operation of a chunk. The trace has entries for the
/// operation and for its waits and event records. It also has an entry for each access of the host
/// to the memory of the operation.
const TRACED_OPERATION: Bytes = Bytes(4 << 10);

/// Maximum size of the buffers of a source that decodes blocks. Images of 16 MiB occupy 16 threads.
const READ_AHEAD_MAX: Bytes = Bytes(512 << 20);

/// The memory that a run needs. It is known before anything is allocated.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Needs {
    /// The plan, with chunks that fit into
    /// [`Pipeline::host_memory`](crate::Pipeline::host_memory).
    pub plan: Plan,
    /// Page-locked memory of the host.
    pub pinned: Bytes,
    /// An estimate of the memory of the host for the trace of the operations.
    pub trace: Bytes,
    /// Memory of the device.
    pub device: Bytes,
}

impl Needs {
    pub(super) fn of(job: &Job<'_, '_>, plan: Plan) -> Self {
        let slot: u64 = places(job, &plan).0.iter().map(|place| place.0).sum();
        let device = Bytes(slot.saturating_mul(plan.slots() as u64));
        let (pinned, trace) = (pinned(job, &plan), trace(job, &plan));
        Self { plan, pinned, trace, device }
    }
}

/// The page-locked memory that a plan needs.
fn pinned(job: &Job<'_, '_>, plan: &Plan) -> Bytes {
    let [input, output] = chunk_bytes(job, plan);
    let buffers = HostBuffers::of(job, plan);
    let all = |bytes: Bytes, count: usize| bytes.0.saturating_mul(count as u64);
    Bytes(all(input, buffers.source).saturating_add(all(output, buffers.sink)))
}

/// The page-locked bytes of the largest chunk of the input, and of its results. 0 for data that are
/// in page-locked memory already.
fn chunk_bytes(job: &Job<'_, '_>, plan: &Plan) -> [Bytes; 2] {
    let stages = &job.stages;
    let read = match job.input {
        Input::Source(_) => plan.input_rows_max().saturating_mul(stages.row_in()),
        Input::Pinned { .. } => 0,
    };
    let written = match job.output {
        Output::Sink(_) => plan.rows_max().saturating_mul(stages.row_out()),
        Output::Pinned { .. } => 0,
    };
    [Bytes(read), Bytes(written)]
}

/// The numbers of the page-locked buffers of a run, each for one chunk.
pub(super) struct HostBuffers {
    pub(super) source: usize,
    pub(super) sink: usize,
    /// The number of chunks that a parallel source reads at once.
    pub(super) reads_at_once: usize,
}

impl HostBuffers {
    pub(super) fn of(job: &Job<'_, '_>, plan: &Plan) -> Self {
        let slots = plan.slots();
        // One buffer more than there are slots: the host uses one buffer while the chunks in flight
        // use the others.
        let sink = slots + 1;
        let reads_at_once = reads_at_once(job, plan, sink);
        Self { source: slots + reads_at_once - 1, sink, reads_at_once }
    }
}

/// The number of chunks to read at once: enough for two blocks for each thread, because a thread
/// that has decoded its block should find the next one. Fewer if their buffers would take too much
/// memory.
fn reads_at_once(job: &Job<'_, '_>, plan: &Plan, sink_buffers: usize) -> usize {
    let Some(blocks) = job.blocks.filter(|_| job.settings.host_work == HostWork::Threads) else {
        return CHUNKS_AT_ONCE;
    };
    let in_chunk = plan.input_rows_max().div_ceil(blocks.rows).saturating_mul(blocks.count).max(1);
    let wanted = (2 * Crew::threads_max() as u64).div_ceil(in_chunk);
    let [input, output] = chunk_bytes(job, plan);
    let limit = job.settings.host_memory.map_or(u64::MAX, |limit| limit.0);
    let room = limit.saturating_sub(output.0.saturating_mul(sink_buffers as u64));
    let buffers = room.min(READ_AHEAD_MAX.0) / input.0.max(1);
    let possible = (buffers + 1).saturating_sub(plan.slots() as u64);
    let most = wanted.min(possible).min(plan.chunks.len() as u64);
    usize::try_from(most).unwrap_or(usize::MAX).max(CHUNKS_AT_ONCE)
}

/// An estimate of the memory for the trace of a plan.
fn trace(job: &Job<'_, '_>, plan: &Plan) -> Bytes {
    // The operations of a chunk are an upload, one kernel for each stage, and a download.
    let operations = plan.chunks.len() as u64 * (job.stages.stages.len() as u64 + 2);
    Bytes(operations.saturating_mul(TRACED_OPERATION.0))
}

/// Whether the trace and the page-locked memory of a plan fit together into the limit of the job.
pub(super) fn has_room_for_trace(job: &Job<'_, '_>, plan: &Plan) -> bool {
    let both = pinned(job, plan).0.saturating_add(trace(job, plan).0);
    job.settings.host_memory.is_none_or(|limit| both <= limit.0)
}

/// Returns the size of each buffer of a slot, and whether the stages work in place. A buffer has
/// the size of the largest chunk at its point of the pipeline.
pub(super) fn places(job: &Job<'_, '_>, plan: &Plan) -> (Vec<Bytes>, bool) {
    let stages = &job.stages;
    let last = stages.stages.len();
    // Without a stage, only copies can move the input to the output.
    let in_place = last > 0
        && match plan.schedule {
            Schedule::InPlace => true,
            // The checker needs the copies and the waits of a GPU, on any device.
            Schedule::Tuned => job.device.info().integrated && !job.device.is_checked(),
            Schedule::OneStream | Schedule::SlotStreams | Schedule::RoleStreams => false,
        };
    let largest = |place: usize| {
        if in_place && (place == 0 || place == last) {
            return Bytes(0);
        }
        // The largest chunk is not always the first one: near the ends of the data, halos have
        // fewer rows.
        let bytes = plan.chunks.iter().map(|c| stages.bytes(place, &stages.rows(place, c)));
        Bytes(bytes.max().unwrap_or(0))
    };
    ((0..=last).map(largest).collect(), in_place)
}

/// Calls `attempt` with the plan of the job. If the plan does not fit into memory or into the limit
/// of the job, tries plans with smaller and smaller chunks.
pub(super) fn fitting<R>(
    job: &Job<'_, '_>,
    mut attempt: impl FnMut(Plan) -> Result<R>,
) -> Result<R> {
    let layout = job.layout;
    let mut rows_max = u64::MAX;
    loop {
        let plan = Plan::new(layout, &job.settings.plan, &job.stages.reach, rows_max)?;
        let chunk_rows = plan.chunk_rows;
        match check(job, &plan).and_then(|()| attempt(plan)) {
            Err(error) if error.kind() == ErrorKind::OutOfMemory && chunk_rows > layout.granule => {
                rows_max = chunk_rows / 2;
            }
            Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                let bytes = Bytes(chunk_rows.saturating_mul(layout.row_bytes));
                return Err(error
                    .context(format!("not enough memory for the smallest chunks, {bytes} each")));
            }
            done => return done,
        }
    }
}

/// Refuses a plan that needs more memory of the host than the job may use.
fn check(job: &Job<'_, '_>, plan: &Plan) -> Result<()> {
    let Some(limit) = job.settings.host_memory else { return Ok(()) };
    let pinned = pinned(job, plan);
    if pinned <= limit {
        return Ok(());
    }
    let cause = format!(
        "{} slots need {pinned} of the host's memory, but the run may use {limit}",
        plan.slots()
    );
    Err(Error::new(ErrorKind::OutOfMemory, "pipeline", cause))
}
