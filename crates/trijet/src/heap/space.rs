//! The free bytes of a heap. For each free block, a heap stores the operations that the next use of
//! the block must follow.
//!
//! A free block keeps the operations that used its bytes last. If one lane follows all of these
//! users, the block is in the list of that lane, which may use the block at once. When all users
//! are complete, the block moves to the shared list, which every lane may use. Neighbouring blocks
//! of one list are joined. An allocation also gets the users of its block, and its first write
//! follows the pending users. So a bad choice of a block costs a wait, but never the bytes of
//! another allocation.
//!
//! A space makes no call of a driver and takes no lock. The caller passes functions that answer
//! questions about lanes, for example whether an operation is complete.
#![forbid(unsafe_code)]

mod bins;
pub(super) mod nodes;
mod survey;
#[cfg(test)]
mod tests;

use crate::base::id::{LaneId, Position, keep_latest};
use bins::Bins;
use nodes::{GRANULE, Index, List, NONE, Node, Nodes, State, Users, Wait};

/// Maximum number of steps by which a freed block is moved back in the list of its lane, to the
/// position of its key. If the position is further back, the block gets the key of the block that
/// now precedes it.
const MOVED_BACK_MAX: usize = 32;
/// Maximum number of blocks with pending users that a search in a list skips.
const PASSED_MAX: usize = 8;

/// The blocks of a list.
#[derive(Debug)]
struct Free {
    bins: Bins,
    /// The first and the last block of the list, which is sorted by key.
    oldest: Index,
    newest: Index,
    granules: u64,
}

impl Default for Free {
    fn default() -> Self {
        Self { bins: Bins::default(), oldest: NONE, newest: NONE, granules: 0 }
    }
}

/// A range of addresses.
#[derive(Debug)]
struct Range {
    first: Index,
    last: Index,
}

/// The free and the live blocks of a heap.
#[derive(Debug, Default)]
pub(crate) struct Space {
    nodes: Nodes,
    ranges: Vec<Range>,
    shared: Free,
    mixed: Free,
    lanes: Vec<Option<Box<Free>>>,
    /// The number of calls that freed a block so far.
    frees: u64,
    live: u64,
    /// The number of granules in holes.
    holes: u64,
}

/// A free block that was taken for an allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) index: Index,
    pub(crate) range: u32,
    /// The first granule, counted from the start of the range.
    pub(crate) start: u64,
    pub(crate) granules: u64,
    /// The operations that the first write to the block must follow.
    pub(crate) users: Users,
}

impl Taken {
    /// The place of the first byte of the block: a number that no byte of another range of the heap
    /// has.
    pub(crate) fn place(&self) -> u64 {
        (u64::from(self.range) << 48) | (self.start * GRANULE)
    }
}

impl Space {
    /// Adds a range of addresses without memory. Returns the number of the range.
    pub(crate) fn add_range(&mut self) -> u32 {
        self.ranges.push(Range { first: NONE, last: NONE });
        u32::try_from(self.ranges.len() - 1).expect("fewer than 2^32 ranges")
    }

    /// Adds memory at the end of a range, as a live block.
    pub(crate) fn extend(&mut self, range: u32, granules: u64) -> Taken {
        let Range { last, .. } = self.ranges[range as usize];
        let start = if last == NONE { 0 } else { self.end(last) };
        let index = self.nodes.add(range, start, granules, State::Live, (last, NONE));
        let of = &mut self.ranges[range as usize];
        of.last = index;
        if of.first == NONE {
            of.first = index;
        }
        self.live += granules;
        self.taken(index, Users::new())
    }

    /// Removes the memory of a live block. A block at the end of its range is removed, and any
    /// other block becomes a hole.
    pub(crate) fn take_away(&mut self, index: Index) {
        self.live -= self.nodes[index].granules;
        self.holes += self.nodes[index].granules;
        self.nodes[index].state = State::Hole;
        let Node { before, after, range, .. } = self.nodes[index];
        if after != NONE && self.nodes[after].state == State::Hole {
            self.merge(after);
        }
        let mut index = index;
        if before != NONE && self.nodes[before].state == State::Hole {
            index = self.merge(index);
        }
        if self.nodes[index].after == NONE {
            let before = self.nodes[index].before;
            self.holes -= self.nodes[index].granules;
            self.nodes.remove_last(index);
            let of = &mut self.ranges[range as usize];
            of.last = before;
            if before == NONE {
                of.first = NONE;
            }
        }
    }

