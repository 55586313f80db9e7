//! Tasks: each task declares the data that it reads and writes, and the library chooses the stream
//! and the order of the task.
//!
//! A task is a function, with a declaration of the data that the function reads and writes. The
//! function of a task on a stream gets views of these data and a stream, and enqueues work. The
//! function of a task on the host runs on a thread of the library and gets slices. The results are
//! the same as if the tasks ran one after another, in the order of their submission. Tasks without
//! a conflict in their data run at the same time.
//!
//! ```
//! use trijet::kernels::AXPY;
//! use trijet::{Device, Select};
//! let device = Device::open(Select::Host(0))?;
//! let tasks = device.tasks();
//! let (x, y) = (tasks.alloc::<f32>(1000)?, tasks.alloc::<f32>(1000)?);
//! let h = tasks.data(device.pinned::<f32>(1000)?);
//! tasks.task(h.write()).named("begin").host(|mut h| {
//!     h.fill(1.0);
//!     Ok(())
//! })?;
//! // The two uploads wait for the task on the host, and not for each other.
//! for target in [&x, &y] {
//!     let upload = tasks.task((h.read(), target.write())).named("upload");
//!     upload.run(|s, (h, mut x)| s.copy(&h, &mut x))?;
//! }
//! tasks.task((x.read(), y.update())).named("axpy").run(|s, (x, y)| s.launch(&AXPY, (2.0, x, y)))?;
//! tasks.task((y.read(), h.write())).named("download").run(|s, (y, mut h)| s.copy(&y, &mut h))?;
//! let h = tasks.take(h)?;
//! assert!(h.read()?.iter().all(|v| *v == 3.0));
//! # Ok::<(), trijet::Error>(())
//! ```
//!
//! - *Order.* A task comes after an earlier task if both use the same bytes and at least one of the
//!   two writes them. The library inserts the waits between streams, and inserts no wait that
//!   another wait implies.
//! - *Streams.* A task continues the stream of an earlier task whose result it uses, if no task was
//!   issued on that stream in between. A few tasks are held back, so that the library sees which of
//!   several tasks should continue a stream. [`Tasks::finish`], every other wait, and the drop of a
//!   handle issue all held-back tasks.
//! - *Errors.* If the function of a task returns an error or panics, tasks that read the result of
//!   the task do not run. Tasks that read the results of these tasks do not run either. All other
//!   tasks run. Calls that need the result return the first error, with the name of the task that
//!   failed.
//! - *Host.* The function of a task on the host runs on a thread of the library when the work
//!   before the task is complete. Later tasks that conflict with the task are held back until its
//!   function has returned. The function may use streams of its own.
#![forbid(unsafe_code)]

mod bound;
mod builder;
mod copies;
mod core;
mod data;
mod declared;
mod explain;
mod graphs;
mod history;
mod inside;
mod issue;
mod lanes;
mod reduce;
mod region;
mod replicas;
mod runs;
mod state;
mod task_state;
mod template;
mod uses;

pub use bound::{BoundProgram, Workers};
pub use builder::{Task, TaskId};
pub use data::{Data, HostPart, Reads, Writes};
pub use explain::{Explanation, TaskStep};
pub use reduce::Reduces;
pub use state::TaskCounts;
pub use task_state::{Hazard, KeptBy};
pub use uses::{HostUses, TaskUses};

use self::core::Core;
use self::declared::{AllDeclared, DatumName};
use self::lanes::{Group, Lanes};
use self::replicas::PLACES_MAX;
use crate::base::error::{Error, ErrorKind, Result};
use crate::log::calling;
use crate::memory::{Buffer, Element, OnDevice};
use crate::stream::{Device, Stream};
use std::panic::Location;
use std::sync::Arc;

/// The number of streams of each priority. A GPU has 8 hardware queues, unless
/// `CUDA_DEVICE_MAX_CONNECTIONS` sets another number (docs/measuring.md). With more streams,
/// several streams would share a queue and wait for each other there.
const STREAMS: usize = 8;
/// The number of tasks that are held back. So the successors of a task are known when the stream of
/// the task is chosen.
const LOOK_AHEAD: usize = 8;
/// The number of every datum that is made in a child of `fork`. No other datum has this number.
const NO_DATUM: u32 = u32::MAX;

