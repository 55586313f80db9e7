//! Devices, from which a program gets streams, memory and kernels.
#![forbid(unsafe_code)]

use super::options::StreamOptions;
use super::pool_choice::{self, MemoryOptions, PoolChoice};
use super::shared::{MemorySource, OpenDevice};
use super::stream::Stream;
use super::watched::Watched;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::ledger::StreamClass;
use crate::base::panic::caught;
use crate::base::times::TimesFrom;
use crate::base::units::Bytes;
use crate::device::driver::{DeviceInfo, Script};
use crate::device::{HostConfig, Search, open_cuda, open_explored, open_host};
use crate::log::{Trace, calling};
use crate::order::domain::{Domain, DroppedWait, OrderingCounts};
use std::panic::{Location, resume_unwind};
use std::sync::{Arc, Mutex};

/// The choice of a device to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Select {
    /// The first CUDA device, or the first host device if there is none.
    Auto,
    /// The CUDA device with this ordinal. If there is no such device, opening fails; there is no
    /// fallback.
    Cuda(u32),
    /// The host device with this ordinal, which executes on CPU threads.
    Host(u32),
}

/// A CUDA device or a host device. Clones are handles of the same device.
///
/// ```
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// assert!(device.info().name.contains("host"));
/// device.close()?;
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Device(Arc<OpenDevice>);

/// The domain of the CUDA driver. A process has one such domain, because it has one CUDA driver.
fn cuda_domain() -> Result<Arc<Domain>> {
    static CUDA: Mutex<Option<Arc<Domain>>> = Mutex::new(None);
    let mut slot = CUDA.lock().expect("no thread panicked while it held this lock");
    if let Some(domain) = &*slot {
        return Ok(Arc::clone(domain));
    }
    let domain = Domain::new(open_cuda()?);
    *slot = Some(Arc::clone(&domain));
    Ok(domain)
}

/// The domain of the host devices on CPU threads from which [`Select`] chooses. A process has one
/// such domain. After the loss of a device, the process gets a new domain.
fn host_domain() -> Result<Arc<Domain>> {
    static HOST: Mutex<Option<Arc<Domain>>> = Mutex::new(None);
    let mut slot = HOST.lock().expect("no thread panicked while it held this lock");
    if let Some(domain) = slot.as_ref().filter(|domain| domain.is_live()) {
        return Ok(Arc::clone(domain));
    }
    let devices = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let devices = u32::try_from(devices).unwrap_or(1).max(2);
    let driver = open_host(HostConfig::new().devices(devices))?;
    Ok(Arc::clone(slot.insert(Domain::new(driver))))
}

impl Device {
    /// Opens a device.
    ///
    /// # Errors
    /// `Unsupported` if there is no CUDA driver, or if the system starts no more threads for a host
    /// device; `NoDevice` if there is no device with the ordinal; `Forked` in a child of `fork`;
    /// `InCallback` inside a host function. [`Select::Auto`] opens a host device if there is no
    /// CUDA driver or no CUDA device.
    pub fn open(select: Select) -> Result<Self> {
        Self::open_with(select, MemoryOptions::default())
    }

    pub(super) fn open_with(select: Select, memory: MemoryOptions) -> Result<Self> {
        calling::refuse("open")?;
        match select {
            Select::Cuda(ordinal) => Self::of(&cuda_domain()?, DeviceId(ordinal), memory),
            Select::Host(ordinal) => Self::of(&host_domain()?, DeviceId(ordinal), memory),
            Select::Auto => match Self::open_with(Select::Cuda(0), memory) {
                Ok(device) => Ok(device),
                Err(error) if error.is_missing_gpu() => Self::open_with(Select::Host(0), memory),
                Err(error) => Err(error),
            },
        }
    }

    /// Opens new host devices with the memory size, the executor and the order of `config`. The
    /// devices have a driver of their own.
    ///
    /// ```
    /// use trijet::Device;
    /// use trijet::sim::{Executor, HostConfig, Order};
    /// let executor = Executor::Virtual(Order::Seeded(7));
    /// let config = HostConfig::new().executor(executor).devices(2);
    /// assert_eq!(Device::host(config)?.len(), 2);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Unsupported` if the system starts no more threads; `InCallback` inside a host function.
    pub fn host(config: HostConfig) -> Result<Vec<Self>> {
        Self::host_with(config, MemoryOptions::default())
    }

    pub(super) fn host_with(config: HostConfig, memory: MemoryOptions) -> Result<Vec<Self>> {
        calling::refuse("open")?;
        let count = config.devices;
        let domain = Domain::new(open_host(config)?);
        (0..count).map(|id| Self::of(&domain, DeviceId(id), memory)).collect()
    }

