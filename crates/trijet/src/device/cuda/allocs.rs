//! Memory: stream-ordered and page-locked.

use super::api::need;
use super::context::{CudaDriver, cu, raw};
use super::error::check;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::units::Bytes;
use crate::device::driver::{PoolHandle, StreamHandle};
use crate::device::memory::{HostBytes, Memory, Space};
use std::ffi::{c_uint, c_void};
use std::ptr::{NonNull, null_mut};

const HOST_ALLOC_PORTABLE: c_uint = 1;

impl CudaDriver {
    pub(super) fn alloc(
        &self,
        stream: StreamHandle,
        pool: PoolHandle,
        bytes: Bytes,
    ) -> Result<Memory> {
        let device = self.enter_of("alloc", stream.0)?;
        let size = usize::try_from(bytes.0).unwrap_or(usize::MAX);
        let mut address = 0;
        let outcome = cu!(
            self,
            "cuMemAllocFromPoolAsync",
            alloc(&raw mut address, size.max(1), raw(pool.0), raw(stream.0)),
            "a live pool and stream of one device, one number to write"
        );
        if let Err(error) = outcome {
            let doing = match self.memory_info(device) {
                Ok((free, total)) => format!("{bytes} wanted, {free} of {total} free"),
                Err(_) => format!("{bytes} wanted"),
            };
            return Err(error.context(doing).on(device));
        }
        Ok(Memory::new(Space::Device(device), address, bytes.0, None))
    }

    pub(super) fn free(&self, stream: StreamHandle, memory: &Memory) -> Result<()> {
        self.enter_of("free", stream.0)?;
        cu!(
            self,
            "cuMemFreeAsync",
            free(memory.address(), raw(stream.0)),
            "an allocation that its block frees once, after waits for all its users"
        )
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
        cu!(
            self,
            "cuMemFreeHost",
            host_free(memory.address() as *mut c_void),
            "memory of `pinned_alloc` that no operation uses any more"
        )
    }
}
