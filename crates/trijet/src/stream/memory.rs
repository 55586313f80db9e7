//! The memory that a device allocates for streams: statistics, limits, the pool, and the access of
//! other devices.
#![forbid(unsafe_code)]

use super::device::Device;
use super::shared::MemorySource;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::units::Bytes;
use crate::device::driver::{PoolAccess, PoolAttribute, PoolHandle};
use crate::heap::{GRANULE, Heap, HeapMode, Reuse, Trim};
use crate::log::calling;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Statistics of the memory that a device allocates for streams, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Memory that the heap or the pool has taken from the device and not returned.
    pub reserved: Bytes,
    /// Maximum of `reserved` since the last reset.
    pub reserved_high: Bytes,
    /// The part of `reserved` that is allocated.
    pub used: Bytes,
    /// Maximum of `used` since the last reset.
    pub used_high: Bytes,
}

/// Counters of the heap of a device, and sizes of its free memory. Resets do not change the
/// counters.
///
/// ```
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// let stream = device.stream()?;
/// for _ in 0..3 {
///     drop(stream.alloc::<u8>(1000)?);
/// }
/// let stats = device.heap_stats().expect("it has a heap");
/// assert!(stats.new <= 1 && stats.complete >= 2, "the memory was allocated again");
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct HeapStats {
    /// Allocations of memory that the same stream used last.
    pub own: u64,
    /// Allocations of memory that had no users, or only complete users.
    pub complete: u64,
    /// Allocations of memory with users for which the stream had waited.
    pub following: u64,
    /// Allocations of memory with users that a query found complete.
    pub queried: u64,
    /// Allocations that got memory still in use. The first write to such an allocation waits for
    /// the earlier users of the memory.
    pub awaiting: u64,
    /// Allocations for which the heap took memory from the device.
    pub new: u64,
    /// Calls that the heap made to the driver.
    pub calls: u64,
    /// The largest free block.
    pub largest_free: Bytes,
    /// The free memory that every stream may use without a wait.
    pub free: Bytes,
    /// The free memory with users that may be pending.
    pub pending: Bytes,
    /// The memory of dropped growing buffers that is kept for later growing buffers.
    pub parked: Bytes,
}

impl Device {
    /// The statistics of the memory that [`Stream::alloc`](super::Stream::alloc) allocates (law
    /// [M-C2](crate::laws#m-c2)). All handles of the device share this memory.
    ///
    /// # Errors
    /// An error of the driver.
    pub fn memory_stats(&self) -> Result<MemoryStats> {
        calling::refuse("memory statistics")?;
        let shared = self.shared();
        let pool = match &shared.source {
            MemorySource::Heap(heap) => {
                let state = shared.domain.lock_heap(heap);
                return Ok(MemoryStats {
                    reserved: Bytes(state.mapped()),
                    reserved_high: Bytes(state.counts.mapped_high),
                    used: Bytes(heap.live.now()),
                    used_high: Bytes(heap.live.high()),
                });
            }
            MemorySource::Pool(pool, _) => *pool,
        };
        let get = |what| {
            let value = shared.domain.driver().pool_get(pool, what);
            value.map(Bytes).map_err(|error| shared.failed(error))
        };
        Ok(MemoryStats {
            reserved: get(PoolAttribute::RESERVED)?,
            reserved_high: get(PoolAttribute::RESERVED_HIGH)?,
            used: get(PoolAttribute::USED)?,
            used_high: get(PoolAttribute::USED_HIGH)?,
        })
    }

    /// The counters of the heap of the device; `None` if the device allocates from a pool,
    /// and in a child of `fork`.
    #[must_use]
    pub fn heap_stats(&self) -> Option<HeapStats> {
        let shared = self.shared();
        let MemorySource::Heap(heap) = &shared.source else { return None };
        if calling::forked() {
            return None;
        }
        shared.domain.gather_in_heap(heap);
        let state = shared.domain.lock_heap(heap);
        let (counts, space) = (&state.counts, &state.space);
        let of = |reuse: Reuse| counts.reuses[reuse as usize];
        Some(HeapStats {
            own: of(Reuse::Own),
            complete: of(Reuse::Complete),
            following: of(Reuse::Following),
            queried: of(Reuse::Queried),
            awaiting: of(Reuse::Awaiting),
            new: of(Reuse::New),
            calls: counts.calls,
            largest_free: Bytes(space.largest() * GRANULE),
            free: Bytes(space.shared() * GRANULE),
            pending: Bytes((space.free() - space.shared()) * GRANULE),
            parked: Bytes(state.parked()),
        })
    }

