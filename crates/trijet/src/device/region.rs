//! Host bytes that queued operations use: the memory of host devices, and page-locked memory.
//!
//! Every access of an executor goes through a [`RangeGuard`]: a lock on a byte range, shared for
//! reads and exclusive for writes. So a program that lacks an edge gets a wrong result, but no data
//! race. A guard that a user holds over page-locked memory takes no lock. Such guards rely on the
//! order of the operations, see `memory::pinned`.
//!
//! This file has the only unsafe code of the host device.

use crate::base::ledger::Mode;
use smallvec::SmallVec;
use std::alloc::{Layout, alloc, dealloc};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The size of a page, so that page-locked memory is aligned as on a GPU.
const ALIGN: usize = 4096;

/// The locked byte ranges of a region.
type Locks = Vec<(Range<u64>, Mode)>;

/// Bytes, and the locks on ranges of these bytes.
///
/// Invariant: `base` points to `len` bytes that stay valid until this value drops. The first
/// `ready` bytes are initialised. No code reads or writes the other bytes.
#[derive(Debug)]
struct Region {
    base: NonNull<u8>,
    len: usize,
    /// The number of initialised bytes. This number only grows, under the lock of `locks`.
    ready: AtomicUsize,
    /// The layout of the allocation; `None` if a driver or another library owns the bytes.
    layout: Option<Layout>,
    locks: Mutex<Locks>,
}

// SAFETY: the bytes are plain data, which no thread owns, and are valid until this value drops. The
// bytes are used only under a range lock or by the contracts of `slice` and `slice_mut`. This does
// not hold for a reference that outlives its guard.
unsafe impl Send for Region {}
// SAFETY: threads that share the region write a range only with an exclusive lock on the range, or
// by the contract of `slice_mut`. This does not hold for two operations without a lock if there is
// no edge between them. The other fields are atomic or under a mutex.
unsafe impl Sync for Region {}

impl Drop for Region {
    fn drop(&mut self) {
        if let Some(layout) = self.layout {
            // SAFETY: `base` came from `alloc` with this layout. No slice of the bytes exists any
            // more, because guards borrow a window of the region, queued operations own a window,
            // and each window has a share of the region. This does not hold for a slice whose
            // caller broke the contract of `slice`.
            unsafe { dealloc(self.base.as_ptr(), layout) };
        }
    }
}

/// A window of a region: the whole region, or an allocation of a pool. Two windows overlap only if
/// the pool allocates the same bytes again.
#[derive(Debug, Clone)]
pub(crate) struct HostBytes {
    region: Arc<Region>,
    start: usize,
    len: usize,
}

impl HostBytes {
    /// Allocates `len` zeroed bytes; `None` if the system cannot.
    pub(crate) fn zeroed(len: u64) -> Option<Self> {
        let bytes = Self::to_part(len)?;
        bytes.make_ready(bytes.len);
        Some(bytes)
    }

    /// Allocates `len` bytes for a pool. The bytes of a part are zeroed when the first window of
    /// the part is made. This saves time, because most programs use little of the memory of their
    /// pools, and an exploration runs a program many times.
    pub(in crate::device) fn to_part(len: u64) -> Option<Self> {
        let len = usize::try_from(len).ok()?;
        let layout = Layout::from_size_align(len.max(1), ALIGN).ok()?;
        // SAFETY: the size of the layout is not 0, by `max(1)`. The bytes are not initialised;
        // `ready` is 0, so no code reads them before they are.
        let base = NonNull::new(unsafe { alloc(layout) })?;
        let (ready, layout) = (AtomicUsize::new(0), Some(layout));
        let region = Region { base, len, ready, layout, locks: Mutex::default() };
        Some(Self { region: Arc::new(region), start: 0, len })
    }

    /// Zeroes all bytes of the region before offset `end` that are not initialised.
    #[inline]
    fn make_ready(&self, end: usize) {
        if self.region.ready.load(Ordering::Acquire) < end {
            self.make_more_ready(end);
        }
    }

    #[cold]
    fn make_more_ready(&self, end: usize) {
        let Region { base, len, ready, locks, .. } = &*self.region;
        assert!(end <= *len, "{end} bytes are more than the {len} of the region");
        let _alone = locks.lock().expect("no code panics under a range lock");
        let begin = ready.load(Ordering::Relaxed);
        if begin < end {
            // SAFETY: `begin < end <= len`, so the address is inside of the allocation.
            let at = unsafe { base.as_ptr().add(begin) };
            // SAFETY: the range is inside of the allocation. No code uses the bytes at offset
            // `ready` and above, by the invariant of the type. This does not hold without the lock:
            // a second caller would zero bytes that an operation has written meanwhile.
            unsafe { at.write_bytes(0, end - begin) };
            ready.store(end, Ordering::Release);
        }
    }

