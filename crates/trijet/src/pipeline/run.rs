//! A run: for each chunk, upload into a slot, stages, download out of it. The whole of overlap is
//! in `submit`: nothing there waits on the host, and every wait between the lanes follows from
//! the uses of the slot's buffers.
#![forbid(unsafe_code)]

use super::host_work::{Reader, Spans, Writer};
use super::io::{Layout, Source};
use super::plan::{Chunk, Plan, Schedule};
use super::report::{Cold, Measured, Report};
use super::spec::{Input, Output, Pipeline, Progress, Stage, StageCx};
use super::tune;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::units::{Bytes, Nanos};
use crate::device::driver::Clock;
use crate::log::tracer::Tracer;
use crate::log::tracers::Tracers;
use crate::memory::{Buffer, PinnedBuffer, View, ViewMut};
use crate::stream::{Device, Stream, TimedEvent};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Streams for kernels in the tuned schedule: the last blocks of one chunk's kernels leave
/// multiprocessors idle, which the first blocks of the next chunk's then fill.
const COMPUTE_LANES: usize = 2;

/// The streams of a run, by the schedule.
pub(super) struct Lanes(pub(super) Vec<Stream>);

/// The streams of one chunk.
pub(super) struct ChunkLanes<'a> {
    upload: &'a Stream,
    compute: &'a Stream,
    download: &'a Stream,
}

impl Lanes {
    fn new(device: &Device, plan: &Plan) -> Result<Self> {
        let slots = plan.depth.min(plan.chunks.len().max(1));
        // In the order in which `of` finds them.
        let names: Vec<String> = match plan.schedule {
            Schedule::OneStream => vec!["pipeline".to_owned()],
            Schedule::SlotStreams => (0..slots).map(|slot| format!("slot {slot}")).collect(),
            Schedule::RoleStreams => ["upload", "compute", "download"].map(str::to_owned).into(),
            Schedule::Tuned => {
                let compute = (0..COMPUTE_LANES).map(|lane| format!("compute {lane}"));
                ["upload".to_owned(), "download".to_owned()].into_iter().chain(compute).collect()
            }
        };
        let named = |name: &String| Ok(device.stream()?.named(name));
        names.iter().map(named).collect::<Result<_>>().map(Self)
    }

    pub(super) fn of(&self, plan: &Plan, chunk: &Chunk) -> ChunkLanes<'_> {
        let lane = |index: usize| &self.0[index % self.0.len()];
        let slot = usize::try_from(chunk.index).unwrap_or(usize::MAX) % plan.depth;
        let (upload, compute, download) = match plan.schedule {
            Schedule::OneStream => (lane(0), lane(0), lane(0)),
            Schedule::SlotStreams => (lane(slot), lane(slot), lane(slot)),
            Schedule::RoleStreams => (lane(0), lane(1), lane(2)),
            Schedule::Tuned => {
                let turn = usize::try_from(chunk.index).unwrap_or(0) % COMPUTE_LANES;
                (lane(0), lane(2 + turn), lane(1))
            }
        };
        for stream in [upload, compute, download] {
            stream.set_chunk(Some(chunk.index));
        }
        ChunkLanes { upload, compute, download }
    }
}

/// The buffers of one chunk in flight: the input, then each stage's output.
pub(super) struct Slot(Vec<Buffer<u8>>);

