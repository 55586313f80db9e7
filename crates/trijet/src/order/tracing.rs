//! Tracing of lanes: where tracers and checkers begin and end.
#![forbid(unsafe_code)]

use super::domain::Domain;
use super::lane::State;
use super::lane_ref::LaneRef;
use crate::base::error::Result;
use crate::base::id::LaneId;
use crate::base::times::TimesFrom;
use crate::check::Options;
use crate::log::Trace;
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

    /// Traces this lane from now on. It gives time zero of its device, unless the device has one.
    pub(crate) fn begin_trace(&self, tracer: &Arc<Tracer>) -> Result<()> {
        let mut state = self.lane().lock();
        let before = Reading::now(self.driver());
        let origin = self.instant(&mut state)?;
        drop(state);
        if !tracer.has_begun() {
            self.gate().synchronize_event(self.device, origin.event)?;
        }
        tracer.begin(self.driver(), self.device, &origin, before)?;
        self.lane().attach(tracer);
        Ok(())
    }

    /// Ends a trace of this lane.
    pub(crate) fn end_trace(&self, tracer: &Arc<Tracer>) {
        self.lane().detach(tracer);
    }

    /// Traces every lane of the domain from now on. This lane gives time zero of its device.
    pub(crate) fn trace_all(&self, from: TimesFrom) -> Result<()> {
        let (domain, log) = (&self.domain, &self.gate().log);
        // A trace that was never taken ends here: it may have what only one can have.
        if let Some(earlier) = log.tracers.keep(None) {
            domain.opened().for_each(|id| domain.lane(id).detach(&earlier));
        }
        let tracer = Arc::new(Tracer::new(&log.driver, from)?);
        self.begin_trace(&tracer)?;
        // In this order no stream is missed that opens meanwhile.
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

    /// Has a checker read every call from now on.
    pub(crate) fn check(&self, options: Options) -> Result<()> {
        let tracer = self.gate.log.tracers.check(options)?;
        self.opened().for_each(|id| self.lane(id).attach(&tracer));
        Ok(())
    }

    /// Ends the trace of every lane and takes it, with its times. Everything traced must be complete.
    pub(crate) fn take_trace(&self) -> Result<Trace> {
        let log = &self.gate.log;
        // Without a trace there is nothing to be had, and no time in it.
        let Some(tracer) = log.tracers.keep(None) else {
            return Tracer::default().take(&*log.driver, &log.instants);
        };
        self.opened().for_each(|id| self.lane(id).detach(&tracer));
        tracer.take(&*log.driver, &log.instants)
    }
}
