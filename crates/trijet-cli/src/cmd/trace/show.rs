//! What `trijet trace` shows and saves.
#![forbid(unsafe_code)]

use super::error::failed;
use super::memory::trace_of;
use crate::args::TraceOptions;
use crate::cmd::{print, print_stderr};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trijet::probe::{Library, libraries};
use trijet::trace::activity::ProcessTrace;
use trijet::trace::process_file;
use trijet::{Error, ErrorKind, Nanos, Result};
use trijet_cli::profile::{PageOptions, Process, Profile, analyse, json, page, text};

/// Refuses an output that exists, and options that it has no use for.
pub(super) fn check_output(options: &TraceOptions) -> Result<()> {
    if let Some(memory) = &options.memory
        && fs::symlink_metadata(memory).is_ok()
    {
        let cause = format!("{}: already exists", memory.display());
        return Err(Error::new(ErrorKind::InvalidValue, "save the allocations", cause));
    }
    let Some(output) = &options.output else { return Ok(()) };
    let refused = |cause: &str| {
        let cause = format!("{}: {cause}", output.display());
        Err(Error::new(ErrorKind::InvalidValue, "save the trace", cause))
    };
    if fs::symlink_metadata(output).is_ok() {
        return refused("already exists");
    }
    if is_page(output) {
        return Ok(());
    }
    if options.read.is_some() {
        return refused("a saved trace can be written as a page; use a name with .html");
    }
    if options.from.is_some() || options.to.is_some() {
        return refused("--from and --to choose the timeline of a page; use a name with .html");
    }
    Ok(())
}

fn is_page(output: &Path) -> bool {
    output.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("html"))
}

/// Reads the traces in a file.
fn load(file: &Path) -> Result<Vec<ProcessTrace>> {
    let name = || file.display().to_string();
    let open = File::open(file).map_err(|error| failed("open", &error).context(name()))?;
    process_file::read(BufReader::new(open)).map_err(|error| error.context(name()))
}

/// Shows a saved trace.
pub(super) fn file(file: &Path, options: &TraceOptions) -> Result<()> {
    let mut traces = load(file)?;
    if traces.is_empty() {
        let cause = format!("{}: the file is empty", file.display());
        return Err(Error::new(ErrorKind::Io, "read trace", cause));
    }
    let profile = Profile::of(traces.iter_mut().map(analyse).collect());
    if let Some(output) = &options.output {
        write_page(output, &traces, &profile, options)?;
    }
    write_memory(&traces, options)?;
    if options.json {
        return print(format_args!("{:#}", json(&profile, None)));
    }
    print(text(&profile).trim_end())
}

/// Writes the page of a trace.
fn write_page(
    output: &Path,
    traces: &[ProcessTrace],
    profile: &Profile,
    options: &TraceOptions,
) -> Result<()> {
    let window = (options.from.is_some() || options.to.is_some())
        .then(|| options.from.unwrap_or_default()..options.to.unwrap_or(Nanos(u64::MAX)));
    let processes = &profile.processes;
    let works = processes.iter().find(|process| !process.devices.is_empty());
    let title = works.or(processes.first()).map_or("", |process| &process.command);
    let settings = PageOptions { title: title.to_owned(), window };
    let bytes = page(traces, profile, &settings);
    create(output, |mut file| file.write_all(&bytes))
}

/// Writes the allocations, if that was requested.
fn write_memory(traces: &[ProcessTrace], options: &TraceOptions) -> Result<()> {
    let Some(path) = &options.memory else { return Ok(()) };
    let trace = trace_of(traces)?;
    create(path, |mut file| file.write_all(trace.text().as_bytes()))
}

/// Shows the traces of all processes of a run, and saves them if that was requested. Without a trace
/// the status is a failure.
pub(super) fn run(files: &[PathBuf], options: &TraceOptions) -> Result<ExitCode> {
    let (mut processes, mut kept) = (Vec::new(), Vec::new());
    let output = options.output.as_deref();
    for file in files {
        match load(file) {
            Ok(mut traces) => {
                processes.extend(traces.iter_mut().map(analyse));
                // A page and a trace of allocations need all traces at once.
                let is_kept = options.memory.is_some() || output.is_some_and(is_page);
                kept.extend(is_kept.then_some(traces));
            }
            Err(error) => print_stderr(format_args!("error: {error}")),
        }
    }
    let profile = Profile::of(processes);
    let processes = &profile.processes;
    let is_empty = |process: &Process| {
        process.devices.is_empty() && process.end.is_some_and(|e| e.activities == 0)
    };
    let missing = processes.iter().all(is_empty).then(|| {
        if processes.is_empty() && !files.is_empty() {
            return "the traces of the program cannot be read".to_owned();
        }
        reason(processes)
    });
    let traces: Vec<_> = kept.into_iter().flatten().collect();
    if missing.is_none() {
        write_memory(&traces, options)?;
    }
    match output.filter(|_| missing.is_none()) {
        Some(output) if is_page(output) => {
            write_page(output, &traces, &profile, options)?;
        }
        Some(output) => create(output, |file| join(files, file))?,
        None => {}
    }
    if options.json {
        print(format_args!("{:#}", json(&profile, missing.as_deref())))?;
    }
    if let Some(reason) = missing {
        print_stderr(format_args!("error: nothing was traced: {reason}"));
        return Ok(ExitCode::FAILURE);
    }
    if !options.json {
        print_stderr(text(&profile).trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

/// Why there is no activity to show.
fn reason(processes: &[Process]) -> String {
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

/// Creates a file that does not exist, and has `write` write it.
fn create(output: &Path, write: impl FnOnce(File) -> io::Result<()>) -> Result<()> {
    let written = OpenOptions::new().write(true).create_new(true).open(output).and_then(|file| {
        let written = write(file);
        if written.is_err() {
            // Half a trace is of no use. If it cannot be removed, the first error is reported.
            let _removed = fs::remove_file(output);
        }
        written
    });
    written.map_err(|error| failed("save the trace", &error).context(output.display().to_string()))
}

/// Joins the files of processes into one.
fn join(files: &[PathBuf], into: File) -> io::Result<()> {
    let mut into = BufWriter::new(into);
    for file in files {
        process_file::append_whole_blocks(BufReader::new(File::open(file)?), &mut into)?;
    }
    into.flush()
}
