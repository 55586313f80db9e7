//! `trijet map`: applies an operation to an array that may be larger than the GPU's memory.
#![forbid(unsafe_code)]

mod words;

use self::words::{Done, complete_words, explain, lost_words, say_done, say_finished};
use super::chain::Chain;
use super::memory;
use super::print_stderr;
use super::stop::cancel_on_signals;
use crate::args::MapOptions;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use trijet::pipeline::{Calibration, Layout};
use trijet::trace::summary::Audience;
use trijet::{Bytes, Device, Pipeline, Result, Source};
use trijet_cli::timeline;
use trijet_io::file_error;
use trijet_io::{Array, Durability, Fingerprint, Input, Output, Start, Target};

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
