//! Jobs whose target is a file or a folder, and plans of jobs.

use crate::error::refused;
use crate::job_claims;
use crate::outcome::{JobState, Report};
use crate::parts::{AnyTarget, Failure, OpenJob, Parts, Progress};
use crate::target::PathTarget;
use crate::verdict::Verdict;
use pyo3::prelude::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use trijet::pipeline::{Calibration, rows_to_fn};
use trijet::sim::{Executor, HostConfig, Order};
use trijet::{Bytes, Cancel, Device, Error, Pipeline, Result, Source};
use trijet_io::{
    Durability, Fingerprint, Input, Output, Shard, Start, Stopped, Target, refuse_sources, shown,
};
use trijet_map::{Job, Step, beside_chunks, for_chunks};

/// The number of bytes of each copy that measures the rates of the model.
const MODELLED_BYTES: Bytes = Bytes(16 << 20);

/// The files that a job reads.
fn sources<'a>(input: &'a Input, steps: &'a [Step]) -> Vec<&'a Path> {
    std::iter::once(input.path()).chain(steps.iter().flat_map(Step::files)).collect()
}

impl Parts {
    /// The output in files, or the part of it that this process writes.
    fn describe(&self, target: &PathTarget, job: &OpenJob) -> Result<Target> {
        if self.source.has_files() {
            refuse_sources("create", &target.path, &sources(&job.input, &job.steps))?;
        }
        let described = target.describe(job.chain.output_of_part()?, &job.input)?;
        if self.options.claim.is_some() {
            self.refuse_beside_claims()?;
            let granule = job.chain.granule(described.granule());
            return Ok(described.with_claims(granule));
        }
        let described = if self.options.overwrite { described.overwrite() } else { described };
        let Some((index, count)) = self.options.shard else { return Ok(described) };
        if !self.source.has_files() {
            let cause = "`shard` needs a source in files, because arrays of several processes \
                         cannot be compared";
            return Err(refused("map", cause));
        }
        if self.options.overwrite {
            let cause = "`overwrite` needs a job of one process, and `shard` names one of several";
            return Err(refused("map", cause));
        }
        let shard = Shard::new(index, count);
        let shard = shard.ok_or_else(|| refused("map", format!("no shard {index} of {count}")))?;
        let granule = job.chain.granule(described.granule());
        Ok(described.of_shard(shard, granule))
    }

    fn start(&self) -> Result<Start> {
        match (self.options.resume, self.options.restart) {
            (true, true) => Err(refused("map", "choose one of `resume` and `restart`")),
            (true, false) if !self.source.has_files() => {
                let cause = "`resume` needs a source in files, because an array of the program \
                             cannot be compared with the array of the earlier run";
                Err(refused("map", cause))
            }
            (true, false) => Ok(Start::Resume),
            (false, true) => Ok(Start::Restart),
            (false, false) => Ok(Start::New),
        }
    }

    fn open_output(&self, target: &Target, run: &Fingerprint) -> Result<Output> {
        let durability =
            if self.options.durable { Durability::OnDisk } else { Durability::InMemory };
        let output = Output::open(target, run, self.start()?)?.durability(durability);
        let output = match self.options.settings.memory {
            Some(limit) => output.host_memory(beside_chunks(limit)),
            None => output,
        };
        output.check_space()?;
        Ok(output)
    }
}

/// Runs a job into files.
pub(crate) fn run(
    parts: &Parts,
    target: &PathTarget,
    cancel: &Cancel,
    progress: &Progress,
) -> std::result::Result<Report, Failure> {
    let job = parts.open()?;
    let target = parts.describe(target, &job)?;
    let (input, chain) = (job.input, Arc::new(job.chain));
    let needed = Arc::clone(&chain);
    let run = Fingerprint::new(&input, &chain.description(), &target)
        .input_rows(move |rows| needed.input_rows(rows));
    let run = if parts.options.same_input { run.same_input() } else { run };
    if let Some(lease) = parts.options.claim {
        let files =
            job_claims::ClaimedFiles { input: &input, target: &target, chain: &chain, run: &run };
        return job_claims::run(parts, &files, lease, cancel, progress);
    }
    if !parts.options.resume {
        target.check_free()?;
    } else if target.is_finished(&run)? {
        return Ok(Report::new(
            Vec::new(),
            JobState::of_files(&input, &target, &chain, target.rows().end),
        ));
    }
    // The pages of the output are created while the devices start.
    let output = parts.open_output(&target, &run)?;
    let output = if parts.source.skips() { output.skipping(&input) } else { output };
    let mut output = output.begin_ahead();
    let devices = parts.devices(&chain)?;
    let granule = chain.granule(target.granule());
    let own = Job::new(&chain, &devices, input.layout(), granule, parts.options.settings)?;
    let todo = own.todo(&output);
    let kept = todo.kept;
    progress.all.store(todo.count() + kept, Ordering::Relaxed);
    progress.done.store(kept, Ordering::Relaxed);
    let on_rows = |rows| progress.add(rows);
    let reports = match own.run(&input, &mut output, &todo.rows, cancel, &on_rows) {
        Ok(reports) => reports,
        Err(error) => {
            let is_kept = parts.source.has_files();
            return Err(explain(error, output, &target, is_kept).into());
        }
    };
    let is_complete = output.is_complete();
    drop(own);
    let verdict = Verdict::of(&devices)?;
    parts.close(devices)?;
    let damaged = input.damaged();
    let damaged = damaged.iter().map(|one| (one.name.to_string_lossy().into(), one.why.clone()));
    let state = JobState {
        is_complete,
        verdict,
        damaged: damaged.collect(),
        ..JobState::of_files(&input, &target, &chain, kept)
    };
    Ok(Report::new(reports, state))
}