/// Tasks on one or more devices. A clone is a handle of the same tasks.
///
/// The drop of a handle does not wait: tasks that were submitted still run. A thread of the library
/// issues these tasks, because functions of held-back tasks may own all other handles.
///
/// The library holds no lock while a function of a task runs, or while values of the function are
/// dropped.
///
/// Inside a host function and in a child of `fork`, no task is issued. Each call that returns a
/// `Result` returns an error, and [`Tasks::cancel`] returns `false`.
#[derive(Debug, Clone)]
pub struct Tasks(Arc<TasksHandle>);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.core().let_go();
    }
}

#[derive(Debug)]
struct TasksHandle(Arc<Core>);

impl Drop for TasksHandle {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Options of tasks; see [`Device::tasks_with`].
///
/// ```
/// use trijet::task::TaskOptions;
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// // Each task is issued when it is submitted, on one stream.
/// let tasks = device.tasks_with(TaskOptions::new().streams(1).look_ahead(0));
/// tasks.task(()).run(|s, ()| s.host_fn(|| ()))?;
/// tasks.finish()?;
/// assert_eq!(tasks.counts().streams, 1);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "no tasks are created yet"]
pub struct TaskOptions {
    streams: usize,
    look_ahead: usize,
    checks_reads: bool,
}

impl Default for TaskOptions {
    fn default() -> Self {
        Self { streams: STREAMS, look_ahead: LOOK_AHEAD, checks_reads: false }
    }
}

impl TaskOptions {
    /// Eight streams of each priority, and eight tasks that are held back.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum number of streams of each priority, at least one.
    pub fn streams(mut self, streams: usize) -> Self {
        self.streams = streams.max(1);
        self
    }

    /// Sets the number of tasks that are held back. When one more task is submitted, the library
    /// issues the first of the held-back tasks. With 0, each task is issued as soon as it may run.
    pub fn look_ahead(mut self, tasks: usize) -> Self {
        self.look_ahead = tasks;
        self
    }

    /// Checks that tasks on streams do not write bytes that they declare to read. A kernel may
    /// write these bytes if the declaration of the kernel is wrong. The device memory is compared
    /// before and after each task. [`Tasks::finish`] returns the first difference as an error, with
    /// the bytes and the line that submitted the task. This check is for tests: all bytes that
    /// tasks read are copied to the host twice, and regions are issued task by task.
    pub fn check_reads(mut self) -> Self {
        self.checks_reads = true;
        self
    }
}

impl Device {
    /// Tasks on this device.
    #[must_use]
    pub fn tasks(&self) -> Tasks {
        self.tasks_with(TaskOptions::new())
    }

    /// Tasks on this device, with options.
    #[must_use]
    pub fn tasks_with(&self, options: TaskOptions) -> Tasks {
        Tasks::new([self.clone()].into(), options)
    }

    /// Tasks that are issued on this stream, in the order of their submission, and are not held
    /// back. The drop of [`Tasks`] does not wait. The stream may belong to another library that
    /// captures the stream into a graph ([`Device::stream_from_raw`]). The functions of tasks may
    /// then make only the calls that are allowed on a stream in capture.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let stream = Arc::new(device.stream()?);
    /// let tasks = device.tasks_in(&stream);
    /// let x = tasks.data(stream.alloc::<u8>(16)?);
    /// tasks.task(x.write()).run(|s, mut x| s.fill_bytes(&mut x, 1))?;
    /// stream.synchronize()?;
    /// assert_eq!(stream.download(&tasks.take(x)?)?, [1; 16]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn tasks_in(&self, stream: &Arc<Stream>) -> Tasks {
        let devices: Arc<[Self]> = [self.clone()].into();
        let lanes = Lanes::of_stream(&devices, Arc::clone(stream));
        Tasks(Arc::new(TasksHandle(Core::new(devices, lanes, 0, false))))
    }
}

impl Tasks {
    fn core(&self) -> &Arc<Core> {
        &self.0.0
    }

    fn new(devices: Arc<[Device]>, options: TaskOptions) -> Self {
        let TaskOptions { streams, look_ahead, checks_reads } = options;
        let lanes = Lanes::new(&devices, streams);
        Self(Arc::new(TasksHandle(Core::new(devices, lanes, look_ahead, checks_reads))))
    }

