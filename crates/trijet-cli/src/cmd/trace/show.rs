//! The output of `trijet trace`, on the terminal and in files.
#![forbid(unsafe_code)]

use super::against::Comparison;
use super::foreign::read_error;
use super::json::json;
use super::memory::traces_of;
use super::sources::Sources;
use super::window::window;
use crate::args::{TraceOptions, has_extension};
use crate::cmd::document::print_json;
use crate::cmd::{print, print_stderr, wrong_usage};
use serde_json::Value;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trijet::probe::{Library, libraries};
use trijet::trace::activity::ProcessTrace;
use trijet::trace::process_file;
use trijet::{Error, ErrorKind, Nanos, Result};
use trijet_io::{NewFile, file_error, shown};
use trijet_ledger::profile::{
    FiguresOf, PageOptions, ProcessProfile, Profile, analyse, page, text,
};
use trijet_tools::allocations::text_of;
use trijet_traces::{chrome, clocks, is_json, kineto, nsys, table};

/// The files that the command writes. `None` for a file that the user has not requested.
pub(super) struct Outputs {
    /// The file of the trace, or of the page.
    trace: Option<NewFile>,
    /// The file of the allocations.
    memory: Option<NewFile>,
}

/// Prepares the files that the command writes. A file that cannot be written is an error before the
/// program starts.
pub(super) fn outputs(options: &TraceOptions) -> Result<Outputs> {
    let existing = options.overwrite.existing();
    let sources: Vec<&Path> = options.read.iter().map(PathBuf::as_path).collect();
    let file = |op, path: &Option<PathBuf>| {
        path.as_deref().map(|path| NewFile::new(op, path, existing, &sources)).transpose()
    };
    let memory = file("save the allocations", &options.memory)?;
    let trace = match (file("save the trace", &options.output)?, &memory) {
        (Some(trace), Some(memory)) => Some(trace.beside(memory.path())?),
        (trace, _) => trace,
    };
    Ok(Outputs { trace, memory })
}

/// The form of an output, by the extension of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TraceForm {
    /// The files of the processes, joined.
    Files,
    Page,
    /// JSON in the form of Chrome's traces.
    Json,
    Csv,
}

impl TraceForm {
    fn of(output: &Path) -> Self {
        let forms = [("html", Self::Page), ("json", Self::Json), ("csv", Self::Csv)];
        let form = forms.into_iter().find(|(extension, _)| has_extension(output, extension));
        form.map_or(Self::Files, |(_, form)| form)
    }
}

/// The part of the run from which the figures are computed.
pub(super) fn extent(options: &TraceOptions) -> FiguresOf {
    if options.whole { FiguresOf::Whole } else { FiguresOf::Steps }
}

/// Reads the traces in a file.
pub(crate) fn load(file: &Path) -> Result<Vec<ProcessTrace>> {
    let io = |error| file_error::io("trace", file, error);
    let foreign = |error| read_error(file, error);
    let mut open = BufReader::new(File::open(file).map_err(io)?);
    let start = open.fill_buf().map_err(io)?;
    if nsys::is_sqlite(start) {
        return nsys::read(file).map_err(foreign);
    }
    if is_json(start) {
        return kineto::read(open).map_err(foreign);
    }
    process_file::read(open).map_err(|error| error.context(shown(file).to_string()))
}

/// Shows the processes of saved traces.
pub(super) fn files(
    files: &[PathBuf],
    options: &TraceOptions,
    outputs: &Outputs,
    base: Option<&Value>,
) -> Result<ExitCode> {
    let mut of_files = Vec::new();
    for file in files {
        let of_file = load(file)?;
        if of_file.is_empty() {
            let cause = format!("{}: the file is empty", shown(file));
            return Err(Error::new(ErrorKind::Io, "read trace", cause));
        }
        of_files.push(of_file);
    }
    clocks::align(&mut of_files);
    let of_trace =
        |(file, traces): (&PathBuf, &Vec<ProcessTrace>)| vec![file.clone(); traces.len()];
    let paths: Vec<PathBuf> = files.iter().zip(&of_files).flat_map(of_trace).collect();
    let mut traces: Vec<_> = of_files.into_iter().flatten().collect();
    let profile = analysed(&mut traces, extent(options));
    let window = match window(options, length(&profile)) {
        Ok(window) => window,
        Err(wrong) => return Ok(wrong_usage(&wrong)),
    };
    if let Some(output) = &outputs.trace {
        write_form(output, &traces, &profile, window)?;
    }
    write_memory(&traces, outputs)?;
    let sources = Sources::of(&paths, &traces, &profile)?;
    let mut report = json(&profile, None);
    sources.add_to(&mut report);
    let comparison = Comparison::of(options, base, &report);
    if options.json {
        report["against"] = comparison.as_ref().map(Comparison::json).into();
        print_json("trace", &report)?;
    } else {
        print(text(&profile).trim_end())?;
        sources.lines(&profile).iter().try_for_each(print)?;
        comparison.iter().flat_map(Comparison::lines).try_for_each(print)?;
    }
    Ok(comparison.map_or(ExitCode::SUCCESS, |one| one.exit_code()))
}

/// The profile of these traces.
pub(super) fn analysed(traces: &mut [ProcessTrace], extent: FiguresOf) -> Profile {
    Profile::of(traces.iter_mut().map(|one| analyse(one, extent)).collect())
}

