//! A stream's reference to its lane.
#![forbid(unsafe_code)]

use super::calls::recorder::Recorder;
use super::domain::Domain;
use super::gate::{Gate, GateStream};
use super::lane::Lane;
use super::legacy::{LegacyOrder, Turn};
use super::mark::Mark;
use crate::base::error::{Error, Result};
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::StreamClass;
use crate::device::driver::Driver;
use crate::log::calling;
use std::sync::Arc;

/// A stream's reference to its lane, and to the domain.
#[derive(Debug, Clone)]
pub(crate) struct LaneRef {
    pub(crate) domain: Arc<Domain>,
    pub(crate) id: LaneId,
    /// The lane with the number `id`.
    pub(super) lane: Arc<Lane>,
    pub(crate) device: DeviceId,
    pub(crate) stream: GateStream,
    /// How the lane takes part in the order with the legacy stream. `None` for a lane that takes no
    /// part.
    pub(crate) legacy: Option<LegacyOrder>,
    /// The recorder that takes the operations of the lane in place of the driver.
    pub(super) recorder: Option<Arc<dyn Recorder>>,
}

impl LaneRef {
    /// The reference of `stream` to its lane `id`.
    pub(crate) fn new(
        domain: Arc<Domain>,
        id: LaneId,
        stream: GateStream,
        legacy: Option<LegacyOrder>,
    ) -> Self {
        let lane = Arc::clone(domain.lane(id));
        Self { domain, id, lane, device: stream.device, stream, legacy, recorder: None }
    }

    /// The recorder that takes the operations of the lane; `None` if the operations are enqueued.
    pub(crate) fn recorder(&self) -> Option<&Arc<dyn Recorder>> {
        self.recorder.as_ref()
    }

    /// Returns the same lane with a recorder. The lane has no operation yet.
    pub(crate) fn recorded(self, recorder: Arc<dyn Recorder>) -> Self {
        Self { recorder: Some(recorder), ..self }
    }

    #[inline]
    pub(crate) fn lane(&self) -> &Lane {
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

    /// The position of the last operation of the lane, which may belong to an earlier stream.
    /// `None` if the lane has had no operation.
    pub(crate) fn position(&self) -> Option<Position> {
        let seq = self.lane().lock().seq;
        (seq > 0).then_some(Position { lane: self.id, seq })
    }

    /// Names the stream that has the lane.
    pub(crate) fn name(&self, text: &str) {
        if calling::forked() {
            return;
        }
        let position = Position { lane: self.id, seq: self.lane().lock().seq };
        self.gate().log.tracers.name_stream(self.device, self.class(), position, text);
    }

    /// Takes the lane's turn in the order with the legacy stream. In a turn of the legacy stream,
    /// the vector of the lane gets the positions of all work in the blocking streams (law A13).
    #[inline(never)]
    pub(super) fn take_turn<'a>(
        &self,
        legacy: &'a LegacyOrder,
        op: &'static str,
    ) -> Result<Turn<'a>> {
        legacy.demand_own_thread(op)?;
        let turn = legacy.bare_turn();
        if turn.is_legacy() {
            let add =
                |lane, tenancy, knows: &mut _| self.domain.lane(lane).add_vector(tenancy, knows);
            let knows = legacy.before(add);
            self.lane().learn(&knows);
        }
        Ok(turn)
    }

    /// The mark that stands for all work of a stream that is being dropped; `None` if there is no
    /// work.
    pub(crate) fn end(&self) -> Result<Option<Arc<Mark>>> {
        match &self.legacy {
            // This thread cannot record an event on the stream. An event was recorded after each
            // operation when the operation was enqueued.
            Some(legacy) if !legacy.is_own_thread() => {
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

    /// Gives the lane back when its stream is dropped. The checkpoints stay until another stream
    /// opens the lane. `end` is an error if the device is lost or the driver refused the record of
    /// the end. Then the lane is never known to be free, so no stream gets it again. Calls that
    /// need the work of the lane fail.
    pub(crate) fn retire(&self, end: Result<Option<Arc<Mark>>>) -> Result<()> {
        let mut state = self.lane().lock();
        state.stream = None;
        state.end_error = end.as_ref().err().map(Error::again);
        // The end of a stream without work is the end of the previous stream.
        let end = end.map(|end| end.or_else(|| state.earlier.clone()));
        drop(state);
        self.domain.retire(self.id, end?);
        Ok(())
    }
}
