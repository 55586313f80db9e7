//! The last uses of every byte: a map for each allocation, from byte ranges to the last write, and
//! to the last read by each stream and thread since that write.
//!
//! The last uses are enough. An access that follows a write follows every earlier access that the
//! write follows. If the write did not follow an earlier access that conflicts with it, that
//! conflict was already reported. A block is one allocation until it is freed, so memory at a
//! reused address is another block. The memory of a heap is the exception. The library orders the
//! uses of an allocation of a heap after the uses of earlier allocations of the same bytes. So a
//! block of a heap inherits the last uses of its bytes.
#![forbid(unsafe_code)]

use super::order::Stamp;
use crate::base::hash::NumberMap;
use crate::base::id::{BlockId, DeviceId, LaneId};
use crate::base::interval::RangeMap;
use crate::base::ledger::Mode;
use crate::base::vector_clock::VectorClock;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// Maximum number of freed blocks for which the entry of the free is kept. For blocks that were
/// freed earlier, only the number of the block is kept.
const FREES_MAX: usize = 1024;

/// A use of bytes: its entry, and the stamp that a clock must cover to follow the use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Touch {
    pub(super) op: u64,
    pub(super) at: Stamp,
}

/// The last uses of a range of bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Entry {
    write: Option<Touch>,
    reads: LastReads,
    /// Whether nothing has been written to the bytes since the allocation.
    fresh: bool,
}

/// For each component, the last read since the last write. In most cases there is at most one read,
/// so the first read needs no allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct LastReads {
    first: Option<Touch>,
    more: Vec<Touch>,
}

impl LastReads {
    fn iter(&self) -> impl Iterator<Item = &Touch> {
        self.first.iter().chain(&self.more)
    }

    fn add(&mut self, touch: Touch) {
        let Some(first) = &mut self.first else {
            self.first = Some(touch);
            return;
        };
        let mut others = std::iter::once(first).chain(&mut self.more);
        match others.find(|other| other.at.lane == touch.at.lane) {
            Some(other) => *other = touch,
            None => self.more.push(touch),
        }
    }

    fn clear(&mut self) {
        self.first = None;
        self.more.clear();
    }

    fn retain(&mut self, keep: impl Fn(&Touch) -> bool) {
        self.more.retain(&keep);
        if self.first.as_ref().is_some_and(|touch| !keep(touch)) {
            self.first = self.more.pop();
        }
    }
}

/// An allocation, with the last uses of its bytes.
#[derive(Debug, Clone, Default)]
pub(super) struct Block {
    entries: RangeMap<Entry>,
    /// The entry of the block's allocation.
    pub(super) born: Option<u64>,
    /// The entry of the block's first use.
    pub(super) first_use: Option<u64>,
    /// If the block is memory of a heap: the device of the heap, and the offset of the block's
    /// first byte in the heap.
    place: Option<(DeviceId, u64)>,
}

/// An earlier use that conflicts with the current access and is not ordered before this access.
#[derive(Debug, Clone)]
pub(super) struct Unordered {
    pub(super) earlier: Touch,
    pub(super) earlier_writes: bool,
    pub(super) range: Range<u64>,
}

impl Block {
    /// Adds to `found` the earlier uses that conflict with an access of the entry `op`, and that
    /// the access does not follow.
    pub(super) fn unordered(
        &self,
        range: &Range<u64>,
        mode: Mode,
        op: u64,
        follows: impl Fn(Stamp) -> bool,
        found: &mut Vec<Unordered>,
    ) {
        for (bytes, entry) in self.entries.overlapping(range.clone()) {
            let range = bytes.start.max(range.start)..bytes.end.min(range.end);
            let is_open = |touch: &&Touch| touch.op != op && !follows(touch.at);
            let mut add = |earlier: &Touch, earlier_writes| {
                found.push(Unordered { earlier: *earlier, earlier_writes, range: range.clone() });
            };
            entry.write.iter().filter(is_open).for_each(|touch| add(touch, true));
            if mode.writes() {
                entry.reads.iter().filter(is_open).for_each(|touch| add(touch, false));
            }
        }
    }

