//! The memory of one pool: the segments that the pool has taken from the device, and the free
//! blocks in them. A free block remembers the frees that it follows. The laws of reuse decide which
//! stream may allocate the block (law A23).
#![forbid(unsafe_code)]

use crate::device::host::engine::ids::Point;
use crate::device::region::HostBytes;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// A pool takes memory from the device in multiples of this size.
const SEGMENT: u64 = 64 << 10;

/// The frees that a block follows: the latest free of each stream. Frees that the host has seen
/// complete are left out.
pub(in crate::device::host) type After = SmallVec<[Point; 2]>;

#[derive(Debug)]
struct Segment {
    bytes: HostBytes,
    size: u64,
    /// For each free block, by its offset in the segment: its length in bytes, and the frees that
    /// it follows.
    free: BTreeMap<u64, (u64, After)>,
}

impl Segment {
    fn is_free(&self) -> bool {
        self.free.get(&0).is_some_and(|(len, _)| *len == self.size)
    }
}

/// An allocation: its segment, its offset in the segment and its size, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::device::host) struct Extent {
    segment: u64,
    offset: u64,
    pub(super) size: u64,
}

impl Extent {
    /// The number of the segment, in the order in which the pool grew.
    pub(super) fn segment(self) -> u64 {
        self.segment
    }
}

/// The segments of a pool.
#[derive(Debug, Default)]
pub(in crate::device::host) struct Heap {
    segments: BTreeMap<u64, Segment>,
    next_segment: u64,
    pub(super) reserved: u64,
}

/// The number of bytes to take from a device with `room` free bytes, for a block of `size` bytes.
/// `None` if the device has too few free bytes.
pub(super) fn growth(size: u64, room: u64) -> Option<u64> {
    let rounded = size.checked_next_multiple_of(SEGMENT)?;
    // The last bytes of a device need not be a multiple of `SEGMENT`.
    if rounded <= room { Some(rounded) } else { (size <= room).then_some(room) }
}

impl Heap {
    /// The free blocks of at least `size` bytes, the smallest block first.
    pub(in crate::device::host) fn candidates(
        &self,
        size: u64,
    ) -> impl Iterator<Item = (Extent, &After)> {
        let mut found: SmallVec<[(u64, Extent, &After); 4]> = SmallVec::new();
        for (id, segment) in &self.segments {
            for (offset, (len, after)) in &segment.free {
                if *len >= size {
                    found.push((*len, Extent { segment: *id, offset: *offset, size }, after));
                }
            }
        }
        found.sort_by_key(|(len, extent, _)| (*len, extent.segment, extent.offset));
        found.into_iter().map(|(_, extent, after)| (extent, after))
    }

    /// Takes `extent` from the start of a free block.
    pub(super) fn take(&mut self, extent: Extent) -> Option<HostBytes> {
        let segment = self.segments.get_mut(&extent.segment)?;
        let (len, after) = segment.free.remove(&extent.offset)?;
        if len > extent.size {
            segment.free.insert(extent.offset + extent.size, (len - extent.size, after));
        }
        Some(segment.bytes.part(extent.offset..extent.offset + extent.size))
    }

    /// Adds a segment of `size` bytes. Returns false if the system cannot allocate the segment.
    pub(super) fn grow(&mut self, size: u64) -> bool {
        let Some(bytes) = HostBytes::to_part(size) else { return false };
        let free = BTreeMap::from([(0, (size, After::new()))]);
        self.segments.insert(self.next_segment, Segment { bytes, size, free });
        self.next_segment += 1;
        self.reserved += size;
        true
    }

    /// Frees a block. The next allocation of the block comes after the free at `point`. Without a
    /// point, the block can be allocated at once.
    pub(super) fn give_back(&mut self, extent: Extent, point: Option<Point>) {
        let Some(segment) = self.segments.get_mut(&extent.segment) else { return };
        segment.free.insert(extent.offset, (extent.size, point.into_iter().collect()));
        merge(&mut segment.free, extent.offset);
    }

