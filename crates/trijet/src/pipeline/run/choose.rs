//! The choice of a plan for a prepared pipeline: several plans are measured in whole runs, and the
//! fastest plan is chosen.
//!
//! A way to run a job is a schedule with a chunk size and a number of slots (`Way`). A model
//! (`tune`) proposes sizes of chunks, and measurements decide. The first round measures the sizes
//! with the least modelled times, and plans with a single chunk. The second round takes the fastest
//! way of the first round, and varies its streams and slots. A job that is too long for these
//! measurements gets the best plan of the model. For such a job, the model predicts the times well,
//! and another plan could save only a small part of the time.
#![forbid(unsafe_code)]

use super::allocate::Resources;
use super::enqueue::load;
use super::pass::pass;
use super::remember::{self, Way};
use super::tune::{Model, measure};
use crate::base::error::{ErrorKind, Result};
use crate::base::units::{Bytes, Nanos};
use crate::device::driver::Clock;
use crate::log::reading::Reading;
use crate::pipeline::describe::builder::{Input, Output};
use crate::pipeline::describe::sharing::Sharing;
use crate::pipeline::describe::validate::Job;
use crate::pipeline::plan::schedule::Schedule;
use crate::pipeline::plan::{ChunkChoice, Plan, PlanOptions, even};
use std::time::{Duration, Instant};

/// The total time for the measurements of a job.
const BUDGET: Duration = Duration::from_millis(1200);
/// Maximum number of timed runs per plan.
const REPEATS_MAX: usize = 7;
/// Number of chunk sizes that the model proposes and that are measured.
const SIZES: usize = 6;
/// The smallest chunk that is tried.
const CHUNK_MIN: Bytes = Bytes(32 << 10);
/// The largest chunk that is tried, except the whole job.
const CHUNK_MAX: Bytes = Bytes(64 << 20);
/// Maximum number of chunks of a plan that is tried.
const CHUNKS_MAX: u64 = 8192;
/// A job with more bytes is not tried in one chunk. With one chunk nothing overlaps, so a large job
/// is clearly slower.
const WHOLE_MAX: Bytes = Bytes(64 << 20);
/// The number of slots of a measured plan, if the caller has not chosen a number.
const DEPTH: usize = 3;

/// A schedule with a chunk size and a number of slots, and the least time of its measured runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tried {
    /// How chunks share streams.
    pub schedule: Schedule,
    /// The size of a chunk's input in bytes.
    pub chunk: Bytes,
    /// The number of slots.
    pub depth: usize,
    /// The time of the fastest run, from the call to the end of the last operation of the run.
    pub time: Nanos,
}

/// Chooses a plan for the job. Returns the allocated resources of the plan, and the ways that were
/// measured.
pub(super) fn choose(job: &mut Job<'_, '_>) -> Result<(Resources, Vec<Tried>)> {
    let steady = job.device.info().clock != Clock::Processor;
    let is_open = job.settings.plan.schedule == Schedule::Tuned && job.layout.rows > 0;
    let (way, tried) = if steady && is_open { remembered(job)? } else { (None, Vec::new()) };
    if let Some(Way { schedule, chunk, depth }) = way {
        let options = job.settings.plan.clone();
        let chunk_choice = match options.chunk {
            Some(_) => options.chunk_choice,
            None => ChunkChoice::Measurement,
        };
        let (chunk, depth) = (Some(chunk), Some(depth));
        job.settings.plan = PlanOptions { schedule, chunk, depth, chunk_choice, ..options };
    }
    let mut resources = Resources::allocate(job)?;
    load(&resources.streams, &mut resources.slots, &job.stages)?;
    Ok((resources, tried))
}

/// Returns the remembered choice for the job, and no measured ways. If there is no remembered
/// choice, measures, remembers the fastest way, and returns it with all measured ways.
fn remembered(job: &mut Job<'_, '_>) -> Result<(Option<Way>, Vec<Tried>)> {
    if let Some(known) = remember::find(job)? {
        return Ok((Some(known), Vec::new()));
    }
    let tried = search(job)?;
    let best = best(&tried);
    best.map_or(Ok(()), |best| remember::keep(job, best))?;
    Ok((best, tried))
}

/// Measures the ways that may be the fastest.
fn search(job: &mut Job<'_, '_>) -> Result<Vec<Tried>> {
    let end = Instant::now() + BUDGET;
    let sharing = job.settings.sharing;
    // The probes of the model would not copy in the shared streams. Beside a bulk run, copies in
    // other streams take seconds.
    let model = if sharing == Sharing::Latency { None } else { measure(job)? };
    let wanted = (job.settings.plan.chunk, job.settings.plan.depth);
    let depth = wanted.1.unwrap_or(DEPTH);
    let total = Bytes(job.layout.bytes()?);
    let mut first = sizes(job, model.as_ref(), depth);
    let is_whole = wanted.0.is_none() && total <= WHOLE_MAX;
    if is_whole && !job.stages.stages.is_empty() && sharing != Sharing::Bulk {
        first.insert(0, Way { schedule: Schedule::InPlace, chunk: total, depth: 1 });
    }
    if is_whole {
        let schedule = match sharing {
            Sharing::Alone => Schedule::OneStream,
            Sharing::Latency | Sharing::Bulk => Schedule::RoleStreams,
        };
        first.push(Way { schedule, chunk: total, depth: 1 });
    }
    let mut tried: Vec<Tried> = Vec::new();
    let count = first.len();
    for (number, way) in first.into_iter().enumerate() {
        try_way(job, way, end, count - number, &mut tried)?;
    }
    for way in around(best(&tried), wanted.1, sharing) {
        try_way(job, way, end, 1, &mut tried)?;
    }
    Ok(tried)
}

