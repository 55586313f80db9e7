//! The state of an opened device that its streams, buffers and kernels share.
#![forbid(unsafe_code)]

use super::completion::Completion;
use super::pool_choice::PoolChoice;
use super::watched::{Dropped, Watched};
use crate::base::error::{Error, Result};
use crate::base::id::DeviceId;
use crate::base::ledger::{HostStep, Mode, StreamClass, Waited};
use crate::base::table::NumberTable;
use crate::device::code::Code;
use crate::device::driver::{DeviceInfo, GraphHandle, PoolAttribute, PoolHandle};
use crate::device::loaded::{Loaded, LoadedModule};
use crate::heap::{Heap, Trim, Users};
use crate::log::calling;
use crate::order::domain::Domain;
use crate::order::tracing::Checked;
use std::any::Any;
use std::borrow::Cow;
use std::collections::HashMap;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// Work that is deferred until a call that may call the driver.
type Deferred = Box<dyn FnOnce() + Send>;

/// The source of the memory that a device allocates for streams.
#[derive(Debug)]
pub(crate) enum MemorySource {
    /// The heap of the library.
    Heap(Arc<Heap>),
    /// A pool of the driver.
    Pool(PoolHandle, PoolChoice),
}

/// An opened device.
pub(crate) struct OpenDevice {
    pub(crate) domain: Arc<Domain>,
    pub(crate) id: DeviceId,
    pub(crate) info: DeviceInfo,
    /// The source of the memory of [`Stream::alloc`](super::Stream::alloc).
    pub(crate) source: MemorySource,
    /// The allocations that are watched for undeclared writes; `None` for a device without red
    /// zones.
    pub(crate) watched: Option<Watched>,
    /// Loaded modules by their code.
    pub(crate) modules: Mutex<HashMap<Code, LoadedModule>>,
    /// The loaded kernels. The index is the number of the kernel. Every launch reads this table.
    pub(crate) kernels: NumberTable<Loaded>,
    /// The release threshold in bytes: a synchronization returns unused memory above this number to
    /// the device.
    pub(super) keep: AtomicU64,
    /// The sender whose drop ends the thread that returns unused memory. `None` without such a
    /// thread.
    pub(super) decay: Mutex<Option<Sender<()>>>,
    /// The thread that wakes tasks that await work of the device.
    pub(crate) completion: Completion,
    /// The streams for copies that the pipelines on the device share. The streams exist while a
    /// pipeline uses them.
    pub(crate) copy_streams: Mutex<Weak<dyn Any + Send + Sync>>,
    deferred: Mutex<Vec<Deferred>>,
    /// Whether there is deferred work. Every allocation reads this flag.
    any_deferred: AtomicBool,
    /// Set if the device was opened with a checker. This value keeps the checker running.
    pub(super) checked: OnceLock<Checked>,
    /// Errors that the failing calls could not return, for example errors of drops. `Device::close`
    /// reports these errors.
    pub(super) errors: Mutex<Vec<Error>>,
}

impl std::fmt::Debug for OpenDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("id", &self.id).field("info", &self.info).finish()
    }
}

impl OpenDevice {
    pub(super) fn new(
        domain: &Arc<Domain>,
        id: DeviceId,
        info: DeviceInfo,
        source: MemorySource,
        watched: Option<Watched>,
    ) -> Self {
        Self {
            domain: Arc::clone(domain),
            id,
            info,
            source,
            watched,
            modules: Mutex::default(),
            kernels: NumberTable::default(),
            keep: AtomicU64::new(u64::MAX),
            decay: Mutex::default(),
            completion: Completion::default(),
            copy_streams: Mutex::new(Weak::<()>::new()),
            deferred: Mutex::default(),
            any_deferred: AtomicBool::new(false),
            checked: OnceLock::new(),
            errors: Mutex::default(),
        }
    }

    /// Notes the error of a call about this device, see [`Domain::failed`].
    #[cold]
    pub(crate) fn failed(&self, error: Error) -> Error {
        self.domain.failed(self.id, error)
    }

    /// Keeps an error that the failing call could not return.
    pub(crate) fn keep_error(&self, error: Error) {
        self.errors.lock().expect("no thread panicked while it held this lock").push(error);
    }

    /// The number of bytes that the heap or the pool has taken from the device and not returned.
    pub(super) fn reserved(&self) -> Result<u64> {
        match &self.source {
            MemorySource::Heap(heap) => Ok(self.domain.lock_heap(heap).mapped()),
            MemorySource::Pool(pool, _) => {
                self.domain.driver().pool_get(*pool, PoolAttribute::RESERVED)
            }
        }
    }

    /// Waits until the work of all streams of the device is complete.
    pub(crate) fn synchronize(&self, site: &'static Location<'static>) -> Result<()> {
        calling::refuse("synchronize")?;
        self.run_deferred();
        let Self { domain, id, .. } = self;
        let known = domain.known_on(*id);
        let log = domain.log();
        let noted = log.note_sync(Waited::Device, *id, StreamClass::NonBlocking, None, site);
        let synchronized = self.synchronized(|| {
            domain.gate.synchronize_device(*id)?;
            noted.succeeded();
            domain.learn(&known);
            Ok(())
        });
        synchronized.map_err(|error| self.failed(error))?;
        domain.host_fns.take_panic()
    }