    /// The first bytes of the range that have not been written since the allocation. The range
    /// counts as written from now on, because one finding is enough.
    pub(super) fn unwritten(&mut self, range: &Range<u64>) -> Option<Range<u64>> {
        let mut entries = self.entries.overlapping(range.clone());
        let bytes = entries.find(|(_, entry)| entry.fresh)?.0.clone();
        drop(entries);
        let found = bytes.start.max(range.start)..bytes.end.min(range.end);
        self.entries.update(range.clone(), Entry::default, |entry| entry.fresh = false);
        Some(found)
    }

    pub(super) fn read(&mut self, range: &Range<u64>, touch: Touch) {
        self.entries.update(range.clone(), Entry::default, |entry| entry.reads.add(touch));
    }

    pub(super) fn write(&mut self, range: &Range<u64>, touch: Touch, fresh: bool) {
        self.entries.update(range.clone(), Entry::default, |entry| {
            entry.write = Some(touch);
            entry.reads.clear();
            entry.fresh = fresh;
        });
    }

    /// Adds an allocation outside of streams: the bytes have no content yet, and any stream may use
    /// the bytes immediately.
    pub(super) fn appear(&mut self, range: &Range<u64>) {
        self.entries.update(range.clone(), Entry::default, |entry| entry.fresh = true);
    }

    fn retire(&mut self, known: &VectorClock) {
        retire(&mut self.entries, &|at| known.covers(at));
    }
}

/// Forgets the uses for which `is_complete` returns true.
fn retire(entries: &mut RangeMap<Entry>, is_complete: &impl Fn(Stamp) -> bool) {
    entries.retain(|entry| {
        entry.write = entry.write.filter(|touch| !is_complete(touch.at));
        entry.reads.retain(|touch| !is_complete(touch.at));
        *entry != Entry::default()
    });
}

/// All allocations.
#[derive(Debug, Clone, Default)]
pub(super) struct Shadow {
    blocks: NumberMap<BlockId, Block>,
    /// The numbers of blocks that were freed, as ranges.
    freed: RangeMap<()>,
    /// The blocks that were freed last, each with the entry of its free.
    frees: VecDeque<(BlockId, u64)>,
    /// For each device, the last uses of the free memory of its heap. The keys of each map are
    /// offsets in the heap.
    heaps: BTreeMap<DeviceId, RangeMap<Entry>>,
}

fn number(block: BlockId) -> Range<u64> {
    let number = block.0.min(u64::MAX - 1);
    number..number + 1
}

impl Shadow {
    pub(super) fn block(&mut self, id: BlockId) -> &mut Block {
        self.blocks.entry(id).or_default()
    }

    /// The entry of the allocation of a block.
    pub(super) fn born(&self, id: BlockId) -> Option<u64> {
        self.blocks.get(&id)?.born
    }

    /// The entry of the free of a block: `None` if the block was not freed, `Some(None)` if the
    /// entry is no longer kept.
    pub(super) fn freed(&self, block: BlockId) -> Option<Option<u64>> {
        self.freed.overlapping(number(block)).next()?;
        let of_block = |(other, _): &&(BlockId, u64)| *other == block;
        Some(self.frees.iter().find(of_block).map(|(_, op)| *op))
    }

    pub(super) fn free(&mut self, block: BlockId, op: u64) {
        self.blocks.remove(&block);
        self.freed.update(number(block), || (), |()| ());
        if self.frees.len() == FREES_MAX {
            self.frees.pop_front();
        }
        self.frees.push_back((block, op));
    }

    /// Removes the content of bytes of a block. The last uses of the bytes stay. If the allocation
    /// of the block was not seen, the content is unknown and stays unknown.
    pub(super) fn discard(&mut self, id: BlockId, range: &Range<u64>, op: u64) {
        if let Some(block) = self.blocks.get_mut(&id).filter(|block| block.born.is_some()) {
            block.appear(range);
            block.born = Some(op);
        }
    }

