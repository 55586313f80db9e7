//! The memory of one pool: segments that it holds from the device, and the free blocks in them.
//! A free block remembers the frees that it comes after; whether it may be handed out to a stream
//! follows from the laws of reuse (law A23).
#![forbid(unsafe_code)]

use super::ids::Point;
use crate::device::region::HostBytes;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Memory comes from the device in multiples of this.
const SEGMENT: u64 = 64 << 10;

/// The frees that a block comes after, the latest per stream. Empty: nobody uses it any more, and
/// the host has seen so.
pub(super) type After = SmallVec<[Point; 2]>;

#[derive(Debug)]
struct Segment {
    bytes: HostBytes,
    size: u64,
    /// Length and frees of each free block, by offset.
    free: BTreeMap<u64, (u64, After)>,
}

impl Segment {
    fn is_free(&self) -> bool {
        self.free.get(&0).is_some_and(|(len, _)| *len == self.size)
    }
}

/// Where an allocation lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    segment: u64,
    offset: u64,
    pub(super) size: u64,
}

impl Place {
    /// Numbered in the order in which the pool grew.
    pub(super) fn segment(self) -> u64 {
        self.segment
    }
}

/// The segments of a pool.
#[derive(Debug, Default)]
pub(super) struct Heap {
    segments: BTreeMap<u64, Segment>,
    next_segment: u64,
    pub(super) reserved: u64,
}

/// How much the device has to give for `size` bytes of which `room` are left.
pub(super) fn growth(size: u64, room: u64) -> Option<u64> {
    let rounded = size.checked_next_multiple_of(SEGMENT)?;
    // The last bytes of a device need not be a multiple.
    if rounded <= room { Some(rounded) } else { (size <= room).then_some(room) }
}

impl Heap {
    /// The free blocks of at least `size`, the tightest first.
    pub(super) fn candidates(&self, size: u64) -> impl Iterator<Item = (Place, &After)> {
        let mut found: SmallVec<[(u64, Place, &After); 4]> = SmallVec::new();
        for (id, segment) in &self.segments {
            for (offset, (len, after)) in &segment.free {
                if *len >= size {
                    found.push((*len, Place { segment: *id, offset: *offset, size }, after));
                }
            }
        }
        found.sort_by_key(|(len, place, _)| (*len, place.segment, place.offset));
        found.into_iter().map(|(_, place, after)| (place, after))
    }

    /// Takes `place` out of the free block that it begins.
    pub(super) fn take(&mut self, place: Place) -> Option<HostBytes> {
        let segment = self.segments.get_mut(&place.segment)?;
        let (len, after) = segment.free.remove(&place.offset)?;
        if len > place.size {
            segment.free.insert(place.offset + place.size, (len - place.size, after));
        }
        Some(segment.bytes.part(place.offset..place.offset + place.size))
    }

    /// Adds `size` bytes from the device, or nothing when the system has no more.
    pub(super) fn grow(&mut self, size: u64) -> bool {
        let Some(bytes) = HostBytes::to_part(size) else { return false };
        let free = BTreeMap::from([(0, (size, After::new()))]);
        self.segments.insert(self.next_segment, Segment { bytes, size, free });
        self.next_segment += 1;
        self.reserved += size;
        true
    }

    /// Gives a block back, to be handed out again after the free at `point`, or at once.
    pub(super) fn give_back(&mut self, place: Place, point: Option<Point>) {
        let Some(segment) = self.segments.get_mut(&place.segment) else { return };
        segment.free.insert(place.offset, (place.size, point.into_iter().collect()));
        merge(&mut segment.free, place.offset);
    }

    /// Forgets frees that the host has seen complete.
    pub(super) fn forget(&mut self, seen: impl Fn(Point) -> bool) {
        for segment in self.segments.values_mut() {
            let mut changed = false;
            for (_, after) in segment.free.values_mut() {
                let before = after.len();
                after.retain(|point| !seen(*point));
                changed |= after.len() != before;
            }
            // From the last: each block joins what has become of its right neighbour.
            let offsets: Vec<u64> = segment.free.keys().rev().copied().collect();
            if changed {
                offsets.into_iter().for_each(|offset| merge(&mut segment.free, offset));
            }
        }
    }

    /// Returns whole free segments to the device until at most `keep` bytes are held. `gone` says
    /// of a free whether its block may go.
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

/// Joins the block at `offset` with its neighbours when they come after the same streams.
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

/// The later of each stream's frees, when both come after the same streams.
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
    use super::super::ids::SlotId;
    use super::*;
    use crate::base::prng::Prng;
    use std::ops::Range;

    fn span(place: Place) -> (u64, Range<u64>) {
        (place.segment, place.offset..place.offset + place.size)
    }

    /// The law: live allocations never overlap, and when everything is free and seen, the heap is
    /// whole again.
    #[test]
    fn live_places_are_disjoint_and_free_ones_become_whole() {
        for seed in 0..50 {
            let mut prng = Prng::new(seed);
            let mut heap = Heap::default();
            assert!(heap.grow(1 << 20) && heap.grow(1 << 18));
            let mut live: Vec<Place> = Vec::new();
            for seq in 0..300 {
                if prng.below(2) == 0 && !live.is_empty() {
                    let index = usize::try_from(prng.below(live.len() as u64)).expect("small");
                    let slot = SlotId(u32::try_from(prng.below(3)).expect("small"));
                    heap.give_back(live.swap_remove(index), Some(Point { slot, seq }));
                    continue;
                }
                let size = 512 * (1 + prng.below(100));
                let Some(place) = heap.candidates(size).next().map(|(place, _)| place) else {
                    continue;
                };
                heap.take(place).expect("a candidate is free");
                let overlap = live.iter().find(|other| {
                    let ((a, x), (b, y)) = (span(place), span(**other));
                    a == b && x.start < y.end && y.start < x.end
                });
                assert_eq!(overlap, None, "seed {seed}: {place:?}");
                live.push(place);
            }
            live.into_iter().for_each(|place| heap.give_back(place, None));
            heap.forget(|_| true);
            assert!(heap.segments.values().all(Segment::is_free), "seed {seed}");
            heap.shrink(0, |_| true);
            assert_eq!((heap.reserved, heap.segments.len()), (0, 0), "seed {seed}");
        }
    }
}
