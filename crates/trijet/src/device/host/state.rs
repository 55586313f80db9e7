//! The state of a host driver, under one lock.
#![forbid(unsafe_code)]

use super::engine::queues::Queues;
use super::engine::table::Table;
use super::fault::Faults;
use super::memory::pools::Pools;
use super::order::May;
use super::run::HostRun;
use super::run::baton::Baton;
use crate::base::id::DeviceId;

/// The state of a host driver.
pub(super) struct State {
    pub(super) queues: Queues,
    pub(super) pools: Pools,
    pub(super) modules: Table<(DeviceId, String)>,
    /// The number of loaded kernels.
    pub(super) functions: usize,
    pub(super) run: HostRun,
    pub(super) baton: Baton,
    pub(super) faults: Faults,
    /// Whether a thread is calling a host function now. During the call, this thread does not hold
    /// the lock of the state.
    pub(super) calling: bool,
    /// Whether the driver was dropped.
    pub(super) shutdown: bool,
}

impl State {
    /// Accounts for the memory that completed operations freed.
    pub(super) fn account_freed(&mut self) {
        for memory in self.queues.freed.drain(..) {
            self.pools.reached(&memory);
        }
    }

    /// Whether the executor takes single steps. In such an executor, a call of the host is a step.
    pub(super) fn explores(&self) -> bool {
        matches!(self.run, HostRun::Stepped(_))
    }

    /// Whether the driver behaves as the choice `what` describes.
    pub(super) fn may(&mut self, what: May) -> bool {
        self.run.may(what)
    }
}
