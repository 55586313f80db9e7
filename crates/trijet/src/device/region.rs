//! Bytes that queued operations touch: the memory of the host device, and page-locked memory.
//!
//! Every access of an executor goes through a [`RangeGuard`]: a lock on a byte range, shared for
//! reads and exclusive for writes. So a program without the edges it needs gives a wrong result,
//! never a data race in Rust. The guards of page-locked memory that users hold take no lock: they
//! rest on the ordering, see `memory::pinned`.
//!
//! Imports: `base`. The only unsafe code of the host device.

use crate::base::ledger::Mode;
use smallvec::SmallVec;
use std::alloc::{Layout, alloc, dealloc};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// A page, so that page-locked memory and vector loads are aligned as on a real device.
const ALIGN: usize = 4096;

/// Which byte ranges of a region are held, and for what.
type Locks = Vec<(Range<u64>, Mode)>;

/// A run of bytes with a lock per range.
///
/// Invariant: `base` points to `len` bytes that stay valid until this value drops. The first `ready`
/// of them are initialised; nobody reaches the others.
#[derive(Debug)]
struct Region {
    base: NonNull<u8>,
    len: usize,
    /// Only grows, under the lock of `locks`.
    ready: AtomicUsize,
    /// The layout to give back to the allocator; `None` when a driver owns the bytes.
    layout: Option<Layout>,
    locks: Mutex<Locks>,
}

// SAFETY: the bytes are plain data owned by this value (or lent to it for its whole life), and
// are reached only under a range lock or under the promises of `slice` and `slice_mut`.
unsafe impl Send for Region {}
// SAFETY: as for `Send`; `locks` makes the shared use exclusive per byte range.
unsafe impl Sync for Region {}

impl Drop for Region {
    fn drop(&mut self) {
        if let Some(layout) = self.layout {
            // SAFETY: `base` came from `alloc` with this very layout, and dropping ends
            // the type's invariant: every guard and queued operation holds a share of the region.
            unsafe { dealloc(self.base.as_ptr(), layout) };
        }
    }
}

/// A window of a region: all of it, or the part that a pool has handed out. Two windows overlap
/// only when the pool hands bytes out again.
#[derive(Debug, Clone)]
pub(crate) struct HostBytes {
    region: Arc<Region>,
    start: usize,
    len: usize,
}

impl HostBytes {
    /// `len` zeroed bytes, or `None` when the system has no more.
    pub(crate) fn zeroed(len: u64) -> Option<Self> {
        let bytes = Self::to_part(len)?;
        bytes.make_ready(bytes.len);
        Some(bytes)
    }

    /// The same for a pool, which hands out parts: the bytes of each are zeroed when it is first
    /// made. A program mostly needs little of what its pools hold, and an exploration runs it anew
    /// for every order.
    pub(in crate::device) fn to_part(len: u64) -> Option<Self> {
        let len = usize::try_from(len).ok()?;
        let layout = Layout::from_size_align(len.max(1), ALIGN).ok()?;
        // SAFETY: the layout has a non-zero size by `max(1)`.
        let base = NonNull::new(unsafe { alloc(layout) })?;
        let (ready, layout) = (AtomicUsize::new(0), Some(layout));
        let region = Region { base, len, ready, layout, locks: Mutex::default() };
        Some(Self { region: Arc::new(region), start: 0, len })
    }

    /// Zeroes what is not initialised of the first `end` bytes of the region.
    #[inline]
    fn make_ready(&self, end: usize) {
        if self.region.ready.load(Ordering::Acquire) < end {
            self.make_more_ready(end);
        }
    }

    #[cold]
    fn make_more_ready(&self, end: usize) {
        let Region { base, len, ready, locks, .. } = &*self.region;
        assert!(end <= *len, "{end} bytes of {len}");
        let _alone = locks.lock().expect("no code panics under a range lock");
        let begin = ready.load(Ordering::Relaxed);
        if begin < end {
            // SAFETY: `begin < end <= len`, so the address lies within the region.
            let at = unsafe { base.as_ptr().add(begin) };
            // SAFETY: bytes from `ready` on are reached by nobody (the type's invariant), and the
            // lock excludes a second caller here, who would zero what was written meanwhile.
            unsafe { at.write_bytes(0, end - begin) };
            ready.store(end, Ordering::Release);
        }
    }

