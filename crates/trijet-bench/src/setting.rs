//! The setting of a benchmark: its device, the command that it starts, and the means to stop it.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use trijet::{Cancel, Clock, Device, Error, ErrorKind, PoolChoice, Result, Select};

/// The device of a benchmark, the command that it starts, and the means to stop it.
#[derive(Debug)]
pub struct Setting<'a> {
    /// The device.
    pub device: &'a Device,
    /// The command `trijet`, for benchmarks that start it.
    pub trijet: PathBuf,
    /// The folder of this program. Benchmarks find their libraries there.
    pub folder: PathBuf,
    /// Cancels the benchmark, which then ends before its next run. Only benchmarks with runs of
    /// seconds check this.
    pub cancel: Cancel,
}

impl Setting<'_> {
    /// Whether the device is a GPU.
    pub(crate) fn is_gpu(&self) -> bool {
        self.device.info().clock == Clock::Device
    }

    /// Whether the device accepts dependent launches. A host device, with compute capability 0.x,
    /// accepts them, but runs the kernels one after another.
    pub(crate) fn has_dependents(&self) -> bool {
        matches!(self.device.info().compute, (0, _) | (9.., _))
    }

    /// Opens all GPUs of this host. Without a GPU, opens two host devices.
    ///
    /// # Errors
    /// Every error of a device.
    pub(crate) fn devices(&self) -> Result<Vec<Device>> {
        if !self.is_gpu() {
            return Ok(vec![Device::open(Select::Host(0))?, Device::open(Select::Host(1))?]);
        }
        let numbers = 0..u32::try_from(Device::cuda_devices()?.len()).expect("a few GPUs");
        numbers.map(|number| Device::open(Select::Cuda(number))).collect()
    }

    /// Opens the same devices as `devices`, for work that needs at least two. `what` names the
    /// work.
    ///
    /// # Errors
    /// `NoDevice` on a host with one GPU; every error of a device.
    pub(crate) fn devices_for(&self, what: &str) -> Result<Vec<Device>> {
        let devices = self.devices()?;
        if devices.len() > 1 {
            return Ok(devices);
        }
        let cause = format!("{what} needs two GPUs, and this host has one");
        Err(Error::new(ErrorKind::NoDevice, "bench", cause))
    }
}

/// A handle of the same device that allocates from a pool of the driver. If the device is a host
/// device with its own configuration, the handle belongs to the shared host device of the process
/// instead.
///
/// # Errors
/// Every error of the device.
pub(crate) fn pooled(device: &Device) -> Result<Device> {
    let id = device.id().0;
    let select = match device.info().clock {
        Clock::Device => Select::Cuda(id),
        Clock::Processor | Clock::Model => Select::Host(id),
    };
    Device::builder().select(select).pool(PoolChoice::Own).open()
}

/// A host device in virtual time, with a checker.
#[cfg(test)]
pub(crate) fn checked_device(order: trijet::sim::Order) -> trijet::Result<Device> {
    use trijet::sim::{Executor, HostConfig};
    let config = HostConfig::new().executor(Executor::Virtual(order));
    Device::builder().host(config).check(trijet::check::CheckOptions::default()).open()
}

/// Asserts that the checker of a device has no finding, and that it has checked more than
/// `accesses` accesses.
#[cfg(test)]
#[track_caller]
pub(crate) fn assert_no_finding(device: &Device, accesses: u64) {
    let verdict = device.verdict().expect("the device has a checker");
    assert_eq!(verdict.findings, [], "{verdict}");
    assert!(verdict.accesses > accesses, "{verdict}");
}

#[cfg(test)]
impl<'a> Setting<'a> {
    pub(crate) fn for_tests(device: &'a Device) -> Self {
        Self { device, trijet: PathBuf::new(), folder: PathBuf::new(), cancel: Cancel::new() }
    }
}
