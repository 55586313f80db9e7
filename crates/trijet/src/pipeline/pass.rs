//! One run of a plan between page-locked buffers, without a reader and a writer.
#![forbid(unsafe_code)]

use super::allocate::Resources;
use super::enqueue::submit;
use super::schedule::turn;
use super::stage::Stages;
use crate::base::error::Result;
use crate::base::units::Bytes;
use crate::memory::{View, ViewMut};
use crate::stream::Stream;

/// Enqueues every chunk of the plan, and waits for all of them.
pub(super) fn pass(
    resources: &mut Resources,
    stages: &Stages<'_>,
    input: View<'_, u8>,
    mut output: ViewMut<'_, u8>,
) -> Result<()> {
    let Resources { plan, streams, slots, .. } = resources;
    let bytes = |rows: u64, row_bytes: u64| Bytes(rows * row_bytes).to_usize();
    let enqueued = plan.chunks.iter().try_for_each(|chunk| {
        let first = bytes(chunk.input.start, stages.row_in());
        let x = input.slice(first..first + bytes(chunk.rows_in(), stages.row_in()));
        let first = bytes(chunk.rows.start, stages.row_out());
        let y = first..first + bytes(chunk.rows_out(), stages.row_out());
        let slot = turn(chunk.index, slots.len());
        submit(chunk, streams, &mut slots[slot], stages, x, output.reborrow().slice(y))
    });
    // Every stream is waited for, also after an error.
    let ended = streams.all().iter().map(Stream::synchronize).fold(Ok(()), Result::and);
    enqueued.and(ended)
}