    /// Gives a block memory of a heap. The block inherits the last uses of that memory that are not
    /// complete.
    pub(super) fn obtain(
        &mut self,
        id: BlockId,
        device: DeviceId,
        place: u64,
        bytes: u64,
        is_complete: impl Fn(Stamp) -> bool,
    ) {
        let mut entries = RangeMap::default();
        entries.update(0..bytes, Entry::default, |entry: &mut Entry| entry.fresh = true);
        let free = self.heaps.entry(device).or_default();
        let whole = place..place.saturating_add(bytes);
        for (range, old) in free.overlapping(whole.clone()) {
            let range = range.start.max(whole.start) - place..range.end.min(whole.end) - place;
            entries.update(range, Entry::default, |entry| {
                entry.write = old.write.filter(|touch| !is_complete(touch.at));
                entry.reads = old.reads.clone();
                entry.reads.retain(|touch| !is_complete(touch.at));
            });
        }
        free.update(whole, Entry::default, |entry| *entry = Entry::default());
        free.retain(|entry| *entry != Entry::default());
        let block = self.block(id);
        (block.entries, block.place) = (entries, Some((device, place)));
    }

    /// Gives the memory of a block back to its heap, with the last uses of the memory.
    pub(super) fn give_back(&mut self, id: BlockId, op: u64) {
        let block = self.blocks.remove(&id);
        if let Some(Block { entries, place: Some((device, place)), .. }) = block {
            let free = self.heaps.entry(device).or_default();
            for (range, entry) in entries.iter() {
                let range = place + range.start..place + range.end;
                let entry = Entry { fresh: false, ..entry.clone() };
                if entry != Entry::default() {
                    free.update(range, Entry::default, |kept| *kept = entry.clone());
                }
            }
        }
        self.free(id, op);
    }

    /// The blocks that the trace allocates and does not free, in the order of their numbers. Each
    /// block comes with the entry of its allocation.
    pub(super) fn leaked(&self) -> Vec<(BlockId, u64)> {
        let born = self.blocks.iter().filter_map(|(id, block)| Some((*id, block.born?)));
        let mut leaked: Vec<_> = born.collect();
        leaked.sort_unstable();
        leaked
    }

    /// Forgets the uses in `known`, which every thread knows to be complete, and the blocks without
    /// anything to keep.
    pub(super) fn retire(&mut self, known: &VectorClock) {
        self.blocks.retain(|_, block| {
            block.retire(known);
            block.born.is_some() || block.entries.iter().next().is_some()
        });
        for entries in self.heaps.values_mut() {
            retire(entries, &|at| known.covers(at));
        }
    }

    /// Adds the entries that findings may still name.
    pub(super) fn named(&self, named: &mut Vec<u64>) {
        for block in self.blocks.values() {
            named.extend(block.born.iter().chain(&block.first_use));
        }
        named.extend(self.touches().map(|touch| touch.op));
        named.extend(self.frees.iter().map(|(_, op)| *op));
    }

    /// The components of the uses that are kept.
    pub(super) fn components(&self) -> BTreeSet<LaneId> {
        self.touches().map(|touch| touch.at.lane).collect()
    }

    /// The uses that are kept.
    fn touches(&self) -> impl Iterator<Item = &Touch> {
        let blocks = self.blocks.values().map(|block| &block.entries);
        let entries = blocks.chain(self.heaps.values()).flat_map(RangeMap::iter);
        entries.flat_map(|(_, entry)| entry.write.iter().chain(entry.reads.iter()))
    }

    /// The number of blocks and byte ranges that are kept.
    pub(super) fn held_state(&self) -> usize {
        let of_blocks = self.blocks.values().map(|block| 1 + block.entries.iter().count());
        let of_heaps = self.heaps.values().map(|entries| entries.iter().count());
        of_blocks.chain(of_heaps).sum::<usize>() + self.freed.iter().count()
    }
}