/// Ways with different chunk sizes. The best size according to the model comes first.
fn sizes(job: &Job<'_, '_>, model: Option<&Model>, depth: usize) -> Vec<Way> {
    let way = |chunk| Way { schedule: Schedule::Tuned, chunk, depth };
    if let Some(chunk) = job.settings.plan.chunk {
        return vec![way(chunk)];
    }
    let (layout, granule) = (job.layout, job.layout.granule);
    let total = layout.rows.saturating_mul(layout.row_bytes);
    let powers = std::iter::successors(Some(CHUNK_MIN.0), |bytes| Some(2 * bytes));
    let fits = powers.take_while(|bytes| *bytes <= CHUNK_MAX.0 && *bytes < total);
    let mut timed: Vec<(f64, Way)> = fits
        .filter(|bytes| total / bytes <= CHUNKS_MAX)
        .map(|bytes| {
            let full = (bytes / layout.row_bytes / granule * granule).max(granule);
            let time = |model: &Model| model.time(&even(layout.rows, full), depth);
            // Without a model, the largest size comes first.
            (model.map_or(-(bytes as f64), time), way(Bytes(bytes)))
        })
        .collect();
    timed.sort_by(|a, b| a.0.total_cmp(&b.0));
    timed.into_iter().take(SIZES).map(|(_, way)| way).collect()
}

/// Ways with the chunk size of the best way so far, and with other streams or another number of
/// slots.
fn around(best: Option<Way>, depth: Option<usize>, sharing: Sharing) -> Vec<Way> {
    let Some(best) = best.filter(|best| best.schedule == Schedule::Tuned) else {
        return Vec::new();
    };
    let depths = depth.map_or(vec![2, 4, 8], |_| Vec::new());
    let slots = depths.into_iter().map(|depth| Way { depth, ..best });
    let schedules: &[_] = match sharing {
        Sharing::Alone => &[Schedule::RoleStreams, Schedule::SlotStreams],
        Sharing::Latency | Sharing::Bulk => &[Schedule::RoleStreams],
    };
    let streams = schedules.iter().map(|&schedule| Way { schedule, ..best });
    streams.chain(slots).collect()
}

fn best(tried: &[Tried]) -> Option<Way> {
    let best = tried.iter().min_by_key(|tried| tried.time)?;
    Some(Way { schedule: best.schedule, chunk: best.chunk, depth: best.depth })
}

/// Measures a way until its share of the time is over. The share is the time until `end`, divided
/// by `ways`, the number of ways left. Skips the way if there is not enough time or memory.
fn try_way(
    job: &mut Job<'_, '_>,
    way: Way,
    end: Instant,
    ways: usize,
    tried: &mut Vec<Tried>,
) -> Result<()> {
    let left = end.saturating_duration_since(Instant::now());
    let usual = tried.iter().map(|tried| tried.time).min().unwrap_or(Nanos(0));
    if nanos(left) < 2 * usual.0 {
        return Ok(());
    }
    let Some(mut resources) = allocate(job, way)? else { return Ok(()) };
    load(&resources.streams, &mut resources.slots, &job.stages)?;
    let (bytes, target) = match (&job.input, &mut job.output) {
        (Input::Pinned { bytes, .. }, Output::Pinned { target, .. }) => (*bytes, target),
        // A prepared job always has page-locked data.
        (Input::Source(_), _) | (_, Output::Sink(_)) => return Ok(()),
    };
    let driver = job.device.shared().domain.driver();
    let is_modelled = job.device.info().clock == Clock::Model;
    let share = nanos(left) / ways.max(1) as u64;
    let start = Instant::now();
    let mut least = Nanos(u64::MAX);
    for run in 0..=REPEATS_MAX {
        let begin = Reading::now(&**driver);
        pass(&mut resources, &job.stages, bytes, target.reborrow())?;
        let time = Reading::now(&**driver).since(begin);
        // Modelled times do not vary. On other clocks, the first run is the warm-up, if there is
        // time for another run.
        let is_last = is_modelled || nanos(start.elapsed()) + time.0 > share;
        if run > 0 || is_last {
            least = least.min(time);
        }
        if is_last {
            break;
        }
    }
    tried.push(Tried { schedule: way.schedule, chunk: way.chunk, depth: way.depth, time: least });
    Ok(())
}

/// Plans the job with the schedule, chunk size and depth of `way`, and allocates the plan's
/// resources. `None` if the resources do not fit into memory.
fn allocate(job: &Job<'_, '_>, way: Way) -> Result<Option<Resources>> {
    let (schedule, chunk, depth) = (way.schedule, Some(way.chunk), Some(way.depth));
    let options = PlanOptions { schedule, chunk, depth, ..job.settings.plan.clone() };
    let plan = Plan::new(job.layout, &options, &job.stages.reach, u64::MAX)?;
    match Resources::try_allocate(job, plan) {
        Err(error) if error.kind() == ErrorKind::OutOfMemory => Ok(None),
        resources => resources.map(Some),
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