    /// Bytes that someone else allocated.
    ///
    /// # Safety
    /// `base` points to `len` initialised bytes that stay valid until the returned value and its
    /// clones drop, and that nothing but their methods and the device's own operations touches.
    pub(in crate::device) unsafe fn lent(base: NonNull<u8>, len: usize) -> Self {
        let ready = AtomicUsize::new(len);
        let region = Region { base, len, ready, layout: None, locks: Mutex::default() };
        Self { region: Arc::new(region), start: 0, len }
    }

    /// The `len` bytes at `address`, which another library allocated; `None` for a null address.
    pub(in crate::device) fn of_others(address: u64, len: u64) -> Option<Self> {
        let (address, len) = (usize::try_from(address).ok()?, usize::try_from(len).ok()?);
        let base = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(address))?;
        // SAFETY: the caller of the unsafe function of `memory/foreign.rs` vouched that the bytes are
        // initialised, stay valid until their owner is dropped, and are used by no other code
        // meanwhile; the owner is dropped after every window of them, see `release` there.
        Some(unsafe { Self::lent(base, len) })
    }

    /// The part `range` of this window, as a window of its own.
    ///
    /// # Panics
    /// When the range does not lie within this one: the pools hand out what they hold.
    pub(in crate::device) fn part(&self, range: Range<u64>) -> Self {
        let (start, len) = self.checked(&range);
        self.make_ready(start + len);
        Self { region: Arc::clone(&self.region), start, len }
    }

    /// The address of the first byte.
    pub(crate) fn address(&self) -> u64 {
        self.region.base.as_ptr() as u64 + self.start as u64
    }

    /// The bytes of `range`, outside any lock.
    ///
    /// # Safety
    /// Until the slice is dropped no operation that writes `range` runs, on any device.
    pub(crate) unsafe fn slice(&self, range: Range<u64>) -> &[u8] {
        let (start, len) = self.checked(&range);
        self.make_ready(start + len);
        // SAFETY: `checked` keeps the offset within the region.
        let at = unsafe { self.region.base.as_ptr().add(start) };
        // SAFETY: in bounds by `checked` and initialised by `make_ready`; not written meanwhile by
        // the caller's promise, which a second stream without an edge would break.
        unsafe { std::slice::from_raw_parts(at, len) }
    }

    /// The bytes of `range`, outside any lock, for writing.
    ///
    /// # Safety
    /// Until the slice is dropped no operation that touches `range` runs, on any device, and no
    /// other slice of it exists.
    #[expect(clippy::mut_from_ref, reason = "exclusive by the caller's promise or a range lock")]
    pub(crate) unsafe fn slice_mut(&self, range: Range<u64>) -> &mut [u8] {
        let (start, len) = self.checked(&range);
        self.make_ready(start + len);
        // SAFETY: `checked` keeps the offset within the region, also for a part of it.
        let at = unsafe { self.region.base.as_ptr().add(start) };
        // SAFETY: in bounds by `checked` and initialised by `make_ready`; exclusive by the caller's
        // promise, which a forgotten edge to an operation in flight would break.
        unsafe { std::slice::from_raw_parts_mut(at, len) }
    }

    /// Where `range` of this window lies in the region.
    fn checked(&self, range: &Range<u64>) -> (usize, usize) {
        let start = usize::try_from(range.start).expect("offsets fit the address space");
        let end = usize::try_from(range.end).expect("offsets fit the address space");
        assert!(start <= end && end <= self.len, "{range:?} outside {} bytes", self.len);
        let at = self.start + start;
        assert!(at + (end - start) <= self.region.len, "a window lies within its region");
        (at, end - start)
    }

    /// Whether both are windows of the same bytes, at whatever place.
    pub(in crate::device) fn shares_region(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.region, &other.region)
    }

    /// The same as numbers of the region.
    pub(in crate::device) fn in_region(&self, range: &Range<u64>) -> Range<u64> {
        self.start as u64 + range.start..self.start as u64 + range.end
    }
}

/// A locked byte range of memory that somebody holds meanwhile.
#[derive(Debug)]
pub(crate) struct RangeGuard<'a> {
    bytes: &'a HostBytes,
    range: Range<u64>,
    mode: Mode,
}

