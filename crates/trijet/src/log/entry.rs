//! Entries of the record. What host threads do: what one waits for or finds complete, which memory it
//! uses itself, and what its other calls cost. A wait is noted at its call, because that is what it
//! stands for, and marked when it has succeeded.
#![forbid(unsafe_code)]

use super::calling::At;
use super::instant::Instants;
use super::names::NOWHERE;
use super::reading::Reading;
use super::thread;
use super::tracer::Tracer;
use super::tracers::Tracers;
use crate::base::error::Error;
use crate::base::id::{DeviceId, Position};
use crate::base::ledger::{
    Access, Engine, HostCall, Named, Op, OpKind, Outcome, StreamClass, Waited,
};
use crate::device::driver::{Driver, EventHandle};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::sync::{Arc, Weak};

thread_local! {
    static FAREWELL: RefCell<Farewell> = RefCell::default();
    /// The records of the thread's last entry, which `FAREWELL` keeps from being at another place.
    static LAST: Cell<*const Tracers> = const { Cell::new(std::ptr::null()) };
}

/// Tells the records that have calls of this thread when it ends.
#[derive(Default)]
struct Farewell(Vec<Weak<Tracers>>);

impl Drop for Farewell {
    fn drop(&mut self) {
        for tracers in self.0.iter().filter_map(Weak::upgrade) {
            tracers.note(|| Op {
                thread: thread::number(),
                ..Op::new(OpKind::ThreadGone, Engine::None, DeviceId(0), NOWHERE)
            });
        }
    }
}

/// The calling thread has a call in these records.
#[inline]
pub(crate) fn calls_in(tracers: &Arc<Tracers>) {
    let place = Arc::as_ptr(tracers);
    if LAST.replace(place) != place {
        say_farewell_to(tracers);
    }
}

#[cold]
fn say_farewell_to(tracers: &Arc<Tracers>) {
    // A thread that is ending may still call, from the destructors of its values.
    let known = FAREWELL.try_with(|farewell| {
        let Farewell(all) = &mut *farewell.borrow_mut();
        if !all.iter().any(|other| std::ptr::eq(other.as_ptr(), Arc::as_ptr(tracers))) {
            all.retain(|other| other.strong_count() > 0);
            all.push(Arc::downgrade(tracers));
        }
    });
    known.unwrap_or(());
}

/// Somebody records, and the call began then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun(Reading);

/// A wait in the records, while somebody records.
#[must_use = "a wait that succeeds has to be marked"]
pub(crate) struct HostWait<'a> {
    places: SmallVec<[(Arc<Tracer>, usize); 1]>,
    driver: &'a dyn Driver,
    succeeded: bool,
}

impl HostWait<'_> {
    /// The wait succeeded: its thread knows from now on.
    pub(crate) fn succeeded(mut self) {
        self.succeeded = true;
    }
}

impl Drop for HostWait<'_> {
    fn drop(&mut self) {
        if self.places.is_empty() {
            return;
        }
        let now = Reading::now(self.driver);
        for (tracer, index) in &self.places {
            tracer.ledger.settle(*index, self.succeeded.then(|| tracer.at(now)));
        }
    }
}

/// The log of a domain: its tracers, and what their entries need.
#[derive(Debug)]
pub(crate) struct Log {
    /// The number of the domain.
    pub(crate) domain: u64,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) tracers: Arc<Tracers>,
    /// Timed events for the next trace.
    pub(crate) instants: Instants,
}

