//! Memory: stream-ordered, of a device, and page-locked.

use super::api::need;
use super::context::{CudaDriver, cu, device_of, raw};
use super::error::{INVALID_VALUE, check, refused};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::units::Bytes;
use crate::device::driver::{PoolHandle, StreamHandle};
use crate::device::memory::{Memory, Space};
use crate::device::region::HostBytes;
use std::ffi::{c_uint, c_void};
use std::ptr::{NonNull, null_mut};

const HOST_ALLOC_PORTABLE: c_uint = 1;

impl CudaDriver {
    pub(super) fn alloc(
        &self,
        stream: StreamHandle,
        pool: Option<PoolHandle>,
        bytes: Bytes,
    ) -> Result<Memory> {
        let device = self.enter_of("alloc", stream.0)?;
        let size = usize::try_from(bytes.0).unwrap_or(usize::MAX);
        let mut address = 0;
        // The memory lies where the pool does, which may be another device than the stream's.
        let (home, outcome) = match pool {
            Some(pool) => {
                let outcome = cu!(
                    self,
                    "cuMemAllocFromPoolAsync",
                    alloc_from(&raw mut address, size, raw(pool.0), raw(stream.0)),
                    "a live pool and stream, one number to write"
                );
                (device_of(pool.0), outcome)
            }
            None => {
                let outcome = cu!(
                    self,
                    "cuMemAllocAsync",
                    alloc(&raw mut address, size, raw(stream.0)),
                    "a live stream, one number to write"
                );
                (device, outcome)
            }
        };
        outcome.map_err(|error| self.explain(error, home, bytes))?;
        Ok(Memory::new(Space::Device(home), address, bytes.0, None))
    }

    pub(super) fn free(&self, stream: StreamHandle, memory: &Memory) -> Result<()> {
        self.enter_of("free", stream.0)?;
        cu!(
            self,
            "cuMemFreeAsync",
            free(memory.address(), raw(stream.0)),
            "an allocation that its block frees once, after waits for all its users; what is \
             none is refused by the driver"
        )
    }

    pub(super) fn device_alloc(&self, device: DeviceId, bytes: Bytes) -> Result<Memory> {
        self.enter("device alloc", device)?;
        let size = usize::try_from(bytes.0).unwrap_or(usize::MAX);
        let mut address = 0;
        let outcome = cu!(
            self,
            "cuMemAlloc",
            device_alloc(&raw mut address, size),
            "one number to write; the context is current"
        );
        outcome.map_err(|error| self.explain(error, device, bytes))?;
        Ok(Memory::new(Space::Device(device), address, bytes.0, None))
    }

    pub(super) fn device_free(&self, memory: &Memory) -> Result<()> {
        let Space::Device(home) = memory.space() else {
            let cause = "memory of the host is not freed as memory of a device";
            return Err(refused("cuMemFree", INVALID_VALUE, cause));
        };
        self.enter("device free", home)?;
        cu!(
            self,
            "cuMemFree",
            device_free(memory.address()),
            "an allocation that its owner frees once, when all its users are complete"
        )
    }

    /// A failed allocation, with what was asked and what was free.
    #[cold]
    fn explain(&self, error: Error, device: DeviceId, bytes: Bytes) -> Error {
        let doing = match self.memory_info(device) {
            Ok((free, total)) => format!("{bytes} wanted, {free} of {total} free"),
            Err(_) => format!("{bytes} wanted"),
        };
        error.context(doing).on(device)
    }

    pub(super) fn pinned_alloc(&self, device: DeviceId, bytes: Bytes) -> Result<Memory> {
        self.enter("pinned alloc", device)?;
        let size = usize::try_from(bytes.0).unwrap_or(usize::MAX).max(1);
        let mut base: *mut c_void = null_mut();
        cu!(
            self,
            "cuMemHostAlloc",
            host_alloc(&raw mut base, size, HOST_ALLOC_PORTABLE),
            "one pointer to write; portable, so that every device's copies reach it"
        )
        .map_err(|e| e.context(format!("{bytes} of page-locked memory")).on(device))?;
        let Some(base) = NonNull::new(base.cast::<u8>()) else {
            let cause = "the driver gave no address";
            return Err(Error::new(ErrorKind::OutOfMemory, "cuMemHostAlloc", cause));
        };
        // SAFETY: the driver's zeroed pages of `size` bytes are ours until `pinned_free`, which
        // the pinned pool calls only when the last token is its own.
        let host = unsafe { HostBytes::lent(base, size) };
        Ok(Memory::new(Space::Pinned, base.as_ptr() as u64, bytes.0, Some(host)))
    }

    pub(super) fn pinned_free(&self, memory: &Memory) -> Result<()> {
        if memory.space() != Space::Pinned {
            let cause = "the memory is not page-locked";
            return Err(refused("cuMemFreeHost", INVALID_VALUE, cause));
        }
        self.enter_any("pinned free")?;
        cu!(
            self,
            "cuMemFreeHost",
            host_free(memory.address() as *mut c_void),
            "memory of `pinned_alloc` that no operation uses any more"
        )
    }
}
