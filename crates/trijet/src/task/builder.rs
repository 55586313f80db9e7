//! A task before its submission.
#![forbid(unsafe_code)]

use super::core::Core;
use super::lanes::Group;
use super::record::{Body, Name, New, Number};
use super::uses::{HostUses, Uses};
use crate::base::error::Result;
use crate::stream::Stream;
use std::borrow::Cow;
use std::panic::Location;
use std::sync::Arc;

/// A task with its uses, see [`Tasks::task`](super::Tasks::task).
#[derive(Debug)]
#[must_use = "the task is submitted by `run` or `host`"]
pub struct Task<'a, U> {
    core: &'a Arc<Core>,
    uses: U,
    name: Name,
    is_urgent: bool,
    /// The device, if it is named.
    place: Option<usize>,
    group: Option<Group>,
}

/// A task that was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId {
    /// The tasks that it belongs to.
    core: u64,
    number: Number,
}

impl TaskId {
    fn new(core: &Arc<Core>, number: Number) -> Self {
        Self { core: core.id, number }
    }

    /// Its number, if it belongs to these tasks.
    pub(super) fn of(self, core: &Arc<Core>) -> Option<Number> {
        (self.core == core.id).then_some(self.number)
    }
}

impl<'a, U: Uses> Task<'a, U> {
    pub(super) fn new(core: &'a Arc<Core>, uses: U) -> Self {
        let name = Cow::Borrowed("task");
        Self { core, uses, name, is_urgent: false, place: None, group: None }
    }

    /// A name, for errors and explanations.
    pub fn named(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Issues the task before others that may be issued, on a stream of the highest priority.
    pub fn urgent(mut self) -> Self {
        self.is_urgent = true;
        self
    }

    /// Puts the task on one of the devices of the tasks, by its number among them. What it reads and the device does not
    /// have is copied there before. Without this call it is on the device of the first data that it writes, or else reads.
    ///
    /// ```
    /// use trijet::kernels::AXPY;
    /// use trijet::sim::HostConfig;
    /// use trijet::task::Tasks;
    /// use trijet::Device;
    /// let devices = Device::host(HostConfig { devices: 2, ..HostConfig::default() })?;
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

    /// Lets the task share streams with other copies of its direction.
    pub(super) fn in_group(mut self, group: Option<Group>) -> Self {
        self.group = group;
        self
    }

    /// Submits the task. `run` is called once, on a thread of the library or on one that uses these tasks; it enqueues
    /// work on the stream that it gets, and does not wait for it. Its error, or its panic, is the failure of the task. It may
    /// submit tasks.
    ///
    /// # Errors
    /// `InvalidValue` if a use belongs to other tasks or to data that were taken, or if two uses conflict.
    #[track_caller]
    pub fn run<F>(self, run: F) -> Result<TaskId>
    where
        F: for<'t> FnOnce(&'t Stream, U::Views<'t>) -> Result<()> + Send + 'static,
    {
        let Self { core, mut uses, name, is_urgent, place, group } = self;
        let mut declared = core.declared();
        uses.declare(&mut declared);
        let place = core.place(place, &declared)?;
        core.demand_fit(&declared)?;
        if core.devices.len() > 1 {
            uses.put(place)?;
        }
        let site = Location::caller();
        let body = Body::Stream(Box::new(move |stream| {
            uses.begin(stream)?;
            run(stream, uses.views())?;
            uses.end(stream, site)
        }));
        let group = group.unwrap_or(Group::Work { is_urgent });
        let new = New { name, site, is_urgent, place, group, body };
        Ok(TaskId::new(core, core.submit(new, &declared)?))
    }

    /// Submits the task for a thread of the host. `run` is called once, when the work that it comes after is complete. It
    /// gets slices of its data, which are in host memory, and may wait and use streams of its own.
    ///
    /// # Errors
    /// As for [`Task::run`].
    #[track_caller]
    pub fn host<F>(self, run: F) -> Result<TaskId>
    where
        U: HostUses,
        F: for<'t> FnOnce(U::Guards<'t>) -> Result<()> + Send + 'static,
    {
        let Self { core, uses, name, is_urgent, place, .. } = self;
        let mut declared = core.declared();
        uses.declare(&mut declared);
        let place = core.place(place, &declared)?;
        core.demand_fit(&declared)?;
        let body = Body::Host(Box::new(move || {
            let mut parts = uses.parts();
            run(U::guards(&mut parts)?)
        }));
        let group = Group::Work { is_urgent };
        let new = New { name, site: Location::caller(), is_urgent, place, group, body };
        Ok(TaskId::new(core, core.submit(new, &declared)?))
    }
}
