//! A survey of a space: how much is free, for which operations it waits, and which block waits the longest.
#![forbid(unsafe_code)]

use super::super::nodes::{Index, List, NONE, State, Users};
use super::Space;
use crate::base::id::{LaneId, Position};

impl Space {
    /// The granules of live blocks.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    /// The granules of the free blocks that every lane may use.
    pub(crate) fn shared(&self) -> u64 {
        self.shared.granules
    }

    /// The lanes that have free blocks of their own, each with its granules.
    pub(crate) fn of_lanes(&self) -> impl Iterator<Item = (LaneId, u64)> + '_ {
        let lanes = (0..).zip(&self.lanes);
        let held = lanes.filter_map(|(lane, free)| Some((LaneId(lane), free.as_ref()?.granules)));
        held.filter(|(_, granules)| *granules > 0)
    }

    /// The granules of free blocks with users in several lanes, of which none comes after the others.
    pub(crate) fn mixed(&self) -> u64 {
        self.mixed.granules
    }

    /// The granules of all free blocks.
    pub(crate) fn free(&self) -> u64 {
        self.shared() + self.mixed() + self.of_lanes().map(|(_, granules)| granules).sum::<u64>()
    }

    /// The granules of the largest free block.
    pub(crate) fn largest(&self) -> u64 {
        let lanes = self.lanes.iter().flatten().map(|free| &**free);
        let lists = [&self.shared, &self.mixed].into_iter().chain(lanes);
        lists.map(|free| free.bins.largest(&self.nodes)).max().unwrap_or(0)
    }

    /// The users of the block that waits the longest, for each of up to `most` lists other than the shared one: the lists
    /// with the most memory.
    pub(crate) fn awaited(&self, most: usize) -> Vec<Users> {
        let lanes = self.lanes.iter().flatten().map(|free| &**free);
        let lists = lanes.chain([&self.mixed]).filter(|free| free.oldest != NONE);
        let mut lists: Vec<_> = lists.map(|free| (free.granules, free.oldest)).collect();
        lists.sort_unstable_by_key(|(granules, _)| std::cmp::Reverse(*granules));
        lists.iter().take(most).map(|(_, oldest)| self.nodes.wait(*oldest).users.clone()).collect()
    }

    /// The users of the free block whose last free is the longest ago, of those with a user that is `pending`.
    pub(crate) fn earliest_freed(&self, pending: impl Fn(&Position) -> bool) -> Option<Users> {
        let waits = |at: &Index| {
            matches!(self.nodes[*at].state, State::Free(List::Lane(_) | List::Mixed))
                && self.nodes.wait(*at).users.iter().any(&pending)
        };
        let index = self.blocks().filter(waits).min_by_key(|at| self.nodes.wait(*at).given)?;
        Some(self.nodes.wait(index).users.clone())
    }

    /// The granules of the longest run of free blocks of any lists.
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

    /// Whether no live block uses a part of a range.
    pub(crate) fn is_free(&self, range: u32, start: u64, granules: u64) -> bool {
        let within =
            |index: &Index| self.nodes[*index].start < start + granules && self.end(*index) > start;
        let mut blocks = self.blocks_of(range).filter(within);
        blocks.all(|index| matches!(self.nodes[index].state, State::Free(_)))
    }
}
