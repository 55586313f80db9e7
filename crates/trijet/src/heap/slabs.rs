//! Small blocks of page-locked memory, which are parts of slabs. Locking pages takes longer than
//! copying them, so small buffers share pages.
//!
//! A freed block can be allocated again when its users are complete. A slab is returned to the
//! system only on request, because that may wait for the device (laws A20 and A24).
#![forbid(unsafe_code)]

use super::space::Space;
use super::space::nodes::{GRANULE, Index, List, Users};
use crate::base::id::Position;
use crate::base::units::Bytes;
use crate::device::memory::{Memory, Span};
use std::sync::{Mutex, MutexGuard};

/// The size of the largest block, in bytes. A larger buffer is not part of a slab.
pub(crate) const BLOCK_MAX: u64 = 256 << 10;
/// The minimum and the maximum size of a slab, in bytes. Within these limits, a new slab is as
/// large as all present slabs together. So a program with few small buffers locks few pages. A slab
/// is larger if the requested block needs more.
const SLAB_MIN: u64 = PAGE;
const SLAB_MAX: u64 = 2 << 20;
/// The size of a page of the host, in bytes.
const PAGE: u64 = 4096;

/// The slabs of a domain.
#[derive(Debug, Default)]
pub(crate) struct Slabs(Mutex<SlabsState>);

#[derive(Debug, Default)]
struct SlabsState {
    space: Space,
    /// The memory of each range. The index is the number of the range. `None` after the slab was
    /// returned to the system.
    slabs: Vec<Option<Memory>>,
}

impl Slabs {
    fn state(&self) -> MutexGuard<'_, SlabsState> {
        self.0.lock().expect("no thread panicked while it held this lock")
    }

    /// Takes a block with complete users. Returns the first `bytes` bytes of the block, and its
    /// number.
    pub(crate) fn take(&self, bytes: Bytes) -> Option<(Span, Index)> {
        let mut state = self.state();
        let taken = state.space.take_complete(bytes.0.max(1).div_ceil(GRANULE))?;
        let slab = state.slabs[taken.range as usize].as_ref();
        let slab = slab.expect("a range with blocks keeps its memory");
        let start = taken.start * GRANULE;
        Some((slab.span(start..start + bytes.0), taken.index))
    }

    /// The size of the next slab. It has room for a block of `bytes`.
    pub(crate) fn next_size(&self, bytes: Bytes) -> Bytes {
        let held: u64 = self.state().slabs.iter().flatten().map(Memory::bytes).sum();
        Bytes(held.clamp(SLAB_MIN, SLAB_MAX).max(bytes.0.next_multiple_of(PAGE)))
    }

    /// Adds a slab.
    pub(crate) fn add(&self, memory: Memory) {
        let mut state = self.state();
        let range = state.space.add_range();
        let taken = state.space.extend(range, memory.bytes() / GRANULE);
        state.slabs.push(Some(memory));
        state.space.give(taken.index, Users::new(), List::Shared);
    }

    /// Frees a block. The operations `users` may still be using the block.
    pub(crate) fn give(&self, index: Index, users: Users) {
        let list = match &users[..] {
            [] => List::Shared,
            [only] => List::Lane(only.lane),
            _ => List::Mixed,
        };
        self.state().space.give(index, users, list);
    }

    /// The users of the oldest block in each of up to `most` lists of free blocks. The memory in
    /// these lists becomes available when the users are complete.
    pub(crate) fn awaited(&self, most: usize) -> Vec<Users> {
        self.state().space.awaited(most)
    }

    /// Makes blocks with complete users available again.
    pub(crate) fn retire(&self, is_done: impl Fn(Position) -> bool) {
        self.state().space.retire(is_done);
    }

    /// Takes a slab that has no block in use.
    pub(crate) fn take_idle(&self) -> Option<Memory> {
        let mut state = self.state();
        let SlabsState { space, slabs } = &mut *state;
        (0..).zip(slabs).find_map(|(range, slab)| {
            let granules = slab.as_ref()?.bytes() / GRANULE;
            let index = space.take_part(range, 0, granules)?;
            space.take_away(index);
            slab.take()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Result;
    use crate::base::id::LaneId;

    #[test]
    fn blocks_share_a_slab_and_return_when_their_users_are_complete() -> Result<()> {
        let slabs = Slabs::default();
        assert!(slabs.take(Bytes(1)).is_none());
        slabs.add(Memory::pageable(Bytes(1024))?);
        let blocks: Vec<_> = (0..4).filter_map(|_| slabs.take(Bytes(200))).collect();
        let addresses: Vec<u64> = blocks.iter().map(|(span, _)| span.address()).collect();
        assert!(addresses.windows(2).all(|pair| pair[1] - pair[0] == 256), "{addresses:?}");
        assert!(slabs.take(Bytes(1)).is_none(), "four blocks of 256 bytes fill the slab");
        let user = Position { lane: LaneId(3), seq: 7 };
        for (_, index) in &blocks {
            slabs.give(*index, Users::from_slice(&[user]));
        }
        assert!(slabs.take(Bytes(1)).is_none(), "the users may be pending");
        assert!(slabs.take_idle().is_none());
        assert_eq!(slabs.awaited(4), [Users::from_slice(&[user])]);
        slabs.retire(|other| other == user);
        let (whole, index) = slabs.take(Bytes(1024)).expect("the free blocks are one block again");
        assert_eq!(whole.address(), addresses[0]);
        assert!(slabs.take_idle().is_none(), "the slab has a block in use");
        slabs.give(index, Users::new());
        assert!(slabs.take_idle().is_some() && slabs.take_idle().is_none());
        assert_eq!(slabs.next_size(Bytes(1)), Bytes(SLAB_MIN));
        assert_eq!(slabs.next_size(Bytes(BLOCK_MAX)), Bytes(BLOCK_MAX));
        (0..3).try_for_each(|_| Memory::pageable(Bytes(3 << 18)).map(|slab| slabs.add(slab)))?;
        assert_eq!(slabs.next_size(Bytes(1)), Bytes(SLAB_MAX), "a new slab has at most this size");
        Ok(())
    }
}
