//! Options for opening a device.
#![forbid(unsafe_code)]

use super::device::{Device, Select};
use super::pool_choice::PoolChoice;
use crate::base::error::{Error, ErrorKind, Result};
use crate::check::{Options, Verdict};
use crate::device::HostConfig;

/// Options for opening devices.
///
/// ```
/// use trijet::check::Options;
/// use trijet::{Device, Select};
/// let device = Device::builder().select(Select::Host(0)).check(Options::default()).open()?;
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
pub struct Builder {
    what: What,
    pool: PoolChoice,
    check: Option<Options>,
}

#[derive(Debug)]
enum What {
    Selected(Select),
    Host(HostConfig),
}

impl Default for What {
    fn default() -> Self {
        Self::Selected(Select::Auto)
    }
}

impl Device {
    /// Options for opening a device; by default the one that [`Select::Auto`] finds.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// What the checker knows so far of all streams of the device's driver; `None` when
    /// nobody asked for [`Builder::check`]. A wait of another thread that has not come to its end
    /// holds the checker up there.
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// assert!(Device::open(Select::Host(0))?.verdict().is_none());
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        self.shared().domain.log().tracers.verdict()
    }
}

impl Builder {
    /// Opens this device.
    pub fn select(mut self, select: Select) -> Self {
        self.what = What::Selected(select);
        self
    }

    /// Opens host devices of one's own.
    pub fn host(mut self, config: HostConfig) -> Self {
        self.what = What::Host(config);
        self
    }

    /// Allocates from this pool.
    ///
    /// ```
    /// use trijet::{Device, PoolChoice, Select};
    /// let device = Device::builder().select(Select::Host(0)).pool(PoolChoice::Default).open()?;
    /// device.stream()?.alloc::<u8>(64)?;
    /// # Ok::<(), trijet::Error>(())
    /// ```
    pub fn pool(mut self, pool: PoolChoice) -> Self {
        self.pool = pool;
        self
    }

    /// Has a checker read along: every call on every stream of the device's driver from now on.
    /// It keeps what a later access may conflict with and no more, so that a program may run for
    /// ever; findings have no witness, for which the whole record would be needed.
    pub fn check(mut self, options: Options) -> Self {
        self.check = Some(options);
        self
    }

    /// Opens the device; of several host devices, the first.
    ///
    /// # Errors
    /// As for [`Device::open`] and [`Device::host`]; `InvalidValue` when the driver is checked
    /// already, or there is no host device among none.
    pub fn open(self) -> Result<Device> {
        let none =
            || Error::new(ErrorKind::InvalidValue, "open", "the configuration has no device");
        self.open_all()?.into_iter().next().ok_or_else(none)
    }

    /// Opens the device, or all host devices of the configuration.
    ///
    /// # Errors
    /// As for [`Device::open`] and [`Device::host`]; `InvalidValue` when the driver is checked
    /// already.
    pub fn open_all(self) -> Result<Vec<Device>> {
        let devices = match self.what {
            What::Selected(select) => vec![Device::open_with(select, self.pool)?],
            What::Host(config) => Device::host_with(config, self.pool)?,
        };
        if let (Some(options), Some(device)) = (self.check, devices.first()) {
            device.shared().domain.check(options)?;
        }
        Ok(devices)
    }
}
