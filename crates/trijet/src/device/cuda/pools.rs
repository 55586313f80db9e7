//! Pools of stream-ordered memory.

use super::api::{MemAccess, MemLocation, MemPoolProps, need};
use super::context::{CudaDriver, cu, pack, raw};
use super::error::{INVALID_VALUE, check, refused};
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::units::Bytes;
use crate::device::driver::{PoolAccess, PoolAttribute, PoolHandle};
use std::ffi::c_int;
use std::ptr::null_mut;

/// `CU_MEM_LOCATION_TYPE_DEVICE`.
const ON_DEVICE: c_int = 1;
/// `CUmemAccess_flags`.
const ACCESS_NONE: c_int = 0;
const ACCESS_READ: c_int = 1;
const ACCESS_READ_WRITE: c_int = 3;
/// Room for the value of an attribute that a later driver may know. Those of today have 4 or 8
/// bytes, and lie at the low end of the first word.
const ATTRIBUTE_WORDS: usize = 8;

/// The location as the driver takes it, which judges devices that do not exist by itself.
fn location(device: DeviceId) -> MemLocation {
    MemLocation { kind: ON_DEVICE, id: c_int::try_from(device.0).unwrap_or(c_int::MAX) }
}

/// Attributes whose value is an `int`.
fn is_switch(attribute: PoolAttribute) -> bool {
    use PoolAttribute as A;
    [A::REUSE_FOLLOW_EVENTS, A::REUSE_OPPORTUNISTIC, A::REUSE_INTERNAL].contains(&attribute)
}

impl CudaDriver {
    pub(super) fn pool_create(&self, device: DeviceId, max: Bytes) -> Result<PoolHandle> {
        self.enter("pool create", device)?;
        let ordinal = self.context("pool create", device)?.ordinal;
        // Pinned allocations (1) without exported handles.
        let props = MemPoolProps {
            alloc_type: 1,
            handle_types: 0,
            location: MemLocation { kind: ON_DEVICE, id: ordinal },
            security: null_mut(),
            max_size: usize::try_from(max.0).unwrap_or(usize::MAX),
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
        cu!(
            self,
            "cuMemPoolDestroy",
            pool_destroy(raw(pool.0)),
            "a pool its owner gives up; a default one is refused by the driver"
        )
    }

    pub(super) fn pool_default(&self, device: DeviceId) -> Result<PoolHandle> {
        let ordinal = self.context("default pool", device)?.ordinal;
        let mut pool = null_mut();
        cu!(
            self,
            "cuDeviceGetDefaultMemPool",
            pool_default(&raw mut pool, ordinal),
            "a device of this driver and one pointer to write"
        )?;
        Ok(PoolHandle(pack(device, pool)))
    }

    pub(super) fn pool_current(&self, device: DeviceId) -> Result<PoolHandle> {
        let ordinal = self.context("current pool", device)?.ordinal;
        let mut pool = null_mut();
        cu!(
            self,
            "cuDeviceGetMemPool",
            pool_current(&raw mut pool, ordinal),
            "a device of this driver and one pointer to write"
        )?;
        Ok(PoolHandle(pack(device, pool)))
    }

    pub(super) fn pool_set_current(&self, device: DeviceId, pool: PoolHandle) -> Result<()> {
        let ordinal = self.context("set current pool", device)?.ordinal;
        cu!(
            self,
            "cuDeviceSetMemPool",
            pool_set_current(ordinal, raw(pool.0)),
            "a live pool; one of another device is refused by the driver"
        )
    }

    pub(super) fn pool_get(&self, pool: PoolHandle, attribute: PoolAttribute) -> Result<u64> {
        self.enter_of("pool get", pool.0)?;
        let mut value = [0u64; ATTRIBUTE_WORDS];
        cu!(
            self,
            "cuMemPoolGetAttribute",
            pool_get(raw(pool.0), attribute.0, value.as_mut_ptr().cast()),
            "a live pool, and zeroed room for the value of any attribute"
        )?;
        Ok(value[0])
    }

    pub(super) fn pool_set(
        &self,
        pool: PoolHandle,
        attribute: PoolAttribute,
        value: u64,
    ) -> Result<()> {
        self.enter_of("pool set", pool.0)?;
        if is_switch(attribute) && u32::try_from(value).is_err() {
            let cause = format!("attribute {} has 32 bits, not those of {value}", attribute.0);
            return Err(refused("cuMemPoolSetAttribute", INVALID_VALUE, cause));
        }
        let mut words = [0u64; ATTRIBUTE_WORDS];
        words[0] = value;
        cu!(
            self,
            "cuMemPoolSetAttribute",
            pool_set(raw(pool.0), attribute.0, words.as_mut_ptr().cast()),
            "a live pool, and a value that is followed by zeros"
        )
    }

    pub(super) fn pool_trim(&self, pool: PoolHandle, keep: Bytes) -> Result<()> {
        // Measured on driver 580: a size near the largest one trims to nothing instead of keeping
        // everything, so what keeps everything is not passed on.
        if self.pool_get(pool, PoolAttribute::RESERVED)? <= keep.0 {
            return Ok(());
        }
        let keep = usize::try_from(keep.0).unwrap_or(usize::MAX);
        cu!(self, "cuMemPoolTrimTo", pool_trim(raw(pool.0), keep), "a live pool")
    }

    pub(super) fn pool_set_access(
        &self,
        pool: PoolHandle,
        device: DeviceId,
        access: PoolAccess,
    ) -> Result<()> {
        self.enter_of("pool set access", pool.0)?;
        let flags = match access {
            PoolAccess::None => ACCESS_NONE,
            PoolAccess::Read => ACCESS_READ,
            PoolAccess::ReadWrite => ACCESS_READ_WRITE,
        };
        let wanted = MemAccess { location: location(device), flags };
        cu!(
            self,
            "cuMemPoolSetAccess",
            pool_set_access(raw(pool.0), &raw const wanted, 1),
            "a live pool and one description; a device that does not exist is refused"
        )
    }

    pub(super) fn pool_access(&self, pool: PoolHandle, device: DeviceId) -> Result<PoolAccess> {
        self.enter_of("pool access", pool.0)?;
        let (mut flags, mut place) = (ACCESS_NONE, location(device));
        cu!(
            self,
            "cuMemPoolGetAccess",
            pool_access(&raw mut flags, raw(pool.0), &raw mut place),
            "one number to write, a live pool, and a location that is only read"
        )?;
        Ok(match flags {
            ACCESS_READ_WRITE => PoolAccess::ReadWrite,
            ACCESS_READ => PoolAccess::Read,
            _ => PoolAccess::None,
        })
    }
}
