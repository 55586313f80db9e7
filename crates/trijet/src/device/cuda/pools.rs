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
pub(super) const ON_DEVICE: c_int = 1;
/// `CUmemAccess_flags`.
pub(super) const ACCESS_NONE: c_int = 0;
const ACCESS_READ: c_int = 1;
pub(super) const ACCESS_READ_WRITE: c_int = 3;
/// The number of words for the value of any attribute, including attributes of later drivers. The
/// values of today's attributes have 4 or 8 bytes and are in the first word.
const ATTRIBUTE_WORDS: usize = 8;

/// A device in the form of the driver. The driver refuses the number of a device that does not
/// exist.
fn location(device: DeviceId) -> MemLocation {
    MemLocation { kind: ON_DEVICE, id: c_int::try_from(device.0).unwrap_or(c_int::MAX) }
}

/// Whether the value of the attribute is an `int`.
fn is_switch(attribute: PoolAttribute) -> bool {
    use PoolAttribute as A;
    [A::REUSE_FOLLOW_EVENTS, A::REUSE_OPPORTUNISTIC, A::REUSE_INTERNAL].contains(&attribute)
}

impl CudaDriver {
    pub(super) fn pool_create(&self, device: DeviceId, max: Bytes) -> Result<PoolHandle> {
        let _entered = self.enter("pool create", device)?;
        let _relaxed = self.relaxed();
        let ordinal = self.context("pool create", device)?.ordinal;
        // `CU_MEM_ALLOCATION_TYPE_PINNED`, and no handles for other processes.
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
            "`props` has the documented layout, which a test compares, and is read during the \
             call, which writes the local variable `pool`"
        )?;
        Ok(PoolHandle(pack(device, pool)))
    }

    pub(super) fn pool_destroy(&self, pool: PoolHandle) -> Result<()> {
        let _entered = self.enter_of("pool destroy", pool.0)?;
        let _relaxed = self.relaxed();
        cu!(
            self,
            "cuMemPoolDestroy",
            pool_destroy(raw(pool.0)),
            "the owner destroys the pool once and uses it no more; the driver refuses a default \
             pool"
        )
    }

    pub(super) fn pool_default(&self, device: DeviceId) -> Result<PoolHandle> {
        let _relaxed = self.relaxed();
        let ordinal = self.context("default pool", device)?.ordinal;
        let mut pool = null_mut();
        cu!(
            self,
            "cuDeviceGetDefaultMemPool",
            pool_default(&raw mut pool, ordinal),
            "`ordinal` is of this driver; the call writes the local variable `pool`, which lives \
             as long as its device"
        )?;
        Ok(PoolHandle(pack(device, pool)))
    }

    pub(super) fn pool_current(&self, device: DeviceId) -> Result<PoolHandle> {
        let _relaxed = self.relaxed();
        let ordinal = self.context("current pool", device)?.ordinal;
        let mut pool = null_mut();
        cu!(
            self,
            "cuDeviceGetMemPool",
            pool_current(&raw mut pool, ordinal),
            "`ordinal` is of this driver; the call writes the local variable `pool`, which is live \
             until its owner destroys it"
        )?;
        Ok(PoolHandle(pack(device, pool)))
    }

    pub(super) fn pool_set_current(&self, device: DeviceId, pool: PoolHandle) -> Result<()> {
        let _relaxed = self.relaxed();
        let ordinal = self.context("set current pool", device)?.ordinal;
        cu!(
            self,
            "cuDeviceSetMemPool",
            pool_set_current(ordinal, raw(pool.0)),
            "the pool is live; the driver refuses one of another device. A pool that is destroyed \
             while it is current is replaced by the default one (law A26)"
        )
    }

    pub(super) fn pool_get(&self, pool: PoolHandle, attribute: PoolAttribute) -> Result<u64> {
        let _entered = self.enter_of("pool get", pool.0)?;
        let _relaxed = self.relaxed();
        let mut value = [0u64; ATTRIBUTE_WORDS];
        cu!(
            self,
            "cuMemPoolGetAttribute",
            pool_get(raw(pool.0), attribute.0, value.as_mut_ptr().cast()),
            "the pool is live. The call writes at most 8 bytes for an attribute of today into the \
             64 of `value`: false for a longer attribute of a later driver"
        )?;
        Ok(value[0])
    }

    pub(super) fn pool_set(
        &self,
        pool: PoolHandle,
        attribute: PoolAttribute,
        value: u64,
    ) -> Result<()> {
        let _entered = self.enter_of("pool set", pool.0)?;
        let _relaxed = self.relaxed();
        if is_switch(attribute) && u32::try_from(value).is_err() {
            let cause = format!("{value} does not fit the 32 bits of attribute {}", attribute.0);
            return Err(refused("cuMemPoolSetAttribute", INVALID_VALUE, cause));
        }
        let mut words = [0u64; ATTRIBUTE_WORDS];
        words[0] = value;
        cu!(
            self,
            "cuMemPoolSetAttribute",
            pool_set(raw(pool.0), attribute.0, words.as_mut_ptr().cast()),
            "the pool is live. The call reads at most 8 bytes for an attribute of today of the 64 \
             of `words`: false for a longer attribute of a later driver"
        )
    }

    pub(super) fn pool_trim(&self, pool: PoolHandle, keep: Bytes) -> Result<()> {
        // Measured on driver 580: if `keep` is near the largest possible size, the driver returns
        // all memory to the device instead of none. So the driver is not called if the pool has at
        // most `keep` bytes.
        if self.pool_get(pool, PoolAttribute::RESERVED)? <= keep.0 {
            return Ok(());
        }
        let _entered = self.enter_of("pool trim", pool.0)?;
        let _relaxed = self.relaxed();
        let keep = usize::try_from(keep.0).unwrap_or(usize::MAX);
        cu!(
            self,
            "cuMemPoolTrimTo",
            pool_trim(raw(pool.0), keep),
            "the pool is live; memory that is allocated stays"
        )
    }

    pub(super) fn pool_set_access(
        &self,
        pool: PoolHandle,
        device: DeviceId,
        access: PoolAccess,
    ) -> Result<()> {
        let _entered = self.enter_of("pool set access", pool.0)?;
        let _relaxed = self.relaxed();
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
            "the pool is live, and the call reads the one description that it is told of; the \
             driver refuses a device that does not exist"
        )
    }

    pub(super) fn pool_access(&self, pool: PoolHandle, device: DeviceId) -> Result<PoolAccess> {
        let _entered = self.enter_of("pool access", pool.0)?;
        let _relaxed = self.relaxed();
        let (mut flags, mut place) = (ACCESS_NONE, location(device));
        cu!(
            self,
            "cuMemPoolGetAccess",
            pool_access(&raw mut flags, raw(pool.0), &raw mut place),
            "the pool is live; the call writes the local variable `flags` and reads `place`"
        )?;
        Ok(match flags {
            ACCESS_READ_WRITE => PoolAccess::ReadWrite,
            ACCESS_READ => PoolAccess::Read,
            _ => PoolAccess::None,
        })
    }
}
