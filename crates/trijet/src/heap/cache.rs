//! Caches: each lane keeps some of the blocks that it freed, for its next allocations of about the
//! same size.
//!
//! Allocating a kept block takes neither the lock of the heap nor memory of the process. The heap
//! treats a kept block as live: the block is not joined with its neighbours, and other lanes do not
//! see it. So if a heap finds no other memory, it takes all blocks back from the caches before it
//! grows.
#![forbid(unsafe_code)]

use super::space::nodes::{GRANULE, Index, Users};
use crate::base::id::LaneId;
use crate::base::table::NumberTable;
use smallvec::SmallVec;
use std::any::Any;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of blocks that a lane keeps. A search examines the sizes of all these blocks.
const BLOCKS_MAX: usize = 32;
/// Maximum total size of the blocks that a lane keeps, in granules.
const GRANULES_MAX: u64 = (64 << 20) / GRANULE;
/// A kept block may exceed the requested size by at most the requested size divided by this number.
const WASTE_PART: u64 = 32;

/// The owner of a block of a heap. The type is defined in the module `memory`, which this module
/// does not know.
pub(crate) trait Owner: Any + Debug + Send + Sync {
    /// The number of the block in the heap.
    fn number(&self) -> Index;

    /// The operations that used the block last.
    fn users(&self) -> Users;
}

/// A block that a lane keeps.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) granules: u64,
    /// Whether operations that use the block may be pending.
    pub(crate) is_pending: bool,
    pub(crate) owner: Arc<dyn Owner>,
}

/// Blocks that were taken out of a cache. The caller returns these blocks to the heap.
pub(crate) type Leaving = SmallVec<[Kept; 1]>;

/// The blocks that were taken out of all caches. The caller returns these blocks to the heap.
#[derive(Debug)]
pub(crate) struct Gathered<'c> {
    pub(crate) blocks: Vec<Kept>,
    /// The number of allocations from the caches since the last call of [`Caches::gather`]. The
    /// first number counts blocks with pending users, the second number all other blocks.
    pub(super) taken: [u64; 2],
    _turn: MutexGuard<'c, ()>,
}

/// The blocks that a lane keeps.
#[derive(Debug, Default)]
struct Cache {
    /// The blocks, in the order in which they were freed.
    blocks: Vec<Kept>,
    granules: u64,
    /// The number of allocations from this cache since the last call of [`Caches::gather`]. The
    /// first number counts blocks with pending users, the second number all other blocks.
    taken: [u64; 2],
}

/// The caches of all lanes.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    of_lanes: NumberTable<Mutex<Cache>>,
    /// The number of lanes that can have a cache. Lanes with this number or a higher one have no
    /// cache.
    lanes: AtomicUsize,
    /// A thread holds this lock while it moves all blocks from the caches to the heap. Another
    /// thread that waited for the lock finds the blocks in the heap.
    gathering: Mutex<()>,
}

impl Cache {
    fn take(&mut self, granules: u64) -> Option<Kept> {
        let most = granules + granules / WASTE_PART;
        let at = self.blocks.iter().rposition(|kept| (granules..=most).contains(&kept.granules))?;
        let kept = self.blocks.remove(at);
        self.granules -= kept.granules;
        Some(kept)
    }

    fn keep(&mut self, kept: Kept) {
        self.granules += kept.granules;
        self.blocks.push(kept);
    }

    fn is_over(&self) -> bool {
        self.blocks.len() > BLOCKS_MAX || self.granules > GRANULES_MAX
    }

    /// Takes half of the blocks out of the cache: the blocks that were freed first.
    #[cold]
    fn take_half(&mut self) -> Leaving {
        let leaving: Leaving = self.blocks.drain(..self.blocks.len().div_ceil(2)).collect();
        self.granules -= leaving.iter().map(|kept| kept.granules).sum::<u64>();
        leaving
    }
}

impl Caches {
    fn get(&self, lane: LaneId) -> Option<&Mutex<Cache>> {
        self.of_lanes.get(lane.0 as usize)
    }

    #[cold]
    fn add(&self, lane: LaneId) -> &Mutex<Cache> {
        let number = lane.0 as usize;
        self.lanes.fetch_max(number + 1, Ordering::Relaxed);
        self.of_lanes.set(number, Mutex::default())
    }

    /// Takes a block of at least `granules` out of the cache of `lane`. The block is at most a 32nd
    /// larger than `granules`.
    #[inline]
    pub(crate) fn take(&self, lane: LaneId, granules: u64) -> Option<Arc<dyn Owner>> {
        let mut cache = self.get(lane)?.try_lock().ok()?;
        let Kept { owner, is_pending, .. } = cache.take(granules)?;
        cache.taken[usize::from(!is_pending)] += 1;
        Some(owner)
    }

    /// Adds a block to the cache of `lane`. The lane follows all users of the block. Returns blocks
    /// that the caller must return to the heap. The returned blocks include the new block if it is
    /// larger than half of the maximum, or if another thread uses the cache.
    #[inline]
    #[must_use]
    pub(crate) fn keep(&self, lane: LaneId, kept: Kept) -> Leaving {
        let cache = self.get(lane).unwrap_or_else(|| self.add(lane));
        match cache.try_lock() {
            Ok(mut cache) if kept.granules <= GRANULES_MAX / 2 => {
                cache.keep(kept);
                if cache.is_over() { cache.take_half() } else { Leaving::new() }
            }
            _ => Leaving::from_iter([kept]),
        }
    }

    /// Takes all blocks out of the caches. The caller returns the blocks to the heap before it
    /// drops the result. Until then, other threads wait in this function. Afterwards these threads
    /// find the blocks in the heap.
    #[cold]
    pub(super) fn gather(&self) -> Gathered<'_> {
        let turn = self.gathering.lock().unwrap_or_else(PoisonError::into_inner);
        let mut gathered = Gathered { blocks: Vec::new(), taken: [0; 2], _turn: turn };
        for lane in 0..self.lanes.load(Ordering::Relaxed) {
            let Some(cache) = self.of_lanes.get(lane) else { continue };
            let mut cache = cache.lock().expect("no thread panicked while it held this lock");
            let Cache { blocks, taken, .. } = std::mem::take(&mut *cache);
            drop(cache);
            gathered.blocks.extend(blocks);
            gathered.taken = [gathered.taken[0] + taken[0], gathered.taken[1] + taken[1]];
        }
        gathered
    }
}
