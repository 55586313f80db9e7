//! Compares a heap with a list of all granules, each with its users.
#![forbid(unsafe_code)]

use super::nodes::{List, Users};
use super::{Space, Taken};
use crate::base::id::{LaneId, Position};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

const LANES: u32 = 3;

/// One step of a random program. The numbers in a step choose among the values that are possible.
#[derive(Debug, Clone)]
enum Step {
    Extend { new_range: bool, granules: u64 },
    Take { lane: u32, granules: u64 },
    TakeFollowing { granules: u64, known: [u64; LANES as usize] },
    TakeAny { granules: u64 },
    Give { which: usize, users: Vec<(u32, u64)>, list: usize },
    Retire { done: [u64; LANES as usize] },
    TakeAway { which: usize },
    TakeHole { granules: u64 },
    TakePart { range: usize, start: u64, granules: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let granules = || prop_oneof![1u64..6, 1u64..90];
    let lane = || 0..LANES;
    let clock = || [0u64..40, 0..40, 0..40];
    prop_oneof![
        1 => (any::<bool>(), 1u64..200).prop_map(|(new_range, granules)| Step::Extend { new_range, granules }),
        6 => (lane(), granules()).prop_map(|(lane, granules)| Step::Take { lane, granules }),
        2 => (granules(), clock()).prop_map(|(granules, known)| Step::TakeFollowing { granules, known }),
        2 => granules().prop_map(|granules| Step::TakeAny { granules }),
        8 => (any::<prop::sample::Index>(), vec((lane(), 1u64..40), 0..3), 0usize..3)
            .prop_map(|(which, users, list)| Step::Give { which: which.index(1 << 20), users, list }),
        2 => clock().prop_map(|done| Step::Retire { done }),
        1 => (0usize..1 << 20).prop_map(|which| Step::TakeAway { which }),
        1 => granules().prop_map(|granules| Step::TakeHole { granules }),
        1 => (0usize..4, 0u64..200, granules())
            .prop_map(|(range, start, granules)| Step::TakePart { range, start, granules }),
    ]
}

/// The state of a granule.
#[derive(Debug, Clone, PartialEq)]
enum Granule {
    Live(u32),
    /// The last incomplete user of the granule in each lane. The key is the number of the lane.
    /// Without users, every lane may use the granule at once.
    Free(BTreeMap<u32, u64>),
    Hole,
}

/// Granules as indices.
fn indices(start: u64, granules: u64) -> std::ops::Range<usize> {
    let index = |granule| usize::try_from(granule).expect("few");
    index(start)..index(start + granules)
}

/// All granules, range by range.
#[derive(Default)]
struct Model {
    ranges: Vec<Vec<Granule>>,
    live: Vec<Taken>,
}

impl Model {
    /// Registers a block that was taken, and checks that the block names all users of its granules.
    fn took(&mut self, taken: Taken, from_memory: bool) {
        let number = taken.range as usize;
        let at = indices(taken.start, taken.granules);
        if self.ranges[number].len() < at.end {
            assert_eq!(self.ranges[number].len(), at.start, "a range grows at its end");
            self.ranges[number].resize(at.end, Granule::Hole);
        }
        for granule in &mut self.ranges[number][at] {
            match granule {
                Granule::Live(_) => panic!("the bytes of a live block were given again: {taken:?}"),
                Granule::Hole => assert!(!from_memory, "{taken:?} has no memory"),
                Granule::Free(users) => {
                    assert!(from_memory, "{taken:?} has memory already");
                    for (lane, seq) in users {
                        let named = taken.users.iter().find(|user| user.lane.0 == *lane);
                        assert!(
                            named.is_some_and(|user| user.seq >= *seq),
                            "{taken:?}: {lane} {seq}"
                        );
                    }
                }
            }
            *granule = Granule::Live(taken.index);
        }
        self.live.push(taken);
    }

    fn set(&mut self, block: &Taken, to: &Granule) {
        let at = indices(block.start, block.granules);
        for granule in &mut self.ranges[block.range as usize][at] {
            assert_eq!(*granule, Granule::Live(block.index));
            *granule = to.clone();
        }
    }

    fn any_live(&mut self, which: usize) -> Option<Taken> {
        let count = self.live.len();
        (count > 0).then(|| self.live.swap_remove(which % count))
    }

    /// The length of the longest sequence of free granules.
    fn longest(&self) -> u64 {
        let runs = self.ranges.iter().flat_map(|range| {
            range.split(|granule| !matches!(granule, Granule::Free(_))).map(<[_]>::len)
        });
        runs.max().unwrap_or(0) as u64
    }

    fn free(&self) -> u64 {
        let all = self.ranges.iter().flatten();
        all.filter(|granule| matches!(granule, Granule::Free(_))).count() as u64
    }
}

struct Pair {
    space: Space,
    model: Model,
    done: [u64; LANES as usize],
}

impl Pair {
    fn run(&mut self, step: Step) {
        match step {
            Step::Extend { new_range, granules } => self.extend(new_range, granules),
            Step::Take { lane, granules } => {
                if let Some((taken, _)) = self.space.take(LaneId(lane), granules) {
                    self.took(taken, granules, true);
                }
            }
            Step::TakeFollowing { granules, known } => {
                let follows = |user: Position| known[user.lane.0 as usize] >= user.seq;
                if let Some(taken) = self.space.take_following(granules, 8, follows) {
                    assert!(taken.users.iter().all(|user| follows(*user)), "{taken:?}");
                    self.took(taken, granules, true);
                }
            }
            Step::TakeAny { granules } => {
                let longest = self.model.longest();
                let taken = self.space.take_any(granules);
                assert_eq!(taken.is_some(), longest >= granules, "{granules} of {longest}");
                if let Some(taken) = taken {
                    self.took(taken, granules, true);
                }
            }
            Step::Give { which, users, list } => self.give(which, users, list),
            Step::Retire { done } => self.retire(done),
            Step::TakeAway { which } => {
                if let Some(block) = self.model.any_live(which) {
                    self.model.set(&block, &Granule::Hole);
                    self.space.take_away(block.index);
                }
            }
            Step::TakeHole { granules } => {
                if let Some(taken) = self.space.take_hole(granules) {
                    self.took(taken, granules, false);
                }
            }
            Step::TakePart { range, start, granules } => self.take_part(range, start, granules),
        }
    }

