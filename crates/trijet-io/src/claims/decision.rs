//! The decision of a process that shares a job by claims: which ranges it takes next, whether it
//! waits, or whether it publishes the output.
//!
//! The decision depends on three things only: what the process last saw in the folder of claims,
//! what it saw before, and its own monotonic clock. It reads no file and no clock itself, so the
//! model of the protocol (`model.rs`) explores this code and not a copy of it.
//!
//! A claim is a hint that saves work, and no right to write. Two processes may compute one range:
//! they write the same bytes to the same place. So a wrong decision about a lease costs time, and
//! never a byte. The output is published only if every range is done, and a range is done only
//! after its bytes are on the disk.

use std::collections::BTreeMap;

/// The random number of a process.
pub(crate) type Owner = u64;

/// The sign of life of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Beat {
    /// The number that the process increases while it lives.
    pub(crate) count: u64,
    /// Whether the process has stated that it works no more.
    pub(crate) is_over: bool,
}

/// The state of a range of rows in the folder of claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RangeClaim {
    Free,
    /// The claim with the highest number of attempts. The owner is unknown if the file of the claim
    /// is incomplete.
    Claimed {
        attempt: u32,
        owner: Option<Owner>,
    },
    /// The bytes of the range are on the disk.
    Done,
}

/// The folder of claims as a process sees it at one time. It may be older than the folder is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct FolderLook {
    pub(crate) ranges: Vec<RangeClaim>,
    pub(crate) beats: BTreeMap<Owner, Beat>,
}

/// A range that a process tries to take, and the number of its attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Take {
    pub(crate) range: usize,
    pub(crate) attempt: u32,
}

/// The next action of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClaimAction {
    /// Create the files of these claims. The process computes the ranges whose claims are its own.
    Take(Vec<Take>),
    /// Every range is done or belongs to a living process. Look again later.
    Wait,
    /// Every range is done: give the output its final name.
    Publish,
}

/// The claims of the other processes, as a process has watched them by its own clock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ClaimWatch {
    own: Owner,
    /// A claim falls back when its owner has shown no sign of life for this time.
    lease: u64,
    /// The latest states of the ranges that this process knows. A look may be older than an earlier
    /// one, but a range that is done stays done, and attempts only increase.
    ranges: Vec<RangeClaim>,
    /// For each claim: the last sign of life of its owner, and the time on the own clock at which
    /// this process first saw it.
    seen: BTreeMap<Take, (Option<Beat>, u64)>,
}

/// A process takes at most this part of all ranges at once, so that the first process leaves
/// ranges for those that start later.
const SHARE_MAX: usize = 128;
/// A process takes at most this part of the free ranges that one process would get.
const SHARE_FREE: usize = 4;

impl ClaimWatch {
    /// The watch of the process `own` over a job of `ranges` ranges.
    pub(crate) fn new(own: Owner, lease: u64, ranges: usize) -> Self {
        Self { own, lease, ranges: vec![RangeClaim::Free; ranges], seen: BTreeMap::new() }
    }

    /// The latest states of the ranges that this process knows.
    pub(crate) fn ranges(&self) -> &[RangeClaim] {
        &self.ranges
    }

    /// Lets time pass for every claim, where the model has no clock.
    #[cfg(test)]
    pub(crate) fn pass(&mut self, time: u64) {
        self.seen.values_mut().for_each(|(_, at)| *at = at.saturating_sub(time));
    }

    /// Gives the processes other numbers, for the model.
    #[cfg(test)]
    pub(crate) fn rename(&mut self, of: impl Fn(Owner) -> Owner) {
        self.own = of(self.own);
        for range in &mut self.ranges {
            if let RangeClaim::Claimed { owner: Some(owner), .. } = range {
                *owner = of(*owner);
            }
        }
    }

    /// Notes that the bytes of a range are on the disk.
    pub(crate) fn done(&mut self, range: usize) {
        self.ranges[range] = RangeClaim::Done;
    }

