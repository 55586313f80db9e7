//! Host functions: Rust closures that a stream calls when it reaches them.
//!
//! Rules of the driver that shape this module:
//!
//! 1. A host function must not call the driver (law A28). A flag of the thread is set while the
//!    thread runs a host function, and every call of the library then returns `InCallback`.
//! 2. After a context error the driver never calls pending functions (law A29). So the closure
//!    stays in a slot that the driver's callback and the domain share. The closure is dropped
//!    exactly once: after it has run, when the driver refuses the host function, by the call that
//!    reports the loss, or with the domain.
//! 3. A panic must not unwind through the driver's frames. The library catches the panic and keeps
//!    it, and the next synchronization returns it as an error.
//!
//! A child of `fork` must not call the driver either. There, the test of rule 1 refuses all calls,
//! and pending closures leak.
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

/// A closure of the user that runs in each launch of a graph.
pub(crate) type RepeatedFn = Box<dyn Fn() + Send + Sync>;

/// A closure that is called many times.
struct Repeated {
    run: Option<RepeatedFn>,
    at: At,
}

impl Drop for Repeated {
    /// The driver may drop this value on a thread of the driver. Then the drop must not call the
    /// driver and must not panic.
    fn drop(&mut self) {
        let run = self.run.take();
        drop(calling::run_inside(self.at, || caught(|| drop(run))));
    }
}

/// A closure that is pending, has run, or was dropped.
#[derive(Clone)]
pub(crate) struct Slot(Arc<PendingHostFn>);

/// The closure of a [`Slot`].
struct PendingHostFn {
    run: Mutex<Option<UserFn>>,
    /// The sequence number of the host function, which is set before the driver gets the closure.
    seq: AtomicU64,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}

impl Slot {
    /// Drops the closure, unless the closure has been called. Catches a panic of the drop, because
    /// the caller may have more closures to drop, or may itself be a `Drop`.
    pub(crate) fn empty(&self) {
        let run = self.0.run.lock().map(|mut run| run.take());
        drop(caught(|| drop(run)));
    }

    /// Sets the sequence number, just before the closure is enqueued.
    pub(crate) fn number(&self, seq: u64) {
        // The store comes before the driver gets the closure, and so before the driver calls it.
        self.0.seq.store(seq, Ordering::Relaxed);
    }
}

/// The pending host functions of a domain, and the panics of host functions that ran.
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

    /// Keeps `run` in a slot until it is called. Returns the slot and a function for the driver of
    /// `device`. The function calls `run` once. The caller empties the slot if the driver refuses
    /// the function.
    pub(crate) fn admit(
        self: &Arc<Self>,
        device: DeviceId,
        lane: LaneId,
        class: StreamClass,
        site: &'static Location<'static>,
        run: UserFn,
    ) -> (Slot, HostFn) {
        let slot =
            Slot(Arc::new(PendingHostFn { run: Mutex::new(Some(run)), seq: AtomicU64::new(0) }));
        let mut pending = self.pending.lock().expect("no user code runs under this lock");
        // Finished slots are removed only before the list would grow, so a push stays cheap.
        if pending.len() == pending.capacity() {
            pending.retain(|(_, slot)| slot.0.run.lock().is_ok_and(|run| run.is_some()));
        }
        pending.push((device, slot.clone()));
        drop(pending);
        let (this, called) = (Arc::clone(self), slot.clone());
        let call: HostFn = Arc::new(move || {
            let run = called.0.run.lock().expect("no user code runs under this lock").take();
            let Some(run) = run else { return };
            let position = Position { lane, seq: called.0.seq.load(Ordering::Relaxed) };
            let at = At { position, device, class };
            let (outcome, refused) = calling::run_inside(at, || caught(run));
            this.tracers.note_ran(&at);
            this.report(outcome, refused, device, site);
        });
        (slot, call)
    }

    /// Returns a function for the driver of `device`. Each call of this function calls `run`. The
    /// function owns `run`.
    pub(crate) fn repeated(
        self: &Arc<Self>,
        device: DeviceId,
        lane: LaneId,
        class: StreamClass,
        site: &'static Location<'static>,
        run: RepeatedFn,
    ) -> HostFn {
        // The sequence number is 0, because a launch of a graph has a number, but the nodes of the
        // graph have none.
        let at = At { position: Position { lane, seq: 0 }, device, class };
        let (this, repeated) = (Arc::clone(self), Repeated { run: Some(run), at });
        Arc::new(move || {
            let Repeated { run: Some(run), at } = &repeated else { return };
            let (outcome, refused) = calling::run_inside(*at, || caught(run));
            this.report(outcome, refused, device, site);
        })
    }

    /// Keeps the panic of a host function for the next synchronization. Notes the calls of the
    /// library that were refused in the function.
    fn report(
        &self,
        outcome: std::result::Result<(), String>,
        refused: Vec<&'static str>,
        device: DeviceId,
        site: &'static Location<'static>,
    ) {
        for call in refused {
            self.tracers.note_refused(call, device, site);
        }
        if let Err(words) = outcome {
            let cause = format!("it panicked: {words}");
            let error = Error::new(ErrorKind::Panicked, "host function", cause);
            self.panics.lock().expect("no user code runs under this lock").push(error);
        }
    }

    /// Returns the oldest panic that no call has reported.
    pub(crate) fn take_panic(&self) -> Result<()> {
        let mut panics = self.panics.lock().expect("no user code runs under this lock");
        if panics.is_empty() { Ok(()) } else { Err(panics.remove(0)) }
    }

    /// Drops the closures of `device` that were never called, or the closures of all devices for
    /// `None`. If the driver calls the function of a dropped closure later, the function finds an
    /// empty slot.
    pub(crate) fn drop_pending(&self, device: Option<DeviceId>) {
        let mut pending = self.pending.lock().expect("no user code runs under this lock");
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