    /// Runs a synchronization. Afterwards returns unused memory above the release threshold to the
    /// device (law A25).
    pub(crate) fn synchronized(&self, run: impl FnOnce() -> Result<()>) -> Result<()> {
        let keep = self.keep.load(Ordering::Relaxed);
        if keep == u64::MAX {
            return run();
        }
        self.watch_release(|| {
            run()?;
            match &self.source {
                MemorySource::Heap(heap) => self.trim_heap(heap, Trim::Keep(keep)),
                // The driver has already returned the unused memory.
                MemorySource::Pool(..) => Ok(()),
            }
        })
    }

    /// Returns unused memory of a heap to the device.
    pub(super) fn trim_heap(&self, heap: &Heap, trim: Trim) -> Result<()> {
        self.domain.gather_in_heap(heap);
        self.domain.retire_in_heap(heap, &mut self.domain.lock_heap(heap));
        heap.trim(&**self.domain.driver(), trim, |user| self.domain.is_done(*user)).map(drop)
    }

    /// Runs a call in which memory may return to the device. Appends a ledger entry with the number
    /// of returned bytes.
    pub(super) fn watch_release(&self, run: impl FnOnce() -> Result<()>) -> Result<()> {
        if !self.domain.log().tracers.is_on() {
            return run();
        }
        let before = self.reserved();
        run()?;
        // The program did not ask for the numbers of reserved bytes. If the numbers cannot be read,
        // the call succeeds and the ledger entry is left out.
        let (Ok(before), Ok(after)) = (before, self.reserved()) else { return Ok(()) };
        let released = before.saturating_sub(after);
        // The duration of the release is unknown, because it is part of the duration of the call.
        if let (true, Some(begun)) = (released > 0, self.domain.log().begin_call()) {
            self.domain.log().note_call(begun, HostStep::Release, self.id, |op| {
                op.bytes = released;
                op.label = Cow::Borrowed(match &self.source {
                    MemorySource::Heap(_) => "heap",
                    MemorySource::Pool(..) => "pool",
                });
            });
        }
        Ok(())
    }

    /// Returns the memory of dropped allocations to the heap, without a check of its red zones.
    fn give_up_watched(&self) {
        let (Some(watched), MemorySource::Heap(heap)) = (&self.watched, &self.source) else {
            return;
        };
        for Dropped { track, number, .. } in watched.take_dropped() {
            heap.live.subtract(track.bytes());
            let mut users = Users::new();
            let is_done = |user| self.domain.counts_as_done(heap.mode(), user);
            track.all_users(&(0..u64::MAX), Mode::Write, is_done, &mut users);
            self.domain.give_to_heap(heap, number, users);
        }
    }

    /// Destroys a graph of the driver. Drops call this. Inside a host function, which must not call
    /// the driver (law A28), the graph is destroyed by the next call outside of the host function.
    pub(crate) fn destroy_graph(self: &Arc<Self>, graph: GraphHandle) {
        let device = Arc::clone(self);
        let destroy = move || {
            if let Err(error) = device.domain.driver().graph_destroy(graph) {
                device.keep_error(error);
            }
        };
        if calling::inside() { self.defer(Box::new(destroy)) } else { destroy() }
    }

    /// Keeps work until the next call of the library that may call the driver.
    pub(crate) fn defer(&self, work: Deferred) {
        if calling::forked() {
            std::mem::forget(work);
            return;
        }
        self.deferred.lock().expect("no thread panicked while it held this lock").push(work);
        self.any_deferred.store(true, Ordering::Release);
    }

    /// Runs the deferred work.
    pub(crate) fn run_deferred(&self) {
        if !self.any_deferred.load(Ordering::Relaxed) {
            return;
        }
        let mut deferred =
            self.deferred.lock().expect("no thread panicked while it held this lock");
        self.any_deferred.store(false, Ordering::Relaxed);
        let work = std::mem::take(&mut *deferred);
        drop(deferred);
        for work in work {
            work();
        }
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        if calling::inside() {
            // The driver must not be called here (law A28), so the deferred work and the pool leak.
            return;
        }
        self.run_deferred();
        self.give_up_watched();
        // Neither `trim_heap` nor `pool_destroy` blocks. The memory of a pool is freed with the
        // last allocation of the pool (law A26). Memory of a heap with users that may be pending
        // stays with the heap.
        let returned = match &self.source {
            MemorySource::Heap(heap) => self.trim_heap(heap, Trim::Keep(0)),
            MemorySource::Pool(pool, PoolChoice::Own) => {
                self.domain.peers.forget_pool(*pool);
                self.domain.driver().pool_destroy(*pool)
            }
            MemorySource::Pool(_, PoolChoice::Default | PoolChoice::Current) => Ok(()),
        };
        if let Err(error) = returned {
            // No caller is left that could get this error. `close()` would have reported the cause
            // of the error.
            drop(error);
        }
    }
}
