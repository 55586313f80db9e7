//! The choice of the pool that a device allocates from.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::units::Bytes;
use crate::device::driver::{Driver, PoolAttribute, PoolHandle};

/// The pool that a device allocates from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PoolChoice {
    /// A pool of its own, which keeps what is freed until the device is dropped.
    #[default]
    Own,
    /// The default pool of the device, which every allocation of the process that names no pool takes
    /// from, unless another pool is current.
    Default,
    /// The pool that is current when the device is opened.
    Current,
}

/// The pool of a choice.
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
            // Keep what was freed: handing it back at each synchronisation and asking for it again
            // is what the pool is there to avoid (law A25).
            driver.pool_set(pool, PoolAttribute::THRESHOLD, u64::MAX)?;
            Ok(pool)
        }
    }
}
