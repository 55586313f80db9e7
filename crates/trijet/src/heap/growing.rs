//! Growing ranges: separate ranges of addresses. A heap maps memory into each range, beginning at
//! the start of the range.
//!
//! Memory is mapped only at higher addresses than the bytes that operations may use, so mapping
//! waits for no work. When a range loses its user, the range keeps its memory and is parked. A
//! parked range is in a list for the next user, together with the operations that used the range
//! last.
#![forbid(unsafe_code)]

use super::growing_range::{GrowingRange, Parked, RANGES_MAX};
use super::space::nodes::{GRANULE, Users};
use super::{Heap, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::Position;
use crate::base::units::Bytes;
use crate::device::driver::{Driver, RangeSizes};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

impl Heap {
    /// Returns a growing range of at least `bytes`, and the operations that used the range last.
    /// The range is a parked range, or a new range without memory. The caller will use the first
    /// `used` bytes of the range at once.
    ///
    /// # Errors
    /// `Unsupported` if the device has no ranges; `OutOfMemory` if there are not enough addresses.
    pub(crate) fn growing(
        &self,
        driver: &dyn Driver,
        (used, bytes): (u64, u64),
        is_done: impl Fn(&Position) -> bool,
    ) -> Result<(Arc<GrowingRange>, Users)> {
        if let Some(Parked { range, users }) = self.take_parked((used, bytes), is_done) {
            range.refused.store(false, Ordering::Relaxed);
            return Ok((range, users));
        }
        let sizes = self.range_sizes(driver)?;
        let too_large = || {
            let cause =
                format!("there are not enough free addresses for a range of {}", Bytes(bytes));
            Error::new(ErrorKind::OutOfMemory, "growing", cause)
        };
        let whole = bytes.max(1).checked_next_multiple_of(sizes.granule.0).ok_or_else(too_large)?;
        let number = self.lock().parking.take_number().ok_or_else(|| {
            let cause =
                format!("the heap has {RANGES_MAX} growing ranges already; drop a growing buffer");
            Error::new(ErrorKind::OutOfMemory, "growing", cause)
        })?;
        let reserved = driver.range_reserve(self.device, Bytes(whole));
        self.lock().counts.calls += 1;
        let memory = reserved.inspect_err(|_| self.lock().parking.unused.push(number))?;
        let range = GrowingRange {
            memory,
            number,
            mapped: AtomicU64::new(0),
            is_parked: AtomicBool::new(false),
            pieces: Mutex::default(),
            asked: AtomicU64::new(0),
            refused: AtomicBool::new(false),
        };
        Ok((Arc::new(range), Users::new()))
    }

    /// Takes a parked range of at least `bytes`. Among the ranges with at least `used` mapped
    /// bytes, prefers the range with the fewest mapped bytes. If there is no such range, takes the
    /// range with the most mapped bytes. Between ranges with equally many mapped bytes, prefers a
    /// range with complete users.
    fn take_parked(
        &self,
        (used, bytes): (u64, u64),
        is_done: impl Fn(&Position) -> bool,
    ) -> Option<Parked> {
        let mut state = self.lock();
        let parking = &mut state.parking;
        let of = |parked: &Parked| {
            let mapped = parked.range.mapped();
            let distance = if mapped < used { u64::MAX - mapped } else { mapped - used };
            (distance, !parked.users.iter().all(&is_done))
        };
        let all = parking.parked.iter().enumerate();
        let fits = all.filter(|(_, parked)| parked.range.memory.bytes() >= bytes);
        let (index, _) = fits.min_by_key(|(_, parked)| of(parked))?;
        let parked = parking.parked.swap_remove(index);
        parked.range.is_parked.store(false, Ordering::Relaxed);
        self.live.add_mapped(parked.range.mapped());
        Some(parked)
    }

    /// Parks a range. The operations `users` used the range last.
    pub(crate) fn park(&self, range: Arc<GrowingRange>, users: Users) {
        let mut state = self.lock();
        range.is_parked.store(true, Ordering::Relaxed);
        self.live.subtract_mapped(range.mapped());
        state.parking.parked.push(Parked { range, users });
    }

    /// Maps memory, so that at least the first `to` bytes of a range are mapped.
    ///
    /// # Errors
    /// `OutOfMemory` if the device has no more memory; an error of the driver.
    pub(crate) fn extend(&self, driver: &dyn Driver, range: &GrowingRange, to: u64) -> Result<()> {
        let sizes = self.range_sizes(driver)?;
        let mut pieces = range.pieces.lock().expect("no thread panicked while it held this lock");
        let begin = range.mapped();
        if begin >= to {
            return Ok(());
        }
        let whole = range.memory.bytes();
        let least = to.next_multiple_of(sizes.granule.0).min(whole);
        let end = least.max(begin + range.unit(sizes)).min(whole);
        let end = match self.map_growing(driver, range, begin..end) {
            Err(error) if error.kind() == ErrorKind::OutOfMemory && least < end => {
                self.map_growing(driver, range, begin..least)?;
                least
            }
            outcome => outcome.map(|()| end)?,
        };
        pieces.push(end);
        Ok(())
    }

    /// Asks the mapper thread to map the first `to` bytes of a range. Does not wait for the thread.
    pub(crate) fn ask_ahead(
        self: &Arc<Self>,
        driver: &Arc<dyn Driver>,
        range: &Arc<GrowingRange>,
        to: u64,
    ) {
        let (heap, driver, range) = (Arc::downgrade(self), Arc::clone(driver), Arc::clone(range));
        self.mapper.run(Box::new(move || {
            if let Some(heap) = heap.upgrade() {
                heap.extend_ahead(&*driver, &range, to);
            }
        }));
    }

    /// Maps the first `to` bytes of a range before an operation needs them. If the memory cannot be
    /// mapped, the range is marked as refused. No more memory is then requested ahead for the
    /// range.
    fn extend_ahead(&self, driver: &dyn Driver, range: &GrowingRange, to: u64) {
        // The call that needs the memory will report the error.
        let refused = self.extend(driver, range, to).is_err();
        range.refused.store(refused, Ordering::Relaxed);
    }

    fn map_growing(
        &self,
        driver: &dyn Driver,
        range: &GrowingRange,
        at: std::ops::Range<u64>,
    ) -> Result<()> {
        let bytes = at.end - at.start;
        self.lock().take_room(bytes / GRANULE)?;
        let end = at.end;
        let mapped = driver.range_map(&range.memory, at);
        let mut state = self.lock();
        state.counts.calls += 1;
        if let Err(error) = mapped {
            state.return_room(bytes / GRANULE);
            return Err(error);
        }
        range.mapped.store(end, Ordering::Release);
        if !range.is_parked.load(Ordering::Relaxed) {
            self.live.add_mapped(bytes);
        }
        state.note_high();
        Ok(())
    }

    /// Unmaps the memory of parked ranges with complete users, and returns the number of unmapped
    /// bytes. `takes` decides whether a range is unmapped. Its arguments are the number of bytes
    /// that the heap has and the number of mapped bytes of the range.
    pub(super) fn release_parked(
        &self,
        driver: &dyn Driver,
        takes: impl Fn(u64, u64) -> bool,
        is_done: impl Fn(&Position) -> bool,
    ) -> Result<u64> {
        let mut released = 0;
        while let Some(range) = self.take_idle_range(&takes, &is_done) {
            let bytes = range.mapped();
            self.release(driver, range)?;
            released += bytes;
        }
        Ok(released)
    }

    /// Takes a parked range with complete users, if no thread maps memory into the range. `takes`
    /// is the function of [`release_parked`](Self::release_parked).
    fn take_idle_range(
        &self,
        takes: impl Fn(u64, u64) -> bool,
        is_done: impl Fn(&Position) -> bool,
    ) -> Option<GrowingRange> {
        let mut state = self.lock();
        let held = state.mapped();
        let parking = &mut state.parking;
        let is_idle = |parked: &Parked| {
            parked.users.iter().all(&is_done) && takes(held, parked.range.mapped())
        };
        for index in 0..parking.parked.len() {
            if !is_idle(&parking.parked[index]) {
                continue;
            }
            let Parked { range, users } = parking.parked.swap_remove(index);
            match Arc::try_unwrap(range) {
                Ok(range) => return Some(range),
                Err(range) => {
                    parking.parked.push(Parked { range, users });
                    let last = parking.parked.len() - 1;
                    parking.parked.swap(index, last);
                }
            }
        }
        None
    }

    fn release(&self, driver: &dyn Driver, range: GrowingRange) -> Result<()> {
        let pieces = range.pieces.into_inner().expect("no thread panicked while it held this lock");
        let mut begin = 0;
        for end in pieces {
            driver.range_unmap(&range.memory, begin..end)?;
            let mut state = self.lock();
            state.counts.calls += 1;
            state.return_room((end - begin) / GRANULE);
            begin = end;
        }
        driver.range_free(&range.memory)?;
        self.lock().counts.calls += 1;
        self.lock().parking.unused.push(range.number);
        Ok(())
    }

    fn range_sizes(&self, driver: &dyn Driver) -> Result<RangeSizes> {
        let cause = "the driver cannot reserve ranges of addresses";
        self.sizes(driver)?.ok_or_else(|| Error::new(ErrorKind::Unsupported, "growing", cause))
    }
}

impl State {
    /// The number of mapped bytes of all parked ranges.
    pub(crate) fn parked(&self) -> u64 {
        self.parking.parked.iter().map(|parked| parked.range.mapped()).sum()
    }
}
