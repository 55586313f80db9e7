//! The state of an opened device that its streams, buffers and kernels share.
#![forbid(unsafe_code)]

use super::completion::Completion;
use super::pool_choice::PoolChoice;
use crate::base::error::{Error, Result};
use crate::base::id::DeviceId;
use crate::base::ledger::{HostCall, OpKind};
use crate::base::table::Table;
use crate::device::driver::{DeviceInfo, FunctionHandle, ModuleHandle, PoolAttribute, PoolHandle};
use crate::log::calling;
use crate::order::domain::Domain;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Work put off until it may reach the driver.
type Deferred = Box<dyn FnOnce() + Send>;

/// An opened device.
pub(crate) struct Shared {
    pub(crate) domain: Arc<Domain>,
    pub(crate) id: DeviceId,
    pub(crate) info: DeviceInfo,
    /// The pool that `alloc` takes from.
    pub(crate) pool: PoolHandle,
    choice: PoolChoice,
    /// Loaded modules by the address of their text; the text is static or owned by the kernel.
    pub(crate) modules: Mutex<HashMap<u64, ModuleHandle>>,
    /// Loaded kernels by number. Every launch looks here.
    pub(crate) kernels: Table<FunctionHandle>,
    /// The pool may give memory back at a synchronisation.
    pub(super) gives_back: AtomicBool,
    /// Wakes who awaits work of the device.
    pub(crate) completion: Completion,
    deferred: Mutex<Vec<Deferred>>,
    /// Errors that nobody could be told of when they happened, as in a drop.
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
            gives_back: AtomicBool::new(false),
            completion: Completion::default(),
            deferred: Mutex::default(),
            errors: Mutex::default(),
        }
    }

    /// A call about the device reported `error`: see [`Domain::failed`].
    #[cold]
    pub(crate) fn failed(&self, error: Error) -> Error {
        self.domain.failed(self.id, error)
    }

    /// Keeps an error that the failing call could not return.
    pub(crate) fn keep_error(&self, error: Error) {
        self.errors.lock().expect("no panic under this lock").push(error);
    }

    /// Runs a call in which the pool may give memory back (law A25), as it does when it is `trimmed`,
    /// and puts into the record how much.
    pub(crate) fn watch_pool(&self, trimmed: bool, run: impl FnOnce() -> Result<()>) -> Result<()> {
        let may = trimmed || self.gives_back.load(Ordering::Relaxed);
        if !may || !self.domain.log().tracers.is_on() {
            return run();
        }
        let reserved = || self.domain.driver().pool_get(self.pool, PoolAttribute::RESERVED);
        let before = reserved();
        run()?;
        // The program did not ask the pool: if that fails, the remark is lost and not the call.
        let (Ok(before), Ok(after)) = (before, reserved()) else { return Ok(()) };
        let given = before.saturating_sub(after);
        // How long it took is not to be told from the rest of the call.
        if let (true, Some(begun)) = (given > 0, self.domain.log().begin_call()) {
            let kind = OpKind::Call(HostCall::Release);
            self.domain.log().note_call(begun, kind, self.id, |op| {
                op.bytes = given;
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
            // The driver must not be called here (law A28): what was put off and the pool leak.
            return;
        }
        self.run_deferred();
        if self.choice != PoolChoice::Own {
            return;
        }
        // Destroying a pool never blocks; its memory goes with its last allocation (law A26).
        if let Err(error) = self.domain.driver().pool_destroy(self.pool) {
            // The device is gone with whatever made it fail; `close()` would have told.
            drop(error);
        }
    }
}
