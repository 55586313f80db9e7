//! `trijet check -- PROGRAM`: the verdict about the calls of a program that does not use Trijet.
#![forbid(unsafe_code)]

use super::baseline::Baseline;
use super::page;
use super::process::{Sorted, process_json, sorted, text};
use crate::args::{CheckOptions, has_extension};
use crate::cmd::document::print_json;
use crate::cmd::program::{Injected, Run, exit_status};
use crate::cmd::{print, print_stderr, trace::join};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trijet::check::Assume;
use trijet::probe::{Library, libraries};
use trijet::{Error, ErrorKind, Result};
use trijet_calls::{Judged, judge};
use trijet_cupti::call_file::MAGIC;
use trijet_cupti::file::HEAD_BYTES;
use trijet_io::{NewFile, file_error, shown};

/// Whether a file has the calls of a program.
pub(super) fn is_calls(start: &[u8]) -> bool {
    start.get(HEAD_BYTES..).is_some_and(|rest| rest.starts_with(&MAGIC))
}

/// The verdicts of processes, the baseline, and the number of files that cannot be read.
struct SortedProcesses {
    processes: Vec<Sorted>,
    baseline: BaselineFiles,
    unread: usize,
}

/// Checks the calls in a file.
pub(super) fn file(file: &Path, options: &CheckOptions, assume: Assume) -> Result<ExitCode> {
    let output = output(options, &[file])?;
    let is_page = output.as_ref().is_none_or(|output| is_page(output.path()));
    if !is_page {
        let cause = format!("{} has the calls already; `-o` writes a page, FILE.html", shown(file));
        return Err(Error::new(ErrorKind::InvalidValue, "check", cause));
    }
    let files = BaselineFiles::new(options)?;
    let sorted = files.sort(read(file, assume)?, 0);
    let page = |sorted: &SortedProcesses| match &output {
        Some(output) => write_page(output, &[file.to_owned()], sorted, assume),
        None => Ok(()),
    };
    show(sorted, options, page, |text| print(text))
}

/// The file that the user asked for.
fn output(options: &CheckOptions, sources: &[&Path]) -> Result<Option<NewFile>> {
    let existing = options.overwrite.existing();
    let output = options.output.as_deref();
    output.map(|path| NewFile::new("save the calls", path, existing, sources)).transpose()
}

fn is_page(output: &Path) -> bool {
    has_extension(output, "html")
}

/// Writes the page about the findings, if there are any. `files` have the calls.
fn write_page(
    output: &NewFile,
    files: &[PathBuf],
    sorted: &SortedProcesses,
    assume: Assume,
) -> Result<()> {
    let Some(number) = page::of(&sorted.processes) else {
        print_stderr(format_args!("{} was not written: there is no finding", shown(output.path())));
        return Ok(());
    };
    page::write(output, &sorted.processes[number], files, assume)
}

/// The baseline that a check reads, and the file that it writes.
struct BaselineFiles {
    baseline: Baseline,
    output: Option<NewFile>,
}

impl BaselineFiles {
    fn new(options: &CheckOptions) -> Result<Self> {
        let baseline = options.baseline.as_deref().map(Baseline::read);
        let existing = options.overwrite.existing();
        let output = options.write_baseline.as_deref();
        let output = output.map(|path| NewFile::new("write the baseline", path, existing, &[]));
        Ok(Self {
            baseline: baseline.transpose()?.unwrap_or_else(Baseline::empty),
            output: output.transpose()?,
        })
    }

    /// Takes the findings of the baseline from the processes.
    fn sort(mut self, processes: Vec<Judged>, unread: usize) -> SortedProcesses {
        let processes = processes.into_iter().map(|one| sorted(one, &mut self.baseline)).collect();
        SortedProcesses { processes, baseline: self, unread }
    }
}

