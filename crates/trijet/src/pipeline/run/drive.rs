//! The third step of a run: reads, enqueues and writes every chunk.
#![forbid(unsafe_code)]

use super::allocate::Resources;
use super::crew::{Crew, Grain, SideWork};
use super::enqueue::submit;
use super::reader::ChunkReader;
use super::writer::ChunkWriter;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::panic::called;
use crate::memory::View;
use crate::pipeline::describe::builder::{Input, Output};
use crate::pipeline::describe::cancel::Cancel;
use crate::pipeline::describe::host_work::{CHUNKS_AT_ONCE, HostSpans, HostWork};
use crate::pipeline::describe::progress::Tally;
use crate::pipeline::describe::sink::ParallelSink;
use crate::pipeline::describe::validate::Job;
use crate::pipeline::plan::Chunk;
use crate::pipeline::plan::layout::Layout;
use crate::pipeline::plan::schedule::turn;

/// Reads, enqueues and writes every chunk.
pub(super) fn drive(
    job: &mut Job<'_, '_>,
    resources: &mut Resources,
    spans: &HostSpans,
) -> Result<()> {
    if let Some(number) = job.settings.drop_wait {
        job.device.drop_wait(number);
    }
    let Job { input, blocks, stages, output, settings, .. } = job;
    let Resources { plan, streams, pace, slots, pinned_in, pinned_out, reads_at_once } = resources;
    let (pinned_in, pinned_out) = (std::mem::take(pinned_in), std::mem::take(pinned_out));
    let tally = Tally::new(plan, job.layout.rows, settings.progress.as_ref());
    let place = settings.host_work;
    let crews = Crews::start(place, input, output, blocks.is_some())?;
    // Only one thread may call a source that is not parallel.
    let is_alone = crews.source.is_none() && blocks.is_none();
    let grain_in = Grain { row_bytes: stages.row_in(), granule: job.input_granule };
    let grain_out = Grain { row_bytes: stages.row_out(), granule: written(output, job.layout) };
    std::thread::scope(|scope| {
        let reading = SideWork {
            grain: grain_in,
            spans: &spans.read,
            crew: crews.source.as_ref(),
            at_once: if is_alone { 1 } else { *reads_at_once },
        };
        let writing = SideWork {
            grain: grain_out,
            spans: &spans.write,
            crew: crews.sink.as_ref(),
            at_once: CHUNKS_AT_ONCE,
        };
        let mut reader = ChunkReader::start(scope, place, input, reading, &plan.chunks, pinned_in)?;
        let mut writer = ChunkWriter::start(scope, place, output, writing, &tally, pinned_out)?;
        let driven = match pace {
            None => plan.chunks.iter().try_for_each(|chunk| {
                check(&settings.cancel, chunk)?;
                let slot = turn(chunk.index, slots.len());
                let slot = &mut slots[slot];
                reader.lend(chunk, |input| {
                    writer.lend(chunk, |output| submit(chunk, streams, slot, stages, input, output))
                })
            }),
            Some(pace) => pace.steps(&plan.chunks).try_for_each(|(ahead, behind)| {
                ahead.map_or(Ok(()), |chunk| check(&settings.cancel, chunk))?;
                let mut read = |ahead: Option<(&Chunk, View<'_, u8>)>| match behind {
                    Some(chunk) => writer.lend(chunk, |output| {
                        pace.step(streams, slots, stages, ahead, Some((chunk, output)))
                    }),
                    None => pace.step(streams, slots, stages, ahead, None),
                };
                match ahead {
                    Some(chunk) => reader.lend(chunk, |input| read(Some((chunk, input)))),
                    None => read(None),
                }
            }),
        };
        let written = writer.finish();
        let read = reader.finish();
        // The side that failed returns the cause. The other sides only found the channel of that
        // side closed.
        read.and(written).and(driven)
    })?;
    let ends = match output {
        Output::Pinned { .. } => return Ok(()),
        Output::Sink(sink) if sink.is_durable() => &spans.sync,
        Output::Sink(_) => &spans.write,
    };
    ends.busy.time(|| ends.waited_for.time(|| finish(output)))
}

/// Number of rows at whose multiples the sink lets a chunk be cut.
fn written(output: &Output<'_>, results: Layout) -> u64 {
    let own = match output {
        Output::Sink(sink) => sink.parallel().and_then(ParallelSink::granule),
        Output::Pinned { .. } => None,
    };
    own.filter(|own| *own > 0 && results.granule.is_multiple_of(*own)).unwrap_or(results.granule)
}

/// Finishes the sink of a successful run.
fn finish(output: &mut Output<'_>) -> Result<()> {
    match output {
        Output::Pinned { .. } => Ok(()),
        Output::Sink(sink) => called("sink", || sink.finish()),
    }
}

/// The crews of a run: one crew for the source and one for the sink. A crew is `None` if each chunk
/// is one call of its source or sink.
#[derive(Default)]
struct Crews {
    source: Option<Crew>,
    sink: Option<Crew>,
}

impl Crews {
    /// A source that decodes blocks shares them among threads of its own.
    fn start(
        place: HostWork,
        input: &Input<'_>,
        output: &Output<'_>,
        has_blocks: bool,
    ) -> Result<Self> {
        if place == HostWork::Inline {
            return Ok(Self::default());
        }
        let is_parallel = matches!(input, Input::Source(source) if source.is_parallel());
        let reads = is_parallel && !has_blocks;
        let writes = matches!(output, Output::Sink(sink) if sink.parallel().is_some());
        let source = || Crew::start("source");
        let sink = || Crew::start("sink");
        Ok(Self { source: reads.then(source).transpose()?, sink: writes.then(sink).transpose()? })
    }
}

/// Returns an error if the run was cancelled.
fn check(cancel: &Cancel, chunk: &Chunk) -> Result<()> {
    if cancel.is_cancelled() {
        let cause = format!("cancelled before chunk {}", chunk.index);
        return Err(Error::new(ErrorKind::Cancelled, "run", cause));
    }
    Ok(())
}