    /// A window of bytes that other code allocated.
    ///
    /// # Safety
    /// `base` points to `len` initialised bytes, which stay valid until the returned value and its
    /// clones drop. Until then only methods of these values and operations of a device use the
    /// bytes.
    pub(in crate::device) unsafe fn lent(base: NonNull<u8>, len: usize) -> Self {
        let ready = AtomicUsize::new(len);
        let region = Region { base, len, ready, layout: None, locks: Mutex::default() };
        Self { region: Arc::new(region), start: 0, len }
    }

    /// The `len` bytes at `address`, which another library allocated; `None` for a null address.
    pub(in crate::device) fn of_others(address: u64, len: u64) -> Option<Self> {
        let (address, len) = (usize::try_from(address).ok()?, usize::try_from(len).ok()?);
        let base = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(address))?;
        // SAFETY: the caller of the unsafe function of `memory/foreign.rs` guarantees three facts.
        // The bytes are initialised, they stay valid until their owner is dropped, and no other
        // code uses them meanwhile. `release` in that file drops every window before the owner.
        // This does not hold if a queued operation still has a window when the owner is dropped.
        Some(unsafe { Self::lent(base, len) })
    }

    /// The part `range` of this window.
    ///
    /// # Panics
    /// When the range is not inside of this window.
    pub(in crate::device) fn part(&self, range: Range<u64>) -> Self {
        let (start, len) = self.checked(&range);
        self.make_ready(start + len);
        Self { region: Arc::clone(&self.region), start, len }
    }

    /// The address of the first byte.
    pub(crate) fn address(&self) -> u64 {
        self.region.base.as_ptr() as u64 + self.start as u64
    }

    /// Prepares `range` for other code that uses the bytes by their address. Bytes that are not
    /// initialised are zeroed now, so that no later call zeroes them.
    pub(crate) fn expose(&self, range: &Range<u64>) {
        let (start, len) = self.checked(range);
        self.make_ready(start + len);
    }

    /// The bytes of `range`, without a lock.
    ///
    /// # Safety
    /// Until the slice is dropped, no operation of any device that writes to `range` runs.
    pub(crate) unsafe fn slice(&self, range: Range<u64>) -> &[u8] {
        let (start, len) = self.checked(&range);
        self.make_ready(start + len);
        // SAFETY: `start` is inside of the allocation or its end, by `checked`.
        let at = unsafe { self.region.base.as_ptr().add(start) };
        // SAFETY: the range is inside of the allocation by `checked`, and initialised by
        // `make_ready`. No operation writes the range while the slice exists, by the contract of
        // this function. This does not hold if an operation of a second stream or device writes the
        // range without an edge.
        unsafe { std::slice::from_raw_parts(at, len) }
    }

    /// The word at `offset`, without a lock.
    ///
    /// # Safety
    /// Until the reference is dropped, all accesses of these four bytes are atomic.
    ///
    /// # Panics
    /// When the word is not inside of this window, or not aligned.
    pub(crate) unsafe fn word(&self, offset: u64) -> &AtomicU32 {
        let (start, len) = self.checked(&(offset..offset + 4));
        self.make_ready(start + len);
        // SAFETY: `start` is inside of the allocation, by `checked`.
        let at = unsafe { self.region.base.as_ptr().add(start) }.cast::<u32>();
        assert!(at.is_aligned(), "a word is aligned");
        // SAFETY: four bytes of the allocation, initialised by `make_ready` and aligned. All
        // accesses are atomic, by the contract of this function. This does not hold if a guard or
        // an operation of a host device uses the bytes meanwhile.
        unsafe { AtomicU32::from_ptr(at) }
    }

    /// The bytes of `range` for writing, without a lock.
    ///
    /// # Safety
    /// Until the slice is dropped, no operation of any device that uses `range` runs, and no other
    /// slice of `range` exists.
    #[expect(
        clippy::mut_from_ref,
        reason = "exclusive by the contract of the caller, or a range lock"
    )]
    pub(crate) unsafe fn slice_mut(&self, range: Range<u64>) -> &mut [u8] {
        let (start, len) = self.checked(&range);
        self.make_ready(start + len);
        // SAFETY: `start` is inside of the allocation or its end, by `checked`. This holds for a
        // window of a part too.
        let at = unsafe { self.region.base.as_ptr().add(start) };
        // SAFETY: the range is inside of the allocation by `checked`, and initialised by
        // `make_ready`. The slice is the only use of the range, by the contract of this function.
        // This does not hold if a pending operation of any device uses the range and lacks an edge.
        unsafe { std::slice::from_raw_parts_mut(at, len) }
    }

    /// Checks `range` of this window, and returns its start in the region and its length.
    fn checked(&self, range: &Range<u64>) -> (usize, usize) {
        let start = usize::try_from(range.start).expect("offsets fit the address space");
        let end = usize::try_from(range.end).expect("offsets fit the address space");
        assert!(
            start <= end && end <= self.len,
            "the range {range:?} is outside of {} bytes",
            self.len
        );
        let at = self.start + start;
        assert!(at + (end - start) <= self.region.len, "a window lies within its region");
        (at, end - start)
    }

    /// Whether this window and `other` are windows of the same region.
    pub(in crate::device) fn shares_region(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.region, &other.region)
    }

    /// The range of the region that corresponds to `range` of this window.
    pub(in crate::device) fn in_region(&self, range: &Range<u64>) -> Range<u64> {
        self.start as u64 + range.start..self.start as u64 + range.end
    }
}

