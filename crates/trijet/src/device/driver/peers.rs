//! The part of the contract about devices that use each other's memory.
#![forbid(unsafe_code)]

use super::handle::PoolHandle;
use super::pools::PoolAccess;
use crate::base::error::Result;
use crate::base::id::DeviceId;
use std::fmt::Debug;

/// Access between devices (law A39).
pub(crate) trait Peers: Debug {
    /// Whether `device` can reach the memory of `peer`.
    ///
    /// # Errors
    /// `NoDevice` when one of the two devices does not exist.
    fn peer_possible(&self, device: DeviceId, peer: DeviceId) -> Result<bool>;

    /// Lets `device` use the memory of `peer` that [`super::Core::device_alloc`] allocated. `peer`
    /// does not get access to the memory of `device`.
    ///
    /// # Errors
    /// `Driver` when the access is enabled already or not possible.
    fn peer_enable(&self, device: DeviceId, peer: DeviceId) -> Result<()>;

    /// Ends the access of `device` to the memory of `peer`.
    ///
    /// # Errors
    /// `Driver` when the access is not enabled.
    fn peer_disable(&self, device: DeviceId, peer: DeviceId) -> Result<()>;

    /// Sets the access of a device to all memory of the pool, including memory that is allocated
    /// later.
    ///
    /// # Errors
    /// `InvalidValue` for less than full access of the pool's own device; an error of the driver
    /// for a device that cannot reach the pool.
    fn pool_set_access(&self, pool: PoolHandle, device: DeviceId, access: PoolAccess)
    -> Result<()>;

    /// The access that a device has to the memory of the pool.
    ///
    /// # Errors
    /// An error of the driver.
    fn pool_access(&self, pool: PoolHandle, device: DeviceId) -> Result<PoolAccess>;
}
