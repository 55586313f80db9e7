//! `trijet map`: applies an operation to an array that may be larger than the GPU's memory.
#![forbid(unsafe_code)]

use super::chain::Chain;
use super::memory;
use super::stop::cancel_on_signals;
use super::verdict::Live;
use super::{print, print_stderr, report};
use crate::args::MapOptions;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use trijet::pipeline::{Calibration, Layout};
use trijet::trace::summary::Audience;
use trijet::{Bytes, Device, Error, Pipeline, Report, Result, Source};
use trijet_cli::timeline;
use trijet_io::file_error;
use trijet_io::{Array, Durability, Fingerprint, Input, Output, Start, Stopped, Target};

/// Measures the link of a device that copies, with enough bytes for a stable rate, and few compared
/// to the run.
fn calibrate(device: &Device, layout: Layout) -> Result<Option<Calibration>> {
    if device.info().integrated {
        return Ok(None);
    }
    let bytes = Bytes((layout.bytes()? / 8).clamp(1 << 20, 64 << 20));
    Calibration::measure(device, bytes).map(Some)
}

/// Adds the settings that may be missing.
fn with_settings<'a>(
    mut pipeline: Pipeline<'a>,
    options: &MapOptions,
    calibration: Option<&Calibration>,
    memory: Option<Bytes>,
) -> Pipeline<'a> {
    if let Some(memory) = memory {
        pipeline = pipeline.host_memory(memory);
    }
    if let Some(calibration) = calibration {
        pipeline = pipeline.calibrated(calibration);
    }
    if let Some(chunk) = options.chunk {
        pipeline = pipeline.chunk(chunk);
    }
    if let Some(depth) = options.depth {
        pipeline = pipeline.depth(depth);
    }
    pipeline
}

/// A progress bar, which is hidden unless standard error is a terminal.
fn progress_bar(rows: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} % of {len} rows, {eta} left");
    let bar = ProgressBar::new(rows);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn open_input(options: &MapOptions) -> Result<Input> {
    match (&options.shape, options.dtype) {
        (Some(shape), Some(dtype)) => {
            let array = Array::new(dtype.into(), shape.0.clone())?;
            match options.raw {
                true => Input::headerless(&options.input, array),
                false => Input::open(&options.input, Some(array)),
            }
        }
        _ => Input::open(&options.input, None),
    }
}

/// The file of the timeline. It is refused before the run where it could only fail after it.
fn open_trace(options: &MapOptions, input: &Input, out: &Path) -> Result<Option<timeline::Target>> {
    let Some(path) = &options.trace else { return Ok(None) };
    let target = timeline::Target::new(path)?;
    let folder = |path: &Path| {
        path.parent().and_then(|parent| Path::new(".").join(parent).canonicalize().ok())
    };
    if path.file_name() == out.file_name() && folder(path) == folder(out) {
        return Err(file_error::refused("trace", path, "is the output; choose another name"));
    }
    if input.layout().rows == 0 {
        let cause = "there is nothing to trace, because the input has no elements";
        return Err(file_error::refused("trace", path, cause));
    }
    Ok(Some(target))
}

fn start_of(options: &MapOptions) -> Start {
    match (options.resume, options.unverified, options.restart) {
        (true, false, _) => Start::Resume,
        (true, true, _) => Start::ResumeUnverified,
        (false, _, true) => Start::Restart,
        (false, _, false) => Start::New,
    }
}