    /// Notes what the process sees at the time `now`, and decides its next action.
    pub(crate) fn next(&mut self, look: &FolderLook, now: u64) -> ClaimAction {
        self.note(look, now);
        if self.ranges.iter().all(|range| *range == RangeClaim::Done) {
            return ClaimAction::Publish;
        }
        // A claim of this process that it does not work on: the answer to its creation was lost.
        let own = self.claims().find(|(_, owner)| *owner == Some(self.own));
        if let Some((take, _)) = own {
            return ClaimAction::Take(vec![take]);
        }
        let free = self.free_of(look);
        if !free.is_empty() {
            return ClaimAction::Take(free);
        }
        let fallen = self.claims().find(|(take, owner)| self.has_fallen(look, *take, *owner, now));
        match fallen {
            Some((Take { range, attempt }, _)) => {
                ClaimAction::Take(vec![Take { range, attempt: attempt.saturating_add(1) }])
            }
            None => ClaimAction::Wait,
        }
    }

    /// Notes what is new in the folder, and when the signs of life of the owners have changed.
    fn note(&mut self, look: &FolderLook, now: u64) {
        for (known, found) in self.ranges.iter_mut().zip(&look.ranges) {
            *known = later(*known, *found);
        }
        let mut seen = BTreeMap::new();
        for (take, owner) in self.claims() {
            let beat = owner.and_then(|owner| look.beats.get(&owner)).copied();
            let earlier = self.seen.get(&take).filter(|(earlier, _)| *earlier == beat);
            seen.insert(take, (beat, earlier.map_or(now, |(_, at)| *at)));
        }
        self.seen = seen;
    }

    /// Whether the owner of a claim works no more, or has shown no sign of life during a lease.
    fn has_fallen(&self, look: &FolderLook, take: Take, owner: Option<Owner>, now: u64) -> bool {
        let is_over =
            owner.and_then(|owner| look.beats.get(&owner)).is_some_and(|beat| beat.is_over);
        let is_silent =
            self.seen.get(&take).is_some_and(|(_, at)| now.saturating_sub(*at) >= self.lease);
        is_over || is_silent
    }

    /// The free ranges that this process takes: adjacent ones, after a place that differs from
    /// process to process, so that two processes seldom try to take the same range.
    fn free_of(&self, look: &FolderLook) -> Vec<Take> {
        let (ranges, all) = (&self.ranges, self.ranges.len());
        let free = ranges.iter().filter(|range| **range == RangeClaim::Free).count();
        let living = look.beats.values().filter(|beat| !beat.is_over).count().max(1);
        let most = (free / (SHARE_FREE * living)).clamp(1, (all / SHARE_MAX).max(1));
        let is_free = |range: &usize| ranges[*range] == RangeClaim::Free;
        let first = usize::try_from(self.own % (all as u64).max(1)).unwrap_or(0);
        let Some(start) = (first..all).chain(0..first).find(is_free) else { return Vec::new() };
        let adjacent = (start..all).take_while(is_free).take(most);
        adjacent.map(|range| Take { range, attempt: 0 }).collect()
    }

    /// The claims of ranges that are not done, with their owners.
    fn claims(&self) -> impl Iterator<Item = (Take, Option<Owner>)> {
        self.ranges.iter().enumerate().filter_map(|(range, claim)| match *claim {
            RangeClaim::Claimed { attempt, owner } => Some((Take { range, attempt }, owner)),
            RangeClaim::Free | RangeClaim::Done => None,
        })
    }
}

/// The later one of two states of a range.
fn later(known: RangeClaim, found: RangeClaim) -> RangeClaim {
    let rank = |claim: RangeClaim| match claim {
        RangeClaim::Free => (0, 0, false),
        RangeClaim::Claimed { attempt, owner } => (1, attempt, owner.is_some()),
        RangeClaim::Done => (2, 0, false),
    };
    if rank(found) > rank(known) { found } else { known }
}

/// The paths of a job as a process sees them before it takes part in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpeningLook {
    /// Whether something has the final name.
    pub(crate) has_output: bool,
    /// Whether this process has just created the record of the job.
    pub(crate) is_first: bool,
    /// Whether a partial output exists, and whether it existed before the record of the job.
    pub(crate) has_partial: bool,
    pub(crate) had_partial: bool,
    pub(crate) has_done: bool,
}

/// The action of a process before it takes part in a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    /// The final name is taken: by the output of this job, or by something else.
    Taken,
    /// The partial output belongs to no job with claims.
    Foreign,
    /// Rows are done, but the partial output with their bytes is gone.
    Lost,
    Create,
    Open,
}

