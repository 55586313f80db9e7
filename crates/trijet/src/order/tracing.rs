//! Traces and checks of lanes: their begin and their end.
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

    /// Traces this lane from now on. An event on it marks time zero of its device, unless the
    /// device has a time zero already.
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

    /// Traces every lane of the domain from now on. An event on this lane marks time zero of its
    /// device.
    pub(crate) fn trace_all(&self, from: TimesFrom) -> Result<()> {
        let (domain, log) = (&self.domain, &self.gate().log);
        // A trace that was never taken ends first: only one at a time can collect activities.
        if let Some(earlier) = log.tracers.keep(None) {
            domain.opened().for_each(|id| domain.lane(id).detach(&earlier));
        }
        let tracer = Arc::new(Tracer::new(&log.driver, from)?);
        self.begin_trace(&tracer)?;
        // In this order, a stream that opens meanwhile is traced too.
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

    /// Gives every call from now on to a checker.
    pub(crate) fn check(&self, options: Options) -> Result<()> {
        let tracer = self.gate.log.tracers.check(options)?;
        self.opened().for_each(|id| self.lane(id).attach(&tracer));
        Ok(())
    }

    /// Ends the trace of every lane and takes it, with its times. All traced work must be complete.
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