impl<'a> RangeGuard<'a> {
    /// Locks `range` of `bytes`, unless an overlapping lock excludes it.
    pub(in crate::device) fn try_new(
        bytes: &'a HostBytes,
        range: Range<u64>,
        mode: Mode,
    ) -> Option<Self> {
        let mut locks = bytes.region.locks.lock().expect("no code panics under a range lock");
        let taken = take(&mut locks, bytes.in_region(&range), mode);
        drop(locks);
        taken.then_some(Self { bytes, range, mode })
    }

    /// The locked bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the lock excludes every writer among the executors for the guard's life; a
        // user's guard over page-locked memory exists only while no operation on it runs.
        unsafe { self.bytes.slice(self.range.clone()) }
    }

    /// The locked bytes for writing.
    ///
    /// # Panics
    /// When the lock is only for reading.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(self.mode.writes(), "a read lock gives no mutable bytes");
        // SAFETY: the lock is exclusive for the guard's life, and `&mut self` makes this slice
        // the only one from this guard.
        unsafe { self.bytes.slice_mut(self.range.clone()) }
    }
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        let locked = self.bytes.in_region(&self.range);
        let mut locks = self.bytes.region.locks.lock().expect("no code panics under a range lock");
        release(&mut locks, &locked, self.mode);
    }
}

/// What one operation has locked of one argument.
pub(in crate::device) enum Bytes<'a> {
    Read(&'a [u8]),
    Write(&'a mut [u8]),
}

/// A byte range of memory and what an operation does with it.
type Part<'a> = (&'a HostBytes, Range<u64>, Mode);

/// The locked byte ranges of one operation: all of them, or none. Neighbours of one region are
/// locked, and let go, at once.
pub(in crate::device) struct RangeGuards<'a> {
    parts: SmallVec<[Part<'a>; 4]>,
}

impl<'a> RangeGuards<'a> {
    /// Locks every range, unless an overlapping lock excludes one: be it another of these.
    pub(in crate::device) fn try_new(parts: SmallVec<[Part<'a>; 4]>) -> Option<Self> {
        // What is taken is let go when it drops.
        let mut taken = Self { parts: SmallVec::new() };
        let mut open: Option<(&Arc<Region>, MutexGuard<'_, Locks>)> = None;
        for (bytes, range, mode) in parts {
            let locks = open_region(&mut open, bytes);
            if !take(locks, bytes.in_region(&range), mode) {
                drop(open);
                return None;
            }
            taken.parts.push((bytes, range, mode));
        }
        Some(taken)
    }

    /// The locked bytes, in the order in which they were asked for.
    pub(in crate::device) fn bytes(&mut self) -> impl Iterator<Item = Bytes<'_>> {
        self.parts.iter().map(|(bytes, range, mode)| {
            if mode.writes() {
                // SAFETY: the lock is exclusive, also among these ranges; each is given out once,
                // and `&mut self` keeps a second iterator from existing.
                Bytes::Write(unsafe { bytes.slice_mut(range.clone()) })
            } else {
                // SAFETY: the lock excludes every writer among the executors, this operation's own
                // written ranges included, until the guards drop.
                Bytes::Read(unsafe { bytes.slice(range.clone()) })
            }
        })
    }
}

impl Drop for RangeGuards<'_> {
    fn drop(&mut self) {
        let mut open = None;
        for (bytes, range, mode) in &self.parts {
            release(open_region(&mut open, bytes), &bytes.in_region(range), *mode);
        }
    }
}

/// The locks of the region of `bytes`; those of another region are closed before.
fn open_region<'a, 'b>(
    open: &'b mut Option<(&'a Arc<Region>, MutexGuard<'a, Locks>)>,
    bytes: &'a HostBytes,
) -> &'b mut Locks {
    if open.as_ref().is_none_or(|(region, _)| !Arc::ptr_eq(region, &bytes.region)) {
        *open = None;
    }
    let (_, locks) = open.get_or_insert_with(|| {
        let locks = bytes.region.locks.lock().expect("no code panics under a range lock");
        (&bytes.region, locks)
    });
    locks
}

/// Takes a range, unless an overlapping lock excludes it.
fn take(locks: &mut Locks, range: Range<u64>, mode: Mode) -> bool {
    let excluded = locks.iter().any(|(held, held_mode)| {
        let shared_bytes = held.start.max(range.start) < held.end.min(range.end);
        shared_bytes && (held_mode.writes() || mode.writes())
    });
    if !excluded {
        locks.push((range, mode));
    }
    !excluded
}

