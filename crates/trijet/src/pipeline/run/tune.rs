//! Tuning: measures the first chunk in two sizes, and chooses the chunk size of the run with a
//! model.
//!
//! Each chunk has a fixed cost, which is a reason for large chunks. Nothing overlaps with the
//! upload of the first chunk and with the download of the last chunk. This is a reason for small
//! chunks. Let a run have n bytes, chunks of c bytes, the rate r, and the fixed cost g per chunk.
//! Let both directions be equally busy. Then T = n/r + c/r + (n/c) g has its minimum at c = sqrt(n
//! g r).
//!
//! Ramps are small chunks at the start and at the end. If both directions are equally busy, ramps
//! do not help: a chunk twice as long as the previous chunk leaves the download idle for the
//! difference. If one engine limits the run, ramps help. The model computes the time of every
//! candidate with the recurrences of a pipeline with three streams. In the model, ramps help in the
//! same cases.
//!
//! T is flat near its minimum, and the measurements vary. So the size with the least T varies from
//! run to run, but the choice must not vary. Therefore the candidates are powers of two. Several
//! candidates are nearly as good as the best. Among these, the candidate nearest to the default
//! size is chosen. Ramps are used only for jobs in which one engine clearly limits.
//!
//! If a processor does the work of the device, the times depend on the other work of the machine.
//! Then nothing is measured, and the size follows from the number of bytes alone.
#![forbid(unsafe_code)]

use super::allocate::Resources;
use super::enqueue::{load, submit};
use crate::base::error::{ErrorKind, Result};
use crate::base::ledger::Engine;
use crate::base::ring::{CostLine, RingModel};
use crate::base::units::Bytes;
use crate::device::driver::Clock;
use crate::log::tracer::Tracer;
use crate::pipeline::describe::builder::{Input, Output};
use crate::pipeline::describe::validate::Job;
use crate::pipeline::plan::layout::Layout;
use crate::pipeline::plan::schedule::Schedule;
use crate::pipeline::plan::{
    CHUNK_MAX, CHUNK_MIN, Chunk, ChunkChoice, Plan, PlanOptions, Ramp, even, ramp, usual_chunk,
};
use std::sync::Arc;

/// The sizes of the two probes, which run alone. The line through the times of the two probes shows
/// the cost per chunk and per row.
const PROBES: [Bytes; 2] = [Bytes(256 << 10), Bytes(4 << 20)];
/// Maximum number of chunks of a run for which the model computes the time. A candidate with more
/// chunks is left out.
const CANDIDATE_CHUNKS_MAX: u64 = 1 << 16;
/// Number of timed runs of a probe after its warm-up. The least time counts, because other work of
/// the machine only makes times longer.
const REPEATS: usize = 3;
/// A candidate is as good as the best if its modelled time is at most this multiple of the least
/// time.
const NEARLY_BEST: f64 = 1.02;
/// An engine limits a job if its time per row is at least this multiple of the time per row of each
/// other engine. A smaller difference may be noise.
const CLEARLY: f64 = 1.25;
/// Minimum size of a run that is measured. A smaller run is shorter than the measurement.
const WORTH_TUNING: Bytes = Bytes(32 << 20);
/// The largest chunk of a run that has a source or a sink. The threads of the source and the sink
/// copy each chunk, and small chunks stay in the caches of the processor. 1 GiB from ordinary
/// memory took 25 ms in chunks of 16 MiB and 30 ms in chunks of 32 MiB (`staging-chunks.txt`).
const STAGED_MAX: Bytes = Bytes(16 << 20);
/// Slowdown of one direction of the link while the other direction is busy. On an H200 the rate
/// falls from 55.5 to 50.8 GB/s.
const DUPLEX: f64 = 1.09;
/// The time in nanoseconds between two dependent operations of different streams. The probes do not
/// show this time, because they use only one stream.
const GAP_NS: f64 = 3_000.0;

/// The model of a run: upload, compute, download.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Model([CostLine; 3]);

impl Model {
    /// The time in nanoseconds of a run with `depth` slots. `sizes` has the rows of each chunk.
    pub(super) fn time(&self, sizes: &[u64], depth: usize) -> f64 {
        RingModel { lines: self.0, gap: GAP_NS }.time(sizes, depth)
    }

    /// Whether one engine needs clearly more time per row than each other engine.
    fn is_limited(&self) -> bool {
        let mut rows = self.0.map(|line| line.row);
        rows.sort_by(f64::total_cmp);
        rows[2] > CLEARLY * rows[1]
    }

