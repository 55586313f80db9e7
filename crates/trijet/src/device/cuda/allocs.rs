//! Stream-ordered memory, device memory that belongs to no stream, and page-locked memory.

use super::api::need;
use super::context::{CudaDriver, cu, device_of, raw};
use super::error::{INVALID_VALUE, check, refused};
use super::locked::{self, MAPPED_MIN};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::units::Bytes;
use crate::device::driver::{PoolHandle, StreamHandle};
use crate::device::memory::{Memory, Space};
use crate::device::region::HostBytes;
use memmap2::MmapMut;
use std::ffi::{c_uint, c_void};
use std::mem::forget;
use std::ptr::{NonNull, null_mut};

const HOST_ALLOC_PORTABLE: c_uint = 1;
const HOST_REGISTER_PORTABLE: c_uint = 1;

impl CudaDriver {
    pub(super) fn alloc(
        &self,
        stream: StreamHandle,
        pool: Option<PoolHandle>,
        bytes: Bytes,
    ) -> Result<Memory> {
        let _entered = self.enter_of("alloc", stream.0)?;
        let _relaxed = self.relaxed();
        let size = usize::try_from(bytes.0).unwrap_or(usize::MAX);
        let mut address = 0;
        // The memory is on the device of the pool, which may differ from the device of the stream.
        let (home, outcome) = match pool {
            Some(pool) => {
                let outcome = cu!(
                    self,
                    "cuMemAllocFromPoolAsync",
                    alloc_from(&raw mut address, size, raw(pool.0), raw(stream.0)),
                    "the call writes the local variable `address`; the pool and the stream are \
                     live, which is false after their destruction. In a capture the address would \
                     be that of a graph's memory: the layers above refuse a capturing stream"
                );
                (device_of(pool.0), outcome)
            }
            None => {
                let outcome = cu!(
                    self,
                    "cuMemAllocAsync",
                    alloc(&raw mut address, size, raw(stream.0)),
                    "the call writes the local variable `address`; the stream is live. In a \
                     capture the memory would belong to the graph: the layers above refuse a \
                     capturing stream"
                );
                (device_of(stream.0), outcome)
            }
        };
        outcome.map_err(|error| self.explain(error, home, bytes))?;
        Ok(Memory::new(Space::Device(home), address, bytes.0, None))
    }

    pub(super) fn free(&self, stream: StreamHandle, memory: &Memory) -> Result<()> {
        let _entered = self.enter_of("free", stream.0)?;
        let _relaxed = self.relaxed();
        cu!(
            self,
            "cuMemFreeAsync",
            free(memory.address(), raw(stream.0)),
            "the owner of the memory frees it once, after waits for all its users: false for a \
             second free after the address was allocated again. In a capture each replay would \
             free it: the layers above refuse a capturing stream"
        )
    }

    pub(super) fn device_alloc(&self, device: DeviceId, bytes: Bytes) -> Result<Memory> {
        let _entered = self.enter("device alloc", device)?;
        let _relaxed = self.relaxed();
        let size = usize::try_from(bytes.0).unwrap_or(usize::MAX);
        let mut address = 0;
        let outcome = cu!(
            self,
            "cuMemAlloc",
            device_alloc(&raw mut address, size),
            "the call writes the local variable `address`, and allocates on the device whose \
             context is current"
        );
        outcome.map_err(|error| self.explain(error, device, bytes))?;
        Ok(Memory::new(Space::Device(device), address, bytes.0, None))
    }

    pub(super) fn device_free(&self, memory: &Memory) -> Result<()> {
        let Space::Device(home) = memory.space() else {
            let cause = format!("{} cannot be freed as device memory", memory.space());
            return Err(refused("cuMemFree", INVALID_VALUE, cause));
        };
        let _entered = self.enter("device free", home)?;
        let _relaxed = self.relaxed();
        cu!(
            self,
            "cuMemFree",
            device_free(memory.address()),
            "the owner frees the memory once, when all its users are complete on every device: \
             false while a copy of another device still reads it"
        )
    }

    /// Adds the requested size and the free memory to the error of an allocation.
    #[cold]
    pub(super) fn explain(&self, error: Error, device: DeviceId, bytes: Bytes) -> Error {
        let doing = match self.memory_info(device) {
            Ok((free, total)) => format!("{bytes} requested, but only {free} of {total} are free"),
            Err(_) => format!("{bytes} requested"),
        };
        error.context(doing).on(device)
    }

