//! The tests of the tracks of allocations.
#![forbid(unsafe_code)]

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn at(lane: u32, seq: u64) -> Position {
    Position { lane: LaneId(lane), seq }
}

fn track() -> Track {
    Track::new(0, 64, Place::Device)
}

fn stamp(track: &Track, range: Range<u64>, mode: Mode, position: Position) {
    if !track.stamp(&range, mode, position) {
        track.stamp_ranged(&range, mode, position);
    }
}

fn needs(track: &Track, range: Range<u64>, mode: Mode) -> Vec<Position> {
    let mut found = NeededPositions::new();
    track.all_users(&range, mode, |_| false, &mut found);
    found.sort_unstable();
    found.to_vec()
}

#[test]
fn a_writer_waits_for_every_reader_and_the_last_write() {
    let track = track();
    stamp(&track, 0..64, Mode::Write, at(0, 1));
    stamp(&track, 0..64, Mode::Read, at(1, 4));
    stamp(&track, 0..64, Mode::Read, at(2, 7));
    stamp(&track, 0..64, Mode::Read, at(1, 5));
    assert_eq!(needs(&track, 0..1, Mode::Write), [at(0, 1), at(1, 5), at(2, 7)]);
    assert_eq!(needs(&track, 0..64, Mode::Read), [at(0, 1)]);
}

#[test]
fn an_allocation_keeps_every_earlier_user_of_its_bytes_until_it_is_written() {
    for users in [1, 2, SLOTS, SLOTS + 1, 3 * SLOTS] {
        let before: Vec<Position> = (0..).take(users).map(|lane| at(lane, 7)).collect();
        for bytes in [0, 64] {
            let track = Track::following(0, bytes, Place::Device, before.iter().copied().collect());
            assert_eq!(needs(&track, 0..u64::MAX, Mode::Write), before, "{bytes} bytes");
            assert_eq!(needs(&track, 0..u64::MAX, Mode::Read), [], "{bytes} bytes");
            stamp(&track, 0..64, Mode::Write, at(100, 1));
            if bytes > 0 {
                assert_eq!(needs(&track, 0..u64::MAX, Mode::Write), [at(100, 1)]);
            }
        }
    }
}

/// Appends by one lane, with readers of some elements. Few ranges are kept, and an access of a byte
/// follows at least the users of that byte.
#[test]
fn many_small_writes_of_a_lane_keep_few_stamps_and_every_order() {
    let track = Track::new(0, 10_000, Place::Device);
    for n in 0..2000u64 {
        stamp(&track, n..n + 1, Mode::Write, at(0, n + 1));
        if n % 7 == 0 {
            stamp(&track, n..n + 1, Mode::Read, at(1 + u32::from(n % 2 == 0), n + 1));
        }
    }
    assert!(track.lock().len() <= RANGES_KEPT, "{} ranges", track.lock().len());
    for n in 0..2000 {
        let found = needs(&track, n..n + 1, Mode::Write);
        assert!(found.iter().any(|user| user.lane == LaneId(0) && user.seq > n));
        let reader = LaneId(1 + u32::from(n % 2 == 0));
        let is_read = found.iter().any(|user| user.lane == reader && user.seq > n);
        assert!(n % 7 != 0 || is_read, "byte {n}: {found:?}");
    }
    assert_eq!(needs(&track, 3000..3001, Mode::Write), [], "bytes without a user");
}

#[test]
fn disjoint_ranges_need_nothing_of_each_other() {
    let track = track();
    stamp(&track, 0..32, Mode::Write, at(0, 1));
    stamp(&track, 32..64, Mode::Write, at(1, 1));
    assert_eq!(needs(&track, 0..32, Mode::Update), [at(0, 1)]);
    assert_eq!(needs(&track, 31..33, Mode::Read), [at(0, 1), at(1, 1)]);
}

/// The free and the host follow the last user of every lane, although the library orders no uses.
#[test]
fn manual_memory_keeps_the_last_user_of_every_lane() {
    let track = track();
    stamp(&track, 0..64, Mode::Write, at(0, 1));
    track.set_manual();
    for lane in 1..12 {
        stamp(&track, 0..32, Mode::Write, at(lane, 2));
        stamp(&track, 32..64, Mode::Write, at(lane, 3));
    }
    stamp(&track, 0..64, Mode::Read, at(0, 4));
    let writers = (1..12).map(|lane| at(lane, 3));
    assert_eq!(
        needs(&track, 0..64, Mode::Read),
        [at(0, 1)].into_iter().chain(writers.clone()).collect::<Vec<_>>()
    );
    track.set_parts();
    assert_eq!(
        needs(&track, 0..64, Mode::Write),
        [at(0, 4)].into_iter().chain(writers).collect::<Vec<_>>()
    );
}

