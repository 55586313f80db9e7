//! The state of an opened device that its streams, buffers and kernels share.
#![forbid(unsafe_code)]

use super::completion::Completion;
use super::pool_choice::PoolChoice;
use crate::base::error::{Error, Result};
use crate::base::id::DeviceId;
use crate::base::ledger::{HostCall, OpKind};
use crate::base::table::Table;
use crate::device::code::Code;
use crate::device::driver::{DeviceInfo, PoolAttribute, PoolHandle};
use crate::device::loaded::{Loaded, LoadedModule};
use crate::log::calling;
use crate::order::domain::Domain;
use std::any::Any;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// Work that is put off until a call that may reach the driver.
type Deferred = Box<dyn FnOnce() + Send>;

/// An opened device.
pub(crate) struct Shared {
    pub(crate) domain: Arc<Domain>,
    pub(crate) id: DeviceId,
    pub(crate) info: DeviceInfo,
    /// The pool that `alloc` takes from.
    pub(crate) pool: PoolHandle,
    choice: PoolChoice,
    /// Loaded modules by their code.
    pub(crate) modules: Mutex<HashMap<Code, LoadedModule>>,
    /// Loaded kernels by number. Every launch looks here.
    pub(crate) kernels: Table<Loaded>,
    /// Whether a synchronisation may make the pool return memory to the device.
    pub(super) may_release: AtomicBool,
    /// The thread that wakes tasks that await work of the device.
    pub(crate) completion: Completion,
    /// The streams for copies that pipelines on the device share, while one of them has them.
    pub(crate) copy_streams: Mutex<Weak<dyn Any + Send + Sync>>,
    deferred: Mutex<Vec<Deferred>>,
    /// Errors of calls that could not return them, such as drops. `Device::close` reports them.
    pub(super) errors: Mutex<Vec<Error>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("id", &self.id).field("info", &self.info).finish()
    }
}

impl Shared {
    pub(super) fn new(
        domain: &Arc<Domain>,
        id: DeviceId,
        info: DeviceInfo,
        (pool, choice): (PoolHandle, PoolChoice),
    ) -> Self {
        Self {
            domain: Arc::clone(domain),
            id,
            info,
            pool,
            choice,
            modules: Mutex::default(),
            kernels: Table::default(),
            may_release: AtomicBool::new(false),
            completion: Completion::default(),
            copy_streams: Mutex::new(Weak::<()>::new()),
            deferred: Mutex::default(),
            errors: Mutex::default(),
        }
    }

    /// Handles an error that a call about the device reported, see [`Domain::failed`].
    #[cold]
    pub(crate) fn failed(&self, error: Error) -> Error {
        self.domain.failed(self.id, error)
    }

    /// Keeps an error that the failing call could not return.
    pub(crate) fn keep_error(&self, error: Error) {
        self.errors.lock().expect("no panic under this lock").push(error);
    }

    /// Runs a call in which the pool may return memory to the device (law A25), and appends an
    /// entry of how much it was. A call that has `trimmed` the pool always may; other calls may if
    /// the threshold was lowered.
    pub(crate) fn watch_pool(&self, trimmed: bool, run: impl FnOnce() -> Result<()>) -> Result<()> {
        let may_release = trimmed || self.may_release.load(Ordering::Relaxed);
        if !may_release || !self.domain.log().tracers.is_on() {
            return run();
        }
        let reserved = || self.domain.driver().pool_get(self.pool, PoolAttribute::RESERVED);
        let before = reserved();
        run()?;
        // The program did not ask for these numbers. If reading them fails, only the entry is left
        // out.
        let (Ok(before), Ok(after)) = (before, reserved()) else { return Ok(()) };
        let released = before.saturating_sub(after);
        // The duration of the release is unknown, because it is part of the duration of the call.
        if let (true, Some(begun)) = (released > 0, self.domain.log().begin_call()) {
            let kind = OpKind::Call(HostCall::Release);
            self.domain.log().note_call(begun, kind, self.id, |op| {
                op.bytes = released;
                op.label = Cow::Borrowed("pool");
            });
        }
        Ok(())
    }

    /// Puts work off to the next call that may reach the driver.
    pub(crate) fn defer(&self, work: Deferred) {
        if calling::forked() {
            std::mem::forget(work);
            return;
        }
        self.deferred.lock().expect("no panic under this lock").push(work);
    }

    /// Runs the work that was put off.
    pub(crate) fn run_deferred(&self) {
        let work = std::mem::take(&mut *self.deferred.lock().expect("no panic under this lock"));
        for work in work {
            work();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if calling::inside() {
            // The driver must not be called here (law A28), so the deferred work and the pool leak.
            return;
        }
        self.run_deferred();
        if self.choice != PoolChoice::Own {
            return;
        }
        // Destroying a pool never blocks; its memory goes with its last allocation (law A26).
        if let Err(error) = self.domain.driver().pool_destroy(self.pool) {
            // No caller is left for this error. `close()` would have reported its cause.
            drop(error);
        }
    }
}
