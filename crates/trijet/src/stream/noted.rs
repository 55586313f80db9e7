//! Entries of the record. What host threads do: what one waits for or finds complete, which memory it
//! uses itself, and what its other calls cost. A wait is noted at its call, because that is what it
//! stands for, and marked when it has succeeded.
#![forbid(unsafe_code)]

use super::callback::At;
use super::enqueue::Submission;
use super::lane::{LaneRef, State};
use super::recorders::Recorders;
use super::thread;
use super::timing::{Instant, Reading, Recorder};
use super::track::Use;
use super::universe::Universe;
use crate::base::error::{Error, Result};
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::{
    Access, Accesses, Declared, Engine, HostCall, Op, OpKind, Outcome, StreamClass, Waited,
};
use crate::device::driver::EventHandle;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::sync::{Arc, Weak};

/// The position of what is in no lane.
pub(super) const NOWHERE: Position = Position { lane: LaneId(u32::MAX), seq: 0 };

thread_local! {
    static FAREWELL: RefCell<Farewell> = RefCell::default();
    /// The records of the thread's last entry, which `FAREWELL` keeps from being at another place.
    static LAST: Cell<*const Recorders> = const { Cell::new(std::ptr::null()) };
}

/// Tells the records that have calls of this thread when it ends.
#[derive(Default)]
struct Farewell(Vec<Weak<Recorders>>);

impl Drop for Farewell {
    fn drop(&mut self) {
        for recorders in self.0.iter().filter_map(Weak::upgrade) {
            recorders.note(|| Op {
                thread: thread::number(),
                ..Op::new(OpKind::ThreadGone, Engine::None, DeviceId(0), NOWHERE)
            });
        }
    }
}

/// The calling thread has a call in these records.
#[inline]
pub(super) fn calls_in(recorders: &Arc<Recorders>) {
    let place = Arc::as_ptr(recorders);
    if LAST.replace(place) != place {
        say_farewell_to(recorders);
    }
}

#[cold]
fn say_farewell_to(recorders: &Arc<Recorders>) {
    // A thread that is ending may still call, from the destructors of its values.
    let known = FAREWELL.try_with(|farewell| {
        let Farewell(all) = &mut *farewell.borrow_mut();
        if !all.iter().any(|other| std::ptr::eq(other.as_ptr(), Arc::as_ptr(recorders))) {
            all.retain(|other| other.strong_count() > 0);
            all.push(Arc::downgrade(recorders));
        }
    });
    known.unwrap_or(());
}

/// Somebody records, and the call began then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun(Reading);

/// A wait in the records, while somebody records.
#[must_use = "a wait that succeeds has to be marked"]
pub(crate) struct Noted<'a> {
    places: SmallVec<[(Arc<Recorder>, usize); 1]>,
    universe: &'a Universe,
    device: DeviceId,
    succeeded: bool,
}

impl Noted<'_> {
    /// The wait succeeded: its thread knows from now on.
    pub(crate) fn succeeded(mut self) {
        self.succeeded = true;
    }

    /// The wait ended with an error.
    pub(crate) fn failed(&self, error: Error) -> Error {
        self.universe.failed(self.device, error)
    }
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        if self.places.is_empty() {
            return;
        }
        let now = Reading::now(&*self.universe.driver);
        for (recorder, index) in &self.places {
            recorder.ledger.settle(*index, self.succeeded.then(|| recorder.at(now)));
        }
    }
}

