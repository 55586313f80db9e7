//! The stamps of one allocation: which operations last wrote each byte range, and all that read
//! it since. From them follows what a new access must wait for (design: the clock).
//!
//! All readers are kept, one per lane: a lane executes in order, so its last reader stands for the
//! earlier ones, but the last reader *overall* stands for nobody else.
#![forbid(unsafe_code)]

use crate::base::id::{BlockId, LaneId, Position};
use crate::base::interval::RangeMap;
use crate::base::ledger::Mode;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Positions to wait for, the latest per lane.
pub(crate) type Needs = SmallVec<[Position; 6]>;

/// Adds `position`, keeping only the latest of its lane.
pub(crate) fn add_need(needs: &mut Needs, position: Position) {
    match needs.iter_mut().find(|need| need.lane == position.lane) {
        Some(need) => need.seq = need.seq.max(position.seq),
        None => needs.push(position),
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Stamp {
    write: Option<Position>,
    /// Readers since that write, the latest per lane.
    reads: SmallVec<[Position; 3]>,
}

/// The stamps of one allocation.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) id: BlockId,
    /// The universe whose lanes the stamps speak of.
    pub(crate) universe: u64,
    stamps: Mutex<RangeMap<Stamp>>,
    /// The first lane that used it, plus one; 0 while none has.
    first_lane: AtomicU32,
    /// Whether two lanes use it: then its operations are followed by a record.
    shared: AtomicBool,
    /// The user orders it (`Manual`): no waits are inserted.
    manual: AtomicBool,
    /// Users that a later one should have waited for, and did not on request: its stamp hides
    /// them. The host must not touch the bytes before they are done.
    left_out: Mutex<Needs>,
}

/// One access of an operation to a tracked allocation.
#[derive(Debug)]
pub(crate) struct Use<'a> {
    pub(crate) track: &'a Track,
    pub(crate) range: Range<u64>,
    pub(crate) mode: Mode,
}

impl Track {
    pub(crate) fn new(universe: u64) -> Self {
        Self {
            id: BlockId::fresh(),
            universe,
            stamps: Mutex::default(),
            first_lane: AtomicU32::new(0),
            shared: AtomicBool::new(false),
            manual: AtomicBool::new(false),
            left_out: Mutex::default(),
        }
    }

    /// The user takes over the ordering of this allocation.
    pub(crate) fn set_manual(&self) {
        self.manual.store(true, Ordering::Relaxed);
    }

    /// Its consumers are known to be on other lanes: every operation on it is recorded exactly.
    pub(crate) fn set_shared(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    /// Notes that `lane` uses it; whether two lanes do.
    pub(crate) fn crossed_by(&self, lane: LaneId) -> bool {
        if self.shared.load(Ordering::Relaxed) {
            return true;
        }
        let mine = lane.0 + 1;
        let first = self.first_lane.compare_exchange(0, mine, Ordering::Relaxed, Ordering::Relaxed);
        let crossed = first.is_err_and(|first| first != mine);
        if crossed {
            self.shared.store(true, Ordering::Relaxed);
        }
        crossed
    }

    /// Adds to `needs` what an access must come after: the last write, and for a write every
    /// reader. `implied` says which positions need no wait.
    pub(crate) fn needs(
        &self,
        range: Range<u64>,
        mode: Mode,
        implied: impl Fn(Position) -> bool,
        needs: &mut Needs,
    ) {
        if self.manual.load(Ordering::Relaxed) {
            return;
        }
        self.users(range, mode, implied, needs);
    }

    /// Like [`Self::needs`], also for memory whose ordering is the user's: for what must hold
    /// whoever orders, as freeing.
    pub(crate) fn users(
        &self,
        range: Range<u64>,
        mode: Mode,
        implied: impl Fn(Position) -> bool,
        needs: &mut Needs,
    ) {
        let stamps = self.stamps.lock().expect("no code panics under the stamps");
        for (_, stamp) in stamps.overlapping(range) {
            let reads: &[Position] = if mode.writes() { &stamp.reads } else { &[] };
            for position in stamp.write.iter().chain(reads) {
                if !implied(*position) {
                    add_need(needs, *position);
                }
            }
        }
    }

    /// What an access by the host, a free or the next owner must come after: the users, and those
    /// that are hidden because a wait was left out.
    pub(crate) fn all_users(
        &self,
        range: Range<u64>,
        mode: Mode,
        implied: impl Fn(Position) -> bool,
        needs: &mut Needs,
    ) {
        for position in self.left_out.lock().expect("no code panics under this lock").iter() {
            if !implied(*position) {
                add_need(needs, *position);
            }
        }
        self.users(range, mode, implied, needs);
    }

    /// Notes users that an access did not wait for, on request.
    pub(crate) fn leave_out(&self, positions: &[Position]) {
        if positions.is_empty() {
            return;
        }
        let mut left_out = self.left_out.lock().expect("no code panics under this lock");
        for position in positions {
            add_need(&mut left_out, *position);
        }
    }

    /// Notes an access that has been enqueued.
    pub(crate) fn stamp(&self, range: Range<u64>, mode: Mode, position: Position) {
        let mut stamps = self.stamps.lock().expect("no code panics under the stamps");
        stamps.update(range, Stamp::default, |stamp| {
            if mode.writes() {
                stamp.write = Some(position);
                stamp.reads.clear();
            } else {
                match stamp.reads.iter_mut().find(|read| read.lane == position.lane) {
                    Some(read) => read.seq = read.seq.max(position.seq),
                    None => stamp.reads.push(position),
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(lane: u32, seq: u64) -> Position {
        Position { lane: LaneId(lane), seq }
    }

    fn needs(track: &Track, range: Range<u64>, mode: Mode) -> Vec<Position> {
        let mut found = Needs::new();
        track.needs(range, mode, |_| false, &mut found);
        found.sort_unstable();
        found.to_vec()
    }

    #[test]
    fn a_writer_waits_for_every_reader_and_the_last_write() {
        let track = Track::new(0);
        track.stamp(0..64, Mode::Write, at(0, 1));
        track.stamp(0..64, Mode::Read, at(1, 4));
        track.stamp(0..64, Mode::Read, at(2, 7));
        track.stamp(0..64, Mode::Read, at(1, 5));
        assert_eq!(needs(&track, 0..1, Mode::Write), [at(0, 1), at(1, 5), at(2, 7)]);
        assert_eq!(needs(&track, 0..64, Mode::Read), [at(0, 1)]);
    }

    #[test]
    fn disjoint_ranges_need_nothing_of_each_other() {
        let track = Track::new(0);
        track.stamp(0..32, Mode::Write, at(0, 1));
        track.stamp(32..64, Mode::Write, at(1, 1));
        assert_eq!(needs(&track, 0..32, Mode::ReadWrite), [at(0, 1)]);
        assert_eq!(needs(&track, 31..33, Mode::Read), [at(0, 1), at(1, 1)]);
    }
}
