//! The growth of a heap. Memory is mapped at the end of a range of addresses, or into a hole.
//! Memory that no block uses is unmapped.
#![forbid(unsafe_code)]

use super::mapping::Mapping;
use super::space::Taken;
use super::space::nodes::{GRANULE, List, Users};
use super::{Heap, HeapMode, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::Position;
use crate::base::units::Bytes;
use crate::device::driver::{Driver, RangeSizes};
use crate::device::memory::Memory;

/// A large heap grows by its size divided by this number, so the number of growths is logarithmic
/// in the size of the heap. The time of a growth hardly depends on the number of bytes (measured:
/// crates/trijet-bench/results/h200/memory.csv).
const GROWTH_PART: u64 = 64;

/// The size of pieces of memory in `HeapMode::Footprint`, in granules of the heap. This size equals
/// the granule of GPUs. A free piece can be returned to the device, or mapped elsewhere.
const PIECE: u64 = (2 << 20) / GRANULE;

/// The amount of memory that a trim unmaps. A piece of memory is unmapped as a whole.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trim {
    /// As much as possible, but the heap keeps at least this number of bytes.
    Keep(u64),
    /// Until the heap has at most this number of bytes from the device.
    To(u64),
}

impl Trim {
    /// Whether a heap that has `held` bytes from the device unmaps a piece of `piece` bytes.
    fn takes(self, held: u64, piece: u64) -> bool {
        match self {
            Self::Keep(least) => held.saturating_sub(piece) >= least,
            Self::To(most) => held > most,
        }
    }
}

/// The sizes of a growth, in granules.
#[derive(Debug, Clone, Copy)]
struct Growth {
    /// Memory is mapped in multiples of this size.
    unit: u64,
    /// Memory at the end of a range grows in multiples of this size, which is a multiple of `unit`.
    step: u64,
    /// Memory is mapped in pieces of at most this size.
    piece: u64,
}

/// A piece of memory that is about to be mapped or unmapped. Until that is done, a live block
/// occupies the addresses of the piece.
struct GrowthPlan {
    piece: Taken,
    range: Memory,
}

fn bytes(piece: &Taken) -> std::ops::Range<u64> {
    piece.start * GRANULE..(piece.start + piece.granules) * GRANULE
}

impl State {
    /// The number of bytes that the heap has from the device, including memory that is about to be
    /// mapped.
    pub(crate) fn mapped(&self) -> u64 {
        self.mapped
    }

    /// Chooses the addresses at which memory is mapped for a block of `granules`: a hole, or the
    /// end of a range. If the last block of that range is free, the new memory has only the
    /// granules that the free block lacks. `None` if no range has room.
    ///
    /// # Errors
    /// `OutOfMemory` if the growth would exceed the limit of the heap.
    fn plan(
        &mut self,
        granules: u64,
        Growth { unit, step, .. }: Growth,
    ) -> Result<Option<GrowthPlan>> {
        let wanted = granules.next_multiple_of(unit);
        if self.demand_room(wanted).is_ok()
            && let Some(piece) = self.space.take_hole(wanted)
        {
            let range = self.mappings[piece.range as usize].range().clone();
            self.take_room(wanted)?;
            return Ok(Some(GrowthPlan { piece, range }));
        }
        let Self { space, mappings, .. } = self;
        for (number, mapping) in mappings.iter().enumerate().rev() {
            let number = u32::try_from(number).expect("fewer than 2^32 ranges");
            let wanted = granules - space.free_at_end(number).min(granules - 1);
            let wanted = wanted.next_multiple_of(step);
            if space.extent(number) + wanted <= mapping.granules() {
                let range = mapping.range().clone();
                self.take_room(wanted)?;
                let piece = self.space.extend(number, wanted);
                return Ok(Some(GrowthPlan { piece, range }));
            }
        }
        Ok(None)
    }

    /// The total size of the pieces of memory that no live block uses, in bytes. The pieces can be
    /// mapped elsewhere when the users of their free blocks are complete.
    pub(crate) fn movable(&self) -> u64 {
        let mappings = (0..).zip(&self.mappings);
        let pieces = mappings.flat_map(|(number, mapping)| {
            mapping.pieces.iter().map(move |(start, granules)| (number, *start, *granules))
        });
        let free =
            pieces.filter(|(range, start, granules)| self.space.is_free(*range, *start, *granules));
        free.map(|(_, _, granules)| granules * GRANULE).sum()
    }

    /// The addresses of each mapped piece of the heap. The memory of a
    /// [`GrowingRange`](super::GrowingRange) is not included.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = std::ops::Range<u64>> + '_ {
        self.mappings.iter().flat_map(Mapping::pieces)
    }

    /// Counts memory of `granules` that is about to be mapped.
    ///
    /// # Errors
    /// `OutOfMemory` if the growth would exceed the limit of the heap.
    pub(super) fn take_room(&mut self, granules: u64) -> Result<()> {
        self.demand_room(granules)?;
        self.mapped += granules * GRANULE;
        Ok(())
    }

    /// Subtracts memory that was unmapped, or that could not be mapped.
    pub(super) fn return_room(&mut self, granules: u64) {
        self.mapped -= granules * GRANULE;
    }

    pub(super) fn note_high(&mut self) {
        self.counts.mapped_high = self.counts.mapped_high.max(self.mapped);
    }

    /// Returns an error if a growth by `granules` would exceed the limit of the heap.
    fn demand_room(&self, granules: u64) -> Result<()> {
        let Some(limit) = self.limit else { return Ok(()) };
        if self.mapped.saturating_add(granules * GRANULE) <= limit {
            return Ok(());
        }
        let cause = format!(
            "the limit of the heap is {}, and the heap has {} already",
            Bytes(limit),
            Bytes(self.mapped)
        );
        Err(Error::new(ErrorKind::OutOfMemory, "alloc", cause))
    }

    /// Takes the addresses of a range that has no mapped memory.
    fn take_empty_range(&mut self) -> Option<Memory> {
        let Self { space, mappings, .. } = self;
        let mut empty = (0..).zip(mappings).filter(|(number, _)| space.extent(*number) == 0);
        empty.find_map(|(_, mapping)| mapping.take_range())
    }
}

