//! Entries of the record. What host threads do: what one waits for or finds complete, and which memory it
//! uses itself. A wait is noted at its call, because that is what it stands for, and marked when
//! it has succeeded.
#![forbid(unsafe_code)]

use super::lane::{LaneRef, Spec};
use super::thread;
use super::timing::{Instant, Recorder};
use super::track::Use;
use super::universe::Universe;
use crate::base::error::Result;
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::{
    Access, Declared, Engine, Mode, Op, OpKind, Outcome, StreamClass, Times, Waited,
};
use crate::device::driver::Driver;
use std::borrow::Cow;
use std::panic::Location;
use std::sync::Arc;

/// The position of what is in no lane.
const NOWHERE: Position = Position { lane: LaneId(u32::MAX), seq: 0 };

/// A wait in the record, while somebody records.
#[must_use = "a wait that succeeds has to be marked"]
pub(crate) struct Noted<'a>(Option<(Arc<Recorder>, usize, &'a dyn Driver)>);

impl Noted<'_> {
    /// The wait succeeded: its thread knows from now on.
    pub(crate) fn succeeded(self) {
        if let Some((recorder, index, driver)) = self.0 {
            recorder.ledger.mark_complete(index, recorder.now(driver));
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
        let Some(recorder) = self.recorder() else { return Noted(None) };
        let kind = OpKind::Sync { what, outcome: Outcome::Pending };
        let mut op = plain(kind, device, class, (self.id, position.unwrap_or(NOWHERE)));
        let now = recorder.now(&*self.driver);
        op.call = Some(Times { begin: now, end: now });
        op.site = Some(site.into());
        op.label = Cow::Borrowed("sync");
        let index = recorder.ledger.append(op);
        Noted(Some((recorder, index, &*self.driver)))
    }

    /// The calling thread uses memory itself.
    #[inline]
    pub(crate) fn note_host(
        &self,
        device: DeviceId,
        access: impl FnOnce() -> Access,
        site: &'static Location<'static>,
    ) {
        let Some(recorder) = self.recorder() else { return };
        let nowhere = (self.id, NOWHERE);
        let mut op = plain(OpKind::Host, device, StreamClass::NonBlocking, nowhere);
        op.accesses.push(access());
        let now = recorder.now(&*self.driver);
        op.call = Some(Times { begin: now, end: now });
        op.site = Some(site.into());
        op.label = Cow::Borrowed("host");
        recorder.ledger.append(op);
    }
}

/// The bytes that an operation moves or sets.
fn moved(spec: &Spec, uses: &[Use<'_>]) -> u64 {
    let of = |mode: Mode| -> u64 {
        let uses = uses.iter().filter(|access| access.mode == mode);
        uses.map(|access| access.range.end - access.range.start).sum()
    };
    match spec.kind {
        OpKind::Copy | OpKind::CopyNow | OpKind::Batch(_) => of(Mode::Read),
        OpKind::Fill | OpKind::FillNow => of(Mode::Write),
        _ => 0,
    }
}

/// A record of an event call.
pub(super) fn plain(
    kind: OpKind,
    device: DeviceId,
    stream: StreamClass,
    (universe, position): (u64, Position),
) -> Op {
    Op {
        kind,
        engine: Engine::None,
        device,
        stream,
        position,
        accesses: Vec::new(),
        declared: Declared::All,
        bytes: 0,
        label: Cow::Borrowed("event"),
        chunk: None,
        site: None,
        thread: thread::number(),
        thread_known: thread::with_known(universe, |known| known.positions().collect()),
        call: None,
        times: None,
    }
}

impl LaneRef {
    /// Records this lane from now on. It gives time zero of its device, if nobody did.
    pub(crate) fn begin_recording(&self, recorder: &Arc<Recorder>) -> Result<()> {
        let state = self.lane().lock();
        let origin = Instant::mark(&self.universe.driver, self.device, self.stream)?;
        drop(state);
        recorder.begin(self.device, &origin)?;
        self.lane().attach(recorder);
        Ok(())
    }

    /// Ends a recording of this lane.
    pub(crate) fn end_recording(&self, recorder: &Arc<Recorder>) {
        self.lane().detach(recorder);
    }

    /// The entry of an operation.
    pub(super) fn op(
        &self,
        spec: &Spec,
        uses: &[Use<'_>],
        position: Position,
        call: Option<Times>,
    ) -> Op {
        let access = |u: &Use<'_>| Access {
            block: u.track.id,
            place: u.track.place,
            range: u.range.clone(),
            mode: u.mode,
        };
        Op {
            kind: spec.kind.clone(),
            engine: spec.engine,
            device: self.device,
            stream: self.class(),
            position,
            accesses: uses.iter().map(access).collect(),
            declared: Declared::All,
            bytes: moved(spec, uses),
            label: Cow::Borrowed(spec.label),
            chunk: spec.chunk,
            site: Some(spec.site.into()),
            thread: thread::number(),
            thread_known: thread::with_known(self.universe.id, |k| k.positions().collect()),
            call,
            times: None,
        }
    }
}