impl OpeningLook {
    pub(crate) fn decide(self) -> Opening {
        match self {
            Self { has_output: true, .. } => Opening::Taken,
            Self { is_first: true, had_partial: true, .. } => Opening::Foreign,
            Self { has_partial: true, .. } => Opening::Open,
            Self { has_done: true, .. } => Opening::Lost,
            Self { .. } => Opening::Create,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Owner = 5;
    const OTHER: Owner = 6;

    fn look(ranges: &[RangeClaim], count: u64, is_over: bool) -> FolderLook {
        let beats = [(OTHER, Beat { count, is_over })].into();
        FolderLook { ranges: ranges.to_vec(), beats }
    }

    fn claimed(owner: Owner, attempt: u32) -> RangeClaim {
        RangeClaim::Claimed { attempt, owner: Some(owner) }
    }

    #[test]
    fn a_claim_falls_back_after_a_lease_without_a_sign_of_life() {
        let mut watch = ClaimWatch::new(OWN, 10, 2);
        let ranges = [RangeClaim::Done, claimed(OTHER, 2)];
        assert_eq!(watch.next(&look(&ranges, 1, false), 100), ClaimAction::Wait);
        assert_eq!(watch.next(&look(&ranges, 1, false), 109), ClaimAction::Wait);
        // The count has changed, so the lease starts again.
        assert_eq!(watch.next(&look(&ranges, 2, false), 111), ClaimAction::Wait);
        assert_eq!(watch.next(&look(&ranges, 2, false), 120), ClaimAction::Wait);
        let take = ClaimAction::Take(vec![Take { range: 1, attempt: 3 }]);
        assert_eq!(watch.next(&look(&ranges, 2, false), 121), take);
    }

    #[test]
    fn the_claims_of_a_process_that_has_stopped_fall_back_at_once() {
        let mut watch = ClaimWatch::new(OWN, 10, 1);
        let look = look(&[claimed(OTHER, 0)], 4, true);
        assert_eq!(watch.next(&look, 0), ClaimAction::Take(vec![Take { range: 0, attempt: 1 }]));
    }

    /// The server has created the claim, and its answer was lost.
    #[test]
    fn a_claim_that_proves_to_be_ones_own_is_taken() {
        let mut watch = ClaimWatch::new(OWN, 10, 2);
        let look = look(&[RangeClaim::Done, claimed(OWN, 3)], 0, false);
        assert_eq!(watch.next(&look, 0), ClaimAction::Take(vec![Take { range: 1, attempt: 3 }]));
    }

    #[test]
    fn a_claim_without_an_owner_falls_back_too() {
        let mut watch = ClaimWatch::new(OWN, 10, 1);
        let look = look(&[RangeClaim::Claimed { attempt: 0, owner: None }], 0, false);
        assert_eq!(watch.next(&look, 3), ClaimAction::Wait);
        assert_eq!(watch.next(&look, 13), ClaimAction::Take(vec![Take { range: 0, attempt: 1 }]));
    }

    #[test]
    fn the_first_process_leaves_ranges_for_others() {
        let mut watch = ClaimWatch::new(300, 10, 1024);
        let look = FolderLook { ranges: vec![RangeClaim::Free; 1024], beats: BTreeMap::new() };
        let ClaimAction::Take(taken) = watch.next(&look, 0) else { panic!("all ranges are free") };
        let wanted: Vec<Take> = (300..308).map(|range| Take { range, attempt: 0 }).collect();
        assert_eq!(taken, wanted);
    }

    #[test]
    fn an_output_is_published_only_if_every_range_is_done() {
        let mut watch = ClaimWatch::new(OWN, 10, 2);
        let one = look(&[RangeClaim::Done, RangeClaim::Free], 0, false);
        assert_eq!(watch.next(&one, 0), ClaimAction::Take(vec![Take { range: 1, attempt: 0 }]));
        // The first range is not done in this older look, but what is done stays done.
        let other = look(&[RangeClaim::Free, RangeClaim::Done], 0, false);
        assert_eq!(watch.next(&other, 0), ClaimAction::Publish);
    }
}