    /// Removes the memory of the last `granules` of a live block.
    pub(crate) fn take_end_away(&mut self, index: Index, granules: u64) {
        if granules == self.nodes[index].granules {
            return self.take_away(index);
        }
        let Node { range, after, .. } = self.nodes[index];
        self.nodes[index].granules -= granules;
        let start = self.end(index);
        let rest = self.nodes.add(range, start, granules, State::Live, (index, after));
        if after == NONE {
            self.ranges[range as usize].last = rest;
        }
        self.take_away(rest);
    }

    /// The size of the last block of a range in granules, if every lane may use the block.
    /// Otherwise 0.
    pub(crate) fn free_at_end(&self, range: u32) -> u64 {
        match self.ranges[range as usize].last {
            NONE => 0,
            last if self.nodes[last].state == State::Free(List::Shared) => {
                self.nodes[last].granules
            }
            _ => 0,
        }
    }

    /// The number of granules of a range up to the end of its last block.
    pub(crate) fn extent(&self, range: u32) -> u64 {
        match self.ranges[range as usize].last {
            NONE => 0,
            last => self.end(last),
        }
    }

    /// Takes a hole of at least `granules` within a range, in which memory can be mapped again. The
    /// hole becomes a live block of `granules`.
    pub(crate) fn take_hole(&mut self, granules: u64) -> Option<Taken> {
        if self.holes < granules {
            return None;
        }
        let holes = self.blocks().filter(|index| self.nodes[*index].state == State::Hole);
        let fits = holes.filter(|index| self.nodes[*index].granules >= granules);
        let index = fits.min_by_key(|index| self.nodes[*index].granules)?;
        let Node { range, start, before, .. } = self.nodes[index];
        self.live += granules;
        self.holes -= granules;
        if self.nodes[index].granules == granules {
            self.nodes[index].state = State::Live;
            return Some(self.taken(index, Users::new()));
        }
        self.nodes[index].start += granules;
        self.nodes[index].granules -= granules;
        let front = self.nodes.add(range, start, granules, State::Live, (before, index));
        self.set_first(range, front);
        Some(self.taken(front, Users::new()))
    }

    /// Takes a free block of at least `granules` that `lane` may use without a wait. It is a block
    /// in the list of the lane, or a block with complete users.
    #[inline]
    pub(crate) fn take(&mut self, lane: LaneId, granules: u64) -> Option<(Taken, Reuse)> {
        if let Some(Some(own)) = self.lanes.get(lane.0 as usize)
            && let Some(index) = own.bins.find(&self.nodes, granules)
        {
            return Some((self.split(index, granules), Reuse::Own));
        }
        Some((self.take_complete(granules)?, Reuse::Complete))
    }

    /// Takes a free block of at least `granules` with complete users.
    #[inline]
    pub(crate) fn take_complete(&mut self, granules: u64) -> Option<Taken> {
        let index = self.shared.bins.find(&self.nodes, granules)?;
        Some(self.split(index, granules))
    }

    /// Takes a free block from the list of any lane or from the mixed list, if `follows` returns
    /// true for all of its users. Examines at most `most` blocks.
    pub(crate) fn take_following(
        &mut self,
        granules: u64,
        most: usize,
        follows: impl Fn(Position) -> bool,
    ) -> Option<Taken> {
        let lanes = self.lanes.iter().flatten().map(|free| &**free);
        let lists = lanes.chain([&self.mixed]).filter(|free| free.oldest != NONE);
        let blocks = lists.flat_map(|free| free.bins.fitting(&self.nodes, granules)).take(most);
        let fits = |index: &Index| self.nodes.wait(*index).users.iter().all(|user| follows(*user));
        let index = { blocks }.find(fits)?;
        Some(self.split(index, granules))
    }

