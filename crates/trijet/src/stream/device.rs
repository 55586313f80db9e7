//! A device: where streams, memory and kernels come from.
#![forbid(unsafe_code)]

use super::callback;
use super::default::Origin;
use super::queue::Stream;
use super::ready::Completion;
use super::recording::{Recording, TimesFrom};
use super::universe::{DroppedWait, OrderingCounts, Universe};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::ledger::{HostCall, Op, OpKind, StreamClass, Waited};
use crate::base::mutant;
use crate::base::table::Table;
use crate::base::units::Bytes;
use crate::device::driver::{
    DeviceInfo, FunctionHandle, ModuleHandle, PoolAttribute, PoolHandle, PoolStats, Script,
    StreamKind,
};
use crate::device::{HostConfig, Search, open_cuda, open_explored, open_host};
use std::borrow::Cow;
use std::collections::HashMap;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Which device to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Select {
    /// The first CUDA device, or the host device when there is none.
    Auto,
    /// A CUDA device by ordinal. Fails without it: nothing falls back in silence.
    Cuda(u32),
    /// A host device by ordinal, with CPU threads.
    Host(u32),
}

/// Work put off until it may reach the driver.
type Deferred = Box<dyn FnOnce() + Send>;

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

pub(crate) struct Shared {
    pub(crate) universe: Arc<Universe>,
    pub(crate) id: DeviceId,
    pub(crate) info: DeviceInfo,
    /// The pool that `alloc` takes from.
    pub(crate) pool: PoolHandle,
    /// Loaded modules by the address of their text; the text is static or owned by the kernel.
    pub(crate) modules: Mutex<HashMap<u64, ModuleHandle>>,
    /// Loaded kernels by number. Every launch looks here.
    pub(crate) kernels: Table<FunctionHandle>,
    /// The pool may give memory back at a synchronisation.
    gives_back: AtomicBool,
    /// Wakes who awaits work of the device.
    pub(crate) completion: Completion,
    deferred: Mutex<Vec<Deferred>>,
    /// Errors that nobody could be told of when they happened, as in a drop.
    errors: Mutex<Vec<Error>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("id", &self.id).field("info", &self.info).finish()
    }
}

/// The universe of the CUDA driver: one per process, as the driver is.
fn cuda_universe() -> Result<Arc<Universe>> {
    static CUDA: Mutex<Option<Arc<Universe>>> = Mutex::new(None);
    let mut slot = CUDA.lock().expect("no panic under this lock");
    if let Some(universe) = &*slot {
        return Ok(Arc::clone(universe));
    }
    let universe = Universe::new(open_cuda()?);
    *slot = Some(Arc::clone(&universe));
    Ok(universe)
}

/// The universe of the process's host devices on threads.
fn host_universe() -> Result<Arc<Universe>> {
    static HOST: OnceLock<Arc<Universe>> = OnceLock::new();
    if let Some(universe) = HOST.get() {
        return Ok(Arc::clone(universe));
    }
    let devices = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let devices = u32::try_from(devices).unwrap_or(1).max(2);
    let driver = open_host(HostConfig { devices, ..HostConfig::default() })?;
    Ok(Arc::clone(HOST.get_or_init(|| Universe::new(driver))))
}