/// Adds the state of the output to an error.
fn explain(error: Error, output: Output, target: &Target, has_files: bool) -> Error {
    let (out, rows) = (shown(target.path()), target.rows());
    let rows = rows.end - rows.start;
    match output.stop() {
        Ok(Stopped::Nothing) => {
            error.context(format!("{out}: no row was finished, so nothing is kept"))
        }
        Ok(Stopped::Rows(done)) => error.context(format!(
            "{out} is not finished: {done} of {rows} rows are kept; {}",
            match has_files {
                true => "use resume=True to continue",
                false => "use restart=True to start over, because the source is an array",
            }
        )),
        // The error states that the output is complete.
        Ok(Stopped::Complete) => error,
        Err(second) => error.context(second.to_string()),
    }
}

/// The plan of a job: its bytes, its memory and its least time.
#[pyclass(frozen, get_all)]
#[derive(Debug)]
pub(crate) struct Plan {
    /// The shape of the result.
    shape: Vec<u64>,
    /// The name of the element type of the result in NumPy.
    dtype: &'static str,
    /// The operations.
    operation: String,
    /// The bytes that are read from the source.
    bytes_in: u64,
    /// The bytes that are written to the target.
    bytes_out: u64,
    /// The number of chunks.
    chunks: usize,
    /// The number of chunks in flight.
    slots: usize,
    /// The page-locked host memory in bytes.
    pinned_bytes: u64,
    /// The memory of the device in bytes.
    device_bytes: u64,
    /// The least time of the copies on a modelled H200, in seconds.
    copies_seconds: f64,
    /// Parts of the source that the target does not have.
    left_out: Vec<String>,
    /// The reason why the run would be refused.
    refused: Option<String>,
}

/// Plans a job on a modelled H200. Nothing is created.
pub(crate) fn plan(parts: &Parts) -> Result<Plan> {
    let job = parts.open()?;
    let target = match &parts.target {
        AnyTarget::Path(target) => Some(parts.describe(target.get(), &job)?),
        AnyTarget::Memory(_) | AnyTarget::Push(_) => None,
    };
    let (input, chain) = (&job.input, &job.chain);
    let array = chain.output_of_part()?;
    let rows = target.as_ref().map_or(0..array.layout().rows, Target::rows_of_whole);
    let granule = chain.granule(target.as_ref().map_or(1, Target::granule));
    let executor = Executor::Virtual(Order::Greedy);
    let device = Device::builder().host(HostConfig::new().executor(executor)).open()?;
    let pipeline = chain.stages(Pipeline::on(&device).source(input), granule);
    let limit = for_chunks(parts.options.settings.memory)?;
    let needs = parts
        .options
        .settings
        .apply(pipeline, limit)
        .rows(std::iter::once(rows.clone()).filter(|rows| !rows.is_empty()).collect())
        .sink(rows_to_fn(|_, _: &[u8]| Ok(())))
        .needs()?;
    let layout = input.layout();
    let read = needs.plan.chunks.iter().map(|chunk| chunk.input.end - chunk.input.start);
    let read = Bytes(read.sum::<u64>() * layout.row_bytes);
    let written = Bytes((rows.end - rows.start) * array.layout().row_bytes);
    let time = Calibration::measure(&device, MODELLED_BYTES)?.bound(read, written);
    let refused = target.as_ref().filter(|_| !parts.options.resume);
    let left_out = target.iter().flat_map(Target::left_out);
    Ok(Plan {
        shape: array.shape().to_vec(),
        dtype: array.dtype().numpy_name(),
        operation: chain.description(),
        bytes_in: read.0,
        bytes_out: written.0,
        chunks: needs.plan.chunks.len(),
        slots: needs.plan.depth.min(needs.plan.chunks.len()),
        pinned_bytes: needs.pinned.0,
        device_bytes: needs.device.0,
        copies_seconds: time.seconds(),
        left_out: input.left_out().iter().chain(left_out).cloned().collect(),
        refused: refused.and_then(|target| target.check_free().err()).map(|e| e.to_string()),
    })
}