/// Row sizes along the stages: the input's, then each stage's output's.
fn row_bytes(layout: Layout, stages: &[Stage<'_>]) -> Result<Vec<u64>> {
    let mut sizes = vec![layout.row_bytes];
    for (index, stage) in stages.iter().enumerate() {
        let bytes = sizes[index];
        if !bytes.is_multiple_of(stage.element_in) {
            let cause = format!(
                "rows of {bytes} bytes do not hold whole elements of {} bytes (stage {index})",
                stage.element_in
            );
            return Err(Error::new(ErrorKind::InvalidValue, "pipeline", cause));
        }
        let out = (bytes / stage.element_in).checked_mul(stage.element_out);
        sizes.push(out.filter(|_| stage.element_out > 0).ok_or_else(|| {
            let cause = format!(
                "rows of {bytes} bytes cannot become elements of {} bytes (stage {index})",
                stage.element_out
            );
            Error::new(ErrorKind::InvalidValue, "pipeline", cause)
        })?);
    }
    Ok(sizes)
}

/// Everything a run allocates.
pub(super) struct Resources {
    pub(super) plan: Plan,
    pub(super) lanes: Lanes,
    pub(super) slots: Vec<Slot>,
    pinned_in: Vec<PinnedBuffer<u8>>,
    pinned_out: Vec<PinnedBuffer<u8>>,
}

impl Resources {
    /// Allocates for the wished plan, with smaller chunks as long as memory does not suffice.
    fn allocate(pipeline: &Pipeline<'_>, sizes: &[u64]) -> Result<Self> {
        let layout = pipeline.layout()?;
        let mut rows_max = u64::MAX;
        loop {
            let plan = Plan::new(layout, &pipeline.wishes, rows_max)?;
            let chunk_rows = plan.chunk_rows;
            match Self::try_allocate(pipeline, plan, sizes) {
                Err(error)
                    if error.kind() == ErrorKind::OutOfMemory && chunk_rows > layout.granule =>
                {
                    rows_max = chunk_rows / 2;
                }
                Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                    let bytes = Bytes(chunk_rows.saturating_mul(layout.row_bytes));
                    return Err(error.context(format!("even chunks of {bytes} do not fit")));
                }
                done => return done,
            }
        }
    }

    pub(super) fn try_allocate(pipeline: &Pipeline<'_>, plan: Plan, sizes: &[u64]) -> Result<Self> {
        let device = &pipeline.device;
        let lanes = Lanes::new(device, &plan)?;
        let (rows_in, rows_out) = (plan.input_rows_max(), plan.rows_max());
        let slots_needed = plan.depth.min(plan.chunks.len().max(1));
        let mut slots = Vec::new();
        for index in 0..slots_needed {
            let stream = &lanes.0[index % lanes.0.len()];
            let buffer = |(place, row): (usize, &u64)| {
                let rows = if place == 0 { rows_in } else { rows_out };
                stream.alloc::<u8>(rows.saturating_mul(*row))?.expect_crossing(Some(stream))
            };
            slots.push(Slot(sizes.iter().enumerate().map(buffer).collect::<Result<_>>()?));
        }
        // One more than slots, so that the host fills one while all others are in flight.
        let pinned = |needed: bool, bytes: u64| -> Result<Vec<PinnedBuffer<u8>>> {
            let count = if needed { slots_needed + 1 } else { 0 };
            (0..count).map(|_| device.pinned::<u8>(bytes)?.expect_crossing(None)).collect()
        };
        let reads = matches!(pipeline.input, Some(Input::Source(_)));
        let writes = matches!(pipeline.output, Some(Output::Sink(_)));
        let last = sizes.last().copied().unwrap_or(0);
        let pinned_in = pinned(reads, rows_in.saturating_mul(sizes[0]))?;
        let pinned_out = pinned(writes, rows_out.saturating_mul(last))?;
        Ok(Self { plan, lanes, slots, pinned_in, pinned_out })
    }
}

