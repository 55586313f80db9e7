//! The properties of a device, and waiting for all of its work.

use super::api::need;
use super::context::{CudaDriver, cu};
use super::error::check;
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::units::Bytes;
use crate::device::driver::{Clock, DeviceInfo};
use crate::device::launch_config::LaunchConfig;
use std::ffi::c_int;

/// Attributes of a device, with the numbers of `CUdevice_attribute`.
const WARP_SIZE: c_int = 10;
const MEMORY_CLOCK_RATE: c_int = 36;
const GLOBAL_MEMORY_BUS_WIDTH: c_int = 37;
const L2_CACHE_SIZE: c_int = 38;
const MAX_THREADS_PER_MULTIPROCESSOR: c_int = 39;
const MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: c_int = 81;
const MAX_REGISTERS_PER_MULTIPROCESSOR: c_int = 82;
const MAX_BLOCKS_PER_MULTIPROCESSOR: c_int = 106;

/// The rate of device memory in bytes per second. The memory transfers two bits per line of the
/// bus and cycle.
fn bytes_per_s(bus_bits: u32, clock_khz: u32) -> u64 {
    u64::from(bus_bits) / 8 * 2 * u64::from(clock_khz) * 1000
}

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
        let compute = (self.attribute(ordinal, 75)?, self.attribute(ordinal, 76)?);
        // The driver of a virtual GPU may report 0 for an attribute that it does not know.
        let known = |which| -> Result<Option<u32>> {
            Ok(Some(self.attribute(ordinal, which)?).filter(|value| *value > 0))
        };
        let (bus, clock) = (known(GLOBAL_MEMORY_BUS_WIDTH)?, known(MEMORY_CLOCK_RATE)?);
        let length = name.iter().position(|b| *b == 0).unwrap_or(name.len());
        Ok(DeviceInfo {
            name: String::from_utf8_lossy(&name[..length]).into_owned(),
            compute,
            multiprocessors: self.attribute(ordinal, 16)?,
            copy_engines: self.attribute(ordinal, 40)?,
            hardware_queues: self.hardware_queues,
            memory: Bytes(memory as u64),
            priorities: (low, high),
            block_threads_max: self.attribute(ordinal, 1)?,
            shared_bytes: self.attribute(ordinal, 8)?,
            shared_bytes_optin: self.attribute(ordinal, 97)?,
            multiprocessor_threads_max: self.attribute(ordinal, MAX_THREADS_PER_MULTIPROCESSOR)?,
            multiprocessor_blocks_max: self.attribute(ordinal, MAX_BLOCKS_PER_MULTIPROCESSOR)?,
            multiprocessor_shared_bytes: self
                .attribute(ordinal, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?,
            multiprocessor_registers: known(MAX_REGISTERS_PER_MULTIPROCESSOR)?,
            warp_threads: self.attribute(ordinal, WARP_SIZE)?,
            cluster_blocks_max: LaunchConfig::cluster_blocks_max(compute),
            l2: known(L2_CACHE_SIZE)?.map(|bytes| Bytes(bytes.into())),
            memory_bus_bits: bus,
            memory_clock_khz: clock,
            memory_bytes_per_s: bus.zip(clock).map(|(bits, khz)| bytes_per_s(bits, khz)),
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

#[cfg(test)]
mod tests {
    use super::bytes_per_s;

    /// The data sheet of the H100 SXM states 3.35 TB/s.
    #[test]
    fn the_rate_of_memory_follows_from_bus_and_clock() {
        assert_eq!(bytes_per_s(5120, 2_619_000), 3_352_320_000_000);
    }
}
