//! Heaps: memory of a device that the library allocates again by itself, without a call of the
//! driver.
//!
//! A heap takes memory from its device in steps, and maps it into ranges of addresses. `space`
//! knows the free bytes, and the operations that used them last. `growth` maps and unmaps memory.
//! `slabs` has small blocks of page-locked memory. The module `memory::heap`, which knows the
//! lanes, decides which block an allocation gets.
//!
//! The lock of a heap is never held during a call of the driver. If a thread frees a block while
//! another thread holds the lock, the freeing thread adds the block to a list. The next owner of
//! the lock empties the list.
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

mod cache;
mod growing;
mod growing_range;
mod growth;
mod live;
mod mapper;
mod mapping;
mod mode;
pub(crate) mod slabs;
mod space;

pub(crate) use cache::{Gathered, Kept, Owner};
pub(crate) use growing_range::GrowingRange;
pub(crate) use growth::Trim;
pub use mode::HeapMode;
pub(crate) use space::nodes::{GRANULE, Index, List, Users};
pub(crate) use space::{Reuse, Space, Taken};

use crate::base::atomic::Stack;
use crate::base::error::{ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::table::NumberTable;
use crate::device::driver::{Driver, RangeSizes};
use crate::device::memory::Span;
use cache::Caches;
use growing_range::Parking;
use live::Live;
use mapper::Mapper;
use mapping::Mapping;
use mode::SharedMode;
use smallvec::SmallVec;
use std::hint::spin_loop;
use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

/// Number of attempts to take the lock before a thread sleeps. The pauses between the attempts grow
/// up to about 1 us. All pauses together take about 20 us.
const TRIES: u32 = 48;

/// The heap of a device.
#[derive(Debug)]
pub(crate) struct Heap {
    device: DeviceId,
    mode: SharedMode,
    state: Mutex<State>,
    /// The sizes of the heap's ranges. `None` if the driver has no ranges of addresses for this
    /// device.
    sizes: OnceLock<Option<RangeSizes>>,
    /// A thread holds this lock while it makes the heap grow. Other threads that find no memory
    /// wait for the lock, because the new memory may suffice for them too.
    turn: Mutex<()>,
    /// The numbers of blocks that were freed while another thread held the lock of the heap.
    returned: Stack,
    returns: NumberTable<Return>,
    pub(crate) live: Live,
    /// The blocks that lanes keep for their next allocations.
    pub(crate) caches: Caches,
    mapper: Mapper,
}

/// A block in the list of returned blocks.
#[derive(Debug, Default)]
struct Return {
    next: AtomicU32,
    users: Mutex<Users>,
}

/// The state of a heap that its lock protects.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) space: Space,
    pub(crate) mappings: Vec<Mapping>,
    /// The growing ranges that have no user.
    parking: Parking,
    /// The number of bytes that the heap has from the device, including memory that is about to be
    /// mapped.
    mapped: u64,
    /// The maximum number of bytes that the heap may have from the device. `None` if the heap has
    /// no limit of its own.
    pub(crate) limit: Option<u64>,
    pub(crate) counts: Counts,
}

/// Counters of a heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    /// The number of allocations of each kind of [`Reuse`]. The index is the kind.
    pub(crate) reuses: [u64; 6],
    /// The number of calls of the driver that the heap made.
    pub(crate) calls: u64,
    /// The maximum number of bytes that the heap had from the device since the last reset.
    pub(crate) mapped_high: u64,
}

impl Heap {
    /// A heap without memory.
    pub(crate) fn new(device: DeviceId) -> Self {
        Self {
            device,
            mode: SharedMode::default(),
            state: Mutex::default(),
            sizes: OnceLock::new(),
            turn: Mutex::default(),
            returned: Stack::default(),
            returns: NumberTable::default(),
            live: Live::default(),
            caches: Caches::default(),
            mapper: Mapper::default(),
        }
    }

    /// The mode of allocations.
    #[inline]
    pub(crate) fn mode(&self) -> HeapMode {
        self.mode.get()
    }

    pub(crate) fn set_mode(&self, mode: HeapMode) {
        self.mode.set(mode);
    }

