//! The blocks of a heap, by number. Each block knows its neighbours in memory and in the lists of
//! free blocks.
#![forbid(unsafe_code)]

use crate::base::id::{LaneId, Position, keep_latest};
use smallvec::SmallVec;
use std::ops;

/// The number of a block.
pub(crate) type Index = u32;
/// This number means that there is no block.
pub(super) const NONE: Index = u32::MAX;

/// The granule in bytes. The size of every block is a multiple of the granule.
pub(crate) const GRANULE: u64 = 256;

/// The operations that used memory last, with at most one operation per lane.
pub(crate) type Users = SmallVec<[Position; 2]>;

/// The state of the block with a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::heap) enum State {
    /// The block belongs to an allocation.
    Live,
    /// The block is free, in this list.
    Free(List),
    /// The block is a part of the range without memory.
    Hole,
    /// There is no block with this number.
    Unused,
}

/// The lists of free blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    /// All users of each block are complete.
    Shared,
    /// The lane follows all users of each block.
    Lane(LaneId),
    /// Each block has users in several lanes, and no lane follows all of these users.
    Mixed,
}

/// A block. It fills one cache line of the processor, because most steps of an allocation read
/// blocks that are not in the cache.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(in crate::heap) struct Node {
    pub(super) range: u32,
    /// The first granule, counted from the start of the range.
    pub(super) start: u64,
    pub(in crate::heap) granules: u64,
    pub(super) state: State,
    /// The neighbours of the block in its range.
    pub(super) before: Index,
    pub(super) after: Index,
    /// The neighbours of the block in its cell of [`Bins`](super::bins::Bins).
    pub(super) previous: Index,
    pub(super) next: Index,
    /// The neighbours of the block in its list of free blocks, which is sorted by key.
    pub(super) older: Index,
    pub(super) newer: Index,
}

/// The operations for which a free block waits. A block of the shared list waits for no operation.
#[derive(Debug, Clone, Default)]
pub(super) struct Wait {
    /// The users that may be pending.
    pub(super) users: Users,
    /// The key by which the list is sorted. In the list of a lane, the key is the sequence number
    /// of an operation of the lane. While this operation is not complete, a search examines no
    /// later block of the list.
    pub(super) key: u64,
    /// The value of `Space::frees` when this block was freed.
    pub(super) given: u64,
}

/// All blocks of a heap.
#[derive(Debug, Default)]
pub(in crate::heap) struct Nodes {
    nodes: Vec<Node>,
    waits: Vec<Wait>,
    /// Numbers that no block has. They can be assigned again.
    unused: Vec<Index>,
}

impl Nodes {
    /// Adds a block between two neighbours of the range.
    pub(super) fn add(
        &mut self,
        range: u32,
        start: u64,
        granules: u64,
        state: State,
        (before, after): (Index, Index),
    ) -> Index {
        let node = Node {
            range,
            start,
            granules,
            state,
            before,
            after,
            previous: NONE,
            next: NONE,
            older: NONE,
            newer: NONE,
        };
        let index = match self.unused.pop() {
            Some(index) => {
                self[index] = node;
                index
            }
            None => {
                self.nodes.push(node);
                self.waits.push(Wait::default());
                Index::try_from(self.nodes.len() - 1).expect("fewer than 2^32 blocks")
            }
        };
        if before != NONE {
            self[before].after = index;
        }
        if after != NONE {
            self[after].before = index;
        }
        index
    }

    /// Removes the last block of a range.
    pub(super) fn remove_last(&mut self, index: Index) {
        let before = self[index].before;
        if before != NONE {
            self[before].after = NONE;
        }
        self[index].state = State::Unused;
        self.unused.push(index);
    }

    /// Merges `index` into the block before it, which ends where `index` begins. Afterwards the
    /// number `index` is unused.
    pub(super) fn merge_into_before(&mut self, index: Index) -> Index {
        let Node { before, after, granules, .. } = self[index];
        self[before].granules += granules;
        self[before].after = after;
        if after != NONE {
            self[after].before = before;
        }
        self[index].state = State::Unused;
        self.unused.push(index);
        before
    }

    /// The operations for which a free block waits. The result is meaningless for a live block and
    /// for a block in the shared list.
    #[inline]
    pub(super) fn wait(&self, index: Index) -> &Wait {
        &self.waits[index as usize]
    }

    #[inline]
    pub(super) fn wait_mut(&mut self, index: Index) -> &mut Wait {
        &mut self.waits[index as usize]
    }

    /// Adds the operations for which `from` waits to the operations for which `into` waits.
    pub(super) fn join_waits(&mut self, into: Index, from: Index) {
        let Wait { users, key, given } = std::mem::take(self.wait_mut(from));
        let into = self.wait_mut(into);
        (into.key, into.given) = (into.key.max(key), into.given.max(given));
        for user in users {
            keep_latest(&mut into.users, user);
        }
    }
}

impl ops::Index<Index> for Nodes {
    type Output = Node;
    #[inline(always)]
    fn index(&self, index: Index) -> &Node {
        &self.nodes[index as usize]
    }
}

impl ops::IndexMut<Index> for Nodes {
    #[inline(always)]
    fn index_mut(&mut self, index: Index) -> &mut Node {
        &mut self.nodes[index as usize]
    }
}
