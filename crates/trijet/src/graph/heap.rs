//! The memory of a graph: memory that streams of the recording allocate.
//!
//! The addresses are fixed. After a buffer was dropped, a buffer that is allocated later in the
//! recording may get the same range. The operations on the two buffers then use the same bytes, so
//! they get edges like other operations. Two graphs share no memory of this kind, and the launches
//! of one graph follow each other (law A31).
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::id::{BlockId, DeviceId};
use crate::base::ledger::Place;
use crate::base::units::Bytes;
use crate::device::memory::Span;
use crate::log::calling;
use crate::memory::Buffer;
use crate::order::calls::recorder::{Home, OF_A_RECORDING, Temporary};
use crate::order::track::Track;
use crate::stream::Device;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// The alignment of allocations, as in the pools of the driver.
const ALIGNMENT: u64 = 512;
/// The size of the first chunk in bytes. Each later chunk doubles the size of the heap, or is
/// larger if an allocation needs more.
const CHUNK_MIN: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct Heap {
    state: Mutex<GraphHeapState>,
}

#[derive(Debug, Default)]
struct GraphHeapState {
    chunks: Vec<GraphChunk>,
    /// For each buffer in use: the index of its chunk, and its range in bytes from the start of the
    /// chunk.
    used: HashMap<BlockId, (usize, Range<u64>)>,
}

#[derive(Debug)]
struct GraphChunk {
    device: DeviceId,
    /// The memory. `None` after a graph has become the owner of the memory.
    buffer: Option<Buffer<u8>>,
    span: Span,
    /// The free ranges, sorted. Adjacent free ranges are one range.
    free: Vec<Range<u64>>,
}

impl GraphChunk {
    /// Takes `bytes` from the start of the first free range that is large enough.
    fn take(&mut self, bytes: u64) -> Option<Range<u64>> {
        let index = self.free.iter().position(|free| free.end - free.start >= bytes)?;
        let free = &mut self.free[index];
        let taken = free.start..free.start + bytes;
        free.start = taken.end;
        if free.is_empty() {
            self.free.remove(index);
        }
        Some(taken)
    }

    fn give_back(&mut self, range: Range<u64>) {
        let index = self.free.partition_point(|free| free.end <= range.start);
        self.free.insert(index, range);
        for left in [index, index.saturating_sub(1)] {
            if left + 1 < self.free.len() && self.free[left].end == self.free[left + 1].start {
                self.free[left].end = self.free[left + 1].end;
                self.free.remove(left + 1);
            }
        }
    }
}

impl GraphHeapState {
    fn take(&mut self, device: DeviceId, bytes: u64) -> Option<(usize, Range<u64>)> {
        let mut chunks =
            self.chunks.iter_mut().enumerate().filter(|(_, chunk)| chunk.device == device);
        chunks.find_map(|(number, chunk)| chunk.take(bytes).map(|range| (number, range)))
    }

    /// Adds a chunk that has room for `bytes`.
    fn grow(&mut self, device: &Device, bytes: u64) -> Result<()> {
        let here = self.chunks.iter().filter(|chunk| chunk.device == device.id());
        let all: u64 = here.map(|chunk| chunk.span.bytes()).sum();
        let bytes = bytes.max(all).max(CHUNK_MIN);
        let allocate = || device.stream()?.alloc::<u8>(Bytes(bytes).to_usize());
        let buffer = calling::not_recorded(allocate)?;
        let span = buffer.view().span();
        let free = std::iter::once(0..bytes).collect();
        self.chunks.push(GraphChunk { device: device.id(), buffer: Some(buffer), span, free });
        Ok(())
    }
}

impl Heap {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, GraphHeapState> {
        self.state.lock().expect("no thread panicked while it held this lock")
    }

    pub(super) fn alloc(self: &Arc<Self>, device: &Device, bytes: Bytes) -> Result<Temporary> {
        let size = bytes.0.max(1).next_multiple_of(ALIGNMENT);
        let mut state = self.state();
        let (number, range) = match state.take(device.id(), size) {
            Some(taken) => taken,
            None => {
                state.grow(device, size)?;
                state.take(device.id(), size).expect("the new chunk is large enough")
            }
        };
        let track = Track::new(OF_A_RECORDING, bytes.0, Place::Device);
        let first = range.start;
        state.used.insert(track.id, (number, range));
        let chunk = &state.chunks[number].span;
        let start = chunk.range().start + first;
        let span = chunk.memory().span(start..start + bytes.0);
        Ok(Temporary { span, track, home: Arc::<Self>::clone(self) })
    }

    /// Frees the range of a block, so that a later buffer of the recording can get the range.
    pub(super) fn release(&self, block: BlockId) {
        let mut state = self.state();
        if let Some((number, range)) = state.used.remove(&block) {
            state.chunks[number].give_back(range);
        }
    }

    /// Converts a range of a buffer to a range of a chunk. Returns the index of the chunk that
    /// contains the buffer, and the range in bytes from the start of the chunk.
    pub(super) fn locate(&self, block: BlockId, range: &Range<u64>) -> Option<(usize, Range<u64>)> {
        let state = self.state();
        let (chunk, whole) = state.used.get(&block)?;
        Some((*chunk, whole.start + range.start..whole.start + range.end))
    }

    /// Whether the chunks have the same sizes as these spans, in order.
    pub(super) fn has_sizes(&self, spans: &[Span]) -> bool {
        let state = self.state();
        state.chunks.iter().map(|chunk| chunk.span.bytes()).eq(spans.iter().map(Span::bytes))
    }

    /// The memory of all chunks. Also hands over the buffers of the chunks that no graph owns yet.
    pub(super) fn take(&self) -> (Vec<Span>, Vec<Buffer<u8>>) {
        let mut state = self.state();
        let spans = state.chunks.iter().map(|chunk| chunk.span.clone()).collect();
        (spans, state.chunks.iter_mut().filter_map(|chunk| chunk.buffer.take()).collect())
    }
}

impl Home for Heap {
    fn give_back(&self, block: BlockId) {
        self.release(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Executor, HostConfig, Order};

    /// The law: buffers that live at the same time have no bytes in common. When all are dropped,
    /// each chunk is one free range.
    #[test]
    fn buffers_that_live_at_one_time_share_no_bytes() -> Result<()> {
        let executor = Executor::Virtual(Order::Greedy);
        let device = Device::host(HostConfig::new().executor(executor))?.remove(0);
        let heap = Heap::new();
        let mut prng = crate::base::prng::Prng::new(7);
        let mut live: Vec<(BlockId, u64, Range<u64>)> = Vec::new();
        for _ in 0..2000 {
            if prng.below(5) < 3 {
                let bytes = prng.below(40_000);
                let Temporary { span, track, .. } = heap.alloc(&device, Bytes(bytes))?;
                let range = span.address()..span.address() + bytes;
                assert_eq!(range.start % ALIGNMENT, 0);
                for (_, _, other) in &live {
                    assert!(range.end <= other.start || other.end <= range.start || bytes == 0);
                }
                live.push((track.id, bytes, range));
            } else if !live.is_empty() {
                let index = usize::try_from(prng.below(live.len() as u64)).expect("few");
                heap.release(live.swap_remove(index).0);
            }
        }
        live.drain(..).for_each(|(block, _, _)| heap.release(block));
        let state = heap.state();
        assert!(state.used.is_empty());
        for chunk in &state.chunks {
            assert_eq!((chunk.free.len(), &chunk.free[0]), (1, &(0..chunk.span.bytes())));
        }
        Ok(())
    }
}
