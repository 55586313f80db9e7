//! One run of a plan between page-locked buffers, without a reader and a writer.
#![forbid(unsafe_code)]

use super::allocate::Resources;
use super::enqueue::submit;
use super::plan::Chunk;
use super::schedule::turn;
use super::stage::Stages;
use crate::base::error::Result;
use crate::base::units::Bytes;
use crate::memory::{View, ViewMut};

/// Enqueues every chunk of the plan, and waits for all of them.
pub(super) fn pass(
    resources: &mut Resources,
    stages: &Stages<'_>,
    input: View<'_, u8>,
    mut output: ViewMut<'_, u8>,
) -> Result<()> {
    let Resources { plan, streams, pace, slots, .. } = resources;
    let bytes = |rows: u64, row_bytes: u64| Bytes(rows * row_bytes).to_usize();
    let read = |chunk: &Chunk| {
        let first = bytes(chunk.input.start, stages.row_in());
        input.slice(first..first + bytes(chunk.rows_in(), stages.row_in()))
    };
    let written = |chunk: &Chunk| {
        let first = bytes(chunk.rows.start, stages.row_out());
        first..first + bytes(chunk.rows_out(), stages.row_out())
    };
    let enqueued = match pace {
        None => plan.chunks.iter().try_for_each(|chunk| {
            let slot = turn(chunk.index, slots.len());
            let y = output.reborrow().slice(written(chunk));
            submit(chunk, streams, &mut slots[slot], stages, read(chunk), y)
        }),
        Some(pace) => pace.steps(&plan.chunks).try_for_each(|(ahead, behind)| {
            let ahead = ahead.map(|chunk| (chunk, read(chunk)));
            let behind = behind.map(|chunk| (chunk, output.reborrow().slice(written(chunk))));
            pace.step(streams, (slots, stages), ahead, behind)
        }),
    };
    // Also after an error.
    let ended = streams.wait();
    enqueued.and(ended)
}
