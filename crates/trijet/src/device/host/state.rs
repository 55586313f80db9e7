//! The state of a host driver, under one lock.
#![forbid(unsafe_code)]

use super::baton::Baton;
use super::engine::Engine;
use super::fault::Faults;
use super::order::May;
use super::pools::Pools;
use super::run::Run;
use super::table::Table;
use crate::base::id::DeviceId;

pub(super) struct State {
    pub(super) engine: Engine,
    pub(super) pools: Pools,
    pub(super) modules: Table<(DeviceId, String)>,
    /// The number of loaded kernels.
    pub(super) functions: usize,
    pub(super) run: Run,
    pub(super) baton: Baton,
    pub(super) faults: Faults,
    /// A thread has let go of the lock to call a host function.
    pub(super) calling: bool,
    pub(super) shutdown: bool,
}

impl State {
    pub(super) fn account_freed(&mut self) {
        for memory in self.engine.freed.drain(..) {
            self.pools.reached(&memory);
        }
    }

    /// Whether every call is a step that competes with the device's.
    pub(super) fn explores(&self) -> bool {
        matches!(self.run, Run::Stepped(_))
    }

    /// Whether the driver does what the laws let it do.
    pub(super) fn may(&mut self, what: May) -> bool {
        self.run.may(what)
    }
}
