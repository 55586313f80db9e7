//! Entries about host threads: waits and queries, accesses to memory by the thread itself, and the
//! times of other calls.
//!
//! The entry of a wait is appended when the call begins, because the wait covers the work that was
//! enqueued before the call. The entry is marked when the wait has succeeded.
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
    Access, Engine, HostStep, LedgerNote, Named, Op, OpKind, StreamClass, WaitOutcome, Waited,
};
use crate::check::DISCARD;
use crate::device::driver::{Driver, EventHandle};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::sync::{Arc, Weak};

thread_local! {
    static THREAD_END: RefCell<ThreadEnd> = RefCell::default();
    /// The address of the tracers that got the last entry of this thread. `THREAD_END` has a weak
    /// reference to these tracers, so no other tracers can have the same address.
    static LAST: Cell<*const Tracers> = const { Cell::new(std::ptr::null()) };
}

/// The tracers of each domain in which this thread has made a call. Each of them gets an entry when
/// the thread ends.
#[derive(Default)]
struct ThreadEnd(Vec<Weak<Tracers>>);

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        for tracers in self.0.iter().filter_map(Weak::upgrade) {
            tracers.note(|| Op {
                thread: thread::number(),
                ..Op::new(LedgerNote::ThreadGone, Engine::None, DeviceId(0), NOWHERE)
            });
        }
    }
}

/// Registers a call of the calling thread in these tracers. When the thread ends, the tracers get
/// an entry.
#[inline]
pub(crate) fn calls_in(tracers: &Arc<Tracers>) {
    let place = Arc::as_ptr(tracers);
    if LAST.replace(place) != place {
        note_end_in(tracers);
    }
}

#[cold]
fn note_end_in(tracers: &Arc<Tracers>) {
    // A thread that is ending may still make calls, from the destructors of its values.
    let known = THREAD_END.try_with(|end| {
        let ThreadEnd(all) = &mut *end.borrow_mut();
        if !all.iter().any(|other| std::ptr::eq(other.as_ptr(), Arc::as_ptr(tracers))) {
            all.retain(|other| other.strong_count() > 0);
            all.push(Arc::downgrade(tracers));
        }
    });
    known.unwrap_or(());
}

/// The time at which a call began while something was traced.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun(Reading);

/// A wait or a query that has begun. `places` has the index of its entry in each tracer.
#[must_use = "a wait that succeeds has to be marked"]
pub(crate) struct HostWait<'a> {
    places: SmallVec<[(Arc<Tracer>, usize); 1]>,
    driver: &'a dyn Driver,
    succeeded: bool,
}

impl HostWait<'_> {
    /// Marks the wait as successful: from now on, the thread that waited knows the work to be
    /// complete.
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

/// The log of a domain: its tracers, and the values that entries need.
#[derive(Debug)]
pub(crate) struct Log {
    /// The number of the domain.
    pub(crate) domain: u64,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) tracers: Arc<Tracers>,
    /// Timed events that the next trace can use.
    pub(crate) instants: Instants,
}

impl Log {
    /// Appends the entry of a wait or a query by the calling thread. The wait or query covers the
    /// work of `device` up to `position` in a stream.
    #[inline]
    pub(crate) fn note_sync(
        &self,
        what: Waited,
        device: DeviceId,
        class: StreamClass,
        position: Option<Position>,
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
        let kind = HostStep::Sync { what, outcome: WaitOutcome::Pending };
        for tracer in tracers {
            let mut op = plain(kind, device, class, self.domain, position.unwrap_or(NOWHERE));
            op.call = tracer.call((now, now));
            op.site = Some(site.into());
            op.label = Cow::Borrowed("sync");
            let index = tracer.ledger.append(op);
            noted.places.push((tracer, index));
        }
        noted
    }

    /// Appends the entry of an access to memory by the calling thread itself, or of a new future
    /// that will lend memory to the host.
    #[inline]
    pub(crate) fn note_host(
        &self,
        step: HostStep,
        device: DeviceId,
        access: impl FnOnce() -> Access,
        site: &'static Location<'static>,
    ) {
        let Some(begun) = self.begin_call() else { return };
        let access = access();
        self.note_call(begun, step, device, |op| {
            op.accesses.push(access.clone());
            op.site = Some(site.into());
            op.label = Cow::Borrowed("host");
        });
    }

    /// Begins a call of the host that belongs to no stream. `None` if nothing is traced.
    #[inline]
    pub(crate) fn begin_call(&self) -> Option<Begun> {
        self.tracers.is_on().then(|| Begun(Reading::now(&*self.driver)))
    }

    /// Appends the entry of a call that has returned. `describe` adds the values that depend on the
    /// kind of the call.
    pub(crate) fn note_call(
        &self,
        Begun(begin): Begun,
        kind: impl Into<OpKind>,
        device: DeviceId,
        describe: impl Fn(&mut Op),
    ) {
        let kind = kind.into();
        let span = (begin, Reading::now(&*self.driver));
        calls_in(&self.tracers);
        for tracer in self.tracers.of_calls() {
            let mut op = plain(kind, device, StreamClass::NonBlocking, self.domain, NOWHERE);
            op.call = tracer.call(span);
            describe(&mut op);
            tracer.ledger.append(op);
        }
    }

    /// Tells the checker, if there is one, that bytes lose their content now although a buffer
    /// still uses them. Traces have no such entry, because no call belongs to it.
    pub(crate) fn note_discarded(&self, device: DeviceId, describe: impl Fn(&mut Op)) {
        let Some(checker) = self.tracers.of_checker() else { return };
        let mut op = plain(DISCARD, device, StreamClass::NonBlocking, self.domain, NOWHERE);
        describe(&mut op);
        checker.ledger.append(op);
    }

    /// Appends an entry if `error` is the loss of the context.
    #[cold]
    pub(crate) fn note_loss(&self, device: DeviceId, error: &Error) {
        if !error.is_loss() {
            return;
        }
        let Some(begun) = self.begin_call() else { return };
        self.note_call(begun, HostStep::Fault { culprit: error.culprit() }, device, |op| {
            op.label = Cow::Owned(error.to_string());
        });
    }
}

impl Tracers {
    /// Appends the entry of an event that is about to be destroyed. Later, another event may get
    /// the same handle.
    pub(crate) fn note_gone(&self, event: EventHandle, device: DeviceId) {
        self.names.remove(Named::Event(event.0), NOWHERE);
        let kind = LedgerNote::Gone { event: event.0 };
        self.note(|| Op {
            thread: thread::number(),
            ..Op::new(kind, Engine::None, device, NOWHERE)
        });
    }

    /// Appends the entry of a host function that has returned.
    pub(crate) fn note_ran(&self, at: &At) {
        self.note(|| Op {
            stream: at.class,
            thread: thread::number(),
            ..Op::new(LedgerNote::Ran, Engine::None, at.device, at.position)
        });
    }

    /// Appends the entry of a call that was refused because a host function made it. The host
    /// function was enqueued at `site`.
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
            ..Op::new(HostStep::Refused, Engine::None, device, NOWHERE)
        });
    }
}

/// The entry of a call that is not an operation. The label is `event`, unless the caller changes
/// it.
pub(crate) fn plain(
    kind: impl Into<OpKind>,
    device: DeviceId,
    stream: StreamClass,
    domain: u64,
    position: Position,
) -> Op {
    Op {
        stream,
        label: Cow::Borrowed("event"),
        thread: thread::number(),
        thread_known: thread::written(domain),
        ..Op::new(kind, Engine::None, device, position)
    }
}
