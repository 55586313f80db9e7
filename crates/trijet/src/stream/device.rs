//! A device: where streams, memory and kernels come from.
#![forbid(unsafe_code)]

use super::options::StreamOptions;
use super::pool_choice::{self, PoolChoice};
use super::shared::Shared;
use super::stream::Stream;
use crate::base::error::{ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::ledger::{StreamClass, Waited};
use crate::base::times::TimesFrom;
use crate::base::units::Bytes;
use crate::device::driver::{DeviceInfo, Script};
use crate::device::{HostConfig, Search, open_cuda, open_explored, open_host};
use crate::log::{Trace, calling};
use crate::order::domain::{Domain, DroppedWait, OrderingCounts};
use std::panic::Location;
use std::sync::{Arc, Mutex, OnceLock};

/// Which device to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Select {
    /// The first CUDA device, or the host device when there is none.
    Auto,
    /// A CUDA device by ordinal. Fails without it: nothing falls back in silence.
    Cuda(u32),
    /// A host device by ordinal, with CPU threads.
    Host(u32),
}

/// A device of CUDA or of the host. Clones share it.
///
/// ```
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// assert!(device.info().name.contains("host"));
/// device.close()?;
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Device(Arc<Shared>);

/// The domain of the CUDA driver: one per process, as the driver is.
fn cuda_domain() -> Result<Arc<Domain>> {
    static CUDA: Mutex<Option<Arc<Domain>>> = Mutex::new(None);
    let mut slot = CUDA.lock().expect("no panic under this lock");
    if let Some(domain) = &*slot {
        return Ok(Arc::clone(domain));
    }
    let domain = Domain::new(open_cuda()?);
    *slot = Some(Arc::clone(&domain));
    Ok(domain)
}

/// The domain of the process's host devices on threads.
fn host_domain() -> Result<Arc<Domain>> {
    static HOST: OnceLock<Arc<Domain>> = OnceLock::new();
    if let Some(domain) = HOST.get() {
        return Ok(Arc::clone(domain));
    }
    let devices = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let devices = u32::try_from(devices).unwrap_or(1).max(2);
    let driver = open_host(HostConfig { devices, ..HostConfig::default() })?;
    Ok(Arc::clone(HOST.get_or_init(|| Domain::new(driver))))
}

impl Device {
    /// Opens a device.
    ///
    /// # Errors
    /// `Unsupported` without the CUDA driver and `NoDevice` without the device that was asked
    /// for; `Forked` in a child of `fork`, `InCallback` inside a host function; else never for
    /// [`Select::Auto`] on a machine that can start a few threads.
    pub fn open(select: Select) -> Result<Self> {
        Self::open_with(select, PoolChoice::Own)
    }

