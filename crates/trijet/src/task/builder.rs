//! A task that is described and not yet submitted.
#![forbid(unsafe_code)]

use super::bound::{BoundData, BoundProgram, Start, Workers};
use super::core::Core;
use super::declared::AllDeclared;
use super::lanes::Group;
use super::task_state::{Name, New, Number, TaskBody, UNNAMED};
use super::uses::{HostUses, TaskUses};
use crate::base::error::{Error, ErrorKind, Result};
use crate::log::calling;
use crate::stream::Stream;
use crate::workers::{Kinds, Program, Run, RunOptions};
use std::borrow::Cow;
use std::panic::Location;
use std::sync::{Arc, Mutex};

/// A task with its uses; see [`Tasks::task`](super::Tasks::task).
#[derive(Debug)]
#[must_use = "call `run` or `host` to submit the task"]
pub struct Task<'a, U> {
    core: &'a Arc<Core>,
    uses: U,
    name: Name,
    is_urgent: bool,
    /// The number of the device, if the program names one.
    place: Option<usize>,
    group: Option<Group>,
}

/// The id of a task that was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId {
    /// The id of the [`Tasks`](super::Tasks) that the task belongs to.
    core: u64,
    number: Number,
}

impl TaskId {
    fn new(core: &Arc<Core>, number: Number) -> Self {
        Self { core: core.id, number }
    }

    /// The number of the task; `None` if the task belongs to another `Tasks`.
    pub(super) fn of(self, core: &Arc<Core>) -> Option<Number> {
        (self.core == core.id).then_some(self.number)
    }
}

impl<'a, U: TaskUses> Task<'a, U> {
    pub(super) fn new(core: &'a Arc<Core>, uses: U) -> Self {
        let name = Cow::Borrowed(UNNAMED);
        Self { core, uses, name, is_urgent: false, place: None, group: None }
    }

    /// Sets the name of the task for errors and explanations.
    pub fn named(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Makes the task urgent: it is issued before all other tasks that may be issued, on a stream
    /// of the highest priority.
    pub fn urgent(mut self) -> Self {
        self.is_urgent = true;
        self
    }

    /// Puts the task on the device with this number among the devices of the tasks. Bytes that the
    /// task reads and that this device lacks are copied to the device before the task. Without this
    /// call, the task is on the device of the first data that it writes. If it writes no data, it
    /// is on the device of the first data that it reads.
    ///
    /// ```
    /// use trijet::kernels::AXPY;
    /// use trijet::sim::HostConfig;
    /// use trijet::task::Tasks;
    /// use trijet::Device;
    /// let devices = Device::host(HostConfig::new().devices(2))?;
    /// let tasks = Tasks::over(&devices)?;
    /// let (x, y) = (tasks.alloc::<f32>(1000)?, tasks.alloc_on::<f32>(1, 1000)?);
    /// tasks.task(x.write()).run(|s, mut x| s.fill(&mut x, 1.0))?;
    /// tasks.task(y.write()).run(|s, mut y| s.fill(&mut y, 2.0))?;
    /// tasks.task((x.read(), y.update())).on(1).run(|s, (x, y)| s.launch(&AXPY, (3.0, x, y)))?;
    /// assert_eq!(devices[1].stream()?.download(&tasks.take(y)?)?, [5.0; 1000]);
    /// assert_eq!(tasks.counts().transfers, 1);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    pub fn on(mut self, device: usize) -> Self {
        self.place = Some(device);
        self
    }

    /// Sets the group of tasks with which the task shares streams. `None` means the group of the
    /// tasks that are no copies.
    pub(super) fn in_group(mut self, group: Option<Group>) -> Self {
        self.group = group;
        self
    }

