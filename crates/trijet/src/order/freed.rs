//! The order of freed memory: from the users of a free block follows which lanes may use it at once.
#![forbid(unsafe_code)]

use super::domain::Domain;
use crate::heap::{Heap, Index, List, State, Users};
use std::sync::MutexGuard;

impl Domain {
    /// Takes the lock of a heap, with the blocks that other threads returned meanwhile in their lists.
    #[inline]
    pub(crate) fn lock_heap<'h>(&self, heap: &'h Heap) -> MutexGuard<'h, State> {
        heap.lock(|users| self.list(users))
    }

    /// Frees a block of a heap that `users` used, without waiting for another thread.
    #[inline]
    pub(crate) fn give_to_heap(&self, heap: &Heap, index: Index, users: Users) {
        heap.give(index, users, |users| self.list(users));
    }

    /// The list of a free block with these users, of which those that are complete are removed.
    fn list(&self, users: &mut Users) -> List {
        users.retain(|user| !self.is_done(*user));
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