    /// See [`probe::heap_ranges`](crate::probe::heap_ranges).
    pub(crate) fn heap_ranges(&self) -> Vec<Range<u64>> {
        match &self.shared().source {
            MemorySource::Heap(heap) if !calling::forked() => {
                self.shared().domain.lock_heap(heap).pieces().collect()
            }
            MemorySource::Heap(_) | MemorySource::Pool(..) => Vec::new(),
        }
    }

    /// Sets the high-water marks to the current values.
    ///
    /// # Errors
    /// An error of the driver.
    pub fn reset_memory_high(&self) -> Result<()> {
        calling::refuse("memory statistics")?;
        let shared = self.shared();
        match &shared.source {
            MemorySource::Heap(heap) => {
                heap.live.reset_high();
                let mut state = shared.domain.lock_heap(heap);
                state.counts.mapped_high = state.mapped();
                Ok(())
            }
            MemorySource::Pool(pool, _) => {
                self.pool_set(*pool, PoolAttribute::RESERVED_HIGH, 0)?;
                self.pool_set(*pool, PoolAttribute::USED_HIGH, 0)
            }
        }
    }

    /// Sets the release threshold: the maximum amount of memory that is kept when a synchronization
    /// returns unused memory to the device (law [A25](crate::laws#a25)). With `u64::MAX`, all
    /// memory is kept. This is the default of the heap and of
    /// [`PoolChoice::Own`](super::PoolChoice::Own). With 0, a synchronization returns all unused
    /// memory, so that other processes can use it.
    ///
    /// # Errors
    /// An error of the driver.
    pub fn keep_memory(&self, keep: Bytes) -> Result<()> {
        calling::refuse("memory threshold")?;
        self.shared().keep.store(keep.0, Ordering::Relaxed);
        match &self.shared().source {
            MemorySource::Heap(_) => Ok(()),
            MemorySource::Pool(pool, _) => self.pool_set(*pool, PoolAttribute::THRESHOLD, keep.0),
        }
    }

    fn pool_set(&self, pool: PoolHandle, what: PoolAttribute, value: u64) -> Result<()> {
        let shared = self.shared();
        let set = shared.domain.driver().pool_set(pool, what, value);
        set.map_err(|error| shared.failed(error))
    }

    /// Sets the mode of the heap for later allocations. All handles of the device share the mode.
    /// To get the same addresses in the heap in each run, set [`HeapMode::Deterministic`] before
    /// the first allocation.
    ///
    /// # Errors
    /// `Unsupported` if the device allocates from a pool,
    /// and in a child of `fork`.
    pub fn set_heap_mode(&self, mode: HeapMode) -> Result<()> {
        self.heap("heap mode")?.set_mode(mode);
        Ok(())
    }

    /// Sets the maximum amount of memory that the heap may take from the device. With `None`, only
    /// the device limits the heap. Unused memory above the limit is returned at once. Memory in use
    /// stays, even above the limit, but then the heap does not grow. All handles of the device
    /// share the limit.
    ///
    /// ```
    /// use trijet::{Bytes, Device, ErrorKind, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// device.limit_memory(Some(Bytes(1 << 20)))?;
    /// let error = device.stream()?.alloc::<u8>(2 << 20).expect_err("the limit is 1 MiB");
    /// assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Unsupported` if the device allocates from a pool; an error of the driver.
    pub fn limit_memory(&self, limit: Option<Bytes>) -> Result<()> {
        let shared = self.shared();
        let heap = self.heap("memory limit")?;
        shared.domain.lock_heap(heap).limit = limit.map(|limit| limit.0);
        let Some(limit) = limit else { return Ok(()) };
        let trimmed = shared.watch_release(|| shared.trim_heap(heap, Trim::To(limit.0)));
        trimmed.map_err(|error| shared.failed(error))
    }

    fn heap(&self, op: &'static str) -> Result<&Heap> {
        calling::refuse(op)?;
        match &self.shared().source {
            MemorySource::Heap(heap) => Ok(heap),
            MemorySource::Pool(..) => {
                let cause = "the device allocates from a pool of the driver, which has no mode and no limit";
                Err(Error::new(ErrorKind::Unsupported, op, cause))
            }
        }
    }

    /// Returns unused memory to the device until at most `keep` bytes are left. Memory in use stays
    /// (law [A25](crate::laws#a25)). Freed memory stays too, unless its users were found complete.
    /// A heap returns memory in the pieces in which the heap took the memory.
    ///
    /// # Errors
    /// An error of the driver.
    pub fn trim_memory(&self, keep: Bytes) -> Result<()> {
        calling::refuse("memory trim")?;
        self.run_deferred();
        let shared = self.shared();
        let trimmed = shared.watch_release(|| match &shared.source {
            MemorySource::Heap(heap) => shared.trim_heap(heap, Trim::Keep(keep.0)),
            MemorySource::Pool(pool, _) => shared.domain.driver().pool_trim(*pool, keep),
        });
        trimmed.map_err(|error| shared.failed(error))
    }