    fn took(&mut self, taken: Taken, granules: u64, from_memory: bool) {
        assert_eq!(taken.granules, granules);
        self.model.took(taken, from_memory);
    }

    fn extend(&mut self, new_range: bool, granules: u64) {
        let Self { space, model, .. } = self;
        if new_range && model.ranges.len() < 4 || model.ranges.is_empty() {
            space.add_range();
            model.ranges.push(Vec::new());
        }
        let last = u32::try_from(model.ranges.len() - 1).expect("few");
        let len = indices(0, space.extent(last)).end;
        model.ranges[last as usize].truncate(len);
        let taken = space.extend(last, granules);
        model.took(taken, false);
    }

    fn give(&mut self, which: usize, users: Vec<(u32, u64)>, list: usize) {
        let Some(block) = self.model.any_live(which) else { return };
        let mut all = BTreeMap::new();
        for (lane, seq) in users {
            if self.done[lane as usize] < seq {
                let last = all.entry(lane).or_insert(0);
                *last = seq.max(*last);
            }
        }
        let position = |(lane, seq): (&u32, &u64)| Position { lane: LaneId(*lane), seq: *seq };
        let users: Users = all.iter().map(position).collect();
        let list = match users.get(list) {
            _ if users.is_empty() => List::Shared,
            Some(user) => List::Lane(user.lane),
            None => List::Mixed,
        };
        self.model.set(&block, &Granule::Free(all));
        self.space.give(block.index, users, list);
    }

    fn retire(&mut self, more: [u64; LANES as usize]) {
        let Self { space, model, done } = self;
        for (done, more) in done.iter_mut().zip(more) {
            *done = (*done).max(more);
        }
        space.retire(|user| done[user.lane.0 as usize] >= user.seq);
        for granule in model.ranges.iter_mut().flatten() {
            if let Granule::Free(users) = granule {
                users.retain(|lane, seq| done[*lane as usize] < *seq);
            }
        }
    }

    fn take_part(&mut self, range: usize, start: u64, granules: u64) {
        let Self { space, model, .. } = self;
        if range >= model.ranges.len() {
            return;
        }
        let number = u32::try_from(range).expect("few");
        if let Some(index) = space.take_part(number, start, granules) {
            let users = Users::new();
            let all = &model.ranges[range][indices(start, granules)];
            let none = Granule::Free(BTreeMap::new());
            assert!(all.iter().all(|granule| *granule == none), "a user may be pending");
            model.took(Taken { index, range: number, start, granules, users }, true);
        }
    }

    fn agree(&self) {
        self.space.check();
        let live: u64 = self.model.live.iter().map(|block| block.granules).sum();
        assert_eq!((self.space.live(), self.space.free()), (live, self.model.free()));
        assert!(self.space.largest() <= self.model.longest());
    }
}

proptest! {
    /// No memory is given out twice, and every block names the users of its bytes that may be
    /// pending. A request fails only if there is no contiguous free memory of its size.
    #[test]
    fn a_block_is_given_once_and_with_all_of_its_pending_users(steps in vec(step(), 1..120)) {
        let mut pair =
            Pair { space: Space::default(), model: Model::default(), done: [0; LANES as usize] };
        for step in steps {
            pair.run(step);
            pair.agree();
        }
    }
}

/// Freed blocks of one list become one block again.
#[test]
fn memory_that_is_all_free_is_one_block() {
    let mut space = Space::default();
    let range = space.add_range();
    let whole = space.extend(range, 1000);
    space.give(whole.index, Users::new(), List::Shared);
    let mut blocks: Vec<Taken> = Vec::new();
    while let Some((taken, _)) = space.take(LaneId(0), 7) {
        blocks.push(taken);
    }
    assert_eq!((blocks.len(), space.free()), (142, 6));
    for step in [3, 2, 1] {
        let mut kept = Vec::new();
        for (number, block) in blocks.into_iter().enumerate() {
            if number % step == 0 {
                space.give(block.index, Users::new(), List::Shared);
            } else {
                kept.push(block);
            }
        }
        blocks = kept;
        space.check();
    }
    assert_eq!((space.largest(), space.live()), (1000, 0));
}

/// A block goes to the shared list when its last user is complete, in any order of frees.
///
#[test]
fn every_complete_block_is_shared_whatever_the_order_of_frees() {
    let (mut space, count) = (Space::default(), 500);
    let range = space.add_range();
    let blocks: Vec<Taken> = (0..count).map(|_| space.extend(range, 2)).collect();
    // Every second block stays live, so that free blocks are not joined.
    let freed = blocks.iter().zip(1..).filter(|(block, _)| block.start % 4 == 0);
    let mut freed: Vec<_> = freed.collect();
    freed.reverse();
    for (block, seq) in freed {
        let users = Users::from_slice(&[Position { lane: LaneId(1), seq }]);
        space.give(block.index, users, List::Lane(LaneId(1)));
    }
    let half = count / 2;
    space.retire(|user| user.seq <= half);
    assert_eq!(space.shared(), half, "one block of two granules for every second number");
    assert_eq!(space.take(LaneId(0), 3), None, "no two free blocks lie together");
    space.check();
}