    /// Takes neighbouring free blocks that have at least `granules` together. The blocks may be in
    /// different lists. A sequence of blocks counts as freed when its last live block was freed. Of
    /// several sequences, takes the sequence that was freed first.
    pub(crate) fn take_any(&mut self, granules: u64) -> Option<Taken> {
        let run = |first: Index| {
            let (mut last, mut found, mut given) = (first, 0, 0);
            loop {
                let node = &self.nodes[last];
                let State::Free(list) = node.state else { return None };
                found += node.granules;
                if list != List::Shared {
                    given = self.nodes.wait(last).given.max(given);
                }
                if found >= granules {
                    return Some((given, first, last, found - granules));
                }
                last = (node.after != NONE).then_some(node.after)?;
            }
        };
        let (_, first, last, rest) = self.blocks().filter_map(run).min()?;
        let mut at = first;
        let mut all: Option<Taken> = None;
        loop {
            let wanted = self.nodes[at].granules - if at == last { rest } else { 0 };
            let after = self.nodes[at].after;
            let part = self.split(at, wanted);
            all = Some(match all {
                None => part,
                Some(mut all) => {
                    self.merge(part.index);
                    all.granules += part.granules;
                    part.users.iter().for_each(|user| keep_latest(&mut all.users, *user));
                    all
                }
            });
            if at == last {
                break;
            }
            at = after;
        }
        all
    }

    /// Frees a live block. The operations `users` used the block last.
    pub(crate) fn give(&mut self, index: Index, users: Users, list: List) {
        self.live -= self.nodes[index].granules;
        self.frees += 1;
        if list != List::Shared {
            let key = users.iter().map(|user| match list {
                List::Lane(lane) if user.lane == lane => user.seq,
                List::Lane(_) | List::Shared | List::Mixed => 0,
            });
            let key = key.max().unwrap_or(0);
            *self.nodes.wait_mut(index) = Wait { users, key, given: self.frees };
        }
        self.join_list(index, list);
    }

    /// Moves the blocks with only complete users to the shared list.
    pub(crate) fn retire(&mut self, is_done: impl Fn(Position) -> bool) {
        for lane in 0..u32::try_from(self.lanes.len()).unwrap_or(u32::MAX) {
            self.retire_list(List::Lane(LaneId(lane)), &is_done);
        }
        self.retire_list(List::Mixed, &is_done);
    }

    fn retire_list(&mut self, list: List, is_done: &impl Fn(Position) -> bool) {
        let Some(free) = self.list(list) else { return };
        let (mut at, mut passed) = (free.oldest, 0);
        while at != NONE && passed < PASSED_MAX {
            let Node { newer, .. } = self.nodes[at];
            let Wait { users, key, .. } = self.nodes.wait(at);
            let key = *key;
            if users.iter().all(|user| is_done(*user)) {
                self.leave_list(at);
                // The block can be joined only with neighbours in the shared list. So `newer` stays
                // valid.
                self.join_list(at, List::Shared);
            } else {
                match list {
                    List::Lane(lane) if !is_done(Position { lane, seq: key }) => return,
                    List::Lane(_) | List::Mixed | List::Shared => passed += 1,
                }
            }
            at = newer;
        }
    }

    /// Takes a part of a shared block, so that the memory of the part can be unmapped. The part has
    /// `granules` granules, beginning at the granule `start` of the range. `None` if these granules
    /// are not all in one shared block.
    pub(crate) fn take_part(&mut self, range: u32, start: u64, granules: u64) -> Option<Index> {
        let blocks = self.blocks_of(range);
        let covers = |index: &Index| {
            self.nodes[*index].start <= start && self.end(*index) >= start + granules
        };
        let index = blocks
            .filter(covers)
            .find(|index| matches!(self.nodes[*index].state, State::Free(List::Shared)))?;
        let skipped = start - self.nodes[index].start;
        let front = (skipped > 0).then(|| self.split(index, skipped).index);
        let index = match front {
            Some(front) => self.nodes[front].after,
            None => index,
        };
        let part = self.split(index, granules).index;
        if let Some(front) = front {
            self.live -= skipped;
            self.join_list(front, List::Shared);
        }
        Some(part)
    }

