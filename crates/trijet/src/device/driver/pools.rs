//! The part of the contract about pools of stream-ordered memory.
#![forbid(unsafe_code)]

use super::handle::PoolHandle;
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::units::Bytes;
use std::fmt::Debug;

/// An attribute of a pool, by its number in `cuda.h` (`CUmemPool_attribute`). A number that the
/// driver does not know is refused with `InvalidValue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PoolAttribute(pub i32);

impl PoolAttribute {
    /// Whether the pool may reuse memory that was freed in another stream, if the allocating stream
    /// follows the free (law A23).
    pub(crate) const REUSE_FOLLOW_EVENTS: Self = Self(1);
    /// Whether the pool may reuse memory whose free happens to be complete already (law A23).
    pub(crate) const REUSE_OPPORTUNISTIC: Self = Self(2);
    /// Whether the pool may make the allocating stream wait for a free, to reuse the memory (law
    /// A23).
    pub(crate) const REUSE_INTERNAL: Self = Self(3);
    /// The number of free bytes that the pool keeps at a synchronisation (law A25).
    pub(crate) const THRESHOLD: Self = Self(4);
    /// The number of bytes that the pool has taken from the device.
    pub(crate) const RESERVED: Self = Self(5);
    /// The largest value of `RESERVED` so far. The only value to which a program can set this
    /// attribute is 0. Then the driver sets it to the current value of `RESERVED`.
    pub(crate) const RESERVED_HIGH: Self = Self(6);
    /// The number of bytes of the pool that are allocated now.
    pub(crate) const USED: Self = Self(7);
    /// The largest value of `USED` so far. The only value to which a program can set this attribute
    /// is 0. Then the driver sets it to the current value of `USED`.
    pub(crate) const USED_HIGH: Self = Self(8);
}

/// The access of a device to the memory of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PoolAccess {
    /// No access.
    None,
    /// Read only.
    Read,
    /// Read and write.
    ReadWrite,
}

/// Pools of stream-ordered memory. Allocating and freeing are actions of a stream.
pub(crate) trait Pools: Debug {
    /// Creates a pool of stream-ordered memory with the default attributes. The pool takes at most
    /// `max` bytes from the device. If `max` is 0, only the limit of the system applies.
    ///
    /// # Errors
    /// An error of the driver.
    fn pool_create(&self, device: DeviceId, max: Bytes) -> Result<PoolHandle>;

    /// Destroys a pool. Its resources are released when its last allocation is freed (law A26).
    /// When the pool is the current pool of its device, the default pool becomes current.
    ///
    /// # Errors
    /// `InvalidValue` for a default pool.
    fn pool_destroy(&self, pool: PoolHandle) -> Result<()>;

    /// The default pool of a device.
    ///
    /// # Errors
    /// `NoDevice` when there is no such device.
    fn pool_default(&self, device: DeviceId) -> Result<PoolHandle>;

    /// The current pool of a device: it serves allocations that name no pool.
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
    /// `InvalidValue` for an attribute that cannot be set, or cannot be set to this value.
    fn pool_set(&self, pool: PoolHandle, attribute: PoolAttribute, value: u64) -> Result<()>;

    /// Returns memory to the device until the pool holds at most `keep`, or nothing more can be
    /// returned.
    ///
    /// # Errors
    /// An error of the driver.
    fn pool_trim(&self, pool: PoolHandle, keep: Bytes) -> Result<()>;
}
