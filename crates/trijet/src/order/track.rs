//! The track of an allocation: its stamps. For each byte range, the stamps name the operation that
//! last wrote the bytes, and all operations that have read the bytes since that write. The stamps
//! decide for which operations a new access must wait.
//!
//! The last reader of each lane is kept. A lane executes in order, so the last reader of a lane
//! stands for the earlier readers of the same lane. The last reader of a lane does not stand for
//! readers of other lanes.
//!
//! *Whole and ranged stamps.* Most accesses are of the whole allocation. Their stamps are a few
//! atomic numbers, which need no lock. An atomic read-modify-write is needed only when a lane takes
//! an empty slot. Borrows make this sound: while an allocation has one owner, an access that writes
//! is exclusive. If the accesses before and after a write are on other threads, the borrow was
//! handed over between the threads. The hand-over orders these accesses. Only accesses that read
//! can come at the same time. Each of these accesses writes the slot of its own lane, under the
//! lock of this lane. Accesses of parts go to a map of byte ranges with a lock. An allocation that
//! was split keeps all of its stamps in the map.
//!
//! *Manual memory.* The library does not know the order of its users, so no user stands for a user
//! of another lane. The last writer and the last reader of each lane are kept, for any bytes of the
//! allocation.
#![forbid(unsafe_code)]

mod slots;

pub(super) use slots::SLOTS;

use crate::base::id::{BlockId, LaneId, Position, keep_latest};
use crate::base::interval::RangeMap;
use crate::base::ledger::{Access, Mode, OrderedBy, Place};
use slots::Slots;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// Number of byte ranges whose stamps are kept exactly. If there are more ranges, neighbouring
/// ranges that one lane wrote are joined. Otherwise a buffer that grows by one element at a time
/// would have a range for each element, and an access of the whole would look at each range.
const RANGES_KEPT: usize = 64;

/// Positions to wait for, the latest of each lane. Positions for all slots fit without a heap
/// allocation.
pub(crate) type NeededPositions = SmallVec<[Position; SLOTS + 2]>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Stamp {
    write: Option<Position>,
    /// The reads since the write `write`, the latest of each lane.
    reads: SmallVec<[Position; 3]>,
}

impl Stamp {
    fn read(&mut self, position: Position) {
        keep_latest(&mut self.reads, position);
    }

    /// Joins the stamps of two ranges into one stamp for both ranges. Returns `None` unless one
    /// lane wrote both ranges or neither range was written. If one lane wrote both ranges, an
    /// access that follows the later write follows the earlier write too.
    fn joined(&self, other: &Self) -> Option<Self> {
        let write = match (self.write, other.write) {
            (Some(one), Some(two)) if one.lane == two.lane => Some(one.max(two)),
            (None, None) => None,
            _ => return None,
        };
        let mut reads = self.reads.clone();
        other.reads.iter().for_each(|read| keep_latest(&mut reads, *read));
        Some(Self { write, reads })
    }
}

/// The stamps of one allocation.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) id: BlockId,
    /// The domain of the lanes in the stamps.
    pub(crate) domain: u64,
    pub(crate) place: Place,
    /// The size of the allocation.
    bytes: u64,
    /// The number of bytes that the allocation may use now, from its start. The number never falls.
    extent: AtomicU64,
    /// The last write of the whole allocation; of manual memory, the last write in each lane.
    writes: Slots,
    /// The last reads of the whole allocation since the last write, one per lane.
    reads: Slots,
    /// Whether the map holds stamps.
    ranged: AtomicBool,
    /// Whether the allocation has several owners. All stamps are then in the map.
    parts: AtomicBool,
    /// The part of the track that few allocations need. The first access that needs this part
    /// creates it.
    rare: OnceLock<Box<Rare>>,
    /// The number of the first lane that used the allocation, plus one; 0 if no lane has used it.
    first_lane: AtomicU32,
    /// Whether two lanes use the allocation. An event is then recorded after each of its
    /// operations, before the next operation of the same lane.
    shared: AtomicBool,
    /// Whether the allocation is manual memory: the program orders its uses, and no waits are
    /// inserted.
    manual: AtomicBool,
    /// The last users of the bytes before this allocation. A write follows these users, and so does
    /// every use of manual memory.
    before: SmallVec<[Position; 2]>,
}