impl Heap {
    /// Maps memory for a block of `granules`. The memory becomes a free block in the shared list
    /// ([`List::Shared`]). Another thread may take this block before the caller.
    ///
    /// # Errors
    /// `OutOfMemory` if the device has no more memory; an error of the driver.
    pub(crate) fn grow(&self, driver: &dyn Driver, granules: u64) -> Result<()> {
        let Some(sizes) = self.sizes(driver)? else {
            let cause = "the driver cannot reserve ranges of addresses";
            return Err(Error::new(ErrorKind::Unsupported, "alloc", cause));
        };
        let [unit, least] = [sizes.step, sizes.granule].map(|bytes| (bytes.0 / GRANULE).max(1));
        if self.mode() == HeapMode::Footprint {
            let growth = Growth { unit: least, step: least, piece: PIECE.max(least) };
            return self.grow_by(driver, sizes, granules, growth);
        }
        let part = self.lock().mapped / GRANULE / GROWTH_PART;
        let step = (part - part % unit).max(unit);
        let by = |unit, step| Growth { unit, step, piece: u64::MAX };
        let mut outcome = self.grow_by(driver, sizes, granules, by(unit, step));
        for unit in [unit, least].into_iter().filter(|unit| *unit < step) {
            match outcome {
                Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                    outcome = self.grow_by(driver, sizes, granules, by(unit, unit));
                }
                Ok(()) | Err(_) => break,
            }
        }
        outcome
    }

    fn grow_by(
        &self,
        driver: &dyn Driver,
        sizes: RangeSizes,
        granules: u64,
        growth: Growth,
    ) -> Result<()> {
        let plan = loop {
            let planned = self.lock().plan(granules, growth)?;
            match planned {
                Some(plan) => break plan,
                None => {
                    self.reserve(driver, sizes, granules.next_multiple_of(growth.step) * GRANULE)?
                }
            }
        };
        let Taken { index, range, start, granules, .. } = plan.piece;
        let mut end = start;
        let mut mapped = Ok(());
        while end < start + granules && mapped.is_ok() {
            let piece = growth.piece.min(start + granules - end);
            mapped = driver.range_map(&plan.range, end * GRANULE..(end + piece) * GRANULE);
            let mut state = self.lock();
            state.counts.calls += 1;
            if mapped.is_ok() {
                state.mappings[range as usize].pieces.insert(end, piece);
                end += piece;
            }
        }
        let mut state = self.lock();
        let missing = start + granules - end;
        if missing > 0 {
            state.return_room(missing);
            state.space.take_end_away(index, missing);
        }
        if end > start {
            state.space.give(index, Users::new(), List::Shared);
        }
        state.note_high();
        mapped
    }

    /// Reserves a new range of addresses, for at least `least` bytes.
    fn reserve(&self, driver: &dyn Driver, sizes: RangeSizes, least: u64) -> Result<()> {
        let range = driver.range_reserve(self.device, Bytes(sizes.range.0.max(least)))?;
        let mut state = self.lock();
        state.counts.calls += 1;
        state.space.add_range();
        state.mappings.push(Mapping::new(range));
        Ok(())
    }

    /// Unmaps memory that no block and no operation uses, starting with parked ranges. Returns the
    /// number of unmapped bytes.
    ///
    /// # Errors
    /// An error of the driver.
    pub(crate) fn trim(
        &self,
        driver: &dyn Driver,
        trim: Trim,
        is_done: impl Fn(&Position) -> bool,
    ) -> Result<u64> {
        let takes = |held, bytes| trim.takes(held, bytes);
        let mut released = self.release_parked(driver, takes, is_done)?;
        while let Some(GrowthPlan { piece, range }) = self.take_idle_piece(trim) {
            let unmapped = driver.range_unmap(&range, bytes(&piece));
            let mut state = self.lock();
            state.counts.calls += 1;
            if let Err(error) = unmapped {
                state.space.give(piece.index, Users::new(), List::Shared);
                return Err(error);
            }
            state.mappings[piece.range as usize].pieces.remove(&piece.start);
            state.return_room(piece.granules);
            state.space.take_away(piece.index);
            released += piece.granules * GRANULE;
        }
        loop {
            let Some(empty) = self.lock().take_empty_range() else { return Ok(released) };
            driver.range_free(&empty)?;
        }
    }

    /// Takes a piece of memory without used bytes. The search starts with the last piece.
    fn take_idle_piece(&self, trim: Trim) -> Option<GrowthPlan> {
        let mut state = self.lock();
        let held = state.mapped();
        let State { space, mappings, .. } = &mut *state;
        for (number, mapping) in mappings.iter().enumerate().rev() {
            let number = u32::try_from(number).expect("fewer than 2^32 ranges");
            for (start, granules) in mapping.pieces.iter().rev() {
                if !trim.takes(held, granules * GRANULE) {
                    continue;
                }
                let Some(index) = space.take_part(number, *start, *granules) else { continue };
                let (start, granules, users) = (*start, *granules, Users::new());
                let piece = Taken { index, range: number, start, granules, users };
                return Some(GrowthPlan { piece, range: mapping.range().clone() });
            }
        }
        None
    }
}