    /// Takes the first `granules` of a free block. The rest of the block stays in its list.
    #[inline]
    fn split(&mut self, index: Index, granules: u64) -> Taken {
        self.live += granules;
        let Node { range, start, before, state, granules: whole, .. } = self.nodes[index];
        let State::Free(list) = state else { unreachable!("block {index} is free") };
        let users = match list {
            List::Shared => Users::new(),
            List::Lane(_) | List::Mixed => self.nodes.wait(index).users.clone(),
        };
        if whole == granules {
            self.leave_list(index);
            self.nodes[index].state = State::Live;
            return self.taken(index, users);
        }
        let Self { nodes, shared, mixed, lanes, .. } = self;
        let free = list_of(shared, mixed, lanes, list);
        free.bins.remove(nodes, index);
        nodes[index].start += granules;
        nodes[index].granules -= granules;
        free.bins.insert(nodes, index);
        free.granules -= granules;
        let front = nodes.add(range, start, granules, State::Live, (before, index));
        self.set_first(range, front);
        self.taken(front, users)
    }

    /// Makes this block the first block of the range, if no block precedes it.
    fn set_first(&mut self, range: u32, index: Index) {
        if self.nodes[index].before == NONE {
            self.ranges[range as usize].first = index;
        }
    }

    /// Merges a block into the previous block. Returns the number of that block.
    fn merge(&mut self, index: Index) -> Index {
        let (range, is_last) = (self.nodes[index].range, self.nodes[index].after == NONE);
        let before = self.nodes.merge_into_before(index);
        if is_last {
            self.ranges[range as usize].last = before;
        }
        before
    }

    /// Adds a block to a list, and joins it with its neighbours of the same list.
    fn join_list(&mut self, index: Index, list: List) {
        let mut index = index;
        let Node { before, after, .. } = self.nodes[index];
        // Blocks of the mixed list have users in several lanes. They are not joined, because the
        // users of two blocks are complete at different times.
        if list != List::Mixed {
            if after != NONE && self.nodes[after].state == State::Free(list) {
                self.leave_list(after);
                self.join_waits(list, index, after);
                self.merge(after);
            }
            if before != NONE && self.nodes[before].state == State::Free(list) {
                self.leave_list(before);
                self.join_waits(list, before, index);
                index = self.merge(index);
            }
        }
        let Self { nodes, shared, mixed, lanes, .. } = self;
        if let List::Lane(lane) = list
            && lanes.len() <= lane.0 as usize
        {
            lanes.resize_with(lane.0 as usize + 1, || None);
        }
        let free = list_of(shared, mixed, lanes, list);
        nodes[index].state = State::Free(list);
        free.granules += nodes[index].granules;
        free.bins.insert(nodes, index);
        if list != List::Shared {
            sort_in(nodes, free, index);
        }
    }

    fn join_waits(&mut self, list: List, into: Index, from: Index) {
        if list != List::Shared {
            self.nodes.join_waits(into, from);
        }
    }

    /// Removes a free block from its list.
    #[inline]
    fn leave_list(&mut self, index: Index) {
        let State::Free(list) = self.nodes[index].state else { return };
        let Self { nodes, shared, mixed, lanes, .. } = self;
        let free = list_of(shared, mixed, lanes, list);
        free.bins.remove(nodes, index);
        free.granules -= nodes[index].granules;
        if list == List::Shared {
            return;
        }
        let Node { older, newer, .. } = nodes[index];
        match older {
            NONE => free.oldest = newer,
            _ => nodes[older].newer = newer,
        }
        match newer {
            NONE => free.newest = older,
            _ => nodes[newer].older = older,
        }
    }

    fn list(&self, list: List) -> Option<&Free> {
        match list {
            List::Shared => Some(&self.shared),
            List::Mixed => Some(&self.mixed),
            List::Lane(lane) => self.lanes.get(lane.0 as usize)?.as_deref(),
        }
    }

    fn end(&self, index: Index) -> u64 {
        self.nodes[index].start + self.nodes[index].granules
    }

    /// All blocks, including holes, range by range.
    fn blocks(&self) -> impl Iterator<Item = Index> + '_ {
        (0..).take(self.ranges.len()).flat_map(|range| self.blocks_of(range))
    }

    fn blocks_of(&self, range: u32) -> impl Iterator<Item = Index> + '_ {
        let some = |index: Index| (index != NONE).then_some(index);
        let first = some(self.ranges[range as usize].first);
        std::iter::successors(first, move |index| some(self.nodes[*index].after))
    }

    fn taken(&self, index: Index, users: Users) -> Taken {
        let Node { range, start, granules, .. } = self.nodes[index];
        Taken { index, range, start, granules, users }
    }
}

