//! The functions that the body of a task can call on the host device.
#![forbid(unsafe_code)]

use super::host;
use super::run::{State, TwinRun};
use super::shared::Shared;
use crate::workers::end;
use crate::workers::task::WorkerTask;
use bytemuck::Pod;
use std::cell::Cell;
use std::fmt;

/// The body of a kind of tasks for the host device. Its second argument is the payload of the task.
pub type Body = fn(&mut Worker<'_>, u64);

/// The kinds of tasks of a program, with their bodies for the host device.
pub trait Kinds: 'static {
    /// The name and the body of each kind; at most 255 kinds. The body in CUDA C++ has this name.
    /// The constant for [`Worker::spawn`] in CUDA C++ has this name in upper case.
    const KINDS: &'static [(&'static str, Body)];
}

/// A worker on the host device, as the body of a task sees it.
pub struct Worker<'a> {
    run: &'a TwinRun<'a>,
    id: usize,
    state: &'a mut State,
    task: u64,
    /// The number of calls of [`Worker::stopped`] by this body.
    asked: Cell<u32>,
}

impl fmt::Debug for Worker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<'a> Worker<'a> {
    /// Maximum number of calls of [`Worker::stopped`] by one body. Other tasks do not run between
    /// these calls, so further calls would return the same.
    const QUESTIONS_MAX: u32 = 10_000;

    pub(super) fn new(run: &'a TwinRun<'a>, id: usize, state: &'a mut State, task: u64) -> Self {
        Self { run, id, state, task, asked: Cell::new(0) }
    }

    /// The number of the worker.
    #[must_use]
    pub fn id(&self) -> usize {
        self.id
    }

    /// Returns the scalar that is the argument with this index. A span counts as two arguments: its
    /// pointer and its length.
    ///
    /// # Panics
    /// If the argument is no scalar of exactly the type `T`. The message lists the arguments.
    #[must_use]
    pub fn scalar<T: Pod>(&self, index: usize) -> T {
        self.run.memory.inputs.scalar(index)
    }

    /// Returns the read-only span whose pointer is the argument with this index.
    ///
    /// # Panics
    /// If there is no such span of exactly the type `T`. The message lists the arguments.
    #[must_use]
    pub fn read<T: Pod>(&self, index: usize) -> &'a [T] {
        self.run.memory.inputs.read(index)
    }

    /// Returns the written span whose pointer is the argument with this index. An element has 1, 2,
    /// 4 or 8 bytes.
    ///
    /// # Panics
    /// If there is no such span of exactly the type `T`. The message lists the arguments.
    #[must_use]
    pub fn shared<T: Pod>(&self, index: usize) -> Shared<'a, T> {
        self.run.memory.shared(index)
    }

    /// Returns the fields of the node whose task has this payload. A node without fields has zeros
    /// ([`TaskGraph::node_with`](crate::workers::TaskGraph::node_with)). In CUDA C++,
    /// `field(w, payload, at)` returns one field.
    #[must_use]
    pub fn fields(&self, payload: u64) -> [u64; 8] {
        self.run.fields(payload)
    }

    /// Makes a task of the kind with index `kind`. Returns false if the queues have no room. No
    /// task is made then, so the body must do the work itself.
    #[must_use]
    pub fn spawn(&mut self, kind: u8, payload: u64) -> bool {
        self.run.spawn(self.id, self.state, WorkerTask::new(kind, payload).word())
    }

    /// Makes a task as [`Worker::spawn`] does. If the queues have no room, the run ends with an
    /// error. Use this for bodies that cannot do the work of the new task themselves.
    pub fn must_spawn(&mut self, kind: u8, payload: u64) {
        if !self.spawn(kind, payload) {
            let task = WorkerTask::new(kind, payload);
            self.run.stop(end::FULL, self.id, task.word());
        }
    }

    /// Sends a value to the host that [feeds](crate::Stream::feed_workers) the run. In CUDA C++,
    /// only one lane of the warp calls `answer`.
    pub fn answer(&self, value: u64) {
        host::answer(self.run.host, value);
    }

    /// Whether the run has ended. A body that waits for another task must call this in its loop,
    /// because the other task may never run. On a host device, no other task runs during the loop,
    /// so the watchdog ends the run after 10000 calls.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.asked.set(self.asked.get() + 1);
        if self.asked.get() > Self::QUESTIONS_MAX {
            self.run.stop(end::HUNG, self.id, self.task);
        }
        self.run.end.get().is_some()
    }
}