    /// Submits the task. The library calls `run` once, on one of its threads or on a thread that
    /// calls a method of the [`Tasks`](super::Tasks). `run` enqueues work on the stream that it
    /// gets, and does not wait for the work. If `run` returns an error or panics, the task fails.
    /// `run` may submit tasks.
    ///
    /// # Errors
    /// `InvalidValue` if the data of a use belong to another [`Tasks`](super::Tasks), if the data
    /// were taken, or if two uses conflict.
    #[track_caller]
    pub fn run<F>(self, run: F) -> Result<TaskId>
    where
        F: for<'t> FnOnce(&'t Stream, U::Views<'t>) -> Result<()> + Send + 'static,
    {
        let Self { core, mut uses, name, is_urgent, place, group } = self;
        calling::refuse("task")?;
        let mut declared = core.declared();
        uses.declare(&mut declared);
        let place = core.place(place, &declared)?;
        core.demand_fit(&declared)?;
        if core.devices.len() > 1 {
            uses.put(place)?;
        }
        let site = Location::caller();
        let body = TaskBody::Stream(Box::new(move |stream| {
            uses.begin(stream)?;
            run(stream, uses.views())?;
            uses.end(stream, site)
        }));
        let group = group.unwrap_or(Group::Work { is_urgent });
        let new = New { name, site, is_urgent, place, group, body };
        Ok(TaskId::new(core, core.submit(new, &declared)?))
    }

