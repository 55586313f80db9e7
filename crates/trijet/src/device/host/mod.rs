//! The host device: the driver contract in software, on a machine with no GPU.
//!
//! One engine keeps the queues; two executors run them. `Executor::Threads` does the work on CPU
//! threads as fast as it can. `Executor::Virtual` simulates a GPU's engines with a model's clock,
//! in an order that a seed decides. Both follow the same laws: what may happen here is what the
//! laws allow on CUDA.

pub(crate) mod cost;
mod driver;
mod engine;
mod exec;
pub(in crate::device) mod mem;
pub(crate) mod order;
mod pools;
mod simulate;
mod threads;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::ledger::Mode;
use crate::base::units::{Bytes, Nanos};
use crate::device::driver::{FunctionHandle, ModuleHandle, StreamHandle};
use crate::device::memory::Span;
use crate::device::twin::Twin;
pub use cost::CostModel;
use engine::Engine;
pub use order::Order;
use pools::Pools;
use simulate::{Simulation, Step};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use threads::WallClock;

/// How the host device runs operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Executor {
    /// Real work on CPU threads, as fast as this machine can.
    Threads,
    /// A simulated GPU: real bytes, modelled time, an order policy.
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
}

struct Function {
    name: Arc<str>,
    twin: Twin,
}

pub(in crate::device::host) struct State {
    engine: Engine,
    pools: Pools,
    modules: BTreeMap<u64, String>,
    functions: BTreeMap<u64, Function>,
    simulation: Option<Simulation>,
    /// A thread is advancing the simulation and has let go of the lock to call a host function.
    calling: bool,
    /// What the operations on worker threads touch at the moment.
    running: Vec<(StreamHandle, Vec<(Span, Mode)>)>,
    shutdown: bool,
}

impl State {
    /// Completes what needs no engine, and accounts the memory that was freed.
    fn retire(&mut self, now: Nanos) -> bool {
        let moved = self.engine.retire(now);
        self.account_freed();
        moved
    }

    fn account_freed(&mut self) {
        for memory in std::mem::take(&mut self.engine.freed) {
            self.pools.release(&memory);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("twins and host functions run without this lock")
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).expect("twins and host functions run without this lock")
    }
}

impl HostDriver {
    /// # Errors
    /// `Unsupported` when the system starts no more threads.
    pub(crate) fn open(config: HostConfig) -> Result<Self> {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let simulation = match config.executor {
            Executor::Threads => None,
            Executor::Virtual(order) => Some(Simulation::new(order, config.cost.clone(), threads)),
        };
        let mut engine = Engine::default();
        engine.never_ends.clone_from(&config.never_ends);
        let state = State {
            engine,
            pools: Pools::new(config.memory),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            simulation,
            calling: false,
            running: Vec::new(),
            shutdown: false,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            clock: WallClock::start(),
            threads,
        });
        let driver = Self { config, shared };
        if driver.config.executor == Executor::Threads {
            threads::spawn(&driver.shared).map_err(|e| {
                Error::new(ErrorKind::Unsupported, "open", "no thread for the host device")
                    .caused_by(e)
            })?;
        }
        Ok(driver)
    }

    /// The enqueue time of a call that takes the host `time`.
    fn enqueue_time(&self, state: &mut State, time: fn(&CostModel) -> Nanos) -> Nanos {
        match &mut state.simulation {
            Some(simulation) => {
                let time = time(simulation.cost());
                simulation.host_call(time)
            }
            None => self.shared.clock.now(),
        }
    }

    /// Lets the device work until `stream` has completed `seq`.
    fn wait_for(&self, op: &'static str, stream: StreamHandle, seq: u64) -> Result<()> {
        let mut state = self.shared.lock();
        while !state.engine.completed(stream, seq) {
            state = self.progress(op, state, stream, Nanos(u64::MAX))?.0;
        }
        if let Some(simulation) = &mut state.simulation {
            simulation.host_waited();
        }
        state.pools.synchronised();
        Ok(())
    }

    /// Lets the device work until its clock reaches the host's. Only a simulation needs to.
    fn catch_up<'a>(&'a self, mut state: MutexGuard<'a, State>) -> Result<MutexGuard<'a, State>> {
        let Some(simulation) = &mut state.simulation else {
            state.retire(self.shared.clock.now());
            return Ok(state);
        };
        let event_call = simulation.cost().event_call;
        let limit = simulation.host_call(event_call);
        // A query never blocks: it does not wait for the host function that another thread calls.
        while !state.calling {
            let (next, moved) = self.progress("query", state, StreamHandle(0), limit)?;
            state = next;
            if !moved {
                break;
            }
        }
        Ok(state)
    }

    /// One step of the simulation, or a wait for the worker threads. False when a simulation has
    /// nothing more to do before `limit`.
    fn progress<'a>(
        &'a self,
        op: &'static str,
        mut guard: MutexGuard<'a, State>,
        target: StreamHandle,
        limit: Nanos,
    ) -> Result<(MutexGuard<'a, State>, bool)> {
        if guard.calling {
            return Ok((self.shared.wait(guard), true));
        }
        let state = &mut *guard;
        let Some(simulation) = &mut state.simulation else {
            let now = self.shared.clock.now();
            if state.retire(now) {
                self.shared.changed.notify_all();
            } else if state.running.is_empty() && state.engine.startable(now).is_empty() {
                return Err(state.engine.stalled(op, target));
            } else {
                guard = self.shared.wait(guard);
            }
            return Ok((guard, true));
        };
        let step = simulation.step(&mut state.engine, limit);
        state.account_freed();
        match step {
            Step::Moved => Ok((guard, true)),
            Step::Quiet => Ok((guard, false)),
            Step::Idle if limit < Nanos(u64::MAX) => Ok((guard, false)),
            Step::Idle => Err(state.engine.stalled(op, target)),
            Step::Call(stream, function) => {
                state.calling = true;
                drop(guard);
                function();
                let mut guard = self.shared.lock();
                let state = &mut *guard;
                state.calling = false;
                if let Some(simulation) = &mut state.simulation {
                    simulation.host_fn_done(&mut state.engine, stream);
                }
                self.shared.changed.notify_all();
                Ok((guard, true))
            }
        }
    }

    fn check_device(&self, op: &'static str, device: DeviceId) -> Result<()> {
        if device.0 < self.config.devices {
            return Ok(());
        }
        let count = self.config.devices;
        let cause = format!("there are {count} host devices, numbered from 0");
        Err(Error::new(ErrorKind::NoDevice, op, cause).on(device))
    }

    fn function_of(state: &State, function: FunctionHandle) -> Result<&Function> {
        state.functions.get(&function.0).ok_or_else(|| {
            Error::new(ErrorKind::InvalidValue, "launch", "the kernel was never loaded")
        })
    }

    fn module_label(state: &State, module: ModuleHandle) -> Result<&str> {
        state.modules.get(&module.0).map(String::as_str).ok_or_else(|| {
            Error::new(ErrorKind::InvalidValue, "function", "the module was never loaded")
        })
    }
}

impl Drop for HostDriver {
    /// Tells the workers to end. What is still queued is dropped, as when a process ends. Nobody
    /// waits: a host function may wait for this thread, or be what drops the driver.
    fn drop(&mut self) {
        self.shared.lock().shutdown = true;
        self.shared.changed.notify_all();
    }
}
