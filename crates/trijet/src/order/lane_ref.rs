//! A stream's place in its domain.
#![forbid(unsafe_code)]

use super::domain::Domain;
use super::gate::{Gate, GateStream};
use super::lane::Lane;
use super::legacy::{LegacyOrder, Turn};
use super::mark::Mark;
use crate::base::error::{Error, Result};
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::StreamClass;
use crate::device::driver::Driver;
use std::sync::Arc;

/// A stream's place in its domain.
#[derive(Debug, Clone)]
pub(crate) struct LaneRef {
    pub(crate) domain: Arc<Domain>,
    pub(crate) id: LaneId,
    /// The lane of that number.
    pub(super) lane: Arc<Lane>,
    pub(crate) device: DeviceId,
    pub(crate) stream: GateStream,
    /// Its part in the order around the legacy stream.
    pub(crate) legacy: Option<LegacyOrder>,
}

impl LaneRef {
    /// The place of `stream`, which has the lane `id`.
    pub(crate) fn new(
        domain: Arc<Domain>,
        id: LaneId,
        stream: GateStream,
        legacy: Option<LegacyOrder>,
    ) -> Self {
        let lane = Arc::clone(domain.lane(id));
        Self { domain, id, lane, device: stream.device, stream, legacy }
    }

    #[inline]
    pub(super) fn lane(&self) -> &Lane {
        &self.lane
    }

    pub(crate) fn class(&self) -> StreamClass {
        self.legacy.as_ref().map_or(StreamClass::NonBlocking, LegacyOrder::class)
    }

    pub(crate) fn driver(&self) -> &dyn Driver {
        &*self.gate().log.driver
    }

    #[inline(always)]
    pub(crate) fn gate(&self) -> &Gate {
        &self.domain.gate
    }

    /// Names the stream that has the lane.
    pub(crate) fn name(&self, text: &str) {
        let position = Position { lane: self.id, seq: self.lane().lock().seq };
        self.gate().log.tracers.name_stream((self.device, self.class()), position, text);
    }

    /// Takes the lane's turn among the blocking streams and the legacy stream. An operation of the
    /// legacy stream comes after everything that the blocking ones were given (law A13).
    #[inline(never)]
    pub(super) fn take_turn<'a>(
        &self,
        legacy: &'a LegacyOrder,
        op: &'static str,
    ) -> Result<Turn<'a>> {
        legacy.own(op)?;
        let turn = legacy.bare_turn();
        if turn.is_legacy() {
            let add =
                |lane, tenancy, knows: &mut _| self.domain.lane(lane).add_vector(tenancy, knows);
            let knows = legacy.before(add);
            self.lane().learn(&knows);
        }
        Ok(turn)
    }

    /// The mark that answers for all of the lane's work when its stream is gone.
    pub(crate) fn end(&self) -> Result<Option<Arc<Mark>>> {
        match &self.legacy {
            // Its operations are recorded at once, and no other thread can record more.
            Some(legacy) if !legacy.is_own() => {
                let state = self.lane().lock();
                match state.mark_of(state.seq) {
                    _ if state.seq == state.base => Ok(None),
                    Some(mark) => Ok(Some(Arc::clone(mark))),
                    None => state.unrecorded(),
                }
            }
            _ => self.mark(),
        }
    }

    /// Gives the lane back when its stream goes. The checkpoints stay until the next stream opens
    /// the lane. Without an end (the device is lost) the lane can never be known to be free: it is
    /// left out of circulation, and who needs its work gets an error.
    pub(crate) fn retire(&self, end: Result<Option<Arc<Mark>>>) -> Result<()> {
        let mut state = self.lane().lock();
        state.stream = None;
        state.gone = end.as_ref().err().map(Error::again);
        // A stream that did nothing leaves the end of the one before it.
        let end = end.map(|end| end.or_else(|| state.earlier.clone()));
        drop(state);
        self.domain.retire(self.id, end?);
        Ok(())
    }
}
