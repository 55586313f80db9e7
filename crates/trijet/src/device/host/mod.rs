//! The host device: the driver contract in software, on a machine with no GPU.
//!
//! One engine keeps the queues; two executors run them. `Executor::Threads` does the work on CPU
//! threads as fast as it can. `Executor::Virtual` simulates a GPU's engines with a model's clock,
//! in an order that a seed decides. Both follow the same laws: what may happen here is what the
//! laws allow on CUDA.
#![forbid(unsafe_code)]

mod actions;
mod activity;
mod calls;
pub(crate) mod cost;
mod driver;
mod engine;
mod events;
mod exec;
pub(crate) mod fault;
mod heap;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod losses;
pub(crate) mod order;
mod pools;
mod races;
mod refuse;
pub(crate) mod search;
mod simulate;
mod step;
mod streams;
mod table;
mod threads;
mod touches;
mod trail;
mod turn;

use crate::base;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::prng::Prng;
use crate::base::units::Bytes;
use crate::device::driver::{FunctionHandle, ModuleHandle};
use crate::device::fork;
use crate::device::twin::Twin;
pub use cost::CostModel;
use engine::Engine;
use fault::Faults;
pub use fault::{Fault, FaultKind, Verb};
pub use order::Order;
use order::{May, Policy, as_measured};
use pools::Pools;
pub(crate) use search::Search;
use simulate::Simulation;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use step::{Decider, Pct, Stepper};
use table::Table;
use threads::{WallClock, Workers};
use turn::Baton;

/// How the host device runs operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Executor {
    /// Real work on CPU threads, as fast as this machine can.
    Threads,
    /// A simulated GPU: real bytes, an order policy, and with `Order::Greedy` and `Order::Seeded`
    /// modelled time. Nothing happens beside the calls of the host.
    Virtual(Order),
}

/// What the host devices of a driver are like.
#[derive(Debug, Clone, PartialEq)]
pub struct HostConfig {
    /// How operations run.
    pub executor: Executor,
    /// The number of devices.
    pub devices: u32,
    /// The memory of each device. Bytes exist only when allocated.
    pub memory: Bytes,
    /// The times of the virtual executor.
    pub cost: CostModel,
    /// A kernel of this name never ends: a hung device, for testing that waits report it.
    pub never_ends: Option<String>,
    /// Faults to inject, for testing that they are reported and nothing hangs or leaks.
    pub faults: Vec<Fault>,
}

impl Default for HostConfig {
    /// One device on threads with 16 GiB, as much as a common GPU has.
    fn default() -> Self {
        Self {
            executor: Executor::Threads,
            devices: 1,
            memory: Bytes(16 << 30),
            cost: CostModel::default(),
            never_ends: None,
            faults: Vec::new(),
        }
    }
}

/// The host driver: a contract implementation whose devices are this machine's processor.
pub(crate) struct HostDriver {
    config: HostConfig,
    shared: Arc<Shared>,
}

impl fmt::Debug for HostDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostDriver").field("config", &self.config).finish_non_exhaustive()
    }
}

pub(in crate::device::host) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    clock: WallClock,
    threads: usize,
    /// Loaded kernels, which stay: a launch looks here before it takes the lock.
    functions: base::table::Table<Function>,
}

struct Function {
    device: DeviceId,
    name: Arc<str>,
    twin: Twin,
    /// The most shared memory of a launch.
    shared_bytes: u32,
}

/// What runs the operations.
enum Run {
    Threads(Workers),
    Timed(Simulation),
    Stepped(Stepper),
}

pub(in crate::device::host) struct State {
    engine: Engine,
    pools: Pools,
    modules: Table<(DeviceId, String)>,
    /// The number of loaded kernels.
    functions: usize,
    run: Run,
    baton: Baton,
    faults: Faults,
    /// A thread has let go of the lock to call a host function.
    calling: bool,
    shutdown: bool,
}

impl State {
    fn account_freed(&mut self) {
        for memory in self.engine.freed.drain(..) {
            self.pools.reached(&memory);
        }
    }

    /// Whether every call is a step that competes with the device's.
    fn explores(&self) -> bool {
        matches!(self.run, Run::Stepped(_))
    }

    /// Whether the driver does what the laws let it do.
    fn may(&mut self, what: May) -> bool {
        self.run.may(what)
    }
}

