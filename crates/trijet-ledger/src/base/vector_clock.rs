//! The vector clock: for each lane, the last position that is known to come before a given point.
//!
//! A clock is a set of positions. If the set has a position, it has all earlier positions of the
//! lane, because a lane executes in order (law A1). So a clock keeps one number per lane, and the
//! union of two clocks has the larger number of each lane.
#![forbid(unsafe_code)]

use crate::base::id::{LaneId, Position};

/// A set of positions. With each position, the set has all earlier positions of the same lane.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VectorClock {
    /// The last number of each lane, by the number of the lane. A lane beyond the end of the list
    /// has the number 0.
    seqs: Vec<u64>,
}

impl VectorClock {
    /// An empty clock.
    #[must_use]
    pub const fn new() -> Self {
        Self { seqs: Vec::new() }
    }

    /// The last number of `lane` in the clock; 0 if there is none.
    #[must_use]
    #[inline]
    pub(crate) fn get(&self, lane: LaneId) -> u64 {
        self.seqs.get(lane.0 as usize).copied().unwrap_or(0)
    }

    /// Whether `position`, and so every earlier position of its lane, is in the clock.
    #[must_use]
    #[inline]
    pub fn covers(&self, position: Position) -> bool {
        self.get(position.lane) >= position.seq
    }

    /// Adds `position` and every earlier position of its lane.
    #[inline]
    pub fn raise(&mut self, position: Position) {
        match self.seqs.get_mut(position.lane.0 as usize) {
            Some(seq) => *seq = position.seq.max(*seq),
            None => self.append(position),
        }
    }

    #[cold]
    fn append(&mut self, position: Position) {
        self.seqs.resize(position.lane.0 as usize, 0);
        self.seqs.push(position.seq);
    }

    /// Adds the positions of `other`.
    #[inline]
    pub fn join(&mut self, other: &Self) {
        if other.seqs.len() > self.seqs.len() {
            self.seqs.resize(other.seqs.len(), 0);
        }
        // Tests spend much of their time here without optimisation, so the loop makes no calls.
        let (mine, theirs) = (self.seqs.as_mut_slice(), other.seqs.as_slice());
        let mut lane = 0;
        while lane < theirs.len() {
            if mine[lane] < theirs[lane] {
                mine[lane] = theirs[lane];
            }
            lane += 1;
        }
    }

    /// Replaces the positions by the positions of `other`, and keeps the memory.
    #[inline]
    pub fn copy_from(&mut self, other: &Self) {
        self.seqs.clear();
        self.seqs.extend_from_slice(&other.seqs);
    }

    /// The last position of each lane that has a position in the clock.
    #[inline]
    pub fn positions(&self) -> impl Iterator<Item = Position> + '_ {
        (0u32..)
            .zip(&self.seqs)
            .filter(|(_, seq)| **seq > 0)
            .map(|(lane, seq)| Position { lane: LaneId(lane), seq: *seq })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// The oracle: the explicit set of all positions.
    fn closure(steps: &[(u32, u64)]) -> BTreeSet<(u32, u64)> {
        steps.iter().flat_map(|&(lane, seq)| (1..=seq).map(move |s| (lane, s))).collect()
    }

    fn clock(steps: &[(u32, u64)]) -> VectorClock {
        let mut clock = VectorClock::new();
        for &(lane, seq) in steps {
            clock.raise(Position { lane: LaneId(lane), seq });
        }
        clock
    }

    proptest! {
        /// A clock has exactly the positions that were added, and all earlier positions. A join is
        /// the union of two clocks.
        #[test]
        fn a_clock_is_a_downward_closed_set_and_join_is_union(
            a in vec((0u32..5, 0u64..9), 0..12),
            b in vec((0u32..5, 0u64..9), 0..12),
        ) {
            let mut joined = clock(&a);
            joined.join(&clock(&b));
            let union: BTreeSet<_> = closure(&a).union(&closure(&b)).copied().collect();
            for lane in 0..6 {
                for seq in 1..10 {
                    let known = joined.covers(Position { lane: LaneId(lane), seq });
                    prop_assert_eq!(known, union.contains(&(lane, seq)));
                }
            }
            let listed: BTreeSet<_> = joined
                .positions()
                .flat_map(|p| (1..=p.seq).map(move |s| (p.lane.0, s)))
                .collect();
            prop_assert_eq!(listed, union);
        }
    }

    #[test]
    fn every_clock_covers_the_number_zero() {
        assert!(VectorClock::new().covers(Position { lane: LaneId(7), seq: 0 }));
    }
}