/// The part of a track that few allocations need. It is apart from [`Track`], which is moved when
/// an allocation is made and so must be small.
#[derive(Debug, Default)]
struct Rare {
    /// The stamps of parts.
    stamps: Mutex<RangeMap<Stamp>>,
    /// Users that no stamp names. Some of them are users of manual memory that found no slot. The
    /// others are users for which a wait was left out on request, so that a later stamp hides them.
    /// The host must not access the bytes before these users are complete.
    left_out: Mutex<NeededPositions>,
}

impl Rare {
    fn clear(&mut self) {
        self.stamps.get_mut().expect("no code panics under the lock of the stamps").clear();
        self.left_out.get_mut().expect("no code panics under this lock").clear();
    }

    /// The stamps of the readers of the whole allocation that find no slot, if there are any.
    #[inline]
    fn of_readers(bytes: u64, readers: &[Position]) -> OnceLock<Box<Self>> {
        match readers.get(SLOTS..) {
            None | Some([]) => OnceLock::new(),
            Some(more) => OnceLock::from(Self::with_readers(bytes, more)),
        }
    }

    #[cold]
    fn with_readers(bytes: u64, readers: &[Position]) -> Box<Self> {
        let rare = Box::<Self>::default();
        let mut stamps = rare.stamps.lock().expect("no code panics under the lock of the stamps");
        // An empty allocation also keeps the users of its memory, for the next owner.
        stamps.update(0..bytes.max(1), Stamp::default, |stamp| {
            readers.iter().for_each(|position| stamp.read(*position));
        });
        drop(stamps);
        rare
    }
}

/// One access of an operation to a tracked allocation.
#[derive(Debug)]
pub(crate) struct Use<'a> {
    pub(crate) track: &'a Track,
    pub(crate) range: Range<u64>,
    pub(crate) mode: Mode,
}

impl Track {
    /// The track of an allocation of `bytes` bytes without users.
    pub(crate) fn new(domain: u64, bytes: u64, place: Place) -> Self {
        Self::following(domain, bytes, place, SmallVec::new())
    }

    /// The track of an allocation of bytes that were used before. `before` are the last users of
    /// the bytes, the latest of each lane. A write follows these users. A read of bytes that this
    /// allocation has not written follows nothing, because these bytes have no content.
    #[inline(always)]
    pub(crate) fn following(
        domain: u64,
        bytes: u64,
        place: Place,
        before: SmallVec<[Position; 2]>,
    ) -> Self {
        Self {
            id: BlockId::fresh(),
            domain,
            place,
            bytes,
            extent: AtomicU64::new(bytes),
            writes: Slots::default(),
            reads: Slots::of(&before),
            ranged: AtomicBool::new(before.len() > SLOTS),
            parts: AtomicBool::new(false),
            rare: Rare::of_readers(bytes, &before),
            first_lane: AtomicU32::new(0),
            shared: AtomicBool::new(false),
            manual: AtomicBool::new(false),
            before,
        }
    }

