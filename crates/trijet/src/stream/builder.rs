//! Options for opening a device.
#![forbid(unsafe_code)]

use super::device::{Device, Select};
use super::pool_choice::{MemoryOptions, PoolChoice};
use crate::base::error::{Error, ErrorKind, Result};
use crate::check::{CheckOptions, Verdict};
use crate::device::HostConfig;
use crate::log::calling;

/// Options for opening devices, see [`Device::builder`].
///
/// ```
/// use trijet::check::CheckOptions;
/// use trijet::{Device, Select};
/// let device = Device::builder().select(Select::Host(0)).check(CheckOptions::default()).open()?;
/// let stream = device.stream()?;
/// let mut x = stream.alloc::<u8>(64)?;
/// stream.fill_bytes(&mut x, 1)?;
/// device.synchronize()?;
/// let verdict = device.verdict().expect("it is checked");
/// assert!(verdict.is_clean() && verdict.accesses > 0, "{verdict}");
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Default)]
#[must_use = "nothing is opened yet"]
pub struct DeviceBuilder {
    target: OpenTarget,
    memory: MemoryOptions,
    check: Option<CheckOptions>,
}

#[derive(Debug)]
enum OpenTarget {
    Selected(Select),
    Host(HostConfig),
    /// All GPUs, or these host devices if there is no GPU.
    GpusOr(HostConfig),
}

impl Default for OpenTarget {
    fn default() -> Self {
        Self::Selected(Select::Auto)
    }
}

impl Device {
    /// Options for opening a device. Without further calls, [`DeviceBuilder::open`] opens the
    /// device of [`Select::Auto`].
    pub fn builder() -> DeviceBuilder {
        DeviceBuilder::default()
    }

    /// The verdict of the checker so far, on all streams of the device's driver. `None` if no open
    /// device of this driver was opened with [`DeviceBuilder::check`]. Also `None` in a child of
    /// `fork`. The checker treats a wait that has not ended yet as a wait that never ends.
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// assert!(Device::open(Select::Host(0))?.verdict().is_none());
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        if calling::forked() { None } else { self.shared().domain.log().tracers.verdict() }
    }
}

impl Device {
    /// Whether a checker reads the calls of the device's driver.
    pub(crate) fn is_checked(&self) -> bool {
        self.shared().domain.log().tracers.has_checker()
    }
}

impl DeviceBuilder {
    /// Chooses the device to open.
    pub fn select(mut self, select: Select) -> Self {
        self.target = OpenTarget::Selected(select);
        self
    }

    /// Opens new host devices instead of the selected device, as [`Device::host`] does.
    pub fn host(mut self, config: HostConfig) -> Self {
        self.target = OpenTarget::Host(config);
        self
    }

    /// Opens all GPUs of this machine, in the order of their ordinals. If there is no CUDA driver
    /// or no GPU, opens new host devices as [`host`](Self::host) does. So a program for several
    /// devices begins in the same way on every machine.
    ///
    /// ```
    /// use trijet::Device;
    /// use trijet::sim::HostConfig;
    /// let devices = Device::builder().gpus_or(HostConfig::new().devices(2)).open_all()?;
    /// assert!(!devices.is_empty());
    /// # Ok::<(), trijet::Error>(())
    /// ```
    pub fn gpus_or(mut self, config: HostConfig) -> Self {
        self.target = OpenTarget::GpusOr(config);
        self
    }

    /// Makes the devices allocate from a pool of the driver instead of the heap of the library.
    /// Allocations and frees are then operations of a stream.
    ///
    /// ```
    /// use trijet::{Device, PoolChoice, Select};
    /// let device = Device::builder().select(Select::Host(0)).pool(PoolChoice::Default).open()?;
    /// device.stream()?.alloc::<u8>(64)?;
    /// # Ok::<(), trijet::Error>(())
    /// ```
    pub fn pool(mut self, pool: PoolChoice) -> Self {
        self.memory.pool = Some(pool);
        self
    }

    /// Puts red zones around each allocation of a stream: bytes that no operation may write. Also
    /// fills the memory of dropped buffers with poison. Then [`Device::check_memory`] finds kernels
    /// that write other bytes than they declare. Each allocation enqueues two small fills, and
    /// freed memory is allocated again later than without red zones.
    pub fn red_zones(mut self) -> Self {
        self.memory.red_zones = true;
        self
    }

    /// Adds a checker. The checker reads every later call on every stream of the device's driver.
    /// The checker keeps only accesses with which a later access may conflict, so a program may run
    /// for any time. The findings have no witness, because a witness needs the whole trace.
    ///
    /// Devices of one driver that are checked at the same time share one checker. The checker ends
    /// when all handles, streams and buffers of these devices are dropped. A device that is opened
    /// with a check after that has a new checker. [`DeviceBuilder::host`] opens devices with a new
    /// driver, so tests that run side by side do not see each other's findings.
    ///
    /// A pipeline on a checked device copies and waits as on a GPU. Without a check, it may work in
    /// the memory of the host ([`Schedule::Tuned`](crate::pipeline::Schedule::Tuned)).
    pub fn check(mut self, options: CheckOptions) -> Self {
        self.check = Some(options);
        self
    }

    /// Opens the device. If there are several host devices, returns the first one.
    ///
    /// # Errors
    /// The errors of [`Device::open`] and [`Device::host`]; `InvalidValue` if another device of the
    /// driver is open with different options of the checker, or if the configuration has no device;
    /// `Unsupported` for red zones in a pool of the driver.
    pub fn open(self) -> Result<Device> {
        let none =
            || Error::new(ErrorKind::InvalidValue, "open", "the configuration has no device");
        self.open_all()?.into_iter().next().ok_or_else(none)
    }

    /// Opens the device, all GPUs, or all host devices of the configuration.
    ///
    /// # Errors
    /// The errors of [`DeviceBuilder::open`].
    pub fn open_all(self) -> Result<Vec<Device>> {
        let devices = match self.target {
            OpenTarget::Selected(select) => vec![Device::open_with(select, self.memory)?],
            OpenTarget::Host(config) => Device::host_with(config, self.memory)?,
            OpenTarget::GpusOr(config) => {
                let gpus = Device::gpus_with(self.memory)?;
                if gpus.is_empty() { Device::host_with(config, self.memory)? } else { gpus }
            }
        };
        if let Some(options) = self.check {
            for device in &devices {
                let checked = device.shared().domain.check(options.clone())?;
                device.shared().checked.get_or_init(|| checked);
            }
        }
        Ok(devices)
    }
}
