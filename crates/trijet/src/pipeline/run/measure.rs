//! The last step of a run: makes the report from the times and the trace of the run.
#![forbid(unsafe_code)]

use super::allocate::Resources;
use super::streams::Streams;
use crate::base::error::Result;
use crate::base::units::{Bytes, Nanos};
use crate::device::driver::Clock;
use crate::log::tracer::Tracer;
use crate::log::tracers::Tracers;
use crate::pipeline::describe::builder::Traced;
use crate::pipeline::describe::host_work::HostSpans;
use crate::pipeline::describe::validate::Job;
use crate::pipeline::report::{Cold, Measured, Report};
use crate::stream::{Device, OrderingCounts, Stream, TimedEvent};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Traces the calls of host threads until this value is dropped. If a stage panics, this value is
/// dropped too.
struct HostCalls(Arc<Tracers>, Arc<Tracer>);

impl HostCalls {
    fn trace(device: &Device, tracer: &Arc<Tracer>) -> Self {
        let tracers = Arc::clone(&device.shared().domain.log().tracers);
        tracers.add_for_calls(tracer);
        Self(tracers, Arc::clone(tracer))
    }
}

impl Drop for HostCalls {
    fn drop(&mut self) {
        self.0.remove(&self.1);
    }
}

/// A run that is being measured.
pub(super) struct Measurement {
    tracer: Arc<Tracer>,
    host_calls: Option<HostCalls>,
    ordering: OrderingCounts,
    begin: TimedEvent,
    setup: Duration,
    start: Instant,
    pub(super) host_work: HostSpans,
}

impl Measurement {
    /// Begins to measure, before the first chunk. `setup` is the time at which the run started.
    pub(super) fn begin(job: &Job<'_, '_>, streams: &Streams, setup: Instant) -> Result<Self> {
        let setup = setup.elapsed();
        let (device, settings) = (&job.device, &job.settings);
        let traced = settings.traced == Traced::Yes;
        let tracer = Arc::new(match traced {
            true => Tracer::new(device.shared().domain.driver(), settings.times)?,
            false => Tracer::default(),
        });
        let host_calls = traced.then(|| HostCalls::trace(device, &tracer));
        if host_calls.is_some() {
            streams.all().iter().try_for_each(|s| s.lane().begin_trace(&tracer))?;
        }
        let ordering = device.ordering();
        let begin = device.timed_event()?;
        // The host's clock is read before the record, so that the elapsed time on the host includes
        // the elapsed time on the device.
        let start = Instant::now();
        begin.record(streams.first())?;
        let host_work = HostSpans::new(Instant::now());
        Ok(Self { tracer, host_calls, ordering, begin, setup, start, host_work })
    }

    /// Waits for the end of the run and reports on it.
    pub(super) fn end(
        self,
        job: &Job<'_, '_>,
        resources: Resources,
        outcome: Result<()>,
    ) -> Result<Report> {
        let Resources { plan, streams, slots, .. } = resources;
        let ends = finish(&job.device, &streams, &outcome);
        streams.all().iter().for_each(|stream| stream.lane().end_trace(&self.tracer));
        drop(self.host_calls);
        outcome?;
        let (window, elapsed) = extent(&self.tracer, streams.first(), &self.begin, &ends?)?;
        let log = streams.first().lane().domain.log();
        let trace = self.tracer.take(&*log.driver, &log.instants)?;
        let modelled = job.device.info().clock == Clock::Model;
        // Times of the host have no meaning on a modelled clock.
        let begin = window.as_ref().map_or(0, |window: &Range<u64>| window.start);
        let host = if modelled { Vec::new() } else { self.host_work.worked(begin) };
        let measured = Measured {
            trace,
            window,
            elapsed,
            wall: (!modelled).then(|| nanos(self.start.elapsed())),
            host,
            ordering: (self.ordering, job.device.ordering()),
            cold: Cold { setup: nanos(self.setup) },
            bytes_in: Bytes(plan.rows_in() * job.stages.row_in()),
            bytes_out: Bytes(plan.rows_out() * job.stages.row_out()),
            rows: plan.rows_out(),
            without_trace: job.settings.traced == Traced::TooLarge,
            in_place: slots.first().is_some_and(|slot| slot.in_place),
            audience: job.settings.audience,
            found: job.device.verdict(),
        };
        let calibration = job.settings.calibration.as_ref();
        Ok(Report::new(job.device.info(), plan, measured, calibration))
    }
}

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// Waits for every stream, even after an error, because no operation may run when its buffers on
/// the host are gone. Returns the event at the end of each stream.
///
/// The end of each stream is recorded before the first wait. An event that is recorded on a stream
/// without work gets the time of the record call. After a wait, this time would be later than the
/// end of the work.
fn finish(device: &Device, streams: &Streams, outcome: &Result<()>) -> Result<Vec<TimedEvent>> {
    let mark = |stream: &Stream| {
        stream.set_chunk(None);
        let end = device.timed_event()?;
        end.record(stream)?;
        Ok(end)
    };
    let ends: Result<Vec<_>> = streams.all().iter().map(|stream| mark(stream)).collect();
    let waited = streams.wait();
    if outcome.is_ok() {
        waited?;
        streams.first().take_panic()?;
    }
    ends
}

/// Returns two times. The first is the start and the end of a run on the clock of its trace; `None`
/// without a trace. The second is the elapsed time. Both come from the same events, so that all
/// figures of a traced run refer to the same time.
fn extent(
    tracer: &Tracer,
    stream: &Stream,
    begin: &TimedEvent,
    ends: &[TimedEvent],
) -> Result<(Option<Range<u64>>, Nanos)> {
    let (driver, device) = (stream.lane().driver(), stream.lane().device);
    let moment = |event: &TimedEvent| tracer.moment(driver, device, event.handle());
    let mut elapsed = Nanos(0);
    let Some(start) = moment(begin)? else {
        for end in ends {
            elapsed = elapsed.max(end.elapsed_since(begin)?);
        }
        return Ok((None, elapsed));
    };
    let mut window = start.0..start.0;
    for end in ends {
        window.end = window.end.max(moment(end)?.map_or(0, |end| end.0));
    }
    Ok((Some(window.clone()), Nanos(window.end - window.start)))
}