    /// The size of a full chunk for a run of `rows` rows, and whether the first and the last chunks
    /// are smaller. The size is at most `max`.
    fn choose(&self, rows: u64, layout: Layout, depth: usize, max: Bytes) -> (Bytes, Ramp) {
        let shape = if self.is_limited() { Ramp::Both } else { Ramp::Flat };
        let granule = layout.granule;
        let candidates = std::iter::successors(Some(CHUNK_MIN.0), |bytes| Some(2 * bytes));
        let timed = candidates.take_while(|bytes| *bytes <= max.0).filter_map(|bytes| {
            let full = (bytes / layout.row_bytes / granule * granule).max(granule);
            // A chunk this small is never the best choice, and the model would take seconds.
            if rows / full > CANDIDATE_CHUNKS_MAX && bytes < max.0 {
                return None;
            }
            let sizes = match shape {
                Ramp::Flat => even(rows, full),
                Ramp::Both => ramp(rows, full, granule),
            };
            Some((Bytes(bytes), self.time(&sizes, depth)))
        });
        let timed: Vec<_> = timed.collect();
        let least = timed.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
        let usual = usual_chunk(rows.saturating_mul(layout.row_bytes)).0 as f64;
        let distance = |bytes: Bytes| (bytes.0 as f64 / usual).ln().abs();
        let good = timed.iter().filter(|(_, time)| *time <= NEARLY_BEST * least);
        let nearest = good.min_by(|a, b| distance(a.0).total_cmp(&distance(b.0)));
        (nearest.map_or(max, |(bytes, _)| *bytes), shape)
    }
}

/// Chooses the chunk size of a tuned job, if the user has not chosen a size.
pub(super) fn tune(job: &mut Job<'_, '_>) -> Result<()> {
    let (layout, options) = (job.layout, &job.settings.plan);
    // A probe would decode a block for a few of its rows.
    let has_blocks = job.blocks.is_some();
    let open = options.schedule == Schedule::Tuned && options.chunk.is_none() && !has_blocks;
    let steady = job.device.info().clock != Clock::Processor;
    if !open || !steady || layout.bytes()? < WORTH_TUNING.0 {
        return Ok(());
    }
    let Some(model) = measure(job)? else { return Ok(()) };
    let depth = Plan::new(layout, options, &job.stages.reach, u64::MAX)?.depth;
    let rows = options.todo.iter().map(|r| r.end.min(layout.rows).saturating_sub(r.start));
    let is_locked =
        matches!((&job.input, &job.output), (Input::Pinned { .. }, Output::Pinned { .. }));
    let max = if is_locked { CHUNK_MAX } else { STAGED_MAX };
    let (chunk, shape) = model.choose(rows.sum(), layout, depth, max);
    job.settings.plan.chunk = Some(chunk);
    job.settings.plan.chunk_choice = ChunkChoice::Measurement;
    job.settings.plan.ramp = shape;
    Ok(())
}

/// Measures the probes, and returns the model. `None` if a probe does not fit into the device's
/// memory.
pub(super) fn measure(job: &Job<'_, '_>) -> Result<Option<Model>> {
    let mut measured: Vec<[(u64, u64); 3]> = Vec::new();
    for size in PROBES {
        let options = PlanOptions {
            schedule: Schedule::OneStream,
            chunk: Some(size),
            depth: Some(1),
            ..job.settings.plan.clone()
        };
        let mut plan = Plan::new(job.layout, &options, &job.stages.reach, u64::MAX)?;
        plan.chunks.truncate(1);
        let Some(chunk) = plan.chunks.first().cloned() else { return Ok(None) };
        let resources = match Resources::try_allocate(job, plan) {
            Err(error) if error.kind() == ErrorKind::OutOfMemory => return Ok(None),
            other => other?,
        };
        let times = probe(job, &chunk, resources)?;
        measured.push(times.map(|time| (chunk.rows_out(), time)));
    }
    let line = |engine: usize| CostLine::through(measured[0][engine], measured[1][engine]);
    let mut lines = [line(0), line(1), line(2)];
    lines[0].row *= DUPLEX;
    lines[2].row *= DUPLEX;
    Ok(Some(Model(lines)))
}

