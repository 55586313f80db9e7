//! The operations of a body of a task on the host device.
#![forbid(unsafe_code)]

use super::host;
use super::run::{State, TwinRun};
use super::shared::Shared;
use crate::workers::end;
use crate::workers::task::WorkerTask;
use bytemuck::Pod;
use std::cell::Cell;
use std::fmt;

/// The body of a kind of tasks for the host device. It gets the payload of its task.
pub type Body = fn(&mut Worker<'_>, u64);

/// The kinds of tasks of a program, with their bodies for the host device.
pub trait Kinds: 'static {
    /// The name and the body of each kind, at most 255 kinds. In CUDA C++, the body has this name,
    /// and the constant for [`Worker::spawn`] has it in upper case.
    const KINDS: &'static [(&'static str, Body)];
}

/// A worker that runs a task on the host device.
pub struct Worker<'a> {
    run: &'a TwinRun<'a>,
    id: usize,
    state: &'a mut State,
    task: u64,
    /// The number of times that the body asked whether the run has ended.
    asked: Cell<u32>,
}

impl fmt::Debug for Worker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<'a> Worker<'a> {
    /// The number of questions of one body after which nothing can change, because other tasks do
    /// not run meanwhile.
    const QUESTIONS_MAX: u32 = 10_000;

    pub(super) fn new(run: &'a TwinRun<'a>, id: usize, state: &'a mut State, task: u64) -> Self {
        Self { run, id, state, task, asked: Cell::new(0) }
    }

    /// The number of the worker.
    #[must_use]
    pub fn id(&self) -> usize {
        self.id
    }

    /// The scalar at argument `index`. A pointer and its length are two arguments.
    ///
    /// # Panics
    /// When argument `index` is no scalar of exactly the type `T`. The message lists the arguments.
    #[must_use]
    pub fn scalar<T: Pod>(&self, index: usize) -> T {
        self.run.memory.inputs.scalar(index)
    }

    /// The span that is only read and whose address is argument `index`.
    ///
    /// # Panics
    /// When `index` is no such span of exactly the type `T`. The message lists the arguments.
    #[must_use]
    pub fn read<T: Pod>(&self, index: usize) -> &'a [T] {
        self.run.memory.inputs.read(index)
    }

    /// The span that is written and whose address is argument `index`, with elements of 1, 2, 4 or
    /// 8 bytes.
    ///
    /// # Panics
    /// When `index` is no such span of exactly the type `T`. The message lists the arguments.
    #[must_use]
    pub fn shared<T: Pod>(&self, index: usize) -> Shared<'a, T> {
        self.run.memory.shared(index)
    }

    /// The fields of a node, by the payload of its task; zeros for a node without fields
    /// ([`TaskGraph::node_with`](crate::workers::TaskGraph::node_with)). In CUDA C++,
    /// `field(w, payload, at)` is one of the fields.
    #[must_use]
    pub fn fields(&self, payload: u64) -> [u64; 8] {
        self.run.fields(payload)
    }

    /// Makes a task of the kind at `kind`. Returns false if the queues have no room: then no task
    /// was made, and the body does the work itself.
    #[must_use]
    pub fn spawn(&mut self, kind: u8, payload: u64) -> bool {
        self.run.spawn(self.id, self.state, WorkerTask::new(kind, payload).word())
    }

    /// Makes a task as [`Worker::spawn`] does, for bodies that cannot do without it. If there is no
    /// room, the run ends with an error.
    pub fn must_spawn(&mut self, kind: u8, payload: u64) {
        if !self.spawn(kind, payload) {
            let task = WorkerTask::new(kind, payload);
            self.run.stop(end::FULL, self.id, task.word());
        }
    }

    /// Gives a value to the host that [feeds](crate::Stream::feed_workers) the run. In CUDA C++,
    /// one lane calls it.
    pub fn answer(&self, value: u64) {
        host::answer(self.run.host, value);
    }

    /// Whether the run has ended. A body that waits for another task calls this, because that task
    /// may never run. On the host device no other task runs meanwhile, so the watchdog ends the run
    /// when a body asks again and again.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.asked.set(self.asked.get() + 1);
        if self.asked.get() > Self::QUESTIONS_MAX {
            self.run.stop(end::HUNG, self.id, self.task);
        }
        self.run.end.get().is_some()
    }
}