    /// Takes the stamps out, and leaves a track of 0 bytes in their place.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new(self.domain, 0, self.place))
    }

    /// Forgets the stamps of an allocation that was dropped. `users` become the users before the
    /// next allocation of the bytes.
    #[inline]
    pub(crate) fn rest(&mut self, users: SmallVec<[Position; 2]>) {
        self.writes.clear();
        self.reads.set(&users);
        for flag in [&mut self.ranged, &mut self.parts, &mut self.shared, &mut self.manual] {
            *flag.get_mut() = false;
        }
        *self.first_lane.get_mut() = 0;
        if let Some(rare) = self.rare.get_mut() {
            rare.clear();
        }
        self.before = users;
    }

    /// Makes this the track of a new allocation in the same memory. `bytes` is the size of the new
    /// allocation.
    #[inline]
    pub(crate) fn wake(&mut self, bytes: u64) {
        self.id = BlockId::fresh();
        self.bytes = bytes;
        *self.extent.get_mut() = bytes;
    }

    /// The last users of the bytes before this allocation.
    pub(crate) fn before(&self) -> &SmallVec<[Position; 2]> {
        &self.before
    }

    /// The size of the allocation.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Raises to `extent` the number of bytes that a growing allocation may use. The number is 0 at
    /// first. An access of all these bytes counts as an access of the whole. Earlier accesses of
    /// the whole used none of the new bytes. Requires exclusive access to the allocation.
    #[inline]
    pub(crate) fn grow(&self, extent: u64) {
        if extent > self.extent.load(Ordering::Relaxed) {
            if !(self.writes.is_empty() && self.reads.is_empty()) {
                self.move_to_map(&mut self.lock());
            }
            self.extent.store(extent, Ordering::Relaxed);
        }
    }

    /// The track of a growing allocation, which uses none of its bytes until it grows. The users of
    /// the memory before this allocation used all of its bytes.
    pub(crate) fn growing(self) -> Self {
        if self.has_users_before() {
            self.move_to_map(&mut self.lock());
        }
        self.extent.store(0, Ordering::Relaxed);
        self
    }

    /// Whether operations that used the bytes before this allocation may be pending.
    #[inline]
    pub(crate) fn has_users_before(&self) -> bool {
        !self.before.is_empty()
    }

    /// Adds the users of the bytes before this allocation.
    pub(crate) fn users_before(
        &self,
        implied: impl Fn(Position) -> bool,
        needs: &mut NeededPositions,
    ) {
        for user in self.before.iter().filter(|user| !implied(**user)) {
            keep_latest(needs, *user);
        }
    }

    /// Makes the allocation manual memory: from now on the program orders its uses.
    pub(crate) fn set_manual(&self) {
        self.manual.store(true, Ordering::Relaxed);
    }

    /// Whether the allocation is manual memory. Its uses wait for nothing; only frees and the host
    /// wait for its uses.
    #[inline]
    pub(crate) fn is_manual(&self) -> bool {
        self.manual.load(Ordering::Relaxed)
    }

    /// An access to the allocation, for the ledger.
    pub(crate) fn access(&self, range: Range<u64>, mode: Mode) -> Access {
        let ordered = if self.is_manual() { OrderedBy::Program } else { OrderedBy::Library };
        Access { block: self.id, place: self.place, range, mode, ordered }
    }

    /// Forgets which lanes used the allocation, for [`Track::note_lane`]. Its stamps stay.
    pub(crate) fn forget_lanes(&self) {
        self.first_lane.store(0, Ordering::Relaxed);
        self.shared.store(false, Ordering::Relaxed);
    }

    /// Notes that consumers of the allocation are on other lanes. From now on an event is recorded
    /// after every operation that uses the allocation.
    pub(crate) fn set_shared(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    /// Prepares the track for several owners that use parts of the allocation at once. The caller
    /// is the only owner now.
    pub(crate) fn set_parts(&self) {
        if !self.parts.load(Ordering::Relaxed) && !self.is_manual() {
            self.move_to_map(&mut self.lock());
        }
        self.parts.store(true, Ordering::Relaxed);
    }

    #[inline]
    fn is_whole(&self, range: &Range<u64>) -> bool {
        range.start == 0 && range.end >= self.extent.load(Ordering::Relaxed)
    }

    fn rare(&self) -> &Rare {
        self.rare.get_or_init(Box::default)
    }

    fn lock(&self) -> MutexGuard<'_, RangeMap<Stamp>> {
        self.rare().stamps.lock().expect("no code panics under the lock of the stamps")
    }

    /// Notes that `lane` uses the allocation. Returns whether two lanes use it.
    #[inline]
    pub(crate) fn note_lane(&self, lane: LaneId) -> bool {
        if self.shared.load(Ordering::Relaxed) {
            return true;
        }
        let mine = lane.0 + 1;
        let mut first = self.first_lane.load(Ordering::Relaxed);
        if first == 0 {
            let (order, empty) = (Ordering::Relaxed, 0);
            first = match self.first_lane.compare_exchange(empty, mine, order, order) {
                Ok(_) => mine,
                Err(other) => other,
            };
        }
        if first != mine {
            self.shared.store(true, Ordering::Relaxed);
        }
        first != mine
    }

    /// Adds to `needs` the operations that an access must follow: the last write, and for a write
    /// every reader. Leaves out the positions for which `implied` returns true.
    #[inline]
    pub(crate) fn users<A: smallvec::Array<Item = Position>>(
        &self,
        range: &Range<u64>,
        mode: Mode,
        implied: impl Fn(Position) -> bool,
        needs: &mut SmallVec<A>,
    ) {
        self.each_user(range, mode, |position| {
            if !implied(position) {
                keep_latest(needs, position);
            }
        });
    }

    /// Calls `add` with every position that an access must follow. The same position may come
    /// several times.
    #[inline]
    fn each_user(&self, range: &Range<u64>, mode: Mode, mut add: impl FnMut(Position)) {
        if range.is_empty() {
            return;
        }
        self.writes.each(&mut add);
        if mode.writes() {
            self.reads.each(&mut add);
        }
        if self.ranged.load(Ordering::Relaxed) {
            self.ranged_users(range, mode, &mut add);
        }
    }

    /// Whether a lane other than `lane` has an operation that an access must follow.
    #[inline]
    pub(crate) fn has_other_user(&self, range: &Range<u64>, mode: Mode, lane: LaneId) -> bool {
        if range.is_empty() {
            return false;
        }
        let mut other = false;
        self.writes.each(|user| other |= user.lane != lane);
        if mode.writes() {
            self.reads.each(|user| other |= user.lane != lane);
        }
        other
            || self.ranged.load(Ordering::Relaxed) && self.has_other_ranged_user(range, mode, lane)
    }

    #[inline(never)]
    fn has_other_ranged_user(&self, range: &Range<u64>, mode: Mode, lane: LaneId) -> bool {
        let mut other = false;
        self.ranged_users(range, mode, &mut |user| other |= user.lane != lane);
        other
    }

    #[inline(never)]
    fn ranged_users(&self, range: &Range<u64>, mode: Mode, add: &mut dyn FnMut(Position)) {
        for (_, stamp) in self.lock().overlapping(range.clone()) {
            let reads: &[Position] = if mode.writes() { &stamp.reads } else { &[] };
            stamp.write.iter().chain(reads).copied().for_each(&mut *add);
        }
    }

    /// Adds the operations that an access by the host, a free or the next owner must follow: the
    /// users in the stamps, and the users that no stamp names.
    pub(crate) fn all_users<A: smallvec::Array<Item = Position>>(
        &self,
        range: &Range<u64>,
        mode: Mode,
        implied: impl Fn(Position) -> bool,
        needs: &mut SmallVec<A>,
    ) {
        if let Some(rare) = self.rare.get() {
            let left_out = rare.left_out.lock().expect("no code panics under this lock");
            for position in left_out.iter().filter(|position| !implied(**position)) {
                keep_latest(needs, *position);
            }
        }
        self.users(range, mode, implied, needs);
    }

    /// Keeps users that no stamp will name, so that a free waits for them.
    pub(crate) fn keep_unstamped(&self, positions: &[Position]) {
        let mut left_out = self.rare().left_out.lock().expect("no code panics under this lock");
        for position in positions {
            keep_latest(&mut left_out, *position);
        }
    }

    /// Stamps an access of an operation that was enqueued. The caller holds the lock of the lane of
    /// that operation. This function takes no lock. Returns `false` if the access needs the map.
    /// Then the caller must call [`Self::stamp_ranged`].
    #[inline]
    pub(crate) fn stamp(&self, range: &Range<u64>, mode: Mode, position: Position) -> bool {
        if range.is_empty() {
            return true;
        }
        if self.is_manual() {
            let slots = if mode.writes() { &self.writes } else { &self.reads };
            return slots.note(position);
        }
        if !self.is_whole(range) || self.parts.load(Ordering::Relaxed) {
            return false;
        }
        if !mode.writes() {
            return self.reads.note(position);
        }
        if self.ranged.load(Ordering::Relaxed) {
            return false;
        }
        self.write_whole(position);
        true
    }

    /// Stamps a write of the whole allocation. The write follows every earlier access, so its stamp
    /// replaces all other stamps.
    #[inline]
    fn write_whole(&self, position: Position) {
        self.reads.clear();
        let [last, ..] = &self.writes.0;
        last.store(position.pack(), Ordering::Relaxed);
    }

    /// Stamps in the map an access of an operation that was enqueued. The caller holds no lock.
    #[cold]
    pub(crate) fn stamp_ranged(&self, range: &Range<u64>, mode: Mode, position: Position) {
        if self.is_manual() {
            self.keep_unstamped(&[position]);
            return;
        }
        let parts = self.parts.load(Ordering::Relaxed);
        let mut stamps = self.lock();
        if mode.writes() && !parts {
            if self.is_whole(range) {
                self.forget_ranges(&mut stamps);
                self.write_whole(position);
                return;
            }
            self.move_to_map(&mut stamps);
        }
        stamps.update(range.clone(), Stamp::default, |stamp| {
            if mode.writes() {
                stamp.write = Some(position);
                stamp.reads.clear();
            } else {
                stamp.read(position);
            }
        });
        if stamps.len() >= RANGES_KEPT && stamps.len().is_power_of_two() {
            stamps.coarsen(Stamp::joined);
        }
        self.ranged.store(true, Ordering::Relaxed);
    }

    /// Removes the stamps of bytes whose last write is complete. Every earlier use of these bytes
    /// is complete too, so no access has to wait for an earlier use. The caller is the only owner
    /// of the bytes.
    pub(crate) fn settle(&self, range: &Range<u64>) {
        if range.is_empty() || self.is_manual() {
            return;
        }
        if self.is_whole(range) && !self.parts.load(Ordering::Relaxed) {
            if self.ranged.load(Ordering::Relaxed) {
                self.forget_ranges(&mut self.lock());
            }
            self.reads.clear();
            self.writes.clear();
            return;
        }
        let mut stamps = self.lock();
        if !self.parts.load(Ordering::Relaxed) {
            self.move_to_map(&mut stamps);
        }
        if self.ranged.load(Ordering::Relaxed) {
            stamps.update(range.clone(), Stamp::default, |stamp| *stamp = Stamp::default());
            stamps.retain(|stamp| *stamp != Stamp::default());
        }
    }

    /// Removes from the map the stamps of the bytes that the allocation may use. The stamps of
    /// later bytes stay.
    fn forget_ranges(&self, stamps: &mut RangeMap<Stamp>) {
        let extent = self.extent.load(Ordering::Relaxed);
        if extent < self.bytes {
            stamps.update(0..extent, Stamp::default, |stamp| *stamp = Stamp::default());
            stamps.retain(|stamp| *stamp != Stamp::default());
        } else {
            stamps.clear();
        }
        self.ranged.store(!stamps.is_empty(), Ordering::Relaxed);
    }

    /// Moves the stamps of the whole allocation into the map. Requires exclusive access to the
    /// allocation.
    fn move_to_map(&self, stamps: &mut RangeMap<Stamp>) {
        let (mut write, mut reads) = (None, NeededPositions::new());
        self.writes.each(|position| write = Some(position));
        self.reads.each(|position| reads.push(position));
        if write.is_none() && reads.is_empty() {
            return;
        }
        stamps.update(0..self.extent.load(Ordering::Relaxed), Stamp::default, |stamp| {
            // A write of the whole empties the map, and a write of a part calls this function
            // first. So if the whole has a write, the map has only readers.
            stamp.write = write.or(stamp.write);
            reads.iter().for_each(|position| stamp.read(*position));
        });
        self.writes.clear();
        self.reads.clear();
        self.ranged.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