    /// Opens all GPUs. The list is empty if there is no CUDA driver or no GPU.
    pub(super) fn gpus_with(memory: MemoryOptions) -> Result<Vec<Self>> {
        let count = match Self::cuda_devices() {
            Ok(gpus) => u32::try_from(gpus.len()).expect("a machine has few GPUs"),
            Err(error) if error.is_missing_gpu() => 0,
            Err(error) => return Err(error),
        };
        (0..count).map(|id| Self::open_with(Select::Cuda(id), memory)).collect()
    }

    /// Opens host devices for one run of an exploration. `search` makes every choice of the
    /// executor.
    pub(crate) fn explored(config: HostConfig, search: &Arc<Mutex<Search>>) -> Result<Vec<Self>> {
        calling::refuse("open")?;
        let count = config.devices;
        let domain = Domain::new(open_explored(config, search)?);
        (0..count).map(|id| Self::of(&domain, DeviceId(id), MemoryOptions::default())).collect()
    }

    /// The properties of all CUDA devices.
    ///
    /// # Errors
    /// `Unsupported` if there is no CUDA driver; an error of the driver.
    pub fn cuda_devices() -> Result<Vec<DeviceInfo>> {
        calling::refuse("devices")?;
        let domain = cuda_domain()?;
        let count = domain.driver().device_count()?;
        (0..count).map(|id| domain.driver().device_info(DeviceId(id))).collect()
    }

    fn of(domain: &Arc<Domain>, id: DeviceId, memory: MemoryOptions) -> Result<Self> {
        let info = domain.driver().device_info(id)?;
        let heap = domain.heap(id);
        let has_ranges = heap.sizes(&**domain.driver())?.is_some();
        let choice = match memory.pool {
            None if !has_ranges => Some(PoolChoice::Own),
            chosen => chosen,
        };
        let source = match choice {
            None => MemorySource::Heap(heap),
            Some(choice) => {
                let pool = pool_choice::choose(&**domain.driver(), id, choice)?;
                domain.peers.note_pool(&**domain.driver(), id, pool)?;
                MemorySource::Pool(pool, choice)
            }
        };
        if memory.red_zones && matches!(source, MemorySource::Pool(..)) {
            let cause = "red zones need the heap of a device, but this device allocates from a pool of the driver";
            return Err(Error::new(ErrorKind::Unsupported, "open", cause));
        }
        let watched = memory.red_zones.then(Watched::default);
        Ok(Self(Arc::new(OpenDevice::new(domain, id, info, source, watched))))
    }

    /// The properties of the device.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// The ordinal of the device within its driver.
    #[must_use]
    pub fn id(&self) -> DeviceId {
        self.0.id
    }

    /// Whether `stream` is a stream of the device, from this handle or from another one. An ordinal
    /// of a driver that is opened twice is one device. A program that keeps memory on several
    /// devices finds the memory that a stream can use.
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let devices = [Device::open(Select::Host(0))?, Device::open(Select::Host(1))?];
    /// let stream = devices[1].stream()?;
    /// assert_eq!(devices.each_ref().map(|device| device.owns(&stream)), [false, true]);
    /// assert!(Device::open(Select::Host(1))?.owns(&stream));
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn owns(&self, stream: &Stream) -> bool {
        let other = stream.device();
        self.0.id == other.id && Arc::ptr_eq(&self.0.domain, &other.domain)
    }

    /// The free and the total memory of the device.
    ///
    /// # Errors
    /// An error of the driver.
    pub fn memory(&self) -> Result<(Bytes, Bytes)> {
        calling::refuse("memory")?;
        self.0.domain.driver().memory_info(self.0.id).map_err(|error| self.0.failed(error))
    }

    /// A new non-blocking stream, which never waits for the legacy stream.
    ///
    /// # Errors
    /// `InvalidValue` beyond 1024 streams of a driver; an error of the driver.
    pub fn stream(&self) -> Result<Stream> {
        self.stream_with(StreamOptions::new())
    }

    /// A new stream with options.
    ///
    /// # Errors
    /// The errors of [`Device::stream`].
    pub fn stream_with(&self, options: StreamOptions) -> Result<Stream> {
        Stream::new(&self.0, options.kind.class(), options.priority)
    }

    /// The legacy default stream. Each operation of the legacy stream follows all earlier work of
    /// the blocking streams of the device. Later operations of the blocking streams follow the
    /// operation (law [A13](crate::laws#a13)).
    ///
    /// # Errors
    /// The errors of [`Device::stream`].
    pub fn legacy_stream(&self) -> Result<Stream> {
        Stream::new(&self.0, StreamClass::Legacy, 0)
    }

    /// The default stream of the calling thread, which is a blocking stream (law
    /// [A15](crate::laws#a15)). Only this thread may use it: calls of other threads return
    /// `InvalidValue`. On a GPU, the end of the thread waits for the work of the stream.
    ///
    /// # Errors
    /// The errors of [`Device::stream`].
    pub fn per_thread_stream(&self) -> Result<Stream> {
        Stream::new(&self.0, StreamClass::PerThread, 0)
    }