    /// Tasks on several devices. Tasks name a device by its index in `devices`. Data have a copy on
    /// each device where a task uses them; see [`Task::on`].
    ///
    /// # Errors
    /// `InvalidValue` for no device, more than 64 devices, a device that is given twice, or devices
    /// of different drivers.
    pub fn over(devices: &[Device]) -> Result<Self> {
        Self::over_with(devices, TaskOptions::new())
    }

    /// Tasks on several devices, with options.
    ///
    /// # Errors
    /// The errors of [`Tasks::over`].
    pub fn over_with(devices: &[Device], options: TaskOptions) -> Result<Self> {
        const OP: &str = "tasks over devices";
        calling::refuse(OP)?;
        let wrong = |cause: String| Err(Error::new(ErrorKind::InvalidValue, OP, cause));
        let Some(first) = devices.first() else {
            return wrong("the list of devices is empty; give at least one".to_owned());
        };
        if devices.len() > PLACES_MAX {
            return wrong(format!(
                "{} devices are too many; the limit is {PLACES_MAX}",
                devices.len()
            ));
        }
        for (number, device) in devices.iter().enumerate() {
            first.shared().domain.own(OP, device.shared().domain.id())?;
            if devices[..number].iter().any(|other| other.id() == device.id()) {
                return wrong(format!("{} is given twice; give each device once", device.id()));
            }
        }
        Ok(Self::new(devices.into(), options))
    }

    /// Turns a buffer into data of these tasks. Work that was enqueued before, on any stream, comes
    /// before the work of the tasks. Errors and explanations name the data by the name of the
    /// buffer ([`Buffer::named`]), or else by a number.
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let tasks = device.tasks();
    /// let weights = tasks.data(device.stream()?.alloc::<f32>(4)?.named("weights"));
    /// assert!(format!("{weights:?}").starts_with("data `weights`"));
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn data<T, S>(&self, buffer: Buffer<T, S>) -> Data<T, S> {
        let core = self.core();
        if calling::forked() {
            let name = DatumName { number: NO_DATUM, given: None };
            return Data::new(core, buffer, name, None);
        }
        let is_home = |device: &Device| Some(device.id()) == buffer.device_id();
        let home = core.devices.iter().position(is_home);
        let given = buffer.given_name().map(Arc::from);
        let name = core.add_datum(given, (buffer.len * size_of::<T>()) as u64, home);
        // The buffer forgets which streams used it before this call. Tasks still come after the
        // work of these streams. So a chain of tasks on one stream needs no events.
        buffer.forget_lanes();
        // A thread of the host may read the stamps (the last users) of its part while another
        // thread enqueues operations on another part.
        if buffer.is_on_host() {
            buffer.share_in_parts();
        }
        Data::new(core, buffer, name, home)
    }

    /// Allocates device memory for `len` elements, as the data of tasks. The values are arbitrary.
    ///
    /// # Errors
    /// The errors of [`Stream::alloc`](crate::Stream::alloc).
    #[track_caller]
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Data<T, OnDevice>> {
        self.alloc_on(0, len)
    }

    /// Allocates as [`Tasks::alloc`] does, on the device with this number among the devices of the
    /// tasks.
    ///
    /// # Errors
    /// `InvalidValue` for a device that the tasks do not have; the errors of [`Stream::alloc`].
    #[track_caller]
    pub fn alloc_on<T: Element>(&self, device: usize, len: usize) -> Result<Data<T, OnDevice>> {
        calling::refuse("alloc")?;
        let place = self.core().place(Some(device), &AllDeclared::default())?;
        let stream = self.core().any_stream(place)?;
        Ok(self.data(stream.alloc(len)?))
    }

    /// Submits a task that copies the elements of `source` to `target`. All uploads to a device
    /// share one stream, and all downloads share another stream. A device has one copy engine per
    /// direction, and copies on several streams would wait for each other in this engine
    /// (docs/measuring.md).
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let tasks = device.tasks();
    /// let (h, x) = (tasks.data(device.pinned::<u8>(4)?), tasks.alloc::<u8>(4)?);
    /// tasks.task(x.write()).run(|s, mut x| s.fill_bytes(&mut x, 7))?;
    /// tasks.copy(x.read_range(..2), h.write_range(2..))?;
    /// assert_eq!(tasks.take(h)?.read()?[2..], [7, 7]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Task::run`]. If the lengths differ, the task fails.
    #[track_caller]
    pub fn copy<T, S, R>(&self, source: Reads<T, S>, target: Writes<T, R>) -> Result<TaskId>
    where
        T: Element,
        S: Send + Sync + 'static,
        R: Send + Sync + 'static,
    {
        let group = match (source.is_on_host(), target.is_on_host()) {
            (true, false) => Some(Group::Upload),
            (false, true) => Some(Group::Download),
            (true, true) | (false, false) => None,
        };
        let task = self.task((source, target)).named("copy").in_group(group);
        task.run(|s, (source, mut target)| s.copy(&source, &mut target))
    }

