//! Tuning: measures the first chunks alone, and chooses the chunk size that is best in a model.
//!
//! Each chunk has a fixed cost, which is a reason for large chunks. Nothing overlaps with the
//! upload of the first chunk and the download of the last, which is a reason for small ones. With
//! both directions equally busy and n bytes at rate r, T = n/r + c/r + (n/c) g is least at c =
//! sqrt(n g r), and ramps do not help: a chunk twice as long as the one before leaves the download
//! idle for the difference. When one engine limits, small first and last chunks do help. The
//! recurrences of a pipeline with three streams give both results, so every candidate is computed
//! with them.
#![forbid(unsafe_code)]

use super::allocate::Resources;
use super::builder::Input;
use super::drive::{load, submit};
use super::layout::Layout;
use super::plan::{CHUNK_MAX, CHUNK_MIN, Chunk, Plan, PlanOptions, Ramp, even, ramp};
use super::schedule::Schedule;
use super::validate::Job;
use crate::base::error::{ErrorKind, Result};
use crate::base::ledger::Engine;
use crate::base::units::Bytes;
use crate::log::tracer::Tracer;
use std::sync::Arc;

/// The sizes of the two probes. Each runs alone; the line through their times is the cost.
const PROBES: [Bytes; 2] = [Bytes(256 << 10), Bytes(4 << 20)];
/// The most chunks of a candidate that the model computes.
const CANDIDATE_CHUNKS_MAX: u64 = 1 << 16;
/// A smaller run ends before a measurement pays off.
const WORTH_TUNING: Bytes = Bytes(32 << 20);
/// How much slower one direction of the link is while the other is busy (an H200: 55.5 to 50.8
/// GB/s).
const DUPLEX: f64 = 1.09;
/// The time between two dependent operations of different streams. The probes have only one stream,
/// and do not show it.
const GAP_NS: f64 = 3_000.0;

/// The cost of one engine: nanoseconds for a chunk, and for each row.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Line {
    fixed: f64,
    row: f64,
}

impl Line {
    /// The line through two measurements of (rows, nanoseconds).
    fn through(a: (u64, u64), b: (u64, u64)) -> Self {
        let rows = (b.0 as f64 - a.0 as f64).max(1.0);
        let row = ((b.1 as f64 - a.1 as f64) / rows).max(0.0);
        Self { fixed: (a.1 as f64 - row * a.0 as f64).max(0.0), row }
    }

    fn time(self, rows: u64) -> f64 {
        self.fixed + GAP_NS + self.row * rows as f64
    }
}

/// The model of a run: upload, compute, download.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Model([Line; 3]);

impl Model {
    /// The nanoseconds of chunks with these rows in `depth` slots. Each stage of a chunk waits for
    /// the chunk before in its stream, for the stage before of its chunk, and for its slot.
    fn time(&self, sizes: &[u64], depth: usize) -> f64 {
        let mut ends = vec![[0.0f64; 3]; sizes.len()];
        for (k, rows) in sizes.iter().enumerate() {
            let last = if k > 0 { ends[k - 1] } else { [0.0; 3] };
            let slot = if k >= depth { ends[k - depth] } else { [0.0; 3] };
            let [up, compute, down] = self.0.map(|line| line.time(*rows));
            let up = last[0].max(slot[1]) + up;
            let compute = last[1].max(up).max(slot[2]) + compute;
            let down = last[2].max(compute) + down;
            ends[k] = [up, compute, down];
        }
        ends.last().map_or(0.0, |end| end[2])
    }

    /// The best candidate for `rows` rows: the size of a full chunk, and whether to ramp.
    fn choose(&self, rows: u64, layout: Layout, depth: usize) -> (Bytes, Ramp) {
        let mut best = (f64::INFINITY, CHUNK_MIN, Ramp::Flat);
        let mut bytes = CHUNK_MIN.0;
        while bytes <= CHUNK_MAX.0 {
            let granule = layout.granule;
            let full = (bytes / layout.row_bytes / granule * granule).max(granule);
            // More chunks than this are never best, and the model would take seconds.
            let sensible = rows / full <= CANDIDATE_CHUNKS_MAX || bytes >= CHUNK_MAX.0;
            for shape in [Ramp::Flat, Ramp::Both].into_iter().filter(|_| sensible) {
                let sizes = match shape {
                    Ramp::Flat => even(rows, full),
                    Ramp::Both => ramp(rows, full, granule),
                };
                let time = self.time(&sizes, depth);
                if time < best.0 {
                    best = (time, Bytes(bytes), shape);
                }
            }
            // Quarter steps of a power of two.
            bytes += (bytes.next_power_of_two() / 4).max(CHUNK_MIN.0 / 4);
        }
        (best.1, best.2)
    }
}