impl Universe {
    /// The calling thread waits or asks for work of `device`, up to `position` in a stream.
    #[inline]
    pub(crate) fn note_sync(
        &self,
        what: Waited,
        (device, class, position): (DeviceId, StreamClass, Option<Position>),
        site: &'static Location<'static>,
    ) -> Noted<'_> {
        let recorders = self.recorders.of_calls();
        let mut noted = Noted { places: SmallVec::new(), universe: self, device, succeeded: false };
        if recorders.is_empty() {
            return noted;
        }
        calls_in(&self.recorders);
        let now = Reading::now(&*self.driver);
        let kind = OpKind::Sync { what, outcome: Outcome::Pending };
        for recorder in recorders {
            let mut op = plain(kind.clone(), device, class, (self.id, position.unwrap_or(NOWHERE)));
            op.call = recorder.call((now, now));
            op.site = Some(site.into());
            op.label = Cow::Borrowed("sync");
            let index = recorder.ledger.append(op);
            noted.places.push((recorder, index));
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
        self.recorders.is_on().then(|| Begun(Reading::now(&*self.driver)))
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
        calls_in(&self.recorders);
        for recorder in self.recorders.of_calls() {
            let mut op = plain(kind.clone(), device, StreamClass::NonBlocking, (self.id, NOWHERE));
            op.call = recorder.call(span);
            describe(&mut op);
            recorder.ledger.append(op);
        }
    }

    /// Destroys an event of `device`.
    pub(super) fn destroy(&self, event: EventHandle, device: DeviceId) -> Result<()> {
        self.recorders.note_gone(event, device);
        self.driver.event_destroy(event)
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

impl Recorders {
    /// The event is about to be destroyed: from then on its handle may be another one's.
    pub(super) fn note_gone(&self, event: EventHandle, device: DeviceId) {
        self.forget_event(event.0);
        let kind = OpKind::Gone { event: event.0 };
        self.note(|| Op {
            thread: thread::number(),
            ..Op::new(kind.clone(), Engine::None, device, NOWHERE)
        });
    }

    /// A host function has returned.
    pub(super) fn note_ran(&self, at: &At) {
        self.note(|| Op {
            stream: at.class,
            thread: thread::number(),
            ..Op::new(OpKind::Ran, Engine::None, at.device, at.position)
        });
    }

    /// A host function, enqueued at `site`, made a call of this crate, which was refused.
    pub(super) fn note_refused(
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

/// What an operation uses, for its entry.
pub(super) fn accesses(uses: &[Use<'_>]) -> Accesses {
    let mut accesses = Accesses::new();
    for used in uses {
        accesses.push(used.track.access(used.range.clone(), used.mode));
    }
    accesses
}

/// A record of an event call.
pub(super) fn plain(
    kind: OpKind,
    device: DeviceId,
    stream: StreamClass,
    (universe, position): (u64, Position),
) -> Op {
    Op {
        stream,
        label: Cow::Borrowed("event"),
        thread: thread::number(),
        thread_known: thread::written(universe),
        ..Op::new(kind, Engine::None, device, position)
    }
}

impl LaneRef {
    /// The moment at which the stream reaches this point.
    pub(super) fn instant(&self, state: &mut State) -> Result<Arc<Instant>> {
        let Universe { instants, driver, .. } = &*self.universe;
        instants.mark(driver, (self.device, self.stream), &mut state.instants)
    }

    /// Records this lane from now on. It gives time zero of its device, if nobody did.
    pub(crate) fn begin_recording(&self, recorder: &Arc<Recorder>) -> Result<()> {
        let mut state = self.lane().lock();
        let before = Reading::now(self.driver());
        let origin = self.instant(&mut state)?;
        drop(state);
        recorder.begin(self.device, &origin, before)?;
        self.lane().attach(recorder);
        Ok(())
    }

    /// Ends a recording of this lane.
    pub(crate) fn end_recording(&self, recorder: &Arc<Recorder>) {
        self.lane().detach(recorder);
    }

    /// The entry of an operation.
    #[inline]
    pub(super) fn op(&self, submission: &Submission<'_>, position: Position) -> Op {
        let action = &submission.action;
        calls_in(&self.universe.recorders);
        Op {
            stream: self.class(),
            accesses: accesses(submission.uses),
            bytes: action.bytes(),
            label: Cow::Borrowed(action.label()),
            chunk: submission.chunk,
            site: Some(submission.site.into()),
            thread: thread::number(),
            thread_known: thread::written(self.universe.id),
            kind: action.kind(),
            engine: action.engine(),
            device: self.device,
            position,
            declared: Declared::All,
            call: None,
            times: None,
        }
    }
}
