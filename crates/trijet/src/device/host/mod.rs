//! The host device: the driver contract in software, on a machine without a GPU.
//!
//! `queues` holds the enqueued operations and the edges between them. An executor runs the
//! operations. `Executor::Threads` runs them on CPU threads, as fast as possible.
//! `Executor::Virtual` simulates the engines of a GPU, with modelled time or step by step, in an
//! order that a policy chooses. All executors follow the same laws: they do nothing that the laws
//! do not allow on CUDA.
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

mod config;
pub(crate) mod cost;
mod engine;
pub(crate) mod explore;
pub(crate) mod fault;
mod memory;
pub(crate) mod order;
mod run;
mod shared;
mod state;
#[cfg(test)]
mod tests;
mod verbs;

pub use config::{Executor, HostConfig};
pub(crate) use explore::search::Search;
pub use fault::{Fault, FaultKind, Verb};
pub use order::Order;

use crate::base;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::device::driver::{FunctionHandle, ModuleHandle};
use crate::device::fork;
use crate::device::graph_table::GraphTable;
use engine::queues::Queues;
use engine::refuse;
use engine::sharing::HardwareQueues;
use engine::table::Table;
use fault::Faults;
use memory::pools::Pools;
use run::HostRun;
use run::baton::Baton;
use run::clock::WallClock;
use run::threads;
use shared::{Function, HostShared};
use state::State;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use verbs::captured::AllCaptures;
use verbs::graph::HostGraph;

/// The host driver: the driver contract on the processors of this machine.
pub(crate) struct HostDriver {
    config: HostConfig,
    shared: Arc<HostShared>,
    graphs: GraphTable<HostGraph>,
    captures: AllCaptures,
}

impl fmt::Debug for HostDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostDriver").field("config", &self.config).finish_non_exhaustive()
    }
}

/// The number of processors that this process can use. The number is computed once, because the
/// system reads several files to find it, and an exploration opens a driver for every run.
fn processors() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    let ask = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    *COUNT.get_or_init(ask)
}

impl HostDriver {
    /// Opens host devices.
    ///
    /// # Errors
    /// `Unsupported` when the system does not start the threads.
    pub(crate) fn open(config: HostConfig) -> Result<Self> {
        Self::with_search(config, None)
    }

    /// Opens host devices. If there is a `search`, the search makes every choice of the executor.
    ///
    /// # Errors
    /// `Unsupported` when the system does not start the threads.
    pub(in crate::device) fn with_search(
        mut config: HostConfig,
        search: Option<Arc<Mutex<Search>>>,
    ) -> Result<Self> {
        if search.is_some() {
            // A run that repeats listed steps uses this executor. An exploration is configured in
            // the same way. So the program sees the same device in an exploration and in a repeated
            // run.
            config.executor = Executor::Virtual(Order::Steps(Arc::default()));
        }
        let threads = processors();
        let never_ends = config.never_ends.clone();
        let queues = match &search {
            None => {
                let mut queues = Queues::new(config.devices, never_ends);
                queues.sharing = HardwareQueues::of(&config);
                queues
            }
            Some(search) => {
                let mut search = search.lock().expect("no thread panicked while it held this lock");
                Queues::explored(std::mem::take(&mut search.spare), config.devices, never_ends)
            }
        };
        let state = State {
            queues,
            pools: Pools::new(config.memory, config.devices),
            modules: Table::default(),
            functions: 0,
            run: HostRun::new(&config, threads, search),
            baton: Baton::default(),
            faults: Faults::new(config.faults.clone()),
            calling: false,
            shutdown: false,
        };
        let works = matches!(state.run, HostRun::Threads(_));
        let shared = Arc::new(HostShared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            clock: WallClock::start(),
            threads,
            functions: base::table::NumberTable::default(),
        });
        let driver = Self {
            config,
            shared,
            graphs: GraphTable::default(),
            captures: AllCaptures::default(),
        };
        if works {
            threads::spawn(&driver.shared).map_err(|e| {
                Error::new(
                    ErrorKind::Unsupported,
                    "open",
                    "the system does not start the threads of the host device",
                )
                .caused_by(e)
            })?;
        }
        Ok(driver)
    }

    fn check_device(&self, op: &'static str, device: DeviceId) -> Result<()> {
        if device.0 < self.config.devices {
            return Ok(());
        }
        let count = self.config.devices;
        let cause = format!("there are {count} host devices, and they are numbered from 0");
        Err(Error::new(ErrorKind::NoDevice, op, cause).with_code(101).on(device))
    }

    fn function_of(&self, function: FunctionHandle) -> Result<&Function> {
        // Handles count from 1.
        let number = usize::try_from(function.0).ok().and_then(|number| number.checked_sub(1));
        let found = number.and_then(|number| self.shared.functions.get(number));
        found.ok_or_else(|| refuse::handle("launch", "the kernel was not loaded by this driver"))
    }

    fn module_of(state: &State, module: ModuleHandle) -> Result<&(DeviceId, String)> {
        let found = state.modules.get(module.0);
        found.ok_or_else(|| refuse::handle("function", "the module was not loaded by this driver"))
    }
}

impl Drop for HostDriver {
    /// Makes the workers end. Operations that are still queued are dropped, as when a process ends.
    /// The drop does not wait for the workers. A host function may wait for this thread, or may
    /// drop the driver itself.
    fn drop(&mut self) {
        if fork::is_child() {
            // A child of `fork` has no workers. A worker of the parent may have held the lock at
            // the time of the fork.
            return;
        }
        let mut state = self.shared.lock();
        state.shutdown = true;
        self.shared.changed.notify_all();
        let HostRun::Stepped(stepper) = &state.run else { return };
        let Some(search) = stepper.search().map(Arc::clone) else { return };
        let queues = std::mem::take(&mut state.queues);
        drop(state);
        let queues = queues.cleared();
        search.lock().expect("no thread panicked while it held this lock").spare = queues;
    }
}
