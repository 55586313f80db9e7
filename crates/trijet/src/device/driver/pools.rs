//! The part of the contract about pools of stream-ordered memory.
#![forbid(unsafe_code)]

use super::handle::PoolHandle;
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::units::Bytes;
use std::fmt::Debug;

/// Statistics of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolStats {
    /// Memory the pool holds from the device.
    pub reserved: Bytes,
    /// The most it held since the last reset.
    pub reserved_high: Bytes,
    /// Memory not available for reuse.
    pub used: Bytes,
    /// The most since the last reset.
    pub used_high: Bytes,
}

/// An attribute of a pool, by its number in `cuda.h` (`CUmemPool_attribute`). A number that the
/// driver does not know is refused with `InvalidValue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PoolAttribute(pub i32);

impl PoolAttribute {
    /// Reuse memory freed in another stream that the allocating one is ordered after (law A23).
    pub const REUSE_FOLLOW_EVENTS: Self = Self(1);
    /// Reuse memory whose free happens to be complete already (law A23).
    pub const REUSE_OPPORTUNISTIC: Self = Self(2);
    /// Reuse memory by making the allocating stream wait for the free (law A23).
    pub const REUSE_INTERNAL: Self = Self(3);
    /// How many freed bytes survive a synchronisation (law A25).
    pub const THRESHOLD: Self = Self(4);
    /// Bytes the pool holds from the device.
    pub const RESERVED: Self = Self(5);
    /// The most it held; can be set to 0, and takes the current value.
    pub const RESERVED_HIGH: Self = Self(6);
    /// Bytes not available for reuse.
    pub const USED: Self = Self(7);
    /// The most of them; can be set to 0, and takes the current value.
    pub const USED_HIGH: Self = Self(8);
}

/// The access of a device to the memory of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PoolAccess {
    /// Nothing.
    None,
    /// Read only.
    Read,
    /// Read and write.
    ReadWrite,
}

/// Pools of stream-ordered memory. Allocating and freeing are actions of a stream.
pub trait Pools: Debug {
    /// Creates a pool of stream-ordered memory with the default attributes, of at most `max`
    /// bytes; 0 is the system's own limit.
    ///
    /// # Errors
    /// What the driver reports.
    fn pool_create(&self, device: DeviceId, max: Bytes) -> Result<PoolHandle>;

    /// Gives a pool back; its resources go when its last allocation is freed (law A26). When it
    /// is the current pool of its device, the default pool takes its place.
    ///
    /// # Errors
    /// `InvalidValue` for a default pool.
    fn pool_destroy(&self, pool: PoolHandle) -> Result<()>;

    /// The default pool of a device.
    ///
    /// # Errors
    /// `NoDevice` when there is no such device.
    fn pool_default(&self, device: DeviceId) -> Result<PoolHandle>;

    /// The pool that allocations of the device take from when they name none.
    ///
    /// # Errors
    /// `NoDevice` when there is no such device.
    fn pool_current(&self, device: DeviceId) -> Result<PoolHandle>;

    /// Makes `pool` the current pool of `device`.
    ///
    /// # Errors
    /// `InvalidValue` for a pool of another device.
    fn pool_set_current(&self, device: DeviceId, pool: PoolHandle) -> Result<()>;

    /// The value of an attribute.
    ///
    /// # Errors
    /// `InvalidValue` for an attribute that the driver does not know.
    fn pool_get(&self, pool: PoolHandle, attribute: PoolAttribute) -> Result<u64>;

    /// Sets an attribute.
    ///
    /// # Errors
    /// `InvalidValue` for an attribute that cannot be set, or not to this value.
    fn pool_set(&self, pool: PoolHandle, attribute: PoolAttribute, value: u64) -> Result<()>;

    /// Returns memory to the device until at most `keep` is reserved or nothing more can go.
    ///
    /// # Errors
    /// What the driver reports.
    fn pool_trim(&self, pool: PoolHandle, keep: Bytes) -> Result<()>;
}
