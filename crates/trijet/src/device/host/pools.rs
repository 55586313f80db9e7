//! Pools of stream-ordered memory on the host device: sizes and thresholds. The bytes themselves
//! come from the system's allocator.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::units::Bytes;
use crate::device::driver::{PoolHandle, PoolStats};
use crate::device::memory::Memory;
use std::collections::BTreeMap;

/// Sizes are rounded up to this, as a real driver does (512 bytes measured).
const GRANULE: u64 = 512;

#[derive(Debug, Default)]
struct Pool {
    device: u32,
    threshold: u64,
    stats: PoolStats,
    destroyed: bool,
}

/// All pools of a host driver.
#[derive(Debug)]
pub(super) struct Pools {
    capacity: u64,
    pools: BTreeMap<u64, Pool>,
    /// Which pool an address came from, and its rounded size.
    live: BTreeMap<u64, (PoolHandle, u64)>,
}

impl Pools {
    pub(super) fn new(capacity: Bytes) -> Self {
        Self { capacity: capacity.0, pools: BTreeMap::new(), live: BTreeMap::new() }
    }

    pub(super) fn create(&mut self, handle: u64, device: DeviceId) -> PoolHandle {
        self.pools.insert(handle, Pool { device: device.0, ..Pool::default() });
        PoolHandle(handle)
    }

    fn get(&mut self, op: &'static str, pool: PoolHandle) -> Result<&mut Pool> {
        self.pools
            .get_mut(&pool.0)
            .filter(|p| !p.destroyed)
            .ok_or_else(|| Error::new(ErrorKind::InvalidValue, op, "the pool does not exist"))
    }

    /// Law A26: the pool's memory goes when its last allocation is freed.
    pub(super) fn destroy(&mut self, pool: PoolHandle) -> Result<()> {
        self.get("pool destroy", pool)?.destroyed = true;
        self.drop_empty(pool);
        Ok(())
    }

    fn drop_empty(&mut self, pool: PoolHandle) {
        if self.pools.get(&pool.0).is_some_and(|p| p.destroyed && p.stats.used.0 == 0) {
            self.pools.remove(&pool.0);
        }
    }

    pub(super) fn set_threshold(&mut self, pool: PoolHandle, keep: Bytes) -> Result<()> {
        self.get("pool threshold", pool)?.threshold = keep.0;
        Ok(())
    }

    pub(super) fn stats(&mut self, pool: PoolHandle) -> Result<PoolStats> {
        Ok(self.get("pool statistics", pool)?.stats)
    }

    pub(super) fn reset_high(&mut self, pool: PoolHandle) -> Result<()> {
        let stats = &mut self.get("pool statistics", pool)?.stats;
        stats.used_high = stats.used;
        stats.reserved_high = stats.reserved;
        Ok(())
    }

    /// Memory of `device` that no pool holds, and all of it.
    pub(super) fn free_bytes(&self, device: DeviceId) -> (Bytes, Bytes) {
        let held = self.pools.values().filter(|p| p.device == device.0);
        let reserved: u64 = held.map(|p| p.stats.reserved.0).sum();
        (Bytes(self.capacity - reserved.min(self.capacity)), Bytes(self.capacity))
    }

    /// Makes room for an allocation; [`Self::place`] follows when the bytes are there.
    pub(super) fn take(&mut self, pool: PoolHandle, bytes: Bytes) -> Result<u64> {
        let device = DeviceId(self.get("alloc", pool)?.device);
        let (free, total) = self.free_bytes(device);
        let found = self.get("alloc", pool)?;
        let size = bytes.0.checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX);
        let unused = found.stats.reserved.0 - found.stats.used.0;
        let grow = size.saturating_sub(unused);
        if grow > free.0 {
            return Err(Error::new(
                ErrorKind::OutOfMemory,
                "alloc",
                format!("{bytes} wanted, {} of {total} available", Bytes(free.0 + unused)),
            )
            .on(device));
        }
        let stats = &mut found.stats;
        stats.reserved.0 += grow;
        stats.used.0 += size;
        stats.reserved_high = stats.reserved_high.max(stats.reserved);
        stats.used_high = stats.used_high.max(stats.used);
        Ok(size)
    }

    /// Notes where an allocation came from.
    pub(super) fn place(&mut self, pool: PoolHandle, address: u64, size: u64) {
        self.live.insert(address, (pool, size));
    }

    /// The bytes of an allocation could not be had after all.
    pub(super) fn give_up(&mut self, pool: PoolHandle, size: u64) {
        if let Some(found) = self.pools.get_mut(&pool.0) {
            found.stats.used.0 -= size;
        }
    }

    /// A free has been reached in stream order.
    pub(super) fn release(&mut self, memory: &Memory) {
        let Some((pool, size)) = self.live.remove(&memory.address()) else { return };
        if let Some(found) = self.pools.get_mut(&pool.0) {
            found.stats.used.0 -= size;
        }
        self.drop_empty(pool);
    }

    /// Whether the address is a live allocation of a pool.
    pub(super) fn holds(&self, memory: &Memory) -> bool {
        self.live.contains_key(&memory.address())
    }

    /// Law A25: at a synchronisation, what exceeds the threshold goes back to the device.
    pub(super) fn synchronised(&mut self) {
        for pool in self.pools.values_mut() {
            let keep = pool.threshold.max(pool.stats.used.0);
            pool.stats.reserved.0 = pool.stats.reserved.0.min(keep);
        }
    }

    pub(super) fn trim(&mut self, pool: PoolHandle, keep: Bytes) -> Result<()> {
        let stats = &mut self.get("pool trim", pool)?.stats;
        stats.reserved.0 = stats.reserved.0.min(keep.0.max(stats.used.0));
        Ok(())
    }
}