    /// The sizes of the heap's ranges. `None` if the driver has no ranges of addresses for this
    /// device.
    ///
    /// # Errors
    /// An error of the driver.
    pub(crate) fn sizes(&self, driver: &dyn Driver) -> Result<Option<RangeSizes>> {
        if let Some(sizes) = self.sizes.get() {
            return Ok(*sizes);
        }
        let sizes = match driver.range_sizes(self.device) {
            Ok(sizes) => Some(sizes),
            Err(error) if error.kind() == ErrorKind::Unsupported => None,
            Err(error) => return Err(error),
        };
        Ok(*self.sizes.get_or_init(|| sizes))
    }

    /// Waits until no other thread makes the heap grow. The caller may keep the guard during a call
    /// of the driver, because threads that find memory do not wait here.
    pub(crate) fn turn_to_grow(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock. The blocks that other threads freed meanwhile stay in their list.
    ///
    /// A thread holds the lock for less than a microsecond, but it takes many microseconds to wake
    /// a sleeping thread. So this function tries to take the lock for a while before it sleeps.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        for pauses in (0..TRIES).map(|number| 1 << (number / 8)) {
            match self.state.try_lock() {
                Ok(state) => return state,
                Err(TryLockError::WouldBlock) => (0..pauses).for_each(|_| spin_loop()),
                Err(TryLockError::Poisoned(_)) => break,
            }
        }
        self.state.lock().expect("no thread panicked while it held this lock")
    }

    /// Takes the lock to free a live block, without waiting for another thread. If another thread
    /// holds the lock, adds the block to the list for the next owner of the lock.
    #[inline]
    pub(crate) fn lock_or_leave(
        &self,
        index: Index,
        users: Users,
    ) -> Option<(MutexGuard<'_, State>, Users)> {
        match self.state.try_lock() {
            Ok(state) => Some((state, users)),
            Err(TryLockError::WouldBlock) => {
                self.leave(index, users);
                None
            }
            // A thread that panicked under the lock left the heap in an unknown state. So the block
            // leaks.
            Err(TryLockError::Poisoned(_)) => None,
        }
    }

    /// Adds a block and its users to the list for the next owner of the lock.
    #[cold]
    fn leave(&self, index: Index, users: Users) {
        let number = index as usize;
        let place = self.returns.get(number);
        let place = place.unwrap_or_else(|| self.returns.set(number, Return::default()));
        *place.users.lock().expect("no thread panicked while it held this lock") = users;
        self.returned.push(index, &place.next);
    }

    /// Takes the blocks that lanes keep. The caller returns each block to the heap.
    pub(crate) fn gather(&self) -> Gathered<'_> {
        let gathered = self.caches.gather();
        let [own, complete] = gathered.taken;
        let counts = &mut self.lock().counts;
        counts.reuses[Reuse::Own as usize] += own;
        counts.reuses[Reuse::Complete as usize] += complete;
        gathered
    }

    /// Whether the list has blocks that other threads freed. A block that is being added at this
    /// moment may not count.
    #[inline]
    pub(crate) fn has_left(&self) -> bool {
        !self.returned.is_empty()
    }

    /// Takes the blocks that other threads freed out of the list, each with its users.
    pub(crate) fn take_left(&self) -> SmallVec<[(Index, Users); 2]> {
        let mut left = SmallVec::new();
        let place =
            |index: u32| self.returns.get(index as usize).expect("the block was left in this list");
        self.returned.take(
            |index| &place(index).next,
            |index| {
                let mut users =
                    place(index).users.lock().expect("no thread panicked while it held this lock");
                left.push((index, std::mem::take(&mut *users)));
            },
        );
        left
    }
}

impl State {
    /// The span of the first `bytes` bytes of a block.
    #[inline]
    pub(crate) fn span(&self, taken: &Taken, bytes: u64) -> Span {
        let start = taken.start * GRANULE;
        self.mappings[taken.range as usize].range().span(start..start + bytes)
    }

    /// Counts an allocation of this kind.
    #[inline]
    pub(crate) fn count(&mut self, reuse: Reuse) {
        self.counts.reuses[reuse as usize] += 1;
    }
}
