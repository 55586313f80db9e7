//! Traces and checks of lanes: their start and their end.
#![forbid(unsafe_code)]

use super::domain::Domain;
use super::gate::{GateStream, Maker};
use super::lane::State;
use super::lane_ref::LaneRef;
use crate::base::error::Result;
use crate::base::id::{DeviceId, LaneId};
use crate::base::times::TimesFrom;
use crate::check::CheckOptions;
use crate::device::driver::StreamKind;
use crate::log::Trace;
use crate::log::calling;
use crate::log::instant::Instant;
use crate::log::reading::Reading;
use crate::log::tracer::Tracer;
use std::sync::Arc;

impl LaneRef {
    /// Records a timed event on the stream.
    pub(super) fn instant(&self, state: &mut State) -> Result<Arc<Instant>> {
        let log = &self.gate().log;
        let instant = log.instants.take(&log.driver, self.device, &mut state.instants)?;
        self.gate().record(self.stream, instant.event)?;
        Ok(instant)
    }

    /// Traces this lane from now on. The times of its device are measured from an event in this
    /// lane, unless the device has an origin already.
    pub(crate) fn begin_trace(&self, tracer: &Arc<Tracer>) -> Result<()> {
        let mut state = self.lane().lock();
        let before = Reading::now(self.driver());
        let origin = self.instant(&mut state)?;
        drop(state);
        if !tracer.has_begun(self.device) {
            self.gate().synchronize_event(self.device, origin.event)?;
        }
        tracer.begin(self.driver(), self.device, &origin, before)?;
        self.lane().attach(tracer);
        Ok(())
    }

    /// Gives the times of another device an origin: an event in a new stream. No work waits for
    /// that stream.
    fn begin_beside(&self, device: DeviceId, tracer: &Tracer) -> Result<()> {
        let (gate, log) = (self.gate(), &self.gate().log);
        let handle = log.driver.stream_create(device, StreamKind::NonBlocking, 0)?;
        let stream = GateStream { device, handle, maker: Maker::Library };
        let before = Reading::now(self.driver());
        let origin = log.instants.take(&log.driver, device, &mut Vec::new());
        let begun = origin.and_then(|origin| {
            gate.record(stream, origin.event)?;
            gate.synchronize_event(device, origin.event)?;
            tracer.begin(self.driver(), device, &origin, before)
        });
        let destroyed = log.driver.stream_destroy(handle);
        begun.and(destroyed)
    }

    /// Ends a trace of this lane.
    pub(crate) fn end_trace(&self, tracer: &Arc<Tracer>) {
        self.lane().detach(tracer);
    }

    /// Traces every lane of the domain from now on. An event on this lane is time zero. Each other
    /// device that is open and not lost gets its own origin.
    pub(crate) fn trace_all(&self, from: TimesFrom) -> Result<()> {
        let (domain, log) = (&self.domain, &self.gate().log);
        // A trace that was never taken ends first, because only one trace at a time can collect
        // activities.
        if let Some(earlier) = log.tracers.keep(None) {
            domain.opened().for_each(|id| domain.lane(id).detach(&earlier));
        }
        let tracer = Arc::new(Tracer::new(&log.driver, from)?);
        self.begin_trace(&tracer)?;
        let others = domain.devices().into_iter().filter(|device| *device != self.device);
        for device in others.filter(|device| self.gate().demand_live(*device).is_ok()) {
            self.begin_beside(device, &tracer)?;
        }
        // The tracer is kept before it is attached to the lanes, so that a stream that opens
        // meanwhile is traced too.
        log.tracers.keep(Some(&tracer));
        domain.opened().for_each(|id| domain.lane(id).attach(&tracer));
        Ok(())
    }
}

impl Domain {
    /// The lanes that have been opened so far.
    fn opened(&self) -> impl Iterator<Item = LaneId> {
        (0..self.lane_count()).map(LaneId)
    }

    /// Passes every call from now on to a checker, until the last device that asked for the checker
    /// is dropped.
    pub(crate) fn check(self: &Arc<Self>, options: CheckOptions) -> Result<Checked> {
        if let Some(tracer) = self.gate.log.tracers.check(options)? {
            self.opened().for_each(|id| self.lane(id).attach(&tracer));
        }
        Ok(Checked(Arc::clone(self)))
    }

    /// Ends the trace of every lane, and returns the trace with its times. All traced work must be
    /// complete.
    pub(crate) fn take_trace(&self) -> Result<Trace> {
        let log = &self.gate.log;
        // If nothing is traced, the result is an empty trace without times.
        let Some(tracer) = log.tracers.keep(None) else {
            return Tracer::default().take(&*log.driver, &log.instants);
        };
        self.opened().for_each(|id| self.lane(id).detach(&tracer));
        tracer.take(&*log.driver, &log.instants)
    }
}

/// A device that asked for the checker of a domain. The drop of the last such device ends the
/// checker.
#[derive(Debug)]
pub(crate) struct Checked(Arc<Domain>);

impl Drop for Checked {
    fn drop(&mut self) {
        // A child of `fork` takes no lock: the thread that holds the lock may exist only in the
        // parent.
        if !calling::forked()
            && let Some(tracer) = self.0.gate.log.tracers.end_check()
        {
            self.0.opened().for_each(|id| self.0.lane(id).detach(&tracer));
        }
    }
}