    /// Runs host threads until all of them have ended: see `testing::script`.
    pub(crate) fn script(&self, threads: Vec<Script<'_>>) {
        if !calling::forked() {
            let threads = threads.into_iter().map(with_text).collect();
            self.0.domain.driver().script(threads);
        }
    }

    /// Waits until the work of all streams of the device is complete (law [A10](crate::laws#a10)).
    /// If other code is capturing a stream of the device into a graph, the driver refuses the call,
    /// and the capture fails. [`Stream::synchronize`] makes no capture fail.
    ///
    /// # Errors
    /// The error of work that failed, a panic of a host function, or `Stalled`.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        self.0.synchronize(Location::caller())
    }

    /// Waits until all work of the device is complete, runs the deferred frees, and reports the
    /// errors that earlier drops could not return. If there are several errors, the call returns
    /// the first error, with the number of errors.
    ///
    /// # Errors
    /// The errors of [`Device::synchronize`], and the first error that a drop could not return.
    pub fn close(self) -> Result<()> {
        calling::refuse("close")?;
        self.run_deferred();
        let OpenDevice { domain, id, .. } = &*self.0;
        let outcome = domain.gate.synchronize_device(*id);
        if outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Stalled) {
            // The device makes no progress any more, so its pending host functions are never
            // called.
            domain.host_fns.drop_pending(Some(*id));
        }
        outcome.map_err(|error| self.0.failed(error))?;
        // Deferred work that was refused before is tried again.
        self.run_deferred();
        self.0.domain.host_fns.take_panic()?;
        let mut errors = self.0.errors.lock().expect("no thread panicked while it held this lock");
        if errors.is_empty() {
            return Ok(());
        }
        let more = errors.len() - 1;
        let first = errors.remove(0);
        Err(if more > 0 { first.context(format!("first of {} errors", more + 1)) } else { first })
    }

    /// Counts of the waits and records that the library inserted so far, on all streams of the
    /// device's driver.
    #[must_use]
    pub fn ordering(&self) -> OrderingCounts {
        self.0.domain.counts()
    }

    /// Starts a trace of every operation on every stream of the device's driver. The times come
    /// from pairs of events. Time zero is an event in `stream`. For each other open device, times
    /// are measured from an event in a stream of the library. The call waits for these events.
    /// Operations of a device that is opened later have no times. An earlier trace that was not
    /// taken is dropped.
    ///
    /// # Errors
    /// `InvalidValue` for a stream of another driver; an error of the driver.
    pub fn start_trace(&self, stream: &Stream) -> Result<()> {
        self.start_trace_from(stream, TimesFrom::Events)
    }

    /// Starts a trace like [`Device::start_trace`], with times from `from`.
    ///
    /// # Errors
    /// The errors of [`Device::start_trace`]; `Unsupported` for [`TimesFrom::Activity`] if CUPTI is
    /// missing, or if another tool or another trace uses it.
    pub fn start_trace_from(&self, stream: &Stream, from: TimesFrom) -> Result<()> {
        calling::refuse("start trace")?;
        self.0.domain.own("start trace", stream.lane().domain.id())?;
        let begun = stream.lane().trace_all(from);
        begun.map_err(|error| self.0.failed(error))
    }

    /// Ends the trace and returns its entries, the source of their times, and the quality of these
    /// times. The entries of each stream are in the order of the driver's calls. All enqueued work
    /// must be complete.
    ///
    /// # Errors
    /// An error of the driver while the times are read.
    pub fn take_trace(&self) -> Result<Trace> {
        calling::refuse("take trace")?;
        self.0.domain.take_trace()
    }

    /// Leaves out one wait between streams: see `testing::drop_wait`.
    pub(crate) fn drop_wait(&self, number: u64) {
        if !calling::forked() {
            self.0.domain.drop_wait(number);
        }
    }

    /// The wait that was left out: see `testing::dropped_wait`.
    pub(crate) fn dropped_wait(&self) -> Option<DroppedWait> {
        if calling::forked() { None } else { self.0.domain.dropped() }
    }

    /// Another handle of an opened device.
    pub(crate) fn of_shared(shared: &Arc<OpenDevice>) -> Self {
        Self(Arc::clone(shared))
    }

    pub(crate) fn shared(&self) -> &Arc<OpenDevice> {
        &self.0
    }

    pub(crate) fn run_deferred(&self) {
        self.0.run_deferred();
    }
}

/// Returns a function that runs `thread` and whose panics carry only text. A payload that no thread
/// takes is dropped. If that drop panicked too, the process would end.
fn with_text(thread: Script<'_>) -> Script<'_> {
    Box::new(move || {
        if let Err(words) = caught(thread) {
            resume_unwind(Box::new(words));
        }
    })
}
