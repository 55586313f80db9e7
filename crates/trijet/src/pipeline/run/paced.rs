//! Bulk runs in the shared streams of a device: they enqueue few copies, and wait on the host.
//!
//! A copy in a shared stream must never wait there for a kernel, because all later copies in the
//! stream would wait too. So a chunk is downloaded two steps after its upload, when the host knows
//! that the kernels of the chunk have ended. Pieces of uploads and downloads alternate, because the
//! host may have to wait before each piece.
#![forbid(unsafe_code)]

use super::copy_streams::CopyStreams;
use super::enqueue::Slot;
use super::enqueue::kernels;
use super::streams::Streams;
use crate::base::error::Result;
use crate::device::driver::Readiness;
use crate::memory::{View, ViewMut};
use crate::pipeline::describe::stage::Stages;
use crate::pipeline::plan::Chunk;
use crate::pipeline::plan::schedule::{StageId, turn};
use crate::stream::{Device, Event, Stream};
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

/// Number of chunks that are uploaded before the first chunk is downloaded, if there are enough
/// slots.
const AHEAD: usize = 2;

/// Maximum number of enqueued copies of a run in one direction: a copy that runs, and a copy that
/// follows it without a pause.
const UNDER_WAY: usize = 2;

/// The copies of a run in one direction.
struct Turns {
    stream: Arc<Stream>,
    /// An event for the end of each of the last enqueued copies. Successive copies use the events
    /// in turn.
    ends: [Event; UNDER_WAY],
    next: Cell<usize>,
}

impl Turns {
    fn new(stream: &Arc<Stream>, device: &Device) -> Result<Self> {
        let ends = [device.event()?, device.event()?];
        Ok(Self { stream: Arc::clone(stream), ends, next: Cell::new(0) })
    }

    /// Copies a piece of a chunk. First waits until the run has at most one other enqueued copy in
    /// this direction.
    fn enqueue(
        &self,
        stage: StageId,
        chunk: &Chunk,
        from: &View<'_, u8>,
        to: &mut ViewMut<'_, u8>,
    ) -> Result<()> {
        let end = &self.ends[self.next.get()];
        let enqueued = end.synchronize().and_then(|()| {
            self.stream.set_chunk(Some(chunk.index));
            self.stream.copy(from, to)?;
            end.record(&self.stream)
        });
        self.next.set((self.next.get() + 1) % UNDER_WAY);
        enqueued.map_err(|error| chunk.context(stage, error))
    }
}

/// The state of a bulk run that paces its copies.
pub(super) struct Pace {
    copies: Arc<CopyStreams>,
    up: Turns,
    down: Turns,
    /// For each slot, an event for the end of the last kernel in the slot.
    ends: Vec<Event>,
}

impl Pace {
    pub(super) fn new(copies: &Arc<CopyStreams>, device: &Device, slots: usize) -> Result<Self> {
        let ends = (0..slots).map(|_| device.event()).collect::<Result<_>>()?;
        let (up, down) = (Turns::new(&copies.up, device)?, Turns::new(&copies.down, device)?);
        Ok(Self { copies: Arc::clone(copies), up, down, ends })
    }

    /// The steps of a run. A step has a chunk to upload and compute, and a chunk to download. At
    /// the start and at the end of a run, one of the two is `None`.
    pub(super) fn steps<'c>(
        &self,
        chunks: &'c [Chunk],
    ) -> impl Iterator<Item = (Option<&'c Chunk>, Option<&'c Chunk>)> + use<'c> {
        let ahead = AHEAD.min(self.ends.len().saturating_sub(1));
        let steps = if chunks.is_empty() { 0 } else { chunks.len() + ahead };
        let behind = move |step: usize| chunks.get(step.checked_sub(ahead)?);
        (0..steps).map(move |step| (chunks.get(step), behind(step)))
    }

    /// Uploads the chunk of `ahead` from its input and enqueues its kernels. Downloads the chunk of
    /// `behind` to the memory for its results.
    pub(super) fn step(
        &self,
        streams: &Streams,
        slots: &mut [Slot],
        stages: &Stages<'_>,
        ahead: Option<(&Chunk, View<'_, u8>)>,
        mut behind: Option<(&Chunk, ViewMut<'_, u8>)>,
    ) -> Result<()> {
        let takes_turns = match (&ahead, &behind) {
            (Some((ahead, _)), Some((chunk, _))) if ahead.index != chunk.index => {
                self.end(chunk).query()? == Readiness::Ready
            }
            _ => false,
        };
        let piece = self.copies.piece();
        let results = behind.as_ref().map_or(0, |(_, output)| output.len());
        let mut downloads = pieces(results, piece);
        if let Some((chunk, input)) = ahead {
            for range in pieces(input.len(), piece) {
                let mut to = slots[self.slot(chunk)].buffers[0].slice_mut(range.clone());
                self.up.enqueue(StageId::Upload, chunk, &input.slice(range), &mut to)?;
                if takes_turns && let (Some(range), Some(results)) = (downloads.next(), &mut behind)
                {
                    self.download(slots, stages, results, range)?;
                }
            }
            kernels(chunk, streams, &mut slots[self.slot(chunk)], stages, None)?;
            let last = match stages.stages.len() {
                0 => StageId::Upload,
                count => StageId::Kernels(count - 1),
            };
            self.end(chunk).record(streams.of(last, chunk))?;
        }
        let Some(results) = &mut behind else { return Ok(()) };
        self.end(results.0).synchronize()?;
        downloads.try_for_each(|range| self.download(slots, stages, results, range))
    }

    fn download(
        &self,
        slots: &[Slot],
        stages: &Stages<'_>,
        (chunk, output): &mut (&Chunk, ViewMut<'_, u8>),
        range: Range<usize>,
    ) -> Result<()> {
        let from = &slots[self.slot(chunk)].buffers[stages.stages.len()].slice(range.clone());
        let mut to = output.reborrow().slice(range);
        self.down.enqueue(StageId::Download, chunk, from, &mut to)
    }

    fn slot(&self, chunk: &Chunk) -> usize {
        turn(chunk.index, self.ends.len())
    }

    /// The event for the end of the kernels in the slot of a chunk.
    fn end(&self, chunk: &Chunk) -> &Event {
        &self.ends[self.slot(chunk)]
    }
}

/// The byte ranges of pieces of at most `piece` bytes that together have `len` bytes.
fn pieces(len: usize, piece: usize) -> impl Iterator<Item = Range<usize>> {
    let piece = piece.min(len).max(1);
    (0..len).step_by(piece).map(move |at| at..(at + piece).min(len))
}
