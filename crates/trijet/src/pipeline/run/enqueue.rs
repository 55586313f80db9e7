//! The operations of a chunk: upload into a slot, kernels, download from the slot.
//!
//! `submit` never waits on the host, so the chunks overlap. Every wait between streams follows from
//! the uses of the slot's buffers.
#![forbid(unsafe_code)]

use super::streams::Streams;
use crate::base::error::Result;
use crate::base::units::Bytes;
use crate::device::named_range;
use crate::memory::{Buffer, View, ViewMut};
use crate::pipeline::describe::stage::{StageCx, Stages};
use crate::pipeline::plan::Chunk;
use crate::pipeline::plan::schedule::StageId;
use std::ops::Range;

/// The memory of the device for one chunk in flight.
pub(super) struct Slot {
    /// The input of the first stage, then the output of each stage.
    pub(super) buffers: Vec<Buffer<u8>>,
    /// Whether the stages use the memory of source and sink without copies. If true, the first and
    /// the last buffer are empty.
    pub(super) in_place: bool,
}

/// Enqueues the upload, the kernels and the download of one chunk.
pub(super) fn submit(
    chunk: &Chunk,
    streams: &Streams,
    slot: &mut Slot,
    stages: &Stages<'_>,
    input: View<'_, u8>,
    mut output: ViewMut<'_, u8>,
) -> Result<()> {
    let _range = named_range(|| format!("trijet: chunk {}", chunk.index));
    if slot.in_place {
        return kernels(chunk, streams, slot, stages, Some((input, output)));
    }
    let mut target = slot.buffers[0].slice_mut(..input.len());
    let upload = streams.of(StageId::Upload, chunk);
    upload.copy(&input, &mut target).map_err(|error| chunk.context(StageId::Upload, error))?;
    kernels(chunk, streams, slot, stages, None)?;
    let result = slot.buffers[stages.stages.len()].slice(..output.len());
    let download = streams.of(StageId::Download, chunk);
    download.copy(&result, &mut output).map_err(|error| chunk.context(StageId::Download, error))
}

/// Enqueues the kernels of a chunk. `in_place` is the input, which the first stage reads, and the
/// output, which the last stage writes. If `in_place` is `None`, all stages use the memory of the
/// slot.
pub(super) fn kernels(
    chunk: &Chunk,
    streams: &Streams,
    slot: &mut Slot,
    stages: &Stages<'_>,
    mut in_place: Option<(View<'_, u8>, ViewMut<'_, u8>)>,
) -> Result<()> {
    let bytes = |place| Bytes(stages.bytes(place, &stages.rows(place, chunk))).to_usize();
    for (index, stage) in stages.stages.iter().enumerate() {
        let id = StageId::Kernels(index);
        let (x_rows, y_rows) = (stages.rows(index, chunk), stages.rows(index + 1, chunk));
        let cx = StageCx { stream: streams.of(id, chunk), chunk, x_rows, y_rows };
        let (before, after) = slot.buffers.split_at_mut(index + 1);
        let (x, y) = (before[index].slice(..), after[0].slice_mut(..));
        // Only memory of the slot is marked as without content. The program is responsible for the
        // content of its own memory.
        let is_in_slot = in_place.is_none() || index + 1 < stages.stages.len();
        let (x, y) = match &mut in_place {
            Some((input, output)) => (
                if index == 0 { *input } else { x.slice(..bytes(index)) },
                if index + 1 == stages.stages.len() {
                    output.reborrow()
                } else {
                    y.slice(..bytes(index + 1))
                },
            ),
            None => (x.slice(..bytes(index)), y.slice(..bytes(index + 1))),
        };
        let Range { start, end } = &cx.y_rows;
        let what = || format!("stage {index} of rows {start} to {end}");
        if is_in_slot {
            y.discard(cx.stream.device(), what, stage.site);
        }
        (stage.run)(&cx, x, y).map_err(|error| chunk.context(id, error))?;
    }
    Ok(())
}

/// Calls every stage with an empty chunk. This loads the kernels of the stages.
pub(super) fn load(streams: &Streams, slots: &mut [Slot], stages: &Stages<'_>) -> Result<()> {
    let chunk = Chunk { index: 0, rows: 0..0, input: 0..0 };
    let stream = streams.first();
    let Some(slot) = slots.first_mut() else { return Ok(()) };
    for (index, stage) in stages.stages.iter().enumerate() {
        let (before, after) = slot.buffers.split_at_mut(index + 1);
        let cx = StageCx { stream, chunk: &chunk, x_rows: 0..0, y_rows: 0..0 };
        (stage.run)(&cx, before[index].slice(..0), after[0].slice_mut(..0))
            .map_err(|e| e.context(format!("stage {index}, loading")))?;
    }
    stream.synchronize()
}
