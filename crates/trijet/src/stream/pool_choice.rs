//! The source of the memory of a device, and the choice of its pool.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::units::Bytes;
use crate::device::driver::{Driver, PoolAttribute, PoolHandle};

/// The pool from which a device allocates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PoolChoice {
    /// A new pool of the library, which keeps freed memory until the device is dropped.
    #[default]
    Own,
    /// The default pool of the device. Every allocation of the process that names no pool uses this
    /// pool, unless another pool is current.
    Default,
    /// The pool that is current when the device is opened.
    Current,
}

/// The choice of the source of a device's memory.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MemoryOptions {
    /// The pool of the device. With `None`, the device allocates from the heap of the library, or
    /// from a new pool if the device cannot have a heap.
    pub(super) pool: Option<PoolChoice>,
    pub(super) red_zones: bool,
}

/// The pool for `choice`. Creates it for [`PoolChoice::Own`].
pub(super) fn choose(
    driver: &dyn Driver,
    device: DeviceId,
    choice: PoolChoice,
) -> Result<PoolHandle> {
    match choice {
        PoolChoice::Default => driver.pool_default(device),
        PoolChoice::Current => driver.pool_current(device),
        PoolChoice::Own => {
            let pool = driver.pool_create(device, Bytes(0))?;
            // The threshold makes the pool keep all freed memory. Otherwise each synchronisation
            // would return the memory to the device, and later allocations would have to get it
            // again (law A25).
            driver.pool_set(pool, PoolAttribute::THRESHOLD, u64::MAX)?;
            Ok(pool)
        }
    }
}