pub(super) fn run(options: &CheckOptions, assume: Assume) -> Result<ExitCode> {
    let output = output(options, &[])?;
    let baseline = BaselineFiles::new(options)?;
    let injected = if options.kernels { Injected::CallsAndKernels } else { Injected::Calls };
    let (status, folder) = match Run::new(&options.command, injected, &[])? {
        Run::NotStarted(code) => return Ok(code),
        Run::Ended { status, folder } => (status, folder),
    };
    let shown = folder.files().and_then(|files| {
        let (page, calls) = match output {
            Some(output) if is_page(output.path()) => (Some(output), None),
            calls => (None, calls),
        };
        if let Some(output) = calls.filter(|_| !files.is_empty()) {
            output.write(|file| join(&files, file))?;
        }
        let (mut processes, mut unread) = (Vec::new(), 0);
        for file in &files {
            match read(file, assume) {
                Ok(judged) => processes.extend(judged),
                Err(error) => {
                    unread += 1;
                    print_stderr(format_args!("error: {error}"));
                }
            }
        }
        let page = |sorted: &SortedProcesses| match &page {
            Some(output) => write_page(output, &files, sorted, assume),
            None => Ok(()),
        };
        show(baseline.sort(processes, unread), options, page, |text| {
            print_stderr(text);
            Ok(())
        })
    });
    let own = shown.unwrap_or_else(|error| {
        print_stderr(format_args!("error: {error}"));
        ExitCode::FAILURE
    });
    Ok(exit_status(status, own))
}

fn read(path: &Path, assume: Assume) -> Result<Vec<Judged>> {
    let bytes = std::fs::read(path).map_err(|error| file_error::io("check", path, error))?;
    judge(&bytes, assume).map_err(|error| {
        Error::new(ErrorKind::InvalidValue, "check", format!("{}: {error}", shown(path)))
    })
}

/// Shows the verdicts of processes.
fn show(
    shown: SortedProcesses,
    options: &CheckOptions,
    page: impl FnOnce(&SortedProcesses) -> Result<()>,
    print: impl Fn(&str) -> Result<()>,
) -> Result<ExitCode> {
    // Whether there is a page or not, the verdict is printed.
    let page = page(&shown);
    let SortedProcesses { processes, baseline: BaselineFiles { baseline, output }, unread } = shown;
    let missing = missing(&processes, unread);
    if options.json {
        let processes: Vec<_> = processes.iter().map(process_json).collect();
        let value = json!({
            "processes": processes,
            "missing": missing,
            "baseline_missing": baseline.missing(),
        });
        print_json("check", &value)?;
    }
    if let Some(reason) = missing {
        print_stderr(format_args!("error: no call was recorded: {reason}"));
        return Ok(ExitCode::FAILURE);
    }
    output.map_or(Ok(()), |output| baseline.write(&output))?;
    let is_told = |one: &&Sorted| one.judged.calls > 0 || !one.judged.is_whole();
    if !options.json {
        for one in processes.iter().filter(is_told) {
            print(text(one, options.only).trim_end())?;
        }
        for key in baseline.missing() {
            print(&format!("in the baseline and not found: {key}"))?;
        }
    }
    page?;
    // A process with lost calls has no verdict.
    let is_good = |one: &Sorted| {
        let is_compared = one.accepted.is_empty() || !one.judged.is_capped;
        one.judged.is_clean() && one.judged.is_whole() && is_compared
    };
    let is_clean = unread == 0 && processes.iter().all(is_good);
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The reason why no process has a call.
fn missing(processes: &[Sorted], unread: usize) -> Option<String> {
    let processes = || processes.iter().map(|one| &one.judged);
    if processes().any(|one| one.calls > 0) {
        return None;
    }
    if processes().next().is_none() && unread > 0 {
        return Some("the files of the program cannot be read".to_owned());
    }
    if let Some(trouble) = processes().flat_map(|one| &one.troubles).next() {
        return Some(trouble.clone());
    }
    if processes().next().is_some() {
        return Some("the program initialised CUDA but made no call that was recorded".to_owned());
    }
    let driver = libraries().into_iter().find(|report| report.library == Library::Driver);
    Some(match driver.and_then(|report| report.state.err()) {
        Some(error) => format!("there is no CUDA driver: {error}"),
        None => "the program did not initialise CUDA".to_owned(),
    })
}