    pub(super) fn open_with(select: Select, pool: PoolChoice) -> Result<Self> {
        calling::refuse("open")?;
        match select {
            Select::Cuda(ordinal) => Self::of(&cuda_domain()?, DeviceId(ordinal), pool),
            Select::Host(ordinal) => Self::of(&host_domain()?, DeviceId(ordinal), pool),
            Select::Auto => match Self::open_with(Select::Cuda(0), pool) {
                Ok(device) => Ok(device),
                Err(error)
                    if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::NoDevice) =>
                {
                    Self::open_with(Select::Host(0), pool)
                }
                Err(error) => Err(error),
            },
        }
    }

    /// Opens host devices of one's own: with a memory size, an executor, an order.
    ///
    /// ```
    /// use trijet::Device;
    /// use trijet::sim::{Executor, HostConfig, Order};
    /// let config = HostConfig {
    ///     executor: Executor::Virtual(Order::Seeded(7)),
    ///     devices: 2,
    ///     ..HostConfig::default()
    /// };
    /// assert_eq!(Device::host(config)?.len(), 2);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Unsupported` when the system starts no more threads; `InCallback` inside a host function.
    pub fn host(config: HostConfig) -> Result<Vec<Self>> {
        Self::host_with(config, PoolChoice::Own)
    }

    pub(super) fn host_with(config: HostConfig, pool: PoolChoice) -> Result<Vec<Self>> {
        calling::refuse("open")?;
        let count = config.devices;
        let domain = Domain::new(open_host(config)?);
        (0..count).map(|id| Self::of(&domain, DeviceId(id), pool)).collect()
    }

    /// Host devices whose every choice `search` makes.
    pub(crate) fn explored(config: HostConfig, search: &Arc<Mutex<Search>>) -> Result<Vec<Self>> {
        let count = config.devices;
        let domain = Domain::new(open_explored(config, search)?);
        (0..count).map(|id| Self::of(&domain, DeviceId(id), PoolChoice::Own)).collect()
    }

    /// All devices of CUDA, and why there is none.
    ///
    /// # Errors
    /// `Unsupported` without the driver.
    pub fn cuda_devices() -> Result<Vec<DeviceInfo>> {
        calling::refuse("devices")?;
        let domain = cuda_domain()?;
        let count = domain.driver().device_count()?;
        (0..count).map(|id| domain.driver().device_info(DeviceId(id))).collect()
    }

    fn of(domain: &Arc<Domain>, id: DeviceId, pool: PoolChoice) -> Result<Self> {
        let info = domain.driver().device_info(id)?;
        let handle = pool_choice::choose(&**domain.driver(), id, pool)?;
        Ok(Self(Arc::new(Shared::new(domain, id, info, (handle, pool)))))
    }

    /// What the device says of itself.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// Its ordinal within its driver.
    #[must_use]
    pub fn id(&self) -> DeviceId {
        self.0.id
    }

    /// Free and total memory.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn memory(&self) -> Result<(Bytes, Bytes)> {
        calling::refuse("memory")?;
        self.0.domain.driver().memory_info(self.0.id).map_err(|error| self.0.failed(error))
    }

    /// A stream that never waits for the legacy stream.
    ///
    /// # Errors
    /// What the driver reports; `InvalidValue` beyond 1024 streams of a driver.
    pub fn stream(&self) -> Result<Stream> {
        self.stream_with(StreamOptions::new())
    }

    /// A stream with options.
    ///
    /// # Errors
    /// As for [`Device::stream`].
    pub fn stream_with(&self, options: StreamOptions) -> Result<Stream> {
        Stream::new(&self.0, options.kind.class(), options.priority)
    }

    /// The legacy default stream: each of its operations comes after everything enqueued in the
    /// blocking streams of the device, and before all that they are given later (law A13).
    ///
    /// # Errors
    /// As for [`Device::stream`].
    pub fn legacy_stream(&self) -> Result<Stream> {
        Stream::new(&self.0, StreamClass::Legacy, 0)
    }

    /// The default stream of the calling thread, a blocking stream (law A15). Only this thread may
    /// use it: other threads get `InvalidValue`.
    ///
    /// # Errors
    /// As for [`Device::stream`].
    pub fn per_thread_stream(&self) -> Result<Stream> {
        Stream::new(&self.0, StreamClass::PerThread, 0)
    }

    /// Runs host threads to their ends. In the virtual executor only one of them runs at any
    /// moment, in an order that the order policy decides, so that the run can be repeated; they
    /// must then wait for each other by events and tickets only. Elsewhere they run freely.
    ///
    /// ```
    /// use trijet::Device;
    /// use trijet::sim::{Executor, HostConfig, Order};
    /// let executor = Executor::Virtual(Order::Seeded(3));
    /// let device = &Device::host(HostConfig { executor, ..HostConfig::default() })?[0];
    /// let (a, b) = (device.stream()?, device.stream()?);
    /// device.script(vec![
    ///     Box::new(|| a.synchronize().expect("nothing failed")),
    ///     Box::new(|| b.synchronize().expect("nothing failed")),
    /// ]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Panics
    /// When one of the threads does.
    pub fn script(&self, threads: Vec<Script<'_>>) {
        self.0.domain.driver().script(threads);
    }

    /// Waits for everything enqueued on the device by anybody (law A10), and reports what failed.
    ///
    /// # Errors
    /// The error of work that failed, a panic of a host function, or `Stalled`.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        calling::refuse("synchronize")?;
        self.run_deferred();
        let Shared { domain, id, .. } = &*self.0;
        let known = domain.known_on(*id);
        let on = (*id, StreamClass::NonBlocking, None);
        let noted = domain.log().note_sync(Waited::Device, on, Location::caller());
        let synchronized = self.0.watch_pool(false, || domain.gate.synchronize_device(*id));
        synchronized.map_err(|error| self.0.failed(error))?;
        noted.succeeded();
        domain.learn(&known);
        domain.host_fns.take_panic()
    }

    /// Waits for everything, gives back what was put off, and reports every error that had
    /// nobody to go to, the first one of them in full.
    ///
    /// # Errors
    /// As for [`Device::synchronize`], and the first error that a drop had to keep to itself.
    pub fn close(self) -> Result<()> {
        calling::refuse("close")?;
        self.run_deferred();
        let Shared { domain, id, .. } = &*self.0;
        let outcome = domain.gate.synchronize_device(*id);
        if outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Stalled) {
            // It hangs: what is pending there is never called.
            domain.host_fns.drop_pending(Some(*id));
        }
        outcome.map_err(|error| self.0.failed(error))?;
        // What was refused before is tried once more.
        self.run_deferred();
        self.0.domain.host_fns.take_panic()?;
        let mut errors = self.0.errors.lock().expect("no panic under this lock");
        if errors.is_empty() {
            return Ok(());
        }
        let more = errors.len() - 1;
        let first = errors.remove(0);
        Err(if more > 0 { first.context(format!("first of {} errors", more + 1)) } else { first })
    }

    /// What the ordering did so far, over all streams of the device's driver.
    #[must_use]
    pub fn ordering(&self) -> OrderingCounts {
        self.0.domain.counts()
    }

    /// Starts tracing every operation on every stream of the device's driver, with times from events.
    /// `stream` gives time zero.
    ///
    /// # Errors
    /// `InvalidValue` for a stream of another driver; what the driver reports.
    pub fn start_trace(&self, stream: &Stream) -> Result<()> {
        self.start_trace_from(stream, TimesFrom::Events)
    }

    /// [`Device::start_trace`] with the times of operations from another source.
    ///
    /// # Errors
    /// As for [`Device::start_trace`]; `Unsupported` for [`TimesFrom::Activity`] without a usable
    /// profiler: without CUPTI, while another tool uses it, or while another trace does.
    pub fn start_trace_from(&self, stream: &Stream, from: TimesFrom) -> Result<()> {
        calling::refuse("start trace")?;
        self.0.domain.own("start trace", stream.lane().domain.id())?;
        let begun = stream.lane().trace_all(from);
        begun.map_err(|error| self.0.failed(error))
    }

    /// Ends the trace and takes it: its entries in the order of the driver's calls of each stream, the
    /// origin of its times, and how good they are. Everything enqueued must be complete.
    ///
    /// # Errors
    /// What the driver reports when times are read.
    pub fn take_trace(&self) -> Result<Trace> {
        calling::refuse("take trace")?;
        self.0.domain.take_trace()
    }

    /// Leaves out the `number`-th wait between streams from now on, counted from 1, to show what
    /// it is good for: the result may be wrong, and nothing else is. Waits of the host and of
    /// frees are never left out: the next one is instead.
    pub fn drop_wait(&self, number: u64) {
        self.0.domain.drop_wait(number);
    }

    /// The wait that was left out on request, once its turn has come.
    #[must_use]
    pub fn dropped_wait(&self) -> Option<DroppedWait> {
        self.0.domain.dropped()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    pub(crate) fn run_deferred(&self) {
        self.0.run_deferred();
    }
}
