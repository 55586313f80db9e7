//! Slots: the latest positions of a few lanes, which threads note without a lock.
#![forbid(unsafe_code)]

use crate::base::id::Position;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of lanes whose last access of a whole allocation is kept in a slot. Reads of other lanes
/// go to the map of byte ranges.
pub(in crate::order) const SLOTS: usize = 8;

/// The latest positions of a few lanes. Slots are filled from the front; an empty slot is 0.
#[derive(Debug, Default)]
pub(super) struct Slots(pub(super) [AtomicU64; SLOTS]);

impl Slots {
    /// Fills slots with the first positions of a list, at most [`SLOTS`] of them.
    #[inline]
    pub(super) fn of(positions: &[Position]) -> Self {
        let slots = Self::default();
        for (slot, position) in slots.0.iter().zip(positions) {
            slot.store(position.pack(), Ordering::Relaxed);
        }
        slots
    }

    /// Replaces the positions by the positions of a list. The list has at most [`SLOTS`] positions.
    #[inline]
    pub(super) fn set(&mut self, positions: &[Position]) {
        debug_assert!(positions.len() <= SLOTS);
        for (at, slot) in self.0.iter_mut().enumerate() {
            *slot.get_mut() = positions.get(at).map_or(0, |position| position.pack());
        }
    }

    /// Calls `each` with every position.
    #[inline(always)]
    pub(super) fn each(&self, mut each: impl FnMut(Position)) {
        for slot in &self.0 {
            let Some(position) = Position::unpack(slot.load(Ordering::Relaxed)) else { break };
            each(position);
        }
    }

    /// Notes the latest position of a lane. Returns `false` if the lane has no slot and no slot is
    /// empty. The caller holds the lock of that lane, so no other thread changes the slot of that
    /// lane.
    #[inline(always)]
    pub(super) fn note(&self, position: Position) -> bool {
        let packed = position.pack();
        let [first, ..] = &self.0;
        let held = first.load(Ordering::Relaxed);
        if Position::unpack(held).is_some_and(|held| held.lane == position.lane) {
            // The usual case: one lane uses the memory.
            first.store(packed.max(held), Ordering::Relaxed);
            return true;
        }
        self.note_among(position, packed)
    }

    #[inline(never)]
    fn note_among(&self, position: Position, packed: u64) -> bool {
        for slot in &self.0 {
            let mut held = slot.load(Ordering::Relaxed);
            if held == 0 {
                let taken = slot.compare_exchange(0, packed, Ordering::Relaxed, Ordering::Relaxed);
                match taken {
                    Ok(_) => return true,
                    Err(other) => held = other,
                }
            }
            if Position::unpack(held).is_some_and(|held| held.lane == position.lane) {
                slot.store(packed.max(held), Ordering::Relaxed);
                return true;
            }
        }
        false
    }

    /// Whether all slots are empty.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        let [first, ..] = &self.0;
        first.load(Ordering::Relaxed) == 0
    }

    /// Clears every slot. Requires exclusive access to the allocation.
    #[inline(always)]
    pub(super) fn clear(&self) {
        for slot in &self.0 {
            if slot.load(Ordering::Relaxed) == 0 {
                break;
            }
            slot.store(0, Ordering::Relaxed);
        }
    }
}