    /// Makes the pool that [`Stream::alloc`](super::Stream::alloc) uses the current pool of the
    /// device (law [A26](crate::laws#a26)). Then `cudaMallocAsync` in other code of this process
    /// allocates from the same pool, unless the call names a pool.
    ///
    /// # Errors
    /// `Unsupported` if the device allocates from its heap; an error of the driver.
    pub fn share_pool(&self) -> Result<()> {
        calling::refuse("share pool")?;
        let shared = self.shared();
        let MemorySource::Pool(pool, _) = &shared.source else {
            let cause = "the device allocates from the heap of the library; open it with \
                         `DeviceBuilder::pool` to allocate from a pool of the driver";
            return Err(Error::new(ErrorKind::Unsupported, "share pool", cause));
        };
        let set = shared.domain.driver().pool_set_current(shared.id, *pool);
        set.map_err(|error| shared.failed(error))
    }

    /// Whether operations of this device can access the memory of `peer`.
    ///
    /// # Errors
    /// `InvalidValue` for a device of another driver; an error of the driver.
    pub fn can_access(&self, peer: &Self) -> Result<bool> {
        calling::refuse("peer access")?;
        let shared = self.shared();
        shared.domain.own("peer access", peer.shared().domain.id())?;
        let possible = shared.domain.driver().peer_possible(shared.id, peer.shared().id);
        possible.map_err(|error| shared.failed(error))
    }

    /// Sets the access of `peer` to the memory of this device, for existing and future allocations.
    /// The access in the other direction does not change (law [A39](crate::laws#a39)). A copy
    /// between two devices uses the link between them, if there is one. For this purpose, the first
    /// such copy also sets an access: the device of the copy's stream gets access to the memory of
    /// the other device. Without a link, a copy goes through the host.
    ///
    /// ```
    /// use trijet::memory::PoolAccess;
    /// use trijet::Device;
    /// use trijet::sim::HostConfig;
    /// let devices = Device::host(HostConfig::new().devices(2))?;
    /// let (a, b) = (&devices[0], &devices[1]);
    /// assert!(b.can_access(a)?);
    /// a.set_access(b, PoolAccess::ReadWrite)?;
    /// assert_eq!(a.access_of(b)?, PoolAccess::ReadWrite);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` for a device of another driver and for this device itself; an error of the
    /// driver if `peer` cannot access the memory.
    pub fn set_access(&self, peer: &Self, access: PoolAccess) -> Result<()> {
        calling::refuse("peer access")?;
        let (shared, other) = (self.shared(), peer.shared());
        shared.domain.own("peer access", other.domain.id())?;
        if shared.id == other.id || access == PoolAccess::Read {
            let cause = "only the access of another device can be set: `PoolAccess::None` or \
                         `PoolAccess::ReadWrite`";
            return Err(Error::new(ErrorKind::InvalidValue, "peer access", cause));
        }
        let domain = &shared.domain;
        if let MemorySource::Pool(pool, _) = &shared.source {
            let set = domain.driver().pool_set_access(*pool, other.id, access);
            set.map_err(|error| shared.failed(error))?;
        }
        // For memory outside of pools, CUDA has only two states: access and no access.
        let (pair, has) = ((other.id, shared.id), access == PoolAccess::ReadWrite);
        let set = domain.peers.set(&**domain.driver(), pair, has);
        set.map_err(|error| shared.failed(error))
    }

    /// The access of `peer` to the memory of this device.
    ///
    /// # Errors
    /// `InvalidValue` for a device of another driver; an error of the driver.
    pub fn access_of(&self, peer: &Self) -> Result<PoolAccess> {
        calling::refuse("peer access")?;
        let (shared, other) = (self.shared(), peer.shared());
        shared.domain.own("peer access", other.domain.id())?;
        let pool = match &shared.source {
            MemorySource::Heap(_) if shared.domain.peers.has(other.id, shared.id) => {
                return Ok(PoolAccess::ReadWrite);
            }
            MemorySource::Heap(_) => return Ok(PoolAccess::None),
            MemorySource::Pool(pool, _) => *pool,
        };
        let access = shared.domain.driver().pool_access(pool, other.id);
        access.map_err(|error| shared.failed(error))
    }
}