impl Run {
    fn may(&mut self, what: May) -> bool {
        match self {
            Self::Threads(_) => as_measured(what),
            Self::Timed(simulation) => simulation.policy.may(what),
            Self::Stepped(stepper) => stepper.may(what),
        }
    }

    fn new(config: &HostConfig, threads: usize, search: Option<Arc<Mutex<Search>>>) -> Self {
        let timed = |policy| Self::Timed(Simulation::new(policy, config.cost.clone(), threads));
        let stepped = |decider| Self::Stepped(Stepper::new(decider, threads));
        if let Some(search) = search {
            return stepped(Decider::Search(search));
        }
        match &config.executor {
            Executor::Threads => Self::Threads(Workers::default()),
            Executor::Virtual(Order::Greedy) => timed(Policy::Greedy),
            Executor::Virtual(Order::Seeded(seed)) => timed(Policy::Seeded(Prng::new(*seed))),
            Executor::Virtual(Order::Pct { seed, depth, steps }) => {
                stepped(Decider::Pct(Pct::new(*seed, *depth, *steps)))
            }
            Executor::Virtual(Order::Steps(steps)) => {
                stepped(Decider::List { steps: Arc::clone(steps), at: 0 })
            }
        }
    }
}

/// The processors of this process. Asked once: the system reads several files to answer, and an
/// exploration opens a driver for every run.
fn processors() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    let ask = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    *COUNT.get_or_init(ask)
}

impl HostDriver {
    /// # Errors
    /// `Unsupported` when the system starts no more threads.
    pub(crate) fn open(config: HostConfig) -> Result<Self> {
        Self::with_search(config, None)
    }

    /// Opens devices whose every choice is made by `search`, if there is one.
    ///
    /// # Errors
    /// `Unsupported` when the system starts no more threads.
    pub(in crate::device) fn with_search(
        mut config: HostConfig,
        search: Option<Arc<Mutex<Search>>>,
    ) -> Result<Self> {
        if search.is_some() {
            // What a program asks the device must be what it is told when the run is repeated.
            config.executor = Executor::Virtual(Order::Steps(Arc::default()));
        }
        let threads = processors();
        let never_ends = config.never_ends.clone();
        let engine = match &search {
            None => Engine::new(config.devices, never_ends),
            Some(search) => {
                let mut search = search.lock().expect("no panic under this lock");
                Engine::explored(std::mem::take(&mut search.spare), config.devices, never_ends)
            }
        };
        let state = State {
            engine,
            pools: Pools::new(config.memory, config.devices),
            modules: Table::default(),
            functions: 0,
            run: Run::new(&config, threads, search),
            baton: Baton::default(),
            faults: Faults::new(config.faults.clone()),
            calling: false,
            shutdown: false,
        };
        let works = matches!(state.run, Run::Threads(_));
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            clock: WallClock::start(),
            threads,
            functions: base::table::Table::default(),
        });
        let driver = Self { config, shared };
        if works {
            threads::spawn(&driver.shared).map_err(|e| {
                Error::new(ErrorKind::Unsupported, "open", "no thread for the host device")
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
        let cause = format!("there are {count} host devices, numbered from 0");
        Err(Error::new(ErrorKind::NoDevice, op, cause).with_code(101).on(device))
    }

    fn function_of(&self, function: FunctionHandle) -> Result<&Function> {
        // Handles count from 1.
        let number = usize::try_from(function.0).ok().and_then(|number| number.checked_sub(1));
        let found = number.and_then(|number| self.shared.functions.get(number));
        found.ok_or_else(|| refuse::handle("launch", "the kernel was never loaded"))
    }

    fn module_of(state: &State, module: ModuleHandle) -> Result<&(DeviceId, String)> {
        let found = state.modules.get(module.0);
        found.ok_or_else(|| refuse::handle("function", "the module was never loaded"))
    }
}

impl Drop for HostDriver {
    /// Tells the workers to end. What is still queued is dropped, as when a process ends. Nobody
    /// waits: a host function may wait for this thread, or be what drops the driver.
    fn drop(&mut self) {
        if fork::is_child() {
            // There are no workers to tell, and one of them may have had the lock.
            return;
        }
        let mut state = self.shared.lock();
        state.shutdown = true;
        self.shared.changed.notify_all();
        let Run::Stepped(stepper) = &state.run else { return };
        let Some(search) = stepper.search().map(Arc::clone) else { return };
        let engine = std::mem::take(&mut state.engine);
        drop(state);
        let engine = engine.cleared();
        search.lock().expect("no panic under this lock").spare = engine;
    }
}
