//! The pool of a device: its statistics, its threshold, and the access of other code and devices.
#![forbid(unsafe_code)]

use super::device::Device;
use crate::base::error::Result;
use crate::base::units::Bytes;
use crate::device::driver::{PoolAccess, PoolAttribute, PoolStats};
use crate::log::calling;
use std::sync::atomic::Ordering;

impl Device {
    /// The statistics of the pool that [`Stream::alloc`](super::Stream::alloc) takes from, in bytes
    /// (law M-C2).
    ///
    /// # Errors
    /// What the driver reports.
    pub fn pool_stats(&self) -> Result<PoolStats> {
        calling::refuse("pool statistics")?;
        let shared = self.shared();
        let get = |what| {
            let value = shared.domain.driver().pool_get(shared.pool, what);
            value.map(Bytes).map_err(|error| shared.failed(error))
        };
        Ok(PoolStats {
            reserved: get(PoolAttribute::RESERVED)?,
            reserved_high: get(PoolAttribute::RESERVED_HIGH)?,
            used: get(PoolAttribute::USED)?,
            used_high: get(PoolAttribute::USED_HIGH)?,
        })
    }

    /// Sets the high-water marks of the pool to the current values.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn pool_reset_high(&self) -> Result<()> {
        calling::refuse("pool statistics")?;
        self.pool_set(PoolAttribute::RESERVED_HIGH, 0)?;
        self.pool_set(PoolAttribute::USED_HIGH, 0)
    }

    /// Sets the release threshold of the pool: how much memory it may hold when a synchronisation
    /// returns unused memory to the device (law A25). `u64::MAX` bytes keep everything, which is
    /// the default of [`PoolChoice::Own`](super::PoolChoice::Own); 0 leaves unused memory to other
    /// processes.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn pool_keep(&self, keep: Bytes) -> Result<()> {
        calling::refuse("pool threshold")?;
        self.shared().may_release.store(keep.0 < u64::MAX, Ordering::Relaxed);
        self.pool_set(PoolAttribute::THRESHOLD, keep.0)
    }

    fn pool_set(&self, what: PoolAttribute, value: u64) -> Result<()> {
        let shared = self.shared();
        let set = shared.domain.driver().pool_set(shared.pool, what, value);
        set.map_err(|error| shared.failed(error))
    }

    /// Returns unused memory of the pool to the device until at most `keep` is reserved. Memory in
    /// use stays (law A25).
    ///
    /// # Errors
    /// What the driver reports.
    pub fn pool_trim(&self, keep: Bytes) -> Result<()> {
        calling::refuse("pool trim")?;
        self.run_deferred();
        let shared = self.shared();
        let trimmed =
            shared.watch_pool(true, || shared.domain.driver().pool_trim(shared.pool, keep));
        trimmed.map_err(|error| shared.failed(error))
    }

    /// Makes the pool that [`Stream::alloc`](super::Stream::alloc) takes from the current pool of
    /// the device (law A26). Other code of this process that calls `cudaMallocAsync` without naming
    /// a pool then takes from it, too.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn share_pool(&self) -> Result<()> {
        calling::refuse("share pool")?;
        let shared = self.shared();
        let set = shared.domain.driver().pool_set_current(shared.id, shared.pool);
        set.map_err(|error| shared.failed(error))
    }

    /// Whether operations of this device can reach the memory of `peer`.
    ///
    /// # Errors
    /// `InvalidValue` for a device of another driver; what the driver reports.
    pub fn can_access(&self, peer: &Self) -> Result<bool> {
        calling::refuse("peer access")?;
        let shared = self.shared();
        shared.domain.own("peer access", peer.shared().domain.id())?;
        let possible = shared.domain.driver().peer_possible(shared.id, peer.shared().id);
        possible.map_err(|error| shared.failed(error))
    }

    /// Sets the access of `peer` to the memory of this device, to existing and future allocations,
    /// in this direction only (law A39). Copies between devices need no access.
    ///
    /// ```
    /// use trijet::memory::PoolAccess;
    /// use trijet::Device;
    /// use trijet::sim::HostConfig;
    /// let devices = Device::host(HostConfig { devices: 2, ..HostConfig::default() })?;
    /// let (a, b) = (&devices[0], &devices[1]);
    /// assert!(b.can_access(a)?);
    /// a.set_access(b, PoolAccess::ReadWrite)?;
    /// assert_eq!(a.access_of(b)?, PoolAccess::ReadWrite);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` for a device of another driver and for this device itself; what the driver
    /// reports if `peer` cannot reach the memory.
    pub fn set_access(&self, peer: &Self, access: PoolAccess) -> Result<()> {
        calling::refuse("peer access")?;
        let (shared, other) = (self.shared(), peer.shared());
        shared.domain.own("peer access", other.domain.id())?;
        let before = self.access_of(peer)?;
        let driver = shared.domain.driver();
        let set = driver.pool_set_access(shared.pool, other.id, access);
        set.map_err(|error| shared.failed(error))?;
        // For memory that belongs to no stream, CUDA has two states only: access and no access.
        let plain = match (before, access) {
            (PoolAccess::None, PoolAccess::Read | PoolAccess::ReadWrite) => {
                driver.peer_enable(other.id, shared.id)
            }
            (PoolAccess::Read | PoolAccess::ReadWrite, PoolAccess::None) => {
                driver.peer_disable(other.id, shared.id)
            }
            (PoolAccess::None, PoolAccess::None)
            | (
                PoolAccess::Read | PoolAccess::ReadWrite,
                PoolAccess::Read | PoolAccess::ReadWrite,
            ) => Ok(()),
        };
        plain.map_err(|error| shared.failed(error))
    }

    /// The access of `peer` to the memory of this device.
    ///
    /// # Errors
    /// `InvalidValue` for a device of another driver; what the driver reports.
    pub fn access_of(&self, peer: &Self) -> Result<PoolAccess> {
        calling::refuse("peer access")?;
        let (shared, other) = (self.shared(), peer.shared());
        shared.domain.own("peer access", other.domain.id())?;
        let access = shared.domain.driver().pool_access(shared.pool, other.id);
        access.map_err(|error| shared.failed(error))
    }
}