    /// Binds a program for [workers](crate::workers) to the data of these uses. This call submits
    /// no task. Later tasks may run as kinds of the program ([`Task::on_workers`]). `start` is
    /// called for each run, and passes the views to the program as its arguments. A task may use a
    /// part of a parameter before this part has values. In this case, the type of the parameter
    /// must be [`Write`](crate::kernels::Write).
    ///
    /// ```
    /// use trijet::kernels::Write;
    /// use trijet::workers::{Body, Kinds, Program, ProgramSpec, RunOptions};
    /// use trijet::{Device, Select};
    ///
    /// const BODY: &str = "
    /// // Sets the words from the first to the second field of the task to the third field.
    /// DEV void fill(Worker& w, const Args& args, u64 payload) {
    ///   const u64 begin = field(w, payload, 0), end = field(w, payload, 1);
    ///   for (u64 at = begin + lane_id(); at < end && at < args.length; at += 32)
    ///     store_relaxed(args.out + at, field(w, payload, 2));
    /// }";
    /// struct Fills;
    /// impl Kinds for Fills {
    ///     const KINDS: &'static [(&'static str, Body)] = &[("fill", |w, payload| {
    ///         let ([begin, end, value, ..], out) = (w.fields(payload), w.shared::<u64>(0));
    ///         (begin..end.min(out.len() as u64)).for_each(|at| out.set(at as usize, value));
    ///     })];
    /// }
    /// static FILLS: Program<Fills, (Write<u64>,)> = {
    ///     // SAFETY: the body writes words below the length only, atomically.
    ///     unsafe { Program::declare(ProgramSpec::new("fills", BODY, "u64* out, u64 length")) }
    /// };
    ///
    /// let device = Device::open(Select::Host(0))?;
    /// let tasks = device.tasks();
    /// let numbers = tasks.alloc::<u64>(1000)?;
    /// let options = RunOptions::default();
    /// let fills = tasks.task(numbers.update()).bind(&FILLS, options, |program, numbers| {
    ///     program.run((numbers,))
    /// })?;
    /// tasks.region(|tasks| {
    ///     (0..10).try_for_each(|part| {
    ///         let (begin, end) = (100 * part, 100 * part + 100);
    ///         let task = tasks.task(numbers.write_range(begin..end));
    ///         task.on_workers(&fills, 0, &[begin as u64, end as u64, part as u64]).map(drop)
    ///     })
    /// })?;
    /// tasks.finish()?;
    /// assert_eq!((tasks.counts().submitted, tasks.counts().runs), (10, 1));
    /// let numbers = device.stream()?.download(&tasks.take(numbers)?)?;
    /// assert!((0..1000).all(|at| numbers[at] == at as u64 / 100));
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` if the data of a use belong to another [`Tasks`](super::Tasks), if two uses
    /// conflict, or if a use is in host memory or is a reduction.
    #[track_caller]
    pub fn bind<K, P, F>(
        self,
        program: &'static Program<K, P>,
        options: RunOptions,
        mut start: F,
    ) -> Result<Workers>
    where
        K: Kinds,
        F: for<'t> FnMut(&BoundProgram<'t, K, P>, U::Views<'t>) -> Result<Run> + Send + 'static,
    {
        let Self { core, mut uses, place, .. } = self;
        calling::refuse("bind")?;
        let mut data = AllDeclared::default();
        uses.declare(&mut data);
        let place = core.place(place, &data)?;
        core.demand_fit(&data)?;
        let name = program.name();
        if let Some(one) = data.all().iter().find(|one| one.home.is_none() || one.reduces) {
            let what = if one.reduces { "a reduction" } else { "host memory" };
            let cause = format!("`{name}` needs device memory, but {} is {what}", one.name);
            return Err(Error::new(ErrorKind::InvalidValue, "bind", cause));
        }
        if core.devices.len() > 1 {
            uses.put(place)?;
        }
        let site = Location::caller();
        let start: Start = Box::new(move |stream, graph| {
            uses.begin(stream)?;
            let run = start(&BoundProgram { program, stream, graph, options }, uses.views())?;
            uses.end(stream, site)?;
            Ok(run)
        });
        let (kinds, start) = (K::KINDS.len(), Mutex::new(start));
        Ok(Workers(Arc::new(BoundData { core: core.id, name, kinds, place, data, start })))
    }

    /// Submits the task as a task of a program for workers. `kind` is the index of its kind.
    /// `fields` are up to eight words, which its body reads with
    /// [`Worker::fields`](crate::workers::Worker::fields). All data of the task must be among the
    /// data that the program is bound to. In a [region](super::Tasks::region) of such tasks, all
    /// tasks are nodes of one run, with an edge between two tasks that conflict. Outside of a
    /// region, the task is a run of its own. If the body of the task adds child tasks to the run,
    /// the bytes that these child tasks use are not ordered with other tasks.
    ///
    /// If a run fails, for example because its queues are full, the failure is known at the end of
    /// the run. [`Tasks::finish`](super::Tasks::finish) and [`Tasks::wait`](super::Tasks::wait)
    /// then return the error of the run, and no task of the run has a result. Later tasks may have
    /// been issued before the failure was known. These later tasks have run nevertheless.
    ///
    /// # Errors
    /// `InvalidValue` for a kind that the program lacks, for too many fields, for a use that the
    /// program is not bound to, for a reduction, or if the task is on another device than the
    /// program. Otherwise the errors of [`Task::run`].
    #[track_caller]
    pub fn on_workers(self, workers: &Workers, kind: u8, fields: &[u64]) -> Result<TaskId> {
        let Self { core, uses, name, is_urgent, place, .. } = self;
        calling::refuse("task")?;
        let mut declared = core.declared();
        uses.declare(&mut declared);
        core.demand_fit(&declared)?;
        let node = workers.0.node(kind, fields, core.id, place, declared.all())?;
        let (place, group) = (node.bound.place, Group::Work { is_urgent });
        let (site, body) = (Location::caller(), TaskBody::Node(node));
        let new = New { name, site, is_urgent, place, group, body };
        Ok(TaskId::new(core, core.submit(new, &declared)?))
    }

    /// Submits the task for a thread of the host. The library calls `run` once, when all work that
    /// comes before the task is complete. `run` gets a guard for each use, which derefs to a slice.
    /// `run` may wait, and may use streams of its own. The data of the task are in host memory:
    /// `tasks.data(device.pinned(..)?)`.
    ///
    /// # Errors
    /// The errors of [`Task::run`].
    #[track_caller]
    pub fn host<F>(self, run: F) -> Result<TaskId>
    where
        U: HostUses,
        F: for<'t> FnOnce(U::Guards<'t>) -> Result<()> + Send + 'static,
    {
        let Self { core, uses, name, is_urgent, place, .. } = self;
        calling::refuse("task")?;
        let mut declared = core.declared();
        uses.declare(&mut declared);
        let place = core.place(place, &declared)?;
        core.demand_fit(&declared)?;
        let body = TaskBody::Host(Box::new(move || {
            let mut parts = uses.parts();
            run(U::guards(&mut parts)?)
        }));
        let group = Group::Work { is_urgent };
        let new = New { name, site: Location::caller(), is_urgent, place, group, body };
        Ok(TaskId::new(core, core.submit(new, &declared)?))
    }
}
