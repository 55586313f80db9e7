//! `trijet map`: an operation over an array that may be larger than the GPU, from file to file.
#![forbid(unsafe_code)]

use super::operation::Operation;
use super::{print, report, tell};
use crate::args::MapOptions;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use trijet::pipeline::{Calibration, Cancel, Layout, Pipeline, Source};
use trijet::{Bytes, Error, ErrorKind, Result};
use trijet_cli::format::{self, Array};
use trijet_cli::journal::Fingerprint;
use trijet_cli::output::{Output, Start, Target};

/// What the link is measured with before a run: enough for a stable rate, little beside the run.
fn calibration_bytes(layout: Layout) -> Result<Bytes> {
    Ok(Bytes((layout.bytes()? / 8).clamp(1 << 20, 64 << 20)))
}

/// The first Ctrl-C ends the run between two chunks, the second one at once.
fn cancel_on_interrupt() -> Result<Cancel> {
    let cancel = Cancel::new();
    let pressed = cancel.clone();
    let handler = move || {
        if pressed.is_cancelled() {
            std::process::exit(130);
        }
        tell("\nstopping after the chunks in flight; once more to stop at once");
        pressed.cancel();
    };
    ctrlc::set_handler(handler).map_err(|e| {
        Error::new(ErrorKind::Unsupported, "map", "Ctrl-C cannot be caught").caused_by(e)
    })?;
    Ok(cancel)
}

/// Progress on a terminal, and nothing elsewhere.
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

pub(crate) fn run(options: &MapOptions) -> Result<()> {
    let raw = match (&options.shape, options.dtype) {
        (Some(shape), Some(dtype)) => Some(Array::new(dtype.into(), shape.0.clone())?),
        _ => None,
    };
    let input = format::open(&options.input, raw)?;
    let array = input.array().clone();
    let operation = Operation::new(options, &array)?;
    let target = Target::new(&options.output, array.clone(), &input)?;
    let device = super::open(options.device)?;
    operation.load(&device, array.dtype())?;
    let cancel = cancel_on_interrupt()?;
    let granule = target.granule().max(input.layout().granule);
    let input = input.cut_at(granule);
    let layout = input.layout();
    let fingerprint = Fingerprint::new(&input, &operation.words(), &target);
    let start = if options.resume { Start::Resume } else { Start::Over };
    let output = Output::open(&target, &fingerprint, start)?;
    let todo = output.missing();
    let bar = progress_bar(layout.rows);
    let calibration = Calibration::measure(&device, calibration_bytes(layout)?)?;
    let pipeline = Pipeline::on(&device).source(input);
    let mut pipeline = operation
        .stage(pipeline, array.dtype(), layout)
        .sink(output)
        .rows(todo)
        .cancel_with(&cancel)
        .calibrated(&calibration)
        .on_progress(|progress| bar.set_position(progress.rows_done));
    if let Some(chunk) = options.chunk {
        pipeline = pipeline.chunk(chunk);
    }
    if let Some(depth) = options.depth {
        pipeline = pipeline.depth(depth);
    }
    let outcome = pipeline.run();
    bar.finish_and_clear();
    let report = outcome.map_err(|error| explain(error, &target))?;
    if options.json {
        print(format_args!("{:#}", report::json(&report)))?;
    } else {
        print(format_args!("{}: {array}, {}", target.path().display(), operation.words()))?;
        print(&report)?;
    }
    device.close()
}

/// Says what became of the output.
fn explain(error: Error, target: &Target) -> Error {
    let out = target.path().display();
    match error.kind() {
        ErrorKind::Cancelled => error.context(format!("{out} is not finished; --resume goes on")),
        _ => error.context(format!("{out} was not written; what is finished is kept for --resume")),
    }
}