/// Enqueues one chunk.
pub(super) fn submit(
    chunk: &Chunk,
    lanes: &ChunkLanes<'_>,
    slot: &mut Slot,
    stages: &[Stage<'_>],
    sizes: &[u64],
    input: View<'_, u8>,
    mut output: ViewMut<'_, u8>,
) -> Result<()> {
    let at = |what: &str| format!("chunk {} (rows {:?}), {what}", chunk.index, chunk.rows);
    let rows = chunk.rows.end - chunk.rows.start;
    let mut target = slot.0[0].slice_mut(..input.len());
    lanes.upload.copy(&input, &mut target).map_err(|e| e.context(at("upload")))?;
    let cx = StageCx { stream: lanes.compute, chunk };
    let mut held = input.len();
    for (index, stage) in stages.iter().enumerate() {
        let (before, after) = slot.0.split_at_mut(index + 1);
        let out = rows * sizes[index + 1];
        let (x, y) = (before[index].slice(..held), after[0].slice_mut(..out));
        (stage.run)(&cx, x, y).map_err(|e| e.context(at(&format!("stage {index}"))))?;
        held = out;
    }
    let result = slot.0[stages.len()].slice(..output.len());
    lanes.download.copy(&result, &mut output).map_err(|e| e.context(at("download")))
}

/// Calls every stage with an empty chunk, which loads its kernels and does nothing else.
pub(super) fn load(resources: &mut Resources, stages: &[Stage<'_>]) -> Result<()> {
    let chunk = Chunk { index: 0, rows: 0..0, input: 0..0 };
    let compute = &resources.lanes.0[0];
    let Some(slot) = resources.slots.first_mut() else { return Ok(()) };
    for (index, stage) in stages.iter().enumerate() {
        let (before, after) = slot.0.split_at_mut(index + 1);
        let cx = StageCx { stream: compute, chunk: &chunk };
        (stage.run)(&cx, before[index].slice(..0), after[0].slice_mut(..0))
            .map_err(|e| e.context(format!("stage {index}, loading")))?;
    }
    compute.synchronize()
}

/// While it is there, the calls of host threads are recorded; also when a stage panics they are not
/// for ever.
struct HostCalls<'a>(&'a Tracers, &'a Arc<Tracer>);

impl<'a> HostCalls<'a> {
    fn record(device: &'a Device, tracer: &'a Arc<Tracer>) -> Self {
        let tracers = &*device.shared().domain.log().tracers;
        tracers.add_for_calls(tracer);
        Self(tracers, tracer)
    }
}

impl Drop for HostCalls<'_> {
    fn drop(&mut self) {
        self.0.remove(self.1);
    }
}

pub(super) fn run(mut pipeline: Pipeline<'_>) -> Result<Report> {
    let start = Instant::now();
    let layout = pipeline.layout()?;
    let sizes = row_bytes(layout, &pipeline.stages)?;
    let out_row = *sizes.last().unwrap_or(&0);
    if pipeline.stages.is_empty() && pipeline.wishes.halo > 0 {
        let cause = "a halo without a stage that reads it";
        return Err(Error::new(ErrorKind::InvalidValue, "pipeline", cause));
    }
    let (Some(_), Some(output)) = (&pipeline.input, &pipeline.output) else {
        return Err(Error::new(ErrorKind::InvalidValue, "pipeline", "it has no source or no sink"));
    };
    if let Output::Pinned(target) = output {
        let results = Layout { row_bytes: out_row, ..layout }.bytes()?;
        if target.len() < results {
            let cause = format!("results of {results} B into {} B", target.len());
            return Err(Error::new(ErrorKind::InvalidValue, "pipeline", cause));
        }
    }
    tune::tune(&mut pipeline, layout, &sizes)?;
    let mut resources = Resources::allocate(&pipeline, &sizes)?;
    load(&mut resources, &pipeline.stages)?;
    let setup = start.elapsed();
    let device = pipeline.device.clone();
    let first = &resources.lanes.0[0];
    let tracer = Arc::new(match pipeline.record {
        true => Tracer::new(device.shared().domain.driver(), pipeline.times)?,
        false => Tracer::default(),
    });
    let on = pipeline.record.then(|| HostCalls::record(&device, &tracer));
    if on.is_some() {
        resources.lanes.0.iter().try_for_each(|s| s.lane().begin_trace(&tracer))?;
    }
    let before = device.ordering();
    let begin = device.timed_event()?;
    begin.record(first)?;
    let steady = Instant::now();
    let spans = (Spans::new(steady), Spans::new(steady));
    if let Some(number) = pipeline.drop_wait {
        device.drop_wait(number);
    }
    let outcome = drive(&mut pipeline, &mut resources, &sizes, layout, &spans);
    let ends = finish(&device, &resources.lanes, &outcome);
    resources.lanes.0.iter().for_each(|s| s.lane().end_trace(&tracer));
    drop(on);
    outcome?;
    let ends = ends?;
    let first = &resources.lanes.0[0];
    let (window, elapsed) = extent(&tracer, first, &begin, &ends)?;
    let recording =
        tracer.take(&**first.lane().domain.driver(), &first.lane().domain.log().instants)?;
    let rows: u64 = resources.plan.chunks.iter().map(|c| c.rows.end - c.rows.start).sum();
    let in_rows: u64 = resources.plan.chunks.iter().map(|c| c.input.end - c.input.start).sum();
    let wall = Nanos(u64::try_from(steady.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let modelled = device.info().clock == Clock::Model;
    let measured = Measured {
        recording,
        window,
        elapsed,
        wall: (!modelled).then_some(wall),
        read: (!modelled).then(|| spans.0.into_spans()),
        write: (!modelled).then(|| spans.1.into_spans()),
        ordering: (before, device.ordering()),
        cold: Cold { setup: Nanos(u64::try_from(setup.as_nanos()).unwrap_or(u64::MAX)) },
        bytes_in: Bytes(in_rows * layout.row_bytes),
        bytes_out: Bytes(rows * out_row),
        rows,
    };
    let report =
        Report::new(device.info(), resources.plan, measured, pipeline.calibration.as_ref());
    Ok(report.with_verdict(device.verdict()))
}

/// Waits for everything, also after an error: no operation may outlive its buffers' host side.
///
/// All ends are recorded before the first wait: an end that is recorded on a lane which is done
/// already stands for the moment of the call, and that would be late by the waits before it.
fn finish(device: &Device, lanes: &Lanes, outcome: &Result<()>) -> Result<Vec<TimedEvent>> {
    let mark = |lane: &Stream| {
        lane.set_chunk(None);
        let end = device.timed_event()?;
        end.record(lane)?;
        Ok(end)
    };
    let ends: Result<Vec<_>> = lanes.0.iter().map(mark).collect();
    let waits: Vec<_> = lanes.0.iter().map(Stream::synchronize).collect();
    if outcome.is_ok() {
        waits.into_iter().collect::<Result<()>>()?;
    }
    ends
}

/// From when to when a run was, on the clock of its records if it has any, and how long it took. Both
/// are differences of the same moments, so that all figures of a recorded run are about one time.
fn extent(
    tracer: &Tracer,
    lane: &Stream,
    begin: &TimedEvent,
    ends: &[TimedEvent],
) -> Result<(Option<Range<u64>>, Nanos)> {
    let (driver, device) = (lane.lane().driver(), lane.lane().device);
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

/// The state of a run between two chunks.
struct Feed<'r, 'scope, 'env> {
    plan: &'env Plan,
    lanes: &'r Lanes,
    slots: &'r mut [Slot],
    stages: &'r [Stage<'r>],
    sizes: &'r [u64],
    source: Option<&'env dyn Source>,
    reader: Option<Reader<'scope>>,
    writer: Option<Writer<'scope, 'env>>,
    pinned_in: Option<View<'r, u8>>,
    pinned_out: Option<ViewMut<'r, u8>>,
    spans: &'env (Spans, Spans),
    written: &'env (dyn Fn(&Chunk) + Sync),
}

impl<'env> Feed<'_, '_, 'env> {
    /// Reads, enqueues and hands on one chunk.
    fn chunk(&mut self, chunk: &'env Chunk) -> Result<()> {
        let out_row = *self.sizes.last().unwrap_or(&0);
        let in_bytes = (chunk.input.end - chunk.input.start) * self.sizes[0];
        let out_bytes = (chunk.rows.end - chunk.rows.start) * out_row;
        let filled = match (&mut self.reader, self.source) {
            (Some(reader), Some(source)) => Some(reader.next(source, chunk, &self.spans.0)?),
            _ => None,
        };
        let input = match (&filled, &self.pinned_in) {
            (Some(filled), _) => filled.slice(..in_bytes),
            (None, Some(bytes)) => {
                let first = chunk.input.start * self.sizes[0];
                bytes.slice(first..first + in_bytes)
            }
            (None, None) => unreachable!("a run has a source or page-locked input"),
        };
        let slot = usize::try_from(chunk.index).unwrap_or(usize::MAX) % self.slots.len();
        let lanes = self.lanes.of(self.plan, chunk);
        let slot = &mut self.slots[slot];
        if let Some(writer) = &mut self.writer {
            let mut landing = writer.next(&self.spans.1, self.written)?;
            let target = landing.slice_mut(..out_bytes);
            submit(chunk, &lanes, slot, self.stages, self.sizes, input, target)?;
            writer.put((chunk, out_bytes, landing))?;
        } else if let Some(target) = &mut self.pinned_out {
            let first = chunk.rows.start * out_row;
            let target = target.reborrow().slice(first..first + out_bytes);
            submit(chunk, &lanes, slot, self.stages, self.sizes, input, target)?;
            (self.written)(chunk);
        }
        if let (Some(reader), Some(filled)) = (&mut self.reader, filled) {
            reader.give_back(filled);
        }
        Ok(())
    }
}

/// Feeds the chunks through.
fn drive(
    pipeline: &mut Pipeline<'_>,
    resources: &mut Resources,
    sizes: &[u64],
    layout: Layout,
    spans: &(Spans, Spans),
) -> Result<()> {
    let (input, output) = (pipeline.input.take(), pipeline.output.take());
    let (Some(input), Some(output)) = (input, output) else { return Ok(()) };
    let (plan, cancel, work) = (&resources.plan, &pipeline.cancel, pipeline.host_work);
    let todo: u64 = plan.chunks.iter().map(|c| c.rows.end - c.rows.start).sum();
    let rows_done = AtomicU64::new(layout.rows.saturating_sub(todo));
    let progress = &pipeline.progress;
    let written = |chunk: &Chunk| {
        let rows = chunk.rows.end - chunk.rows.start;
        let done = rows_done.fetch_add(rows, Ordering::Relaxed) + rows;
        if let Some(progress) = progress {
            progress(Progress { rows_done: done, rows: layout.rows });
        }
    };
    let (source, pinned_in) = match &input {
        Input::Source(source) => (Some(&**source), None),
        Input::Pinned { bytes, .. } => (None, Some(*bytes)),
    };
    let buffers_in = std::mem::take(&mut resources.pinned_in);
    let buffers_out = std::mem::take(&mut resources.pinned_out);
    std::thread::scope(|scope| {
        let start_reader = |s| Reader::start(scope, work, s, &plan.chunks, buffers_in, &spans.0);
        let reader = source.map(start_reader);
        let (writer, pinned_out) = match output {
            Output::Sink(sink) => {
                let writer = Writer::start(scope, work, sink, buffers_out, &spans.1, &written);
                (Some(writer), None)
            }
            Output::Pinned(target) => (None, Some(target)),
        };
        let mut feed = Feed {
            plan,
            lanes: &resources.lanes,
            slots: &mut resources.slots,
            stages: &pipeline.stages,
            sizes,
            source,
            reader,
            writer,
            pinned_in,
            pinned_out,
            spans,
            written: &written,
        };
        let fed = plan.chunks.iter().try_for_each(|chunk| {
            if cancel.is_cancelled() {
                let cause = format!("stopped by its user before chunk {}", chunk.index);
                return Err(Error::new(ErrorKind::Cancelled, "run", cause));
            }
            feed.chunk(chunk)
        });
        let (reader, writer) = (feed.reader, feed.writer);
        let wrote = writer.map_or(Ok(()), |writer| writer.finish(&fed, &spans.1, &written));
        let read = reader.map_or(Ok(()), Reader::finish);
        // The side that failed knows why; the others only know that somebody hung up.
        read.and(wrote).and(fed)
    })
}
