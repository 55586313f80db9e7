//! What the calls and the workers of a host driver share: its state with the lock, the clock, and
//! the loaded kernels.
#![forbid(unsafe_code)]

use super::clock::WallClock;
use super::state::State;
use crate::base::id::DeviceId;
use crate::base::table::Table;
use crate::device::twin::Twin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// The state, locked.
pub(super) type Guard<'a> = MutexGuard<'a, State>;

/// What the calls and the workers of a host driver share.
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
    pub(super) clock: WallClock,
    pub(super) threads: usize,
    /// Loaded kernels, which stay: a launch looks here before it takes the lock.
    pub(super) functions: Table<Function>,
}

/// A loaded kernel.
pub(super) struct Function {
    pub(super) device: DeviceId,
    pub(super) name: Arc<str>,
    pub(super) twin: Twin,
    /// The most shared memory of a launch.
    pub(super) shared_bytes: u32,
}

impl Shared {
    pub(super) fn lock(&self) -> Guard<'_> {
        self.state.lock().expect("twins and host functions run without this lock")
    }

    pub(super) fn wait<'a>(&self, state: Guard<'a>) -> Guard<'a> {
        self.changed.wait(state).expect("twins and host functions run without this lock")
    }
}