/// The rule itself: one stamp for each byte.
#[derive(Default)]
struct Bytes(Vec<(Option<Position>, BTreeMap<u32, u64>)>);

impl Bytes {
    fn stamp(&mut self, range: Range<usize>, mode: Mode, position: Position) {
        for (write, reads) in &mut self.0[range] {
            if mode.writes() {
                *write = Some(position);
                reads.clear();
            } else {
                reads.insert(position.lane.0, position.seq);
            }
        }
    }

    fn needs(&self, range: Range<usize>, mode: Mode) -> Vec<Position> {
        let mut latest = BTreeMap::<u32, u64>::new();
        for (write, reads) in &self.0[range] {
            let reads = reads.iter().filter(|_| mode.writes()).map(|(l, s)| (*l, *s));
            for (lane, seq) in write.iter().map(|p| (p.lane.0, p.seq)).chain(reads) {
                let last = latest.entry(lane).or_default();
                *last = (*last).max(seq);
            }
        }
        latest.into_iter().map(|(lane, seq)| at(lane, seq)).collect()
    }
}

proptest! {
    /// Tries accesses of the whole and of parts, by one owner or several, on more lanes than there
    /// are slots.
    #[test]
    fn the_stamps_equal_one_stamp_per_byte(
        steps in vec(
            (0u32..11, any::<bool>(), prop_oneof![Just((0, 64)), (0usize..64, 0usize..64)]),
            1..60,
        ),
        split_after in 0usize..120,
    ) {
        let track = track();
        let mut bytes = Bytes(vec![Default::default(); 64]);
        for (index, (lane, writes, (a, b))) in steps.into_iter().enumerate() {
            if index == split_after {
                track.set_parts();
            }
            let mode = if writes { Mode::Write } else { Mode::Read };
            let (range, position) = (a.min(b)..a.max(b), at(lane, index as u64 + 1));
            stamp(&track, range.start as u64..range.end as u64, mode, position);
            bytes.stamp(range, mode, position);
            for part in [0..64, 0..1, 31..40] {
                for mode in [Mode::Read, Mode::Update] {
                    let found = needs(&track, part.start as u64..part.end as u64, mode);
                    prop_assert_eq!(found, bytes.needs(part.clone(), mode), "step {}", index);
                }
            }
        }
    }
}

proptest! {
    /// An allocation that grows. The users before it used all of its bytes. An access of all bytes
    /// that the allocation uses now is no access of bytes that it uses later.
    #[test]
    fn the_stamps_of_a_growing_allocation_equal_one_stamp_per_byte(
        before in 0u32..12,
        steps in vec(
            (0u32..11, any::<bool>(), prop_oneof![Just((0, 64)), (0usize..64, 0usize..64)], 0usize..20),
            1..60,
        ),
    ) {
        let users: SmallVec<[Position; 2]> = (0..before).map(|lane| at(100 + lane, 1)).collect();
        let mut bytes = Bytes(vec![Default::default(); 64]);
        users.iter().for_each(|user| bytes.stamp(0..64, Mode::Read, *user));
        let track = Track::following(0, 64, Place::Device, users).growing();
        let mut len = 0;
        for (index, (lane, writes, (a, b), more)) in steps.into_iter().enumerate() {
            if more < 8 {
                len = (len + more).min(64);
                track.grow(len as u64);
            }
            let mode = if writes { Mode::Write } else { Mode::Read };
            let (range, position) = (a.min(b).min(len)..a.max(b).min(len), at(lane, index as u64 + 1));
            stamp(&track, range.start as u64..range.end as u64, mode, position);
            bytes.stamp(range, mode, position);
            // An access lies within the bytes that the allocation uses; the next owner follows the
            // users of all bytes.
            for part in [0..64, 0..len, 0..len.min(1), len.min(31)..len.min(40)] {
                for mode in [Mode::Read, Mode::Update] {
                    let found = needs(&track, part.start as u64..part.end as u64, mode);
                    prop_assert_eq!(found, bytes.needs(part.clone(), mode), "step {}", index);
                }
            }
        }
    }
}

/// Readers on several threads take slots at the same time, and none is lost.
#[test]
fn readers_of_many_threads_are_all_kept() {
    for round in 0..200 {
        let track = track();
        stamp(&track, 0..64, Mode::Write, at(19, 1));
        std::thread::scope(|scope| {
            for lane in 0..10 {
                let track = &track;
                scope.spawn(move || {
                    (1..=3).for_each(|seq| stamp(track, 0..64, Mode::Read, at(lane, seq)));
                });
            }
        });
        let mut expected: Vec<_> = (0..10).map(|lane| at(lane, 3)).collect();
        expected.push(at(19, 1));
        assert_eq!(needs(&track, 0..64, Mode::Write), expected, "round {round}");
    }
}
