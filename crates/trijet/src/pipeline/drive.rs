//! The third step of a run: for each chunk, upload into a slot, stages, download out of it.
//!
//! The whole of overlap is in `submit`: it waits for nothing on the host, and every wait between
//! streams follows from the uses of the slot's buffers.
#![forbid(unsafe_code)]

use super::allocate::{Resources, Slot, Streams};
use super::cancel::Cancel;
use super::host_work::HostSpans;
use super::plan::Chunk;
use super::progress::Tally;
use super::reader::Reader;
use super::schedule::{StageId, turn};
use super::stage::{StageCx, Stages};
use super::validate::Job;
use super::writer::Writer;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::units::Bytes;
use crate::memory::{View, ViewMut};

/// Enqueues one chunk.
pub(super) fn submit(
    chunk: &Chunk,
    streams: &Streams,
    slot: &mut Slot,
    stages: &Stages<'_>,
    input: View<'_, u8>,
    mut output: ViewMut<'_, u8>,
) -> Result<()> {
    let at = |stage: StageId| move |error| chunk.context(stage, error);
    let mut target = slot.0[0].slice_mut(..input.len());
    let upload = streams.of(StageId::Upload, chunk);
    upload.copy(&input, &mut target).map_err(at(StageId::Upload))?;
    let mut held = input.len();
    for (index, stage) in stages.stages.iter().enumerate() {
        let id = StageId::Kernels(index);
        let cx = StageCx { stream: streams.of(id, chunk), chunk };
        let (before, after) = slot.0.split_at_mut(index + 1);
        let out = Bytes(chunk.rows_out() * stages.row_bytes[index + 1]).to_usize();
        let (x, y) = (before[index].slice(..held), after[0].slice_mut(..out));
        (stage.run)(&cx, x, y).map_err(at(id))?;
        held = out;
    }
    let result = slot.0[stages.stages.len()].slice(..output.len());
    let download = streams.of(StageId::Download, chunk);
    download.copy(&result, &mut output).map_err(at(StageId::Download))
}

/// Calls every stage with an empty chunk, which loads its kernels and does nothing else.
pub(super) fn load(resources: &mut Resources, stages: &Stages<'_>) -> Result<()> {
    let chunk = Chunk { index: 0, rows: 0..0, input: 0..0 };
    let stream = resources.streams.first();
    let Some(slot) = resources.slots.first_mut() else { return Ok(()) };
    for (index, stage) in stages.stages.iter().enumerate() {
        let (before, after) = slot.0.split_at_mut(index + 1);
        let cx = StageCx { stream, chunk: &chunk };
        (stage.run)(&cx, before[index].slice(..0), after[0].slice_mut(..0))
            .map_err(|e| e.context(format!("stage {index}, loading")))?;
    }
    stream.synchronize()
}

/// Reads, enqueues and writes every chunk.
pub(super) fn drive(job: &mut Job<'_>, resources: &mut Resources, spans: &HostSpans) -> Result<()> {
    if let Some(number) = job.settings.drop_wait {
        job.device.drop_wait(number);
    }
    let Job { input, stages, output, settings, .. } = job;
    let Resources { plan, streams, slots, pinned_in, pinned_out } = resources;
    let (pinned_in, pinned_out) = (std::mem::take(pinned_in), std::mem::take(pinned_out));
    let tally = Tally::new(plan, job.layout.rows, settings.progress.as_ref());
    let (place, row_in, row_out) = (settings.host_work, stages.row_in(), stages.row_out());
    std::thread::scope(|scope| {
        let reading = (&*input, row_in, &spans.read);
        let mut reader = Reader::start(scope, place, reading, &plan.chunks, pinned_in);
        let writing = (output, row_out, &spans.write, &tally);
        let mut writer = Writer::start(scope, place, writing, pinned_out);
        let driven = plan.chunks.iter().try_for_each(|chunk| {
            check(&settings.cancel, chunk)?;
            let slot = turn(chunk.index, slots.len());
            let slot = &mut slots[slot];
            reader.lend(chunk, |input| {
                writer.lend(chunk, |output| submit(chunk, streams, slot, stages, input, output))
            })
        });
        let written = writer.finish(&driven);
        let read = reader.finish();
        // The side that failed has the cause; the others only found its channel closed.
        read.and(written).and(driven)
    })
}

/// Fails when the run was cancelled.
fn check(cancel: &Cancel, chunk: &Chunk) -> Result<()> {
    if cancel.is_cancelled() {
        let cause = format!("cancelled before chunk {}", chunk.index);
        return Err(Error::new(ErrorKind::Cancelled, "run", cause));
    }
    Ok(())
}
