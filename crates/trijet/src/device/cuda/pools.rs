//! Pools of stream-ordered memory.

use super::api::{MemLocation, MemPoolProps, need};
use super::context::{CudaDriver, cu, pack, raw};
use super::error::check;
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::units::Bytes;
use crate::device::driver::{PoolHandle, PoolStats};
use std::ffi::c_int;
use std::ptr::null_mut;

const POOL_THRESHOLD: c_int = 4;
const POOL_RESERVED: c_int = 5;
const POOL_RESERVED_HIGH: c_int = 6;
const POOL_USED: c_int = 7;
const POOL_USED_HIGH: c_int = 8;

impl CudaDriver {
    pub(super) fn pool_create(&self, device: DeviceId) -> Result<PoolHandle> {
        self.enter("pool create", device)?;
        let ordinal = self.context("pool create", device)?.ordinal;
        // Pinned allocations (1) without exported handles, on a device (1).
        let props = MemPoolProps {
            alloc_type: 1,
            handle_types: 0,
            location: MemLocation { kind: 1, id: ordinal },
            security: null_mut(),
            max_size: 0,
            usage: 0,
            reserved: [0; 54],
        };
        let mut pool = null_mut();
        cu!(
            self,
            "cuMemPoolCreate",
            pool_create(&raw mut pool, &raw const props),
            "properties of the documented layout, the rest zero"
        )?;
        Ok(PoolHandle(pack(device, pool)))
    }

    pub(super) fn pool_destroy(&self, pool: PoolHandle) -> Result<()> {
        self.enter_of("pool destroy", pool.0)?;
        cu!(self, "cuMemPoolDestroy", pool_destroy(raw(pool.0)), "a pool its owner gives up")
    }

    pub(super) fn pool_set_threshold(&self, pool: PoolHandle, keep: Bytes) -> Result<()> {
        self.pool_set_value(pool, POOL_THRESHOLD, keep.0)
    }

    pub(super) fn pool_stats(&self, pool: PoolHandle) -> Result<PoolStats> {
        Ok(PoolStats {
            reserved: self.pool_value(pool, POOL_RESERVED)?,
            reserved_high: self.pool_value(pool, POOL_RESERVED_HIGH)?,
            used: self.pool_value(pool, POOL_USED)?,
            used_high: self.pool_value(pool, POOL_USED_HIGH)?,
        })
    }

    pub(super) fn pool_reset_high(&self, pool: PoolHandle) -> Result<()> {
        self.pool_set_value(pool, POOL_RESERVED_HIGH, 0)?;
        self.pool_set_value(pool, POOL_USED_HIGH, 0)
    }

    pub(super) fn pool_trim(&self, pool: PoolHandle, keep: Bytes) -> Result<()> {
        // Measured on driver 580: a size near the largest one trims to nothing instead of keeping
        // everything, so what keeps everything is not passed on.
        if self.pool_value(pool, POOL_RESERVED)? <= keep {
            return Ok(());
        }
        let keep = usize::try_from(keep.0).unwrap_or(usize::MAX);
        cu!(self, "cuMemPoolTrimTo", pool_trim(raw(pool.0), keep), "a live pool")
    }

    fn pool_value(&self, pool: PoolHandle, which: c_int) -> Result<Bytes> {
        let mut value = 0u64;
        cu!(
            self,
            "cuMemPoolGetAttribute",
            pool_get(raw(pool.0), which, (&raw mut value).cast()),
            "a pool of this driver and an attribute whose value has 64 bits"
        )?;
        Ok(Bytes(value))
    }

    fn pool_set_value(&self, pool: PoolHandle, which: c_int, mut value: u64) -> Result<()> {
        cu!(
            self,
            "cuMemPoolSetAttribute",
            pool_set(raw(pool.0), which, (&raw mut value).cast()),
            "a pool of this driver and an attribute whose value has 64 bits"
        )
    }
}
