//! A survey of a space: the free memory, the operations for which the free memory waits, and the
//! block that waits the longest.
#![forbid(unsafe_code)]

use super::Space;
use super::nodes::{Index, List, NONE, State, Users};
use crate::base::id::{LaneId, Position};

impl Space {
    /// The size of all live blocks, in granules.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    /// The size of the free blocks that every lane may use, in granules.
    pub(crate) fn shared(&self) -> u64 {
        self.shared.granules
    }

    /// The lanes that have free blocks in their lists. Each lane comes with the size of these
    /// blocks in granules.
    pub(crate) fn of_lanes(&self) -> impl Iterator<Item = (LaneId, u64)> + '_ {
        let lanes = (0..).zip(&self.lanes);
        let held = lanes.filter_map(|(lane, free)| Some((LaneId(lane), free.as_ref()?.granules)));
        held.filter(|(_, granules)| *granules > 0)
    }

    /// The size of the free blocks with users in several lanes, in granules. No lane follows all of
    /// these users.
    pub(crate) fn mixed(&self) -> u64 {
        self.mixed.granules
    }

    /// The size of all free blocks, in granules.
    pub(crate) fn free(&self) -> u64 {
        self.shared() + self.mixed() + self.of_lanes().map(|(_, granules)| granules).sum::<u64>()
    }

    /// The size of the largest free block, in granules.
    pub(crate) fn largest(&self) -> u64 {
        let lanes = self.lanes.iter().flatten().map(|free| &**free);
        let lists = [&self.shared, &self.mixed].into_iter().chain(lanes);
        lists.map(|free| free.bins.largest(&self.nodes)).max().unwrap_or(0)
    }

    /// The users of the oldest block in each of up to `most` lists. The shared list is left out,
    /// and the lists with the most memory come first.
    pub(crate) fn awaited(&self, most: usize) -> Vec<Users> {
        let lanes = self.lanes.iter().flatten().map(|free| &**free);
        let lists = lanes.chain([&self.mixed]).filter(|free| free.oldest != NONE);
        let mut lists: Vec<_> = lists.map(|free| (free.granules, free.oldest)).collect();
        lists.sort_unstable_by_key(|(granules, _)| std::cmp::Reverse(*granules));
        lists.iter().take(most).map(|(_, oldest)| self.nodes.wait(*oldest).users.clone()).collect()
    }

    /// Among the free blocks with a `pending` user, the users of the block that was freed first.
    pub(crate) fn earliest_freed(&self, pending: impl Fn(&Position) -> bool) -> Option<Users> {
        let waits = |at: &Index| {
            matches!(self.nodes[*at].state, State::Free(List::Lane(_) | List::Mixed))
                && self.nodes.wait(*at).users.iter().any(&pending)
        };
        let index = self.blocks().filter(waits).min_by_key(|at| self.nodes.wait(*at).given)?;
        Some(self.nodes.wait(index).users.clone())
    }

    /// The size of the longest sequence of neighbouring free blocks, in granules. The blocks may be
    /// in different lists.
    pub(crate) fn longest_run(&self) -> u64 {
        let mut runs = vec![0];
        for index in self.blocks() {
            let node = &self.nodes[index];
            if node.before == NONE || !matches!(node.state, State::Free(_)) {
                runs.push(0);
            }
            if let (State::Free(_), Some(run)) = (node.state, runs.last_mut()) {
                *run += node.granules;
            }
        }
        runs.into_iter().max().unwrap_or(0)
    }

    /// Whether no live block uses a part of a range: the `granules` granules that begin at the
    /// granule `start`.
    pub(crate) fn is_free(&self, range: u32, start: u64, granules: u64) -> bool {
        let within =
            |index: &Index| self.nodes[*index].start < start + granules && self.end(*index) > start;
        let mut blocks = self.blocks_of(range).filter(within);
        blocks.all(|index| matches!(self.nodes[index].state, State::Free(_)))
    }
}