    pub(super) fn pinned_alloc(&self, device: DeviceId, bytes: Bytes) -> Result<Memory> {
        let _entered = self.enter("pinned alloc", device)?;
        let _relaxed = self.relaxed();
        let size = usize::try_from(bytes.0).unwrap_or(usize::MAX).max(1);
        if let Some(memory) = self.locked_mapping(size) {
            return Ok(memory);
        }
        let mut base: *mut c_void = null_mut();
        cu!(
            self,
            "cuMemHostAlloc",
            host_alloc(&raw mut base, size, HOST_ALLOC_PORTABLE),
            "the call writes the local variable `base`; the flag lets copies of every device use \
             the memory, without which the address would be invalid on a second device"
        )
        .map_err(|e| e.context(format!("{bytes} of page-locked memory requested")).on(device))?;
        let Some(base) = NonNull::new(base.cast::<u8>()) else {
            let cause = format!("the driver returned a null address for {bytes}");
            return Err(Error::new(ErrorKind::OutOfMemory, "cuMemHostAlloc", cause));
        };
        // SAFETY: the driver returned `size` zeroed bytes, which stay mapped until `pinned_free`.
        // The pool of page-locked memory calls `pinned_free` when no other token of the memory
        // exists. This does not hold if a queued operation has no token. After a context error the
        // pages stay mapped.
        let host = unsafe { HostBytes::lent(base, size) };
        Ok(Memory::new(Space::Pinned, base.as_ptr() as u64, bytes.0, Some(host)))
    }

    /// Allocates page-locked memory in a mapping of this library. `None` if the memory is small, or
    /// if the mapping or the lock fails. Then the caller asks the driver for the memory, and an
    /// error of the driver states the reason.
    fn locked_mapping(&self, size: usize) -> Option<Memory> {
        if size < MAPPED_MIN {
            return None;
        }
        let mut mapping = locked::pages(size)?;
        let base = NonNull::new(mapping.as_mut_ptr())?;
        // If the pages cannot be locked, the mapping is unmapped here.
        self.lock(base, size).ok()?;
        self.locked.keep(mapping);
        // SAFETY: the mapping has `size` zeroed bytes, and stays until `pinned_free`. The pool of
        // page-locked memory calls `pinned_free` when no other token of the memory exists. This
        // does not hold if a queued operation has no token. After a context error the mapping
        // stays.
        let host = unsafe { HostBytes::lent(base, size) };
        Some(Memory::new(Space::Pinned, base.as_ptr() as u64, size as u64, Some(host)))
    }

    /// Locks the pages of a mapping.
    fn lock(&self, base: NonNull<u8>, size: usize) -> Result<()> {
        cu!(
            self,
            "cuMemHostRegister",
            host_register(base.as_ptr().cast(), size, HOST_REGISTER_PORTABLE),
            "the caller maps `size` bytes at the address, and unmaps them after `unlock` only: false \
             if it unmapped them before, for the driver would take other memory at the address for \
             these pages; the flag lets copies of every device use the memory"
        )
    }

    /// Unlocks the pages of a mapping and unmaps the mapping. If the driver refuses to unlock the
    /// pages, the mapping stays.
    fn unlock(&self, mut mapping: MmapMut) -> Result<()> {
        let unlocked = cu!(
            self,
            "cuMemHostUnregister",
            host_unregister(mapping.as_mut_ptr().cast()),
            "the address was registered by `locked_mapping`, and no operation of any device uses the \
             memory any more: false while a copy of a second device is pending"
        );
        if unlocked.is_err() {
            forget(mapping);
        }
        unlocked
    }

    /// Unlocks and unmaps all page-locked memory that was not freed before the driver is dropped.
    pub(super) fn unlock_all(&self) {
        if self.locked.is_empty() {
            return;
        }
        let Ok(_entered) = self.enter_any("close") else { return };
        for mapping in self.locked.take_all() {
            // After a context error, and while the process exits, the driver refuses the call. Then
            // the mapping stays.
            let _refused = self.unlock(mapping);
        }
    }

    pub(super) fn pinned_free(&self, memory: &Memory) -> Result<()> {
        if memory.space() != Space::Pinned {
            let cause = format!("{} cannot be freed as page-locked memory", memory.space());
            return Err(refused("cuMemFreeHost", INVALID_VALUE, cause));
        }
        let _entered = self.enter_any("pinned free")?;
        let _relaxed = self.relaxed();
        if let Some(mapping) = self.locked.take(memory.address()) {
            return self.unlock(mapping);
        }
        cu!(
            self,
            "cuMemFreeHost",
            host_free(memory.address() as *mut c_void),
            "the address is of `pinned_alloc`, and no operation of any device uses the memory any \
             more: false while a copy of a second device is pending"
        )
    }
}