#[cfg(test)]
impl Space {
    /// Checks the links and the sums of all lists.
    pub(crate) fn check(&self) {
        let (mut live, mut holes) = (0, 0);
        let mut by_list = std::collections::BTreeMap::<String, u64>::new();
        for (number, range) in (0..).zip(&self.ranges) {
            let (mut end, mut before, mut last) = (0, NONE, State::Live);
            for index in self.blocks_of(number) {
                let node = &self.nodes[index];
                assert_eq!((node.range, node.start, node.before), (number, end, before));
                let joins =
                    matches!(node.state, State::Free(List::Shared | List::Lane(_)) | State::Hole);
                assert!(!joins || before == NONE || last != node.state, "{node:?} is not joined");
                match node.state {
                    State::Live => live += node.granules,
                    State::Free(list) => {
                        *by_list.entry(format!("{list:?}")).or_default() += node.granules
                    }
                    State::Hole => {
                        holes += node.granules;
                        assert_ne!(node.after, NONE, "a range ends with memory");
                    }
                    State::Unused => panic!("{node:?} is in a range"),
                }
                (end, before, last) = (end + node.granules, index, node.state);
            }
            assert_eq!(range.last, before);
        }
        assert_eq!((live, holes), (self.live, self.holes));
        let lanes = self.lanes.iter().enumerate();
        let lanes = lanes.filter_map(|(lane, free)| {
            Some((List::Lane(LaneId(u32::try_from(lane).expect("few"))), &**free.as_ref()?))
        });
        for (list, free) in lanes.chain([(List::Shared, &self.shared), (List::Mixed, &self.mixed)])
        {
            let held = by_list.remove(&format!("{list:?}")).unwrap_or(0);
            assert_eq!(held, free.granules, "{list:?}");
            let binned: u64 =
                free.bins.fitting(&self.nodes, 0).map(|index| self.nodes[index].granules).sum();
            assert_eq!(held, binned, "{list:?}");
            let some = |index: Index| (index != NONE).then_some(index);
            let order =
                std::iter::successors(some(free.oldest), |index| some(self.nodes[*index].newer));
            let order: Vec<Index> = order.collect();
            assert!(order.is_sorted_by_key(|index| self.nodes.wait(*index).key), "{list:?}");
            let sum: u64 = order.iter().map(|index| self.nodes[*index].granules).sum();
            assert_eq!(sum, if list == List::Shared { 0 } else { held }, "{list:?}");
        }
        assert!(by_list.is_empty());
    }
}

/// How an allocation could use its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Reuse {
    /// The lane of the allocation follows all users of the memory.
    Own,
    /// All users of the memory were known to be complete.
    Complete,
    /// The lane of the allocation follows all users of the memory, because the lane has waited for
    /// the users in other lanes.
    Following,
    /// A query found the users of the memory complete.
    Queried,
    /// The first write of the allocation waits for users of the memory.
    Awaiting,
    /// The memory is new: no operation had used it.
    New,
}

fn list_of<'a>(
    shared: &'a mut Free,
    mixed: &'a mut Free,
    lanes: &'a mut [Option<Box<Free>>],
    list: List,
) -> &'a mut Free {
    match list {
        List::Shared => shared,
        List::Mixed => mixed,
        List::Lane(lane) => lanes[lane.0 as usize].get_or_insert_default(),
    }
}

/// Adds a block to the list at the position of its key.
fn sort_in(nodes: &mut Nodes, free: &mut Free, index: Index) {
    let mut older = free.newest;
    let key = nodes.wait(index).key;
    if free.oldest != NONE && key <= nodes.wait(free.oldest).key {
        older = NONE;
    }
    let mut moved = 0;
    while older != NONE && nodes.wait(older).key > key {
        if moved == MOVED_BACK_MAX {
            // With this key, the block waits for a later operation than necessary.
            nodes.wait_mut(index).key = nodes.wait(older).key;
            break;
        }
        moved += 1;
        older = nodes[older].older;
    }
    let newer = if older == NONE { free.oldest } else { nodes[older].newer };
    (nodes[index].older, nodes[index].newer) = (older, newer);
    match older {
        NONE => free.oldest = index,
        _ => nodes[older].newer = index,
    }
    match newer {
        NONE => free.newest = index,
        _ => nodes[newer].older = index,
    }
}