    /// Removes, from all blocks, the frees that the host has seen complete.
    pub(super) fn forget(&mut self, seen: impl Fn(Point) -> bool) {
        for segment in self.segments.values_mut() {
            let mut changed = false;
            for (_, after) in segment.free.values_mut() {
                let before = after.len();
                after.retain(|point| !seen(*point));
                changed |= after.len() != before;
            }
            // The blocks are visited from the last to the first, so that a block is joined with a
            // right neighbour that has grown.
            let offsets: Vec<u64> = segment.free.keys().rev().copied().collect();
            if changed {
                offsets.into_iter().for_each(|offset| merge(&mut segment.free, offset));
            }
        }
    }

    /// Returns free segments to the device until the pool has at most `keep` bytes. A segment is
    /// returned only if `gone` is true for all frees that it follows.
    pub(super) fn shrink(&mut self, keep: u64, gone: impl Fn(Point) -> bool) {
        let idle: Vec<u64> = self
            .segments
            .iter()
            .filter(|(_, s)| s.is_free() && s.free[&0].1.iter().all(|point| gone(*point)))
            .map(|(id, _)| *id)
            .collect();
        for id in idle {
            if self.reserved <= keep {
                return;
            }
            if let Some(segment) = self.segments.remove(&id) {
                self.reserved -= segment.size;
            }
        }
    }
}

/// Joins the block at `offset` with its neighbours if they follow frees of the same streams.
fn merge(free: &mut BTreeMap<u64, (u64, After)>, offset: u64) {
    let before = free.range(..offset).next_back().map(|(at, _)| *at);
    for (left, right) in [(Some(offset), None), (before, Some(offset))] {
        let Some(left) = left else { continue };
        let Some((len, after)) = free.get(&left) else { continue };
        let right = right.unwrap_or(left + len);
        if left + len != right {
            continue;
        }
        let Some((more, other)) = free.get(&right) else { continue };
        if let Some(joined) = join(after, other) {
            let len = len + more;
            free.remove(&right);
            free.insert(left, (len, joined));
        }
    }
}

/// For each stream, the later one of the frees in `a` and `b`. `None` if `a` and `b` have frees of
/// different streams.
fn join(a: &After, b: &After) -> Option<After> {
    let find = |list: &After, point: &Point| list.iter().find(|p| p.slot == point.slot).copied();
    if a.len() != b.len() {
        return None;
    }
    let later = |point: &Point| {
        find(b, point).map(|other| Point { slot: point.slot, seq: point.seq.max(other.seq) })
    };
    a.iter().map(later).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::prng::Prng;
    use crate::device::host::engine::ids::SlotId;
    use std::ops::Range;

    fn span(extent: Extent) -> (u64, Range<u64>) {
        (extent.segment, extent.offset..extent.offset + extent.size)
    }

    /// Live allocations never overlap. When all allocations are freed and seen complete, every
    /// segment is one free block.
    #[test]
    fn live_places_are_disjoint_and_free_ones_become_whole() {
        for seed in 0..50 {
            let mut prng = Prng::new(seed);
            let mut heap = Heap::default();
            assert!(heap.grow(1 << 20) && heap.grow(1 << 18));
            let mut live: Vec<Extent> = Vec::new();
            for seq in 0..300 {
                if prng.below(2) == 0 && !live.is_empty() {
                    let index = usize::try_from(prng.below(live.len() as u64)).expect("small");
                    let slot = SlotId(u32::try_from(prng.below(3)).expect("small"));
                    heap.give_back(live.swap_remove(index), Some(Point { slot, seq }));
                    continue;
                }
                let size = 512 * (1 + prng.below(100));
                let Some(extent) = heap.candidates(size).next().map(|(extent, _)| extent) else {
                    continue;
                };
                heap.take(extent).expect("a candidate is free");
                let overlap = live.iter().find(|other| {
                    let ((a, x), (b, y)) = (span(extent), span(**other));
                    a == b && x.start < y.end && y.start < x.end
                });
                assert_eq!(overlap, None, "seed {seed}: {extent:?}");
                live.push(extent);
            }
            live.into_iter().for_each(|extent| heap.give_back(extent, None));
            heap.forget(|_| true);
            assert!(heap.segments.values().all(Segment::is_free), "seed {seed}");
            heap.shrink(0, |_| true);
            assert_eq!((heap.reserved, heap.segments.len()), (0, 0), "seed {seed}");
        }
    }
}
