//! What host threads do, for the record: what one waits for or finds complete, and which memory it
//! uses itself. A wait is noted at its call, because that is what it stands for, and marked when
//! it has succeeded.
#![forbid(unsafe_code)]

use super::lane::plain;
use super::timing::Recorder;
use super::universe::Universe;
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::{Access, OpKind, Outcome, StreamClass, Waited};
use std::panic::Location;
use std::sync::Arc;

/// The position of what is in no lane.
const NOWHERE: Position = Position { lane: LaneId(u32::MAX), seq: 0 };

/// A wait in the record, while somebody records.
#[must_use = "a wait that succeeds has to be marked"]
pub(crate) struct Noted(Option<(Arc<Recorder>, usize)>);

impl Noted {
    /// The wait succeeded: its thread knows from now on.
    pub(crate) fn succeeded(self) {
        if let Some((recorder, index)) = self.0 {
            recorder.ledger.mark_complete(index);
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
    ) -> Noted {
        let Some(recorder) = self.recorder() else { return Noted(None) };
        let kind = OpKind::Sync { what, outcome: Outcome::Pending };
        let mut op = plain(kind, device, class, (self.id, position.unwrap_or(NOWHERE)));
        op.site = site;
        op.label = "sync";
        let index = recorder.ledger.append(op);
        Noted(Some((recorder, index)))
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
        op.site = site;
        op.label = "host";
        recorder.ledger.append(op);
    }
}
