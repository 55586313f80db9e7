//! The third step of a run: for each chunk, upload into a slot, stages, download out of it.
//!
//! The whole of overlap is in `submit`: it waits for nothing on the host, and every wait between
//! streams follows from the uses of the slot's buffers.
#![forbid(unsafe_code)]

use super::allocate::{Resources, Slot, Streams};
use super::builder::{Input, Output};
use super::cancel::Cancel;
use super::crew::{Crew, Grain};
use super::host_work::{HostSpans, HostWork};
use super::plan::Chunk;
use super::progress::Tally;
use super::reader::Reader;
use super::schedule::{StageId, turn};
use super::stage::{StageCx, Stages};
use super::validate::Job;
use super::writer::Writer;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::panic::caught;
use crate::base::units::Bytes;
use crate::memory::{View, ViewMut};

/// Enqueues one chunk. Where the device has the memory of the host, the first stage reads the input
/// and the last one writes the output in place.
pub(super) fn submit(
    chunk: &Chunk,
    streams: &Streams,
    slot: &mut Slot,
    stages: &Stages<'_>,
    input: View<'_, u8>,
    mut output: ViewMut<'_, u8>,
) -> Result<()> {
    let at = |stage: StageId| move |error| chunk.context(stage, error);
    let last = stages.stages.len();
    let in_place = slot.in_place;
    if !in_place {
        let mut target = slot.buffers[0].slice_mut(..input.len());
        let upload = streams.of(StageId::Upload, chunk);
        upload.copy(&input, &mut target).map_err(at(StageId::Upload))?;
    }
    let mut held = input.len();
    for (index, stage) in stages.stages.iter().enumerate() {
        let id = StageId::Kernels(index);
        let (x_rows, y_rows) = (stages.rows(index, chunk), stages.rows(index + 1, chunk));
        let out = Bytes(stages.bytes(index + 1, &y_rows)).to_usize();
        let cx = StageCx { stream: streams.of(id, chunk), chunk, x_rows, y_rows };
        let (before, after) = slot.buffers.split_at_mut(index + 1);
        let x = if in_place && index == 0 { input } else { before[index].slice(..held) };
        let y = if in_place && index + 1 == last {
            output.reborrow()
        } else {
            after[0].slice_mut(..out)
        };
        (stage.run)(&cx, x, y).map_err(at(id))?;
        held = out;
    }
    if in_place {
        return Ok(());
    }
    let result = slot.buffers[last].slice(..output.len());
    let download = streams.of(StageId::Download, chunk);
    download.copy(&result, &mut output).map_err(at(StageId::Download))
}

/// Calls every stage with an empty chunk, which loads its kernels and does nothing else.
pub(super) fn load(resources: &mut Resources, stages: &Stages<'_>) -> Result<()> {
    let chunk = Chunk { index: 0, rows: 0..0, input: 0..0 };
    let stream = resources.streams.first();
    let Some(slot) = resources.slots.first_mut() else { return Ok(()) };
    for (index, stage) in stages.stages.iter().enumerate() {
        let (before, after) = slot.buffers.split_at_mut(index + 1);
        let cx = StageCx { stream, chunk: &chunk, x_rows: 0..0, y_rows: 0..0 };
        (stage.run)(&cx, before[index].slice(..0), after[0].slice_mut(..0))
            .map_err(|e| e.context(format!("stage {index}, loading")))?;
    }
    stream.synchronize()
}

/// Reads, enqueues and writes every chunk.
pub(super) fn drive(
    job: &mut Job<'_, '_>,
    resources: &mut Resources,
    spans: &HostSpans,
) -> Result<()> {
    if let Some(number) = job.settings.drop_wait {
        job.device.drop_wait(number);
    }
    let Job { input, stages, output, settings, .. } = job;
    let Resources { plan, streams, slots, pinned_in, pinned_out } = resources;
    let (pinned_in, pinned_out) = (std::mem::take(pinned_in), std::mem::take(pinned_out));
    let tally = Tally::new(plan, job.layout.rows, settings.progress.as_ref());
    let place = settings.host_work;
    let crews = Crews::start(place, input, output)?;
    let grain = |row_bytes| Grain { row_bytes, granule: job.layout.granule };
    let (grain_in, grain_out) = (grain(stages.row_in()), grain(stages.row_out()));
    std::thread::scope(|scope| {
        let reading = (&*input, grain_in, &spans.read, crews.source.as_ref());
        let mut reader = Reader::start(scope, place, reading, &plan.chunks, pinned_in)?;
        let writing = (grain_out, &spans.write, &tally, crews.sink.as_ref());
        let mut writer = Writer::start(scope, place, output, writing, pinned_out)?;
        let driven = plan.chunks.iter().try_for_each(|chunk| {
            check(&settings.cancel, chunk)?;
            let slot = turn(chunk.index, slots.len());
            let slot = &mut slots[slot];
            reader.lend(chunk, |input| {
                writer.lend(chunk, |output| submit(chunk, streams, slot, stages, input, output))
            })
        });
        let written = writer.finish();
        let read = reader.finish();
        // The side that failed has the cause; the others only found its channel closed.
        read.and(written).and(driven)
    })?;
    finish(output, place)
}

/// Finishes the sink of a run that went well.
fn finish(output: &mut Output<'_>, place: HostWork) -> Result<()> {
    match output {
        Output::Pinned { .. } => Ok(()),
        Output::Sink(sink) if place == HostWork::Inline => sink.finish(),
        // A panic of a sink is an error, as on the threads that write.
        Output::Sink(sink) => caught(|| sink.finish()).unwrap_or_else(|words| {
            let cause = format!("it panicked: {words}");
            Err(Error::new(ErrorKind::Panicked, "sink", cause))
        }),
    }
}

/// The crews of a run, for a source and a sink that several threads may use.
#[derive(Default)]
struct Crews {
    source: Option<Crew>,
    sink: Option<Crew>,
}

impl Crews {
    fn start(place: HostWork, input: &Input<'_>, output: &Output<'_>) -> Result<Self> {
        if place == HostWork::Inline {
            return Ok(Self::default());
        }
        let reads = matches!(input, Input::Source(source) if source.is_parallel());
        let writes = matches!(output, Output::Sink(sink) if sink.parallel().is_some());
        let crew = |side, wanted: bool| wanted.then(|| Crew::start(side)).transpose();
        Ok(Self { source: crew("source", reads)?, sink: crew("sink", writes)? })
    }
}

/// Fails when the run was cancelled.
fn check(cancel: &Cancel, chunk: &Chunk) -> Result<()> {
    if cancel.is_cancelled() {
        let cause = format!("cancelled before chunk {}", chunk.index);
        return Err(Error::new(ErrorKind::Cancelled, "run", cause));
    }
    Ok(())
}