pub(crate) fn run(options: &MapOptions) -> Result<ExitCode> {
    let input = open_input(options)?;
    let array = input.array().clone();
    let chain = Chain::new(&options.steps, &array, &options.input)?;
    let describe = if options.raw { Target::or_headerless } else { Target::new };
    let target = describe(&options.output, array.clone(), &input)?;
    let trace = open_trace(options, &input, target.path())?;
    let granule = target.granule().max(input.layout().granule);
    let input = input.cut_at(granule);
    let layout = input.layout();
    let fingerprint =
        Fingerprint::new(&input, &chain.description(), &target).halo(chain.reach(layout));
    if !options.resume {
        target.check_free()?;
    } else if target.is_finished(&fingerprint)? {
        return say_finished(options, &target, &chain);
    }
    let device = super::open(options.device, &options.check)?;
    chain.load(&device)?;
    let cancel = cancel_on_signals("after the chunks in flight")?;
    // Steps that can fail without the output come before it.
    let memory = memory::for_chunks(options.memory)?;
    let calibration = calibrate(&device, layout)?;
    let durability = if options.no_sync { Durability::InMemory } else { Durability::OnDisk };
    let mut output = Output::open(&target, &fingerprint, start_of(options))?.durability(durability);
    if !output.lost().is_empty() {
        print_stderr(lost_words(&output, &target));
    } else if options.resume && output.done().count() == 0 {
        print_stderr("there is nothing to resume: the run starts from the beginning");
    }
    let todo = output.missing();
    let bar = progress_bar(layout.rows);
    let pipeline = Pipeline::on(&device).source(input);
    let pipeline = chain
        .stages(pipeline, layout)
        .sink(&mut output)
        .rows(todo)
        .cancel_with(&cancel)
        .on_progress(|progress| bar.set_position(progress.rows_done));
    let outcome = with_settings(pipeline, options, calibration.as_ref(), memory).run();
    bar.finish_and_clear();
    let audience = if options.chunk.is_some() { Audience::User } else { Audience::UserOfTuned };
    let report = match outcome {
        Ok(report) => report.for_audience(audience),
        Err(error) => return Err(explain(error, output, &target)),
    };
    let done = Done { options, target: &target, chain: &chain, trace };
    say_done(&report, device, &done).map_err(|error| error.context(complete_words(&target)))
}

/// A job whose output is complete.
struct Done<'a> {
    options: &'a MapOptions,
    target: &'a Target,
    chain: &'a Chain,
    trace: Option<timeline::Target>,
}

/// Writes the timeline, and prints the report.
fn say_done(report: &Report, device: Device, done: &Done<'_>) -> Result<ExitCode> {
    let Done { options, target, chain, trace } = done;
    let verdict = Live::of(&device);
    let (out, array) = (target.path().display(), target.array());
    let job = format!("{out}: {array}, {}", chain.description());
    if let Some(trace) = trace {
        trace.write(report, &job).map_err(|error| error.context("there is no timeline"))?;
    }
    if options.json {
        let mut value = report::json(report);
        add_job(&mut value, options, target, chain);
        verdict.add_to(&mut value);
        print(format_args!("{value:#}"))?;
    } else {
        print(job)?;
        print(report)?;
        if let Some(trace) = trace {
            print(format_args!("timeline: {}", trace.path().display()))?;
        }
        verdict.print()?;
    }
    device.close()?;
    Ok(verdict.exit_code())
}

/// What is true of the output after an error that came later.
fn complete_words(target: &Target) -> String {
    format!("{} is complete", target.path().display())
}

/// Adds the names of the job to the report.
fn add_job(value: &mut Value, options: &MapOptions, target: &Target, chain: &Chain) {
    value["input"] = options.input.display().to_string().into();
    value["output"] = target.path().display().to_string().into();
    value["operation"] = chain.description().into();
}

/// Ends a run that finds its output complete, so that a run that is repeated until it succeeds ends.
fn say_finished(options: &MapOptions, target: &Target, chain: &Chain) -> Result<ExitCode> {
    if options.json {
        let mut value = json!({ "rows": 0 });
        add_job(&mut value, options, target, chain);
        print(format_args!("{value:#}"))?;
    } else {
        let complete = complete_words(target);
        print(format_args!("{complete}: an earlier run of this job has finished it"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The most ranges of rows that a message names.
const RANGES_MAX: usize = 4;

/// What became of the rows of an earlier run that are not as it has written them.
fn lost_words(output: &Output, target: &Target) -> String {
    let ranges = output.lost();
    let named = ranges.iter().take(RANGES_MAX).map(|rows| format!("{}..{}", rows.start, rows.end));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match ranges.len().saturating_sub(RANGES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more ranges"),
    };
    format!(
        "{}: rows {named}{more} were done, but are not as they were written; they are computed again",
        target.path().display()
    )
}

/// Adds what became of the output.
fn explain(error: Error, output: Output, target: &Target) -> Error {
    let (out, rows) = (target.path().display(), target.layout().rows);
    match output.stop() {
        Ok(Stopped::Nothing) => {
            error.context(format!("{out}: no row was finished, so nothing is kept"))
        }
        Ok(Stopped::Rows(done)) => error.context(format!(
            "{out} is not finished: {done} of {rows} rows are kept; use --resume to continue"
        )),
        // The error says that it is complete.
        Ok(Stopped::Complete) => error,
        Err(second) => error.context(second.to_string()),
    }
}