/// Chooses the chunk size of a job that leaves it open.
pub(super) fn tune(job: &mut Job<'_>) -> Result<()> {
    let (layout, options) = (job.layout, &job.settings.plan);
    let open = options.schedule == Schedule::Tuned && options.chunk.is_none();
    if !open || layout.bytes()? < WORTH_TUNING.0 {
        return Ok(());
    }
    let Some(model) = measure(job)? else { return Ok(()) };
    let depth = Plan::new(layout, options, u64::MAX)?.depth;
    let rows = options.todo.iter().map(|r| r.end.min(layout.rows).saturating_sub(r.start));
    let (chunk, shape) = model.choose(rows.sum(), layout, depth);
    job.settings.plan.chunk = Some(chunk);
    job.settings.plan.ramp = shape;
    Ok(())
}

/// Times the probes. `None` when they do not fit into the device's memory.
fn measure(job: &Job<'_>) -> Result<Option<Model>> {
    let mut measured: Vec<[(u64, u64); 3]> = Vec::new();
    for size in PROBES {
        let options = PlanOptions {
            schedule: Schedule::OneStream,
            chunk: Some(size),
            depth: Some(1),
            ..job.settings.plan.clone()
        };
        let mut plan = Plan::new(job.layout, &options, u64::MAX)?;
        plan.chunks.truncate(1);
        let Some(chunk) = plan.chunks.first().cloned() else { return Ok(None) };
        let resources = match Resources::try_allocate(job, plan) {
            Err(error) if error.kind() == ErrorKind::OutOfMemory => return Ok(None),
            other => other?,
        };
        let times = probe(job, &chunk, resources)?;
        measured.push(times.map(|time| (chunk.rows_out(), time)));
    }
    let line = |engine: usize| Line::through(measured[0][engine], measured[1][engine]);
    let mut lines = [line(0), line(1), line(2)];
    lines[0].row *= DUPLEX;
    lines[2].row *= DUPLEX;
    Ok(Some(Model(lines)))
}

/// The nanoseconds that upload, kernels and download of one chunk take, one after another.
fn probe(job: &Job<'_>, chunk: &Chunk, mut resources: Resources) -> Result<[u64; 3]> {
    let stages = &job.stages;
    load(&mut resources, stages)?;
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
    let tracer = Arc::new(Tracer::default());
    // The first pass is the warm-up.
    for pass in 0..2 {
        if pass == 1 {
            stream.lane().begin_trace(&tracer)?;
        }
        submit(chunk, &resources.streams, slot, stages, input, landing.view_mut())?;
        stream.synchronize()?;
    }
    stream.lane().end_trace(&tracer);
    let ops = tracer.take(stream.lane().driver(), &stream.lane().domain.log().instants)?.ops;
    let time = |engine| {
        let times = ops.iter().filter(|op| op.engine == engine).filter_map(|op| op.times);
        times.map(|t| t.end.0 - t.begin.0).sum()
    };
    Ok([Engine::Upload, Engine::Compute, Engine::Download].map(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(up: f64, compute: f64, down: f64) -> Model {
        Model([up, compute, down].map(|row| Line { fixed: 1_000.0, row }))
    }

    #[test]
    fn the_recurrences_give_fill_steady_state_and_drain() {
        let model = Model([10.0, 20.0, 5.0].map(|row| Line { fixed: -GAP_NS, row }));
        assert_eq!(model.time(&[1, 1, 1, 1], 3), 10.0 + 4.0 * 20.0 + 5.0);
        assert_eq!(model.time(&[1, 1], 1), 2.0 * 35.0 - 5.0, "one slot of input and of output");
    }

    #[test]
    fn balanced_directions_want_flat_chunks_near_the_root_of_all() {
        // 80 ns a row of 4 KiB is 51 GB/s; sqrt(1 GiB * 4 us * 51 GB/s) is 14 MiB.
        let (chunk, shape) = model(80.0, 3.0, 80.0).choose(1 << 18, Layout::rows(1 << 18, 4096), 3);
        assert_eq!(shape, Ramp::Flat);
        assert!((10 << 20..20 << 20).contains(&chunk.0), "{chunk}");
    }

    #[test]
    fn a_limiting_engine_wants_small_chunks_at_both_ends() {
        let (_, shape) = model(80.0, 400.0, 80.0).choose(1 << 18, Layout::rows(1 << 18, 4096), 3);
        assert_eq!(shape, Ramp::Both);
    }
}
