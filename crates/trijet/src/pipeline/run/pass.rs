//! One run of a plan between page-locked buffers, without threads for a source and a sink.
#![forbid(unsafe_code)]

use super::allocate::Resources;
use super::enqueue::submit;
use super::spans::Spans;
use crate::base::error::Result;
use crate::memory::{View, ViewMut};
use crate::pipeline::describe::stage::Stages;
use crate::pipeline::plan::schedule::turn;

/// Enqueues every chunk of the plan, and waits for all chunks.
pub(super) fn pass(
    resources: &mut Resources,
    stages: &Stages<'_>,
    input: View<'_, u8>,
    mut output: ViewMut<'_, u8>,
) -> Result<()> {
    let Resources { plan, streams, pace, slots, .. } = resources;
    let spans = Spans(stages);
    let enqueued = match pace {
        None => plan.chunks.iter().try_for_each(|chunk| {
            let slot = turn(chunk.index, slots.len());
            let y = output.reborrow().slice(spans.output(chunk));
            submit(chunk, streams, &mut slots[slot], stages, input.slice(spans.input(chunk)), y)
        }),
        Some(pace) => pace.steps(&plan.chunks).try_for_each(|(ahead, behind)| {
            let ahead = ahead.map(|chunk| (chunk, input.slice(spans.input(chunk))));
            let behind = behind.map(|chunk| (chunk, output.reborrow().slice(spans.output(chunk))));
            pace.step(streams, slots, stages, ahead, behind)
        }),
    };
    // This wait is necessary after an error too.
    let ended = streams.wait();
    enqueued.and(ended)?;
    streams.first().take_panic()
}