/// The times of upload, kernels and download of one chunk in nanoseconds, measured one after
/// another.
fn probe(job: &Job<'_, '_>, chunk: &Chunk, mut resources: Resources) -> Result<[u64; 3]> {
    let stages = &job.stages;
    load(&resources.streams, &mut resources.slots, stages)?;
    let bytes_in = Bytes(chunk.rows_in() * stages.row_in()).to_usize();
    let bytes_out = Bytes(chunk.rows_out() * stages.row_out()).to_usize();
    let mut landing = job.device.pinned::<u8>(bytes_out)?;
    let mut staged = job.device.pinned::<u8>(bytes_in)?;
    let input = match &job.input {
        Input::Pinned { bytes, .. } => {
            let first = Bytes(chunk.input.start * stages.row_in()).to_usize();
            bytes.slice(first..first + bytes_in)
        }
        Input::Source(source) => {
            source.read(chunk.input.clone(), &mut staged.write()?)?;
            staged.view()
        }
    };
    let stream = resources.streams.first();
    let slot = &mut resources.slots[0];
    // Modelled times do not vary. On other clocks, the first pass is the warm-up.
    let modelled = job.device.info().clock == Clock::Model;
    let mut least = [u64::MAX; 3];
    for pass in 0..if modelled { 1 } else { 1 + REPEATS } {
        let tracer = Arc::new(Tracer::default());
        let lane = stream.lane();
        lane.begin_trace(&tracer)?;
        submit(chunk, &resources.streams, slot, stages, input, landing.view_mut())?;
        stream.synchronize()?;
        lane.end_trace(&tracer);
        let ops = tracer.take(lane.driver(), &lane.domain.log().instants)?.ops;
        let time = |engine| -> u64 {
            let times = ops.iter().filter(|op| op.engine == engine).filter_map(|op| op.times);
            times.map(|t| t.end.0 - t.begin.0).sum()
        };
        if modelled || pass > 0 {
            let times = [Engine::Upload, Engine::Compute, Engine::Download].map(time);
            least = std::array::from_fn(|engine| least[engine].min(times[engine]));
        }
    }
    Ok(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::prng::Prng;

    fn model(up: f64, compute: f64, down: f64) -> Model {
        Model([up, compute, down].map(|row| CostLine { fixed: 1_000.0, row }))
    }

    #[test]
    fn the_recurrences_give_fill_steady_state_and_drain() {
        let model = Model([10.0, 20.0, 5.0].map(|row| CostLine { fixed: -GAP_NS, row }));
        assert_eq!(model.time(&[1, 1, 1, 1], 3), 10.0 + 4.0 * 20.0 + 5.0);
        assert_eq!(model.time(&[1, 1], 1), 2.0 * 35.0 - 5.0, "an upload and a download overlap");
    }

    /// The time of a row of 4 KiB at 51 GB/s, in nanoseconds.
    const LINK: f64 = 80.0;

    fn gib(count: u64) -> Layout {
        Layout::rows(count << 18, 4096)
    }

    #[test]
    fn balanced_directions_want_flat_chunks_near_the_root_of_all() {
        // sqrt(1 GiB * 4 us * 51 GB/s) is 14 MiB.
        for count in [1, 4] {
            let (chunk, shape) =
                model(LINK, 3.0, LINK).choose(count << 18, gib(count), 3, CHUNK_MAX);
            assert_eq!(shape, Ramp::Flat);
            assert!((12 << 20..=24 << 20).contains(&chunk.0), "{count} GiB: {chunk}");
        }
    }

    #[test]
    fn a_limiting_engine_wants_small_chunks_at_both_ends() {
        let (_, shape) = model(LINK, 400.0, LINK).choose(1 << 18, gib(1), 3, CHUNK_MAX);
        assert_eq!(shape, Ramp::Both);
    }

    /// If each chunk has a large fixed cost, chunks must be larger than usual.
    #[test]
    fn a_large_fixed_cost_wants_larger_chunks() {
        let dear = Model([LINK, 3.0, LINK].map(|row| CostLine { fixed: 200_000.0, row }));
        assert_eq!(dear.choose(1 << 18, gib(1), 3, CHUNK_MAX).0, CHUNK_MAX);
    }

    /// Runs that copy between ordinary and page-locked memory have a smaller maximum chunk,
    /// [`STAGED_MAX`].
    #[test]
    fn a_largest_size_is_kept_and_tried() {
        let dear = Model([LINK, 3.0, LINK].map(|row| CostLine { fixed: 200_000.0, row }));
        assert_eq!(dear.choose(1 << 18, gib(1), 3, STAGED_MAX).0, STAGED_MAX);
    }

    /// Once, the number of chunks of one job varied from 7 to 46. The minimum of the model is flat,
    /// so the size with the least time depends on noise.
    #[test]
    fn twenty_noisy_measurements_of_a_job_give_chunks_within_one_step() {
        let jobs = [
            ("copies", [LINK, 3.0, LINK], 1_000.0),
            ("balanced", [LINK, 73.0, LINK], 4_000.0),
            ("compute", [LINK, 160.0, LINK], 4_000.0),
            ("upload", [LINK, 20.0, 10.0], 10_000.0),
            ("dear chunks", [LINK, 40.0, LINK], 60_000.0),
        ];
        for (name, rows, fixed) in jobs {
            for mib in [32, 256, 1 << 10, 4 << 10, 64 << 10] {
                let mut noise = Prng::new(mib);
                let layout = Layout::rows(mib << 8, 4096);
                let mut near =
                    |value: f64, part: f64| value * (1.0 + part * (2.0 * noise.unit() - 1.0));
                let chunks: Vec<_> = (0..20)
                    .map(|_| {
                        Model(
                            rows.map(|row| CostLine {
                                fixed: near(fixed, 0.3),
                                row: near(row, 0.1),
                            }),
                        )
                        .choose(layout.rows, layout, 3, CHUNK_MAX)
                    })
                    .collect();
                let sizes = || chunks.iter().map(|(chunk, _)| chunk.0);
                let (least, most) = (sizes().min().unwrap(), sizes().max().unwrap());
                assert!(most <= 2 * least, "{name}, {mib} MiB: {chunks:?}");
                assert!(chunks.iter().all(|c| c.1 == chunks[0].1), "{name}, {mib} MiB: {chunks:?}");
            }
        }
    }
}