impl Log {
    /// The calling thread waits or asks for work of `device`, up to `position` in a stream.
    #[inline]
    pub(crate) fn note_sync(
        &self,
        what: Waited,
        (device, class, position): (DeviceId, StreamClass, Option<Position>),
        site: &'static Location<'static>,
    ) -> HostWait<'_> {
        let tracers = self.tracers.of_calls();
        let driver = &*self.driver;
        let mut noted = HostWait { places: SmallVec::new(), driver, succeeded: false };
        if tracers.is_empty() {
            return noted;
        }
        calls_in(&self.tracers);
        let now = Reading::now(&*self.driver);
        let kind = OpKind::Sync { what, outcome: Outcome::Pending };
        for tracer in tracers {
            let mut op =
                plain(kind.clone(), device, class, (self.domain, position.unwrap_or(NOWHERE)));
            op.call = tracer.call((now, now));
            op.site = Some(site.into());
            op.label = Cow::Borrowed("sync");
            let index = tracer.ledger.append(op);
            noted.places.push((tracer, index));
        }
        noted
    }

    /// The calling thread uses memory itself, or makes a future of it.
    #[inline]
    pub(crate) fn note_host(
        &self,
        kind: OpKind,
        device: DeviceId,
        access: impl FnOnce() -> Access,
        site: &'static Location<'static>,
    ) {
        let Some(begun) = self.begin_call() else { return };
        let access = access();
        self.note_call(begun, kind, device, |op| {
            op.accesses.push(access.clone());
            op.site = Some(site.into());
            op.label = Cow::Borrowed("host");
        });
    }

    /// A call of the host begins that is in no stream; `None` while nobody records.
    #[inline]
    pub(crate) fn begin_call(&self) -> Option<Begun> {
        self.tracers.is_on().then(|| Begun(Reading::now(&*self.driver)))
    }

    /// It is over. `describe` says what it was.
    pub(crate) fn note_call(
        &self,
        Begun(begin): Begun,
        kind: OpKind,
        device: DeviceId,
        describe: impl Fn(&mut Op),
    ) {
        let span = (begin, Reading::now(&*self.driver));
        calls_in(&self.tracers);
        for tracer in self.tracers.of_calls() {
            let mut op =
                plain(kind.clone(), device, StreamClass::NonBlocking, (self.domain, NOWHERE));
            op.call = tracer.call(span);
            describe(&mut op);
            tracer.ledger.append(op);
        }
    }

    /// A call reported `error`: if that is the loss of the context, it is part of the record.
    #[cold]
    pub(crate) fn note_loss(&self, device: DeviceId, error: &Error) {
        if !error.is_loss() {
            return;
        }
        let Some(begun) = self.begin_call() else { return };
        self.note_call(begun, OpKind::Fault { culprit: error.culprit() }, device, |op| {
            op.label = Cow::Owned(error.to_string());
        });
    }
}

impl Tracers {
    /// The event is about to be destroyed: from then on its handle may be another one's.
    pub(crate) fn note_gone(&self, event: EventHandle, device: DeviceId) {
        self.names.remove(Named::Event(event.0), NOWHERE);
        let kind = OpKind::Gone { event: event.0 };
        self.note(|| Op {
            thread: thread::number(),
            ..Op::new(kind.clone(), Engine::None, device, NOWHERE)
        });
    }

    /// A host function has returned.
    pub(crate) fn note_ran(&self, at: &At) {
        self.note(|| Op {
            stream: at.class,
            thread: thread::number(),
            ..Op::new(OpKind::Ran, Engine::None, at.device, at.position)
        });
    }

    /// A host function, enqueued at `site`, made a call of this crate, which was refused.
    pub(crate) fn note_refused(
        &self,
        call: &'static str,
        device: DeviceId,
        site: &'static Location<'static>,
    ) {
        self.note(|| Op {
            label: Cow::Borrowed(call),
            site: Some(site.into()),
            thread: thread::number(),
            ..Op::new(OpKind::Call(HostCall::InHostFn), Engine::None, device, NOWHERE)
        });
    }
}

/// A record of an event call.
pub(crate) fn plain(
    kind: OpKind,
    device: DeviceId,
    stream: StreamClass,
    (domain, position): (u64, Position),
) -> Op {
    Op {
        stream,
        label: Cow::Borrowed("event"),
        thread: thread::number(),
        thread_known: thread::written(domain),
        ..Op::new(kind, Engine::None, device, position)
    }
}