    /// Describes a task with these uses. [`Task::run`] or [`Task::host`] submits the task.
    pub fn task<U: TaskUses>(&self, uses: U) -> Task<'_, U> {
        Task::new(self.core(), uses)
    }

    /// Runs `submit`, and issues the tasks that `submit` submits on this thread as one graph. These
    /// tasks are a region. Use a region for tasks that the program repeats. A region launches the
    /// graph of an earlier region if these facts are the same: the calls, the uses, the sizes of
    /// the data, the kinds of memory, and the addresses modulo 256 bytes. The functions of the
    /// tasks run each time. If the operations differ only in values or data, the graph is changed
    /// in place. If there are other operations, a new graph is made. So a region only affects
    /// speed: tasks have the same results as without a region.
    ///
    /// The functions of a region's tasks enqueue copies, fills and launches, and may allocate. Any
    /// other call fails, and the error names the region. Tasks of one program for workers
    /// ([`Task::on_workers`]) become one run instead of a graph. The tasks use the memory of their
    /// data, or memory that they allocate.
    ///
    /// The tasks are issued when `submit` returns. They are issued one by one if the region cannot
    /// be a graph. A region cannot be a graph in these cases: a task of the region runs on the
    /// host; a task of the region follows a task that failed; the tasks are on several devices; the
    /// region has more than 48 data; a thread waited for tasks before the region was complete; the
    /// tasks are on a stream of the program ([`Device::tasks_in`]).
    ///
    /// ```
    /// use trijet::kernels::AXPY;
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let tasks = device.tasks();
    /// let (x, y) = (tasks.alloc::<f32>(100)?, tasks.alloc::<f32>(100)?);
    /// tasks.task(y.write()).run(|s, mut y| s.fill(&mut y, 0.0))?;
    /// for step in 0..10 {
    ///     tasks.region(|tasks| {
    ///         tasks.task(x.write()).run(move |s, mut x| s.fill(&mut x, 1.0))?;
    ///         let axpy = tasks.task((x.read(), y.update()));
    ///         axpy.run(move |s, (x, y)| s.launch(&AXPY, (step as f32, x, y)))
    ///     })?;
    /// }
    /// assert_eq!(device.stream()?.download(&tasks.take(y)?)?, [45.0; 100]);
    /// let counts = tasks.counts();
    /// // One operation of two was changed in each replay.
    /// assert_eq!((counts.graphs, counts.replays, counts.patched), (1, 9, 9));
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of `submit`. Tasks that were submitted before the error still run.
    pub fn region<R>(&self, submit: impl FnOnce(&Self) -> Result<R>) -> Result<R> {
        calling::refuse("region")?;
        self.core().in_region(|| submit(self))
    }

    /// Takes data away from the tasks, and returns the buffer. Waits until the tasks that use the
    /// data are issued, and until the tasks on the host that use the data are over. Work may still
    /// be pending on the device; like any other use, a read of the buffer waits for this work.
    ///
    /// # Errors
    /// If bytes of the data have no value because a task failed, the error of that task.
    /// `InvalidValue` if the data were taken before, if the data belong to other [`Tasks`], or if
    /// the function of a task makes this call.
    pub fn take<T, S>(&self, data: Data<T, S>) -> Result<Buffer<T, S>>
    where
        T: Element,
        S: Send + Sync + 'static,
    {
        const OP: &str = "take data";
        calling::refuse(OP)?;
        let datum = &*data.0;
        if !Arc::ptr_eq(&datum.core, self.core()) {
            let cause = format!("{} belongs to another `Tasks`", datum.name);
            return Err(Error::new(ErrorKind::InvalidValue, OP, cause));
        }
        self.core().demand_outside(OP)?;
        let mut state = match data.0.replicated() {
            None => self.core().wait_for(|state| state.pending(datum.number) == 0),
            Some(copies) => self.core().wait_home(datum.number, &copies),
        };
        state.take_datum(datum.number, OP)?;
        drop(state);
        Ok(datum.buffer.part(0..data.len()))
    }

    /// Waits until a task is over, and until the work of the task is complete.
    ///
    /// # Errors
    /// The error of the task; if the task did not run, the error of the task that failed first; the
    /// error of work that failed. `InvalidValue` if the calling thread runs a function of these
    /// tasks.
    #[track_caller]
    pub fn wait(&self, task: TaskId) -> Result<()> {
        calling::refuse("task wait")?;
        self.core().wait(self.number(task, "task wait")?, Location::caller())
    }

    /// Cancels a task that was not issued yet, and all tasks that read its result. Returns whether
    /// the task is cancelled. A task whose function has started cannot be cancelled.
    ///
    /// ```
    /// use trijet::task::TaskOptions;
    /// use trijet::{Device, ErrorKind, Select};
    /// let tasks = Device::open(Select::Host(0))?.tasks();
    /// let x = tasks.alloc::<u8>(16)?;
    /// let fill = tasks.task(x.write()).run(|s, mut x| s.fill_bytes(&mut x, 1))?;
    /// let more = tasks.task(x.update()).run(|s, mut x| s.fill_bytes(&mut x, 2))?;
    /// assert!(tasks.cancel(fill), "both are held back");
    /// assert_eq!(tasks.wait(more).map_err(|error| error.kind()), Err(ErrorKind::Cancelled));
    /// # Ok::<(), trijet::Error>(())
    /// ```
    pub fn cancel(&self, task: TaskId) -> bool {
        const OP: &str = "task cancel";
        let number = calling::refuse(OP).and_then(|()| self.number(task, OP));
        number.is_ok_and(|number| self.core().cancel(number))
    }

    /// Issues all tasks, and waits until all tasks are over and their work is complete.
    ///
    /// # Errors
    /// The error of the task that failed first since the last call; the error of work that failed;
    /// `InvalidValue` if the function of a task makes this call, or if a task wrote bytes that it
    /// had declared to read ([`TaskOptions::check_reads`]). If there are several errors, such as a
    /// failed task and a panic of a host function, the next calls return the other errors.
    pub fn finish(&self) -> Result<()> {
        calling::refuse("tasks finish")?;
        self.core().finish()
    }

    /// Explains why the task `later` came after the task `earlier`, or states that nothing orders
    /// the two tasks. The answer may change while tasks are issued.
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let tasks = Device::open(Select::Host(0))?.tasks();
    /// let x = tasks.alloc::<u8>(16)?;
    /// let a = tasks.task(x.write()).named("fill").run(|s, mut x| s.fill_bytes(&mut x, 1))?;
    /// let b = tasks.task(x.update()).named("again").run(|s, mut x| s.fill_bytes(&mut x, 2))?;
    /// tasks.finish()?;
    /// let why = tasks.explain(a, b)?;
    /// assert_eq!(
    ///     why.to_string(),
    ///     "`again #2` reads what the earlier task wrote (`fill #1`): bytes 0 to 16 of data 0 \
    ///      (they are on one stream)"
    /// );
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` if a task belongs to another [`Tasks`], or is forgotten: the last 4096 tasks
    /// are remembered.
    pub fn explain(&self, earlier: TaskId, later: TaskId) -> Result<Explanation> {
        calling::refuse("explain")?;
        let [from, to] = [self.number(earlier, "explain")?, self.number(later, "explain")?];
        let explained = explain::explain(&self.core().lock(), from, to);
        explained.ok_or_else(|| {
            Error::new(ErrorKind::InvalidValue, "explain", "one of the tasks is forgotten")
        })
    }

    /// The graph of the remembered tasks, in the language of Graphviz. A solid line is an order
    /// that a stream or a thread keeps by a wait.
    #[must_use]
    pub fn dot(&self) -> String {
        self.core().lock_for_drop().map_or_else(String::new, |state| explain::dot(&state))
    }

    /// The counts of these tasks so far.
    #[must_use]
    pub fn counts(&self) -> TaskCounts {
        self.core().lock_for_drop().map_or_else(TaskCounts::default, |state| state.counts)
    }

    fn number(&self, task: TaskId, op: &'static str) -> Result<u64> {
        task.of(self.core()).ok_or_else(|| {
            Error::new(ErrorKind::InvalidValue, op, "the task belongs to another `Tasks`")
        })
    }
}
