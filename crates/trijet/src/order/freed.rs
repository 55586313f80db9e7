//! The order of freed memory: the users of a free block decide which lanes may use the block
//! without a wait.
#![forbid(unsafe_code)]

use super::domain::Domain;
use super::track::SLOTS;
use crate::base::id::{LaneId, Position};
use crate::heap::{Heap, HeapMode, Index, Kept, List, State, Users};
use crate::log::thread;
use std::sync::MutexGuard;

impl Domain {
    /// Takes the lock of a heap. Then frees the blocks that other threads left because the heap was
    /// locked.
    #[inline]
    pub(crate) fn lock_heap<'h>(&self, heap: &'h Heap) -> MutexGuard<'h, State> {
        let mut state = heap.lock();
        self.take_left(heap, &mut state);
        state
    }

    /// Frees the block `index` of a heap. `users` are the operations that used the block. If
    /// another thread has locked the heap, leaves the block for the next thread that locks the
    /// heap, and does not wait.
    #[inline]
    pub(crate) fn give_to_heap(&self, heap: &Heap, index: Index, users: Users) {
        let Some((mut state, users)) = heap.lock_or_leave(index, users) else { return };
        self.add_free(heap, &mut state, index, users);
        self.take_left(heap, &mut state);
    }

    /// Frees the blocks that other threads left because the heap was locked, if there are any.
    #[inline]
    fn take_left(&self, heap: &Heap, state: &mut State) {
        if heap.has_left() {
            let left = heap.take_left().into_iter();
            left.for_each(|(index, users)| self.add_free(heap, state, index, users));
        }
    }

    /// Frees a block. The users of the block decide which lanes may use the block without a wait:
    /// one lane, all lanes, or none.
    #[inline]
    fn add_free(&self, heap: &Heap, state: &mut State, index: Index, mut users: Users) {
        let list = self.list(heap.mode(), &mut users);
        state.space.give(index, users, list);
    }

    /// Removes the complete users from `users`. Returns whether `lane` may keep a freed block that
    /// has the remaining users.
    #[inline]
    pub(crate) fn may_keep(&self, mode: HeapMode, lane: LaneId, users: &mut Users) -> bool {
        mode == HeapMode::Speed
            && match self.list(mode, users) {
                List::Shared => true,
                List::Lane(last) => last == lane && users.len() <= SLOTS,
                List::Mixed => false,
            }
    }

    /// Returns to the heap a block that a lane kept.
    pub(crate) fn give_kept_to_heap(&self, heap: &Heap, Kept { owner, .. }: &Kept) {
        self.give_to_heap(heap, owner.number(), owner.users());
    }

    /// Returns to the heap all blocks that lanes keep.
    pub(crate) fn gather_in_heap(&self, heap: &Heap) {
        let gathered = heap.gather();
        gathered.blocks.iter().for_each(|kept| self.give_kept_to_heap(heap, kept));
    }

    /// Whether `user` counts as complete. A heap hands out memory again when all users of the
    /// memory count as complete.
    #[inline]
    pub(crate) fn counts_as_done(&self, mode: HeapMode, user: Position) -> bool {
        mode.asks_for_completion() && self.is_done(user)
    }

    /// Moves each free block to the shared list of the heap if all users of the block are complete.
    pub(crate) fn retire_in_heap(&self, heap: &Heap, state: &mut State) {
        if heap.mode().asks_for_completion() {
            state.space.retire(|user| self.is_done(user));
        } else {
            // A heap in this mode gives the same addresses in each run. The completion of work
            // depends on timing. But in each run, the program has waited for the same work.
            thread::with_known(self.id(), |known| state.space.retire(|user| known.covers(user)));
        }
    }

    /// Removes the complete users from `users`. Returns the list of the heap for a free block that
    /// has the remaining users.
    fn list(&self, mode: HeapMode, users: &mut Users) -> List {
        users.retain(|user| !self.counts_as_done(mode, *user));
        match &users[..] {
            [] => List::Shared,
            [only] => List::Lane(only.lane),
            several => {
                let follows = |lane| self.lane(lane).covers(several);
                let last = several.iter().map(|user| user.lane).find(|lane| follows(*lane));
                last.map_or(List::Mixed, List::Lane)
            }
        }
    }
}
