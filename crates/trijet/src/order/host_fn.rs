//! Host functions: run a Rust closure when a stream reaches this point.
//!
//! Rules of the driver that shape this module:
//!
//! 1. A host function must not call the driver (law A28). A flag of the thread is up while one
//!    runs, and every verb refuses with `InCallback` while it is.
//! 2. After a context error the driver never runs pending functions (law A29). So the closure is
//!    not given away: it stays in a slot that the domain also holds, and is dropped exactly
//!    once, by the run or by `close()`.
//! 3. A panic must not cross the driver's frames: it is caught, kept, and reported by the next
//!    synchronisation.
//!
//! In a child of `fork` the driver must not be called either. It is refused at the same place, and
//! what is dropped there leaks.
//!
//! Imports: `base`, `device`. Imported by the lanes.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::StreamClass;
use crate::base::panic::caught;
use crate::device::driver::HostFn;
use crate::log::calling::{self, At};
use crate::log::tracers::Tracers;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A closure of the user.
pub(crate) type UserFn = Box<dyn FnOnce() + Send>;

/// A closure that is either pending, or has run, or was dropped.
#[derive(Clone)]
pub(crate) struct Slot(Arc<Pending>);

/// The closure of a [`Slot`].
struct Pending {
    run: Mutex<Option<UserFn>>,
    /// Its number in its lane, which it is given before the driver has it.
    seq: AtomicU64,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}

impl Slot {
    /// Drops the closure, unless it has been called. A panic of the drop ends here: others may
    /// have to be dropped after it, and the caller may be a drop itself.
    pub(crate) fn empty(&self) {
        let run = self.0.run.lock().map(|mut run| run.take());
        drop(caught(|| drop(run)));
    }

    /// The closure is about to be enqueued under this number.
    pub(crate) fn number(&self, seq: u64) {
        // The driver runs it after it was handed over, which orders the two.
        self.0.seq.store(seq, Ordering::Relaxed);
    }
}

/// The pending host functions of a domain, and the panics of those that ran.
pub(crate) struct HostFns {
    tracers: Arc<Tracers>,
    pending: Mutex<Vec<(DeviceId, Slot)>>,
    panics: Mutex<Vec<Error>>,
}

impl std::fmt::Debug for HostFns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostFns").finish_non_exhaustive()
    }
}

impl HostFns {
    pub(crate) fn new(tracers: &Arc<Tracers>) -> Self {
        Self { tracers: Arc::clone(tracers), pending: Mutex::default(), panics: Mutex::default() }
    }

    /// What to hand to the driver of `device` so that it runs `run` once, and the slot to empty
    /// if the driver refuses.
    pub(crate) fn admit(
        self: &Arc<Self>,
        (device, lane, class): (DeviceId, LaneId, StreamClass),
        site: &'static Location<'static>,
        run: UserFn,
    ) -> (Slot, HostFn) {
        let slot = Slot(Arc::new(Pending { run: Mutex::new(Some(run)), seq: AtomicU64::new(0) }));
        let mut pending = self.pending.lock().expect("no user code under this lock");
        // Finished slots are swept when the list is long enough to pay for the pass.
        if pending.len() == pending.capacity() {
            pending.retain(|(_, slot)| slot.0.run.lock().is_ok_and(|run| run.is_some()));
        }
        pending.push((device, slot.clone()));
        drop(pending);
        let (this, called) = (Arc::clone(self), slot.clone());
        let call: HostFn = Arc::new(move || {
            let run = called.0.run.lock().expect("no user code under this lock").take();
            let Some(run) = run else { return };
            let position = Position { lane, seq: called.0.seq.load(Ordering::Relaxed) };
            let at = At { position, device, class };
            let (outcome, refused) = calling::run_inside(at, || caught(run));
            this.tracers.note_ran(&at);
            for call in refused {
                this.tracers.note_refused(call, device, site);
            }
            if let Err(words) = outcome {
                let cause = format!("it panicked: {words}");
                let error = Error::new(ErrorKind::Panicked, "host function", cause);
                this.panics.lock().expect("no user code under this lock").push(error);
            }
        });
        (slot, call)
    }

    /// The first panic that nobody has been told of.
    pub(crate) fn take_panic(&self) -> Result<()> {
        let mut panics = self.panics.lock().expect("no user code under this lock");
        if panics.is_empty() { Ok(()) } else { Err(panics.remove(0)) }
    }

    /// Drops what was never called. Only when the driver can call nothing of `device` any more,
    /// or of any device when that is `None`.
    pub(crate) fn drop_pending(&self, device: Option<DeviceId>) {
        let mut pending = self.pending.lock().expect("no user code here");
        let (gone, kept) = std::mem::take(&mut *pending)
            .into_iter()
            .partition::<Vec<_>, _>(|(of, _)| device.is_none_or(|device| device == *of));
        *pending = kept;
        drop(pending);
        for (_, slot) in gone {
            slot.empty();
        }
    }
}
