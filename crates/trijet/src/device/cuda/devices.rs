//! The properties of a device, and waiting for all of its work.

use super::api::need;
use super::context::{CudaDriver, cu};
use super::error::check;
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::units::Bytes;
use crate::device::driver::{Clock, DeviceInfo};

impl CudaDriver {
    pub(super) fn device_count(&self) -> Result<u32> {
        Ok(u32::try_from(self.contexts.len()).unwrap_or(u32::MAX))
    }

    pub(super) fn device_info(&self, device: DeviceId) -> Result<DeviceInfo> {
        let _entered = self.enter("device info", device)?;
        let ordinal = self.context("device info", device)?.ordinal;
        let mut name = [0u8; 256];
        cu!(
            self,
            "cuDeviceGetName",
            device_name(name.as_mut_ptr().cast(), 256, ordinal),
            "the buffer `name` has the 256 bytes that are passed as its length"
        )?;
        let mut memory = 0usize;
        cu!(
            self,
            "cuDeviceTotalMem",
            device_memory(&raw mut memory, ordinal),
            "`ordinal` is of this driver; the call writes the local variable `memory`"
        )?;
        let (mut low, mut high) = (0, 0);
        cu!(
            self,
            "cuCtxGetStreamPriorityRange",
            ctx_priorities(&raw mut low, &raw mut high),
            "the call writes two local variables, for the device whose context is current"
        )?;
        let length = name.iter().position(|b| *b == 0).unwrap_or(name.len());
        Ok(DeviceInfo {
            name: String::from_utf8_lossy(&name[..length]).into_owned(),
            compute: (self.attribute(ordinal, 75)?, self.attribute(ordinal, 76)?),
            multiprocessors: self.attribute(ordinal, 16)?,
            copy_engines: self.attribute(ordinal, 40)?,
            hardware_queues: self.hardware_queues,
            memory: Bytes(memory as u64),
            priorities: (low, high),
            block_threads_max: self.attribute(ordinal, 1)?,
            shared_bytes: self.attribute(ordinal, 8)?,
            shared_bytes_optin: self.attribute(ordinal, 97)?,
            driver_version: self.version,
            integrated: self.attribute(ordinal, 18)? == 1,
            clock: Clock::Device,
        })
    }

    pub(super) fn memory_info(&self, device: DeviceId) -> Result<(Bytes, Bytes)> {
        let _entered = self.enter("memory info", device)?;
        let (mut free, mut total) = (0usize, 0usize);
        cu!(
            self,
            "cuMemGetInfo",
            mem_info(&raw mut free, &raw mut total),
            "the call writes `free` and `total`, for the device whose context is current"
        )?;
        Ok((Bytes(free as u64), Bytes(total as u64)))
    }

    pub(super) fn synchronize(&self, device: DeviceId) -> Result<()> {
        let _entered = self.enter("synchronize", device)?;
        cu!(
            self,
            "cuCtxSynchronize",
            ctx_synchronize(),
            "the call has no argument, and waits for the device whose context is current"
        )
    }
}