/// The time from the start to the end of a trace.
fn length(profile: &Profile) -> Nanos {
    profile.life().map_or(Nanos(0), |life| Nanos(life.end - life.start))
}

/// Writes a trace in the form of the output's name, which is not [`TraceForm::Files`].
fn write_form(
    output: &NewFile,
    traces: &[ProcessTrace],
    profile: &Profile,
    window: Option<Range<Nanos>>,
) -> Result<()> {
    match TraceForm::of(output.path()) {
        TraceForm::Json => output.write(|file| chrome::write(traces, &mut BufWriter::new(file))),
        TraceForm::Csv => output.write(|file| table::write(traces, &mut BufWriter::new(file))),
        TraceForm::Page | TraceForm::Files => {
            let bytes = page_of(traces, profile, window);
            output.write(|file| file.write_all(&bytes))
        }
    }
}

/// The page of a trace.
pub(crate) fn page_of(
    traces: &[ProcessTrace],
    profile: &Profile,
    window: Option<Range<Nanos>>,
) -> Vec<u8> {
    let processes = &profile.processes;
    let works = processes.iter().find(|process| !process.devices.is_empty());
    let title = works.or(processes.first()).map_or("", |process| &process.command);
    page(traces, profile, &PageOptions { title: title.to_owned(), window })
}

/// Writes the allocations, if the user has requested them.
fn write_memory(traces: &[ProcessTrace], outputs: &Outputs) -> Result<()> {
    let Some(output) = &outputs.memory else { return Ok(()) };
    let text = text_of(&traces_of(traces)?);
    output.write(|file| file.write_all(text.as_bytes()))
}

/// Shows the traces of all processes of a run, and saves the traces if the user has requested this.
/// If nothing was traced, the exit status is a failure.
pub(super) fn run(
    files: &[PathBuf],
    options: &TraceOptions,
    outputs: &Outputs,
    base: Option<&Value>,
) -> Result<ExitCode> {
    let (mut processes, mut kept) = (Vec::new(), Vec::new());
    let output = outputs.trace.as_ref();
    for file in files {
        match load(file) {
            Ok(mut traces) => {
                processes.extend(traces.iter_mut().map(|one| analyse(one, extent(options))));
                // All other forms than the files need all traces at once.
                let is_form =
                    output.is_some_and(|one| TraceForm::of(one.path()) != TraceForm::Files);
                let is_kept = outputs.memory.is_some() || is_form;
                kept.extend(is_kept.then_some(traces));
            }
            Err(error) => print_stderr(format_args!("error: {error}")),
        }
    }
    let profile = Profile::of(processes);
    let missing = missing(&profile.processes, files.len());
    let traces: Vec<_> = kept.into_iter().flatten().collect();
    let window = window(options, length(&profile));
    match output.filter(|_| missing.is_none()) {
        Some(output) if TraceForm::of(output.path()) != TraceForm::Files => {
            if let Ok(window) = &window {
                write_form(output, &traces, &profile, window.clone())?;
            }
        }
        Some(output) => output.write(|file| join(files, file))?,
        None => {}
    }
    // The allocations are written last, because this fails for a program without allocations.
    if missing.is_none() {
        write_memory(&traces, outputs)?;
    }
    let mut report = json(&profile, missing.as_deref());
    let comparison = Comparison::of(options, base, &report);
    if options.json {
        report["against"] = comparison.as_ref().map(Comparison::json).into();
        print_json("trace", &report)?;
    }
    if let Some(reason) = missing {
        print_stderr(format_args!("error: nothing was traced: {reason}"));
        return Ok(ExitCode::FAILURE);
    }
    if !options.json {
        print_stderr(text(&profile).trim_end());
        comparison.iter().flat_map(Comparison::lines).for_each(print_stderr);
    }
    // The program has run, so its summary is shown even if `--from` or `--to` is wrong.
    let verdict = comparison.map_or(ExitCode::SUCCESS, |one| one.exit_code());
    Ok(window.map_or_else(|wrong| wrong_usage(&wrong), |_| verdict))
}

/// The reason why the processes from `files` files have no activity to show. `None` if there is an
/// activity.
pub(crate) fn missing(processes: &[ProcessProfile], files: usize) -> Option<String> {
    let is_empty = |process: &ProcessProfile| {
        process.devices.is_empty() && process.end.is_some_and(|e| e.activities == 0)
    };
    processes.iter().all(is_empty).then(|| {
        if processes.is_empty() && files > 0 {
            return "the traces of the program cannot be read".to_owned();
        }
        reason(processes)
    })
}

/// The reason why there is no activity to show.
fn reason(processes: &[ProcessProfile]) -> String {
    if let Some(trouble) = processes.iter().flat_map(|process| &process.troubles).next() {
        return trouble.clone();
    }
    if !processes.is_empty() {
        return "the program initialised CUDA but made no call".to_owned();
    }
    let driver = libraries().into_iter().find(|report| report.library == Library::Driver);
    if let Some(error) = driver.and_then(|report| report.state.err()) {
        return format!("there is no CUDA driver: {error}");
    }
    "the program did not initialise CUDA".to_owned()
}

/// Joins the files of processes into one.
pub(crate) fn join(files: &[PathBuf], into: &mut File) -> io::Result<()> {
    let mut into = BufWriter::new(into);
    for file in files {
        process_file::append_whole_blocks(BufReader::new(File::open(file)?), &mut into)?;
    }
    into.flush()
}