impl Device {
    /// Opens a device.
    ///
    /// # Errors
    /// `Unsupported` without the CUDA driver and `NoDevice` without the device that was asked
    /// for; `Forked` in a child of `fork`, `InCallback` inside a host function; else never for
    /// [`Select::Auto`] on a machine that can start a few threads.
    pub fn open(select: Select) -> Result<Self> {
        callback::refuse("open")?;
        match select {
            Select::Cuda(ordinal) => Self::of(&cuda_universe()?, DeviceId(ordinal)),
            Select::Host(ordinal) => Self::of(&host_universe()?, DeviceId(ordinal)),
            Select::Auto => match Self::open(Select::Cuda(0)) {
                Ok(device) => Ok(device),
                Err(error)
                    if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::NoDevice) =>
                {
                    Self::open(Select::Host(0))
                }
                Err(error) => Err(error),
            },
        }
    }

    /// Opens host devices of one's own: with a memory size, an executor, an order.
    ///
    /// ```
    /// use trijet::{Device, Executor, HostConfig, Order};
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
        callback::refuse("open")?;
        let count = config.devices;
        let universe = Universe::new(open_host(config)?);
        (0..count).map(|id| Self::of(&universe, DeviceId(id))).collect()
    }

    /// Host devices whose every choice `search` makes.
    pub(crate) fn explored(config: HostConfig, search: &Arc<Mutex<Search>>) -> Result<Vec<Self>> {
        let count = config.devices;
        let universe = Universe::new(open_explored(config, search)?);
        (0..count).map(|id| Self::of(&universe, DeviceId(id))).collect()
    }

    /// All devices of CUDA, and why there is none.
    ///
    /// # Errors
    /// `Unsupported` without the driver.
    pub fn cuda_devices() -> Result<Vec<DeviceInfo>> {
        callback::refuse("devices")?;
        let universe = cuda_universe()?;
        let count = universe.driver.device_count()?;
        (0..count).map(|id| universe.driver.device_info(DeviceId(id))).collect()
    }

    pub(crate) fn of(universe: &Arc<Universe>, id: DeviceId) -> Result<Self> {
        let driver = &universe.driver;
        let info = driver.device_info(id)?;
        let pool = driver.pool_create(id, Bytes(0))?;
        // Keep what was freed: handing it back at each synchronisation and asking for it again is
        // what the pool is there to avoid (law A25).
        driver.pool_set(pool, PoolAttribute::THRESHOLD, u64::MAX)?;
        Ok(Self(Arc::new(Shared {
            universe: Arc::clone(universe),
            id,
            info,
            pool,
            modules: Mutex::default(),
            kernels: Table::default(),
            gives_back: AtomicBool::new(false),
            completion: Completion::default(),
            deferred: Mutex::default(),
            errors: Mutex::default(),
        })))
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
        callback::refuse("memory")?;
        self.0.universe.driver.memory_info(self.0.id).map_err(|error| self.0.failed(error))
    }

    /// A stream that never waits for the legacy stream.
    ///
    /// # Errors
    /// What the driver reports; `InvalidValue` beyond 1024 streams of a driver.
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(&self.0, Origin::Created(StreamKind::NonBlocking), 0)
    }

    /// A stream that waits for the legacy stream's work, and it for this one's (law A13): for
    /// living with code that uses the legacy stream.
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let (blocking, legacy) = (device.blocking_stream()?, device.legacy_stream()?);
    /// let mut x = blocking.alloc::<u8>(16)?;
    /// blocking.fill_bytes(&mut x, 1)?;
    /// legacy.fill_bytes(&mut x, 2)?;
    /// assert_eq!(device.ordering().waits, 0, "the driver orders the two by itself");
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Device::stream`].
    pub fn blocking_stream(&self) -> Result<Stream> {
        Stream::new(&self.0, Origin::Created(StreamKind::Blocking), 0)
    }

    /// The legacy default stream: each of its operations comes after everything enqueued in the
    /// blocking streams of the device, and before all that they are given later (law A13).
    ///
    /// # Errors
    /// As for [`Device::stream`].
    pub fn legacy_stream(&self) -> Result<Stream> {
        Stream::new(&self.0, Origin::Legacy, 0)
    }

    /// The default stream of the calling thread, a blocking stream (law A15). Only this thread may
    /// use it: other threads get `InvalidValue`.
    ///
    /// # Errors
    /// As for [`Device::stream`].
    pub fn per_thread_stream(&self) -> Result<Stream> {
        Stream::new(&self.0, Origin::PerThread, 0)
    }

    /// Runs host threads to their ends. In the virtual executor only one of them runs at any
    /// moment, in an order that the order policy decides, so that the run can be repeated; they
    /// must then wait for each other by events and tickets only. Elsewhere they run freely.
    ///
    /// ```
    /// use trijet::{Device, Executor, HostConfig, Order};
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
        self.0.universe.driver.script(threads);
    }

    /// A stream with a priority: smaller numbers are more urgent, see
    /// [`DeviceInfo::priorities`]. Out of range is clamped. Priorities order kernels, not copies
    /// (law A43).
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let (_, urgent) = device.info().priorities;
    /// device.stream_with_priority(urgent - 100)?.synchronize()?;
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Device::stream`].
    pub fn stream_with_priority(&self, priority: i32) -> Result<Stream> {
        Stream::new(&self.0, Origin::Created(StreamKind::NonBlocking), priority)
    }

    /// Waits for everything enqueued on the device by anybody (law A10), and reports what failed.
    ///
    /// # Errors
    /// The error of work that failed, a panic of a host function, or `Stalled`.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        callback::refuse("synchronize")?;
        self.run_deferred();
        let Shared { universe, id, .. } = &*self.0;
        let known = universe.known_on(*id);
        let on = (*id, StreamClass::NonBlocking, None);
        let noted = universe.note_sync(Waited::Device, on, Location::caller());
        let synchronized = self.0.watch_pool(false, || universe.driver.synchronize(*id));
        synchronized.map_err(|error| noted.failed(error))?;
        noted.succeeded();
        if !mutant::on(38, "a wait for the device teaches nothing") {
            universe.learn(&known);
        }
        universe.host_fns.take_panic()
    }

    /// Waits for everything, gives back what was put off, and reports every error that had
    /// nobody to go to, the first one of them in full.
    ///
    /// # Errors
    /// As for [`Device::synchronize`], and the first error that a drop had to keep to itself.
    pub fn close(self) -> Result<()> {
        callback::refuse("close")?;
        self.run_deferred();
        let Shared { universe, id, .. } = &*self.0;
        let outcome = universe.driver.synchronize(*id);
        if outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Stalled) {
            // It hangs: what is pending there is never called.
            universe.host_fns.drop_pending(Some(*id));
        }
        outcome.map_err(|error| self.0.failed(error))?;
        // What was refused before is tried once more.
        self.run_deferred();
        self.0.universe.host_fns.take_panic()?;
        let mut errors = self.0.errors.lock().expect("no panic under this lock");
        if errors.is_empty() {
            return Ok(());
        }
        let more = errors.len() - 1;
        let first = errors.remove(0);
        Err(if more > 0 { first.context(format!("first of {} errors", more + 1)) } else { first })
    }

    /// The statistics of the pool that `alloc` takes from.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn pool_stats(&self) -> Result<PoolStats> {
        callback::refuse("pool statistics")?;
        let get = |what| {
            let value = self.0.universe.driver.pool_get(self.0.pool, what);
            value.map(Bytes).map_err(|error| self.0.failed(error))
        };
        Ok(PoolStats {
            reserved: get(PoolAttribute::RESERVED)?,
            reserved_high: get(PoolAttribute::RESERVED_HIGH)?,
            used: get(PoolAttribute::USED)?,
            used_high: get(PoolAttribute::USED_HIGH)?,
        })
    }

    /// Sets the high-water marks of the pool to the current values.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn pool_reset_high(&self) -> Result<()> {
        callback::refuse("pool statistics")?;
        self.pool_set(PoolAttribute::RESERVED_HIGH, 0)?;
        self.pool_set(PoolAttribute::USED_HIGH, 0)
    }

    /// Sets how much freed memory the pool keeps at a synchronisation: everything by default,
    /// 0 to be polite to other processes.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn pool_keep(&self, keep: Bytes) -> Result<()> {
        callback::refuse("pool threshold")?;
        self.0.gives_back.store(keep.0 < u64::MAX, Ordering::Relaxed);
        self.pool_set(PoolAttribute::THRESHOLD, keep.0)
    }

    fn pool_set(&self, what: PoolAttribute, value: u64) -> Result<()> {
        let set = self.0.universe.driver.pool_set(self.0.pool, what, value);
        set.map_err(|error| self.0.failed(error))
    }

    /// Returns freed memory of the pool to the device until at most `keep` is reserved.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn pool_trim(&self, keep: Bytes) -> Result<()> {
        callback::refuse("pool trim")?;
        self.run_deferred();
        let trimmed =
            self.0.watch_pool(true, || self.0.universe.driver.pool_trim(self.0.pool, keep));
        trimmed.map_err(|error| self.0.failed(error))
    }

    /// What the ordering did so far, over all streams of the device's driver.
    #[must_use]
    pub fn ordering(&self) -> OrderingCounts {
        self.0.universe.counts()
    }

    /// Starts keeping a record of every operation on every stream of the device's driver, with
    /// times. `stream` gives time zero.
    ///
    /// # Errors
    /// `InvalidValue` for a stream of another driver; what the driver reports.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        self.record_from(stream, TimesFrom::Events)
    }

    /// Like [`Device::record`], with the times of operations from somewhere else.
    ///
    /// # Errors
    /// As for [`Device::record`]; `Unsupported` for [`TimesFrom::Activity`] where nothing tells what
    /// the engines do: without CUPTI, while another tool uses it, or while another recording does.
    pub fn record_from(&self, stream: &Stream, from: TimesFrom) -> Result<()> {
        callback::refuse("record")?;
        self.0.universe.own("record", stream.lane().universe.id)?;
        let begun = self.0.universe.record_all(stream.lane(), from);
        begun.map_err(|error| self.0.failed(error))
    }

    /// Stops recording and takes the records, in the order of the driver's calls of each stream.
    /// Everything enqueued must be complete.
    ///
    /// # Errors
    /// What the driver reports when times are read.
    pub fn take_record(&self) -> Result<Vec<Op>> {
        self.take_recording().map(|recording| recording.ops)
    }

    /// Like [`Device::take_record`], with where the times come from and how good they are.
    ///
    /// # Errors
    /// As for [`Device::take_record`].
    pub fn take_recording(&self) -> Result<Recording> {
        callback::refuse("take record")?;
        self.0.universe.take_record()
    }

    /// Leaves out the `number`-th wait between streams from now on, counted from 1, to show what
    /// it is good for: the result may be wrong, and nothing else is. Waits of the host and of
    /// frees are never left out: the next one is instead.
    pub fn drop_wait(&self, number: u64) {
        self.0.universe.drop_wait(number);
    }

    /// The wait that was left out on request, once its turn has come.
    #[must_use]
    pub fn dropped_wait(&self) -> Option<DroppedWait> {
        self.0.universe.dropped()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    pub(crate) fn run_deferred(&self) {
        self.0.run_deferred();
    }
}

impl Shared {
    /// A call about the device reported `error`: see [`Universe::failed`].
    #[cold]
    pub(crate) fn failed(&self, error: Error) -> Error {
        self.universe.failed(self.id, error)
    }

    /// Keeps an error that the failing call could not return.
    pub(crate) fn keep_error(&self, error: Error) {
        self.errors.lock().expect("no panic under this lock").push(error);
    }

    /// Runs a call in which the pool may give memory back (law A25), as it does when it is `trimmed`,
    /// and puts into the record how much.
    pub(crate) fn watch_pool(&self, trimmed: bool, run: impl FnOnce() -> Result<()>) -> Result<()> {
        let may = trimmed || self.gives_back.load(Ordering::Relaxed);
        if !may || !self.universe.recorders.is_on() {
            return run();
        }
        let reserved = || self.universe.driver.pool_get(self.pool, PoolAttribute::RESERVED);
        let before = reserved();
        run()?;
        // The program did not ask the pool: if that fails, the remark is lost and not the call.
        let (Ok(before), Ok(after)) = (before, reserved()) else { return Ok(()) };
        let given = before.saturating_sub(after);
        // How long it took is not to be told from the rest of the call.
        if let (true, Some(begun)) = (given > 0, self.universe.begin_call()) {
            let kind = OpKind::Call(HostCall::Release);
            self.universe.note_call(begun, kind, self.id, |op| {
                op.bytes = given;
                op.label = Cow::Borrowed("pool");
            });
        }
        Ok(())
    }

    /// Puts work off to the next call that may reach the driver.
    pub(crate) fn defer(&self, work: Deferred) {
        if callback::forked() {
            std::mem::forget(work);
            return;
        }
        self.deferred.lock().expect("no panic under this lock").push(work);
    }

    pub(crate) fn run_deferred(&self) {
        let work = std::mem::take(&mut *self.deferred.lock().expect("no panic under this lock"));
        for work in work {
            work();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if callback::inside() {
            // The driver must not be called here (law A28): what was put off and the pool leak.
            return;
        }
        self.run_deferred();
        // Destroying a pool never blocks; its memory goes with its last allocation (law A26).
        if let Err(error) = self.universe.driver.pool_destroy(self.pool) {
            // The device is gone with whatever made it fail; `close()` would have told.
            drop(error);
        }
    }
}