fn release(locks: &mut Locks, range: &Range<u64>, mode: Mode) {
    if let Some(index) = locks.iter().position(|held| held.0 == *range && held.1 == mode) {
        locks.swap_remove(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zeroed(len: u64) -> HostBytes {
        HostBytes::zeroed(len).expect("a few bytes")
    }

    #[test]
    fn a_write_lock_excludes_overlapping_locks_only() {
        let m = zeroed(64);
        let mut writer = RangeGuard::try_new(&m, 0..32, Mode::Write).expect("free");
        writer.bytes_mut().fill(7);
        assert!(RangeGuard::try_new(&m, 31..40, Mode::Read).is_none());
        assert!(RangeGuard::try_new(&m, 32..40, Mode::Write).is_some());
        drop(writer);
        let a = RangeGuard::try_new(&m, 0..40, Mode::Read).expect("free again");
        let b = RangeGuard::try_new(&m, 8..16, Mode::Read).expect("readers share");
        assert_eq!((a.bytes()[31], a.bytes()[32], b.bytes()[0]), (7, 0, 7));
        assert!(RangeGuard::try_new(&m, 8..9, Mode::ReadWrite).is_none());
    }

    #[test]
    fn windows_of_the_same_bytes_exclude_each_other() {
        let whole = HostBytes::zeroed(64).expect("a few bytes");
        let (a, b) = (whole.part(0..32), whole.part(16..48));
        let mut held = RangeGuard::try_new(&a, 0..32, Mode::Write).expect("free");
        held.bytes_mut().fill(9);
        assert!(RangeGuard::try_new(&b, 0..32, Mode::Read).is_none());
        assert!(RangeGuard::try_new(&b, 16..32, Mode::Read).is_some());
        drop(held);
        let guard = RangeGuard::try_new(&b, 0..32, Mode::Read).expect("free again");
        assert_eq!((guard.bytes()[15], guard.bytes()[16]), (9, 0));
    }

    /// Parts are zeroed when they are first made, in whatever order, and not a second time.
    #[test]
    fn every_byte_of_a_part_is_zero_until_it_is_written() {
        let whole = HostBytes::to_part(1 << 16).expect("a few bytes");
        let (later, first) = (whole.part(512..1024), whole.part(0..512));
        for m in [&later, &first] {
            let mut guard = RangeGuard::try_new(m, 0..512, Mode::Write).expect("free");
            assert_eq!(guard.bytes(), [0; 512]);
            guard.bytes_mut().fill(7);
        }
        let all = whole.part(0..1 << 16);
        let guard = RangeGuard::try_new(&all, 0..1 << 16, Mode::Read).expect("free");
        assert_eq!(guard.bytes()[..1024], [7; 1024]);
        assert_eq!(guard.bytes()[1024..], [0; (1 << 16) - 1024]);
    }

    #[test]
    fn an_operation_locks_all_of_its_ranges_or_none() {
        let (m, other) = (zeroed(64), zeroed(8));
        let lock = |parts: &[Part<'_>]| {
            let parts = parts.iter().cloned().collect();
            RangeGuards::try_new(parts).map(|mut held| held.bytes().count())
        };
        let held = RangeGuard::try_new(&m, 32..40, Mode::Write).expect("free");
        let mine = [(&m, 0..8, Mode::Read), (&other, 0..8, Mode::Write), (&m, 39..64, Mode::Read)];
        assert_eq!(lock(&mine), None);
        // What it had locked by then is free again.
        assert!(RangeGuard::try_new(&m, 0..8, Mode::Write).is_some());
        assert!(RangeGuard::try_new(&other, 0..8, Mode::Write).is_some());
        drop(held);
        assert_eq!(lock(&mine), Some(3));
        assert_eq!(lock(&[(&m, 0..8, Mode::Read), (&m, 7..9, Mode::Write)]), None);
        assert!(RangeGuard::try_new(&m, 0..64, Mode::Write).is_some());
    }

    #[test]
    fn an_empty_range_locks_nothing() {
        let m = zeroed(8);
        let _all = RangeGuard::try_new(&m, 0..8, Mode::Write).expect("free");
        assert!(RangeGuard::try_new(&m, 4..4, Mode::Write).is_some());
    }
}