/// A lock on a byte range of a window.
#[derive(Debug)]
pub(crate) struct RangeGuard<'a> {
    bytes: &'a HostBytes,
    range: Range<u64>,
    mode: Mode,
}

impl<'a> RangeGuard<'a> {
    /// Locks `range` of `bytes`; `None` if an overlapping lock excludes the new lock.
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
        // SAFETY: the lock excludes every executor that writes the range while the guard lives. A
        // guard of a user over page-locked memory takes no lock. Such a guard exists only while no
        // operation uses the range. This does not hold if the ordering left out a wait of the host.
        unsafe { self.bytes.slice(self.range.clone()) }
    }

    /// The locked bytes for writing.
    ///
    /// # Panics
    /// When the lock is a lock for reading.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(self.mode.writes(), "a lock for reading does not allow writes");
        // SAFETY: the lock is exclusive while the guard lives. The slice borrows the guard
        // exclusively, so the slice is the only one. This does not hold for a lock for reading,
        // which the assertion refuses.
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

/// The locked bytes of one argument of an operation.
pub(in crate::device) enum LockedBytes<'a> {
    Read(&'a [u8]),
    Write(&'a mut [u8]),
}

/// A byte range of a window, and the access mode of an operation.
type WindowPart<'a> = (&'a HostBytes, Range<u64>, Mode);

/// Locks on all byte ranges of one operation. Consecutive ranges of one region are locked and
/// unlocked together.
pub(in crate::device) struct RangeGuards<'a> {
    parts: SmallVec<[WindowPart<'a>; 4]>,
}

impl<'a> RangeGuards<'a> {
    /// Locks every range. If an overlapping lock excludes a range, returns `None` and locks
    /// nothing. The overlapping lock can be of another range of the same operation.
    pub(in crate::device) fn try_new(parts: SmallVec<[WindowPart<'a>; 4]>) -> Option<Self> {
        // If a lock is refused below, the drop of `taken` releases the earlier locks.
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

    /// The locked bytes, in the order of the ranges.
    pub(in crate::device) fn bytes(&mut self) -> impl Iterator<Item = LockedBytes<'_>> {
        self.parts.iter().map(|(bytes, range, mode)| {
            if mode.writes() {
                // SAFETY: the lock on the range is exclusive, even against the other ranges of this
                // operation. The iterator yields each slice once and borrows `self` exclusively.
                // This does not hold for a second iterator at the same time.
                LockedBytes::Write(unsafe { bytes.slice_mut(range.clone()) })
            } else {
                // SAFETY: until the guards drop, the lock excludes every executor that writes the
                // range, and every written range of this operation. This does not hold if two
                // ranges of the operation overlap and no conflict was found.
                LockedBytes::Read(unsafe { bytes.slice(range.clone()) })
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

/// Locks the list of locks of the region of `bytes`. If `open` has the list of another region, that
/// list is unlocked first.
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

/// Adds a lock. Returns false if an overlapping lock excludes the new lock.
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
        assert!(RangeGuard::try_new(&m, 8..9, Mode::Update).is_none());
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

    /// The bytes of each part are zeroed once, whatever the order of the parts.
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

    /// Other code writes bytes that were exposed. A later use of bytes at higher addresses does not
    /// zero the exposed bytes.
    #[test]
    fn exposed_bytes_are_zero_and_stay_as_other_code_leaves_them() {
        let whole = HostBytes::to_part(1 << 16).expect("a few bytes");
        whole.expose(&(64..128));
        let address = usize::try_from(whole.address()).expect("an address") + 64;
        let bytes = std::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: 64 bytes of the region, which are initialised and which no guard has.
        let bytes = unsafe { std::slice::from_raw_parts_mut(bytes, 64) };
        assert_eq!(bytes, [0; 64]);
        bytes.fill(7);
        let last = whole.part(1024..2048);
        RangeGuard::try_new(&last, 0..1024, Mode::Write).expect("free").bytes_mut().fill(1);
        let guard = RangeGuard::try_new(&whole, 0..1024, Mode::Read).expect("free");
        assert_eq!((&guard.bytes()[64..128], guard.bytes()[128]), (&[7; 64][..], 0));
    }

    #[test]
    fn an_operation_locks_all_of_its_ranges_or_none() {
        let (m, other) = (zeroed(64), zeroed(8));
        let lock = |parts: &[WindowPart<'_>]| {
            let parts = parts.iter().cloned().collect();
            RangeGuards::try_new(parts).map(|mut held| held.bytes().count())
        };
        let held = RangeGuard::try_new(&m, 32..40, Mode::Write).expect("free");
        let mine = [(&m, 0..8, Mode::Read), (&other, 0..8, Mode::Write), (&m, 39..64, Mode::Read)];
        assert_eq!(lock(&mine), None);
        // The ranges that the refused operation had locked are unlocked again.
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
