//! The parts of a host driver that calls and workers share: the state under its lock, the clock,
//! and the loaded kernels.
#![forbid(unsafe_code)]

use super::run::clock::WallClock;
use super::state::State;
use crate::base::id::DeviceId;
use crate::base::table::NumberTable;
use crate::device::twin::Twin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// The state, locked.
pub(super) type Guard<'a> = MutexGuard<'a, State>;

/// The parts of a host driver that calls and workers share.
pub(super) struct HostShared {
    pub(super) state: Mutex<State>,
    /// Notified whenever the state has changed.
    pub(super) changed: Condvar,
    pub(super) clock: WallClock,
    /// The number of processors.
    pub(super) threads: usize,
    /// The loaded kernels. A loaded kernel is never removed, so a launch reads the table without
    /// the lock.
    pub(super) functions: NumberTable<Function>,
}

/// A loaded kernel.
pub(super) struct Function {
    pub(super) device: DeviceId,
    pub(super) name: Arc<str>,
    pub(super) twin: Twin,
    /// Maximum dynamic shared memory of a block in bytes, for a launch of this kernel.
    pub(super) shared_bytes: u32,
}

impl HostShared {
    pub(super) fn lock(&self) -> Guard<'_> {
        self.state.lock().expect("twins and host functions run without this lock")
    }

    pub(super) fn wait<'a>(&self, state: Guard<'a>) -> Guard<'a> {
        self.changed.wait(state).expect("twins and host functions run without this lock")
    }
}
