//! `trijet check -- PROGRAM`: the verdict about the calls of a program that does not use Trijet.
#![forbid(unsafe_code)]

use crate::args::CheckOptions;
use crate::cmd::document::print_json;
use crate::cmd::program::{Injected, Run, exit_status};
use crate::cmd::{print, print_stderr, trace::join, verdict};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use trijet::check::{Assume, Finding, Party};
use trijet::probe::{Library, libraries};
use trijet::{Error, ErrorKind, Result};
use trijet_calls::{Judged, judge};
use trijet_cupti::call_file::MAGIC;
use trijet_cupti::file::HEAD_BYTES;
use trijet_io::{NewFile, file_error, shown};

/// Maximum number of possible conflicts that the text lists.
const POSSIBLE_MAX: usize = 10;
/// Maximum number of frames that the text has of a stack.
const FRAMES_MAX: usize = 4;

/// Whether a file has the calls of a program.
pub(super) fn is_calls(start: &[u8]) -> bool {
    start.get(HEAD_BYTES..).is_some_and(|rest| rest.starts_with(&MAGIC))
}

/// Checks the calls in a file.
pub(super) fn file(file: &Path, assume: Assume, is_json: bool) -> Result<ExitCode> {
    show(read(file, assume)?, 0, is_json, |text| print(text))
}

pub(super) fn run(options: &CheckOptions, assume: Assume) -> Result<ExitCode> {
    let existing = options.overwrite.existing();
    let output = options.output.as_deref();
    let output = output.map(|path| NewFile::new("save the calls", path, existing, &[]));
    let output = output.transpose()?;
    let (status, folder) = match Run::new(&options.command, Injected::Calls)? {
        Run::NotStarted(code) => return Ok(code),
        Run::Ended { status, folder } => (status, folder),
    };
    let shown = folder.files().and_then(|files| {
        if let Some(output) = output.filter(|_| !files.is_empty()) {
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
        show(processes, unread, options.json, |text| {
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

/// Shows the verdicts of processes. `unread` is the number of files that cannot be read.
fn show(
    processes: Vec<Judged>,
    unread: usize,
    is_json: bool,
    print: impl Fn(&str) -> Result<()>,
) -> Result<ExitCode> {
    let missing = missing(&processes, unread);
    if is_json {
        let processes: Vec<_> = processes.iter().map(process_json).collect();
        print_json("check", &json!({ "processes": processes, "missing": missing }))?;
    }
    if let Some(reason) = missing {
        print_stderr(format_args!("error: no call was recorded: {reason}"));
        return Ok(ExitCode::FAILURE);
    }
    if !is_json {
        let told = processes.iter().filter(|one| one.calls > 0 || !one.is_whole());
        for one in told {
            print(text(one).trim_end())?;
        }
    }
    // A process with lost calls has no verdict.
    let is_clean = unread == 0 && processes.iter().all(|one| one.is_clean() && one.is_whole());
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The reason why no process has a call.
fn missing(processes: &[Judged], unread: usize) -> Option<String> {
    if processes.iter().any(|one| one.calls > 0) {
        return None;
    }
    if processes.is_empty() && unread > 0 {
        return Some("the files of the program cannot be read".to_owned());
    }
    if let Some(trouble) = processes.iter().flat_map(|one| &one.troubles).next() {
        return Some(trouble.clone());
    }
    if !processes.is_empty() {
        return Some("the program initialised CUDA but made no call that was recorded".to_owned());
    }
    let driver = libraries().into_iter().find(|report| report.library == Library::Driver);
    Some(match driver.and_then(|report| report.state.err()) {
        Some(error) => format!("there is no CUDA driver: {error}"),
        None => "the program did not initialise CUDA".to_owned(),
    })
}

fn counted(count: u64, one: &str) -> String {
    trijet::trace::count(count, one)
}

/// The text about a process.
fn text(one: &Judged) -> String {
    let mut text = format!("process {}: {}\n", one.process, one.command);
    for finding in &one.errors {
        text += &finding.text(&one.names);
        text += &beside(one, finding);
        text.push('\n');
    }
    for found in one.possible.iter().take(POSSIBLE_MAX) {
        let finding = &found.finding;
        let _infallible = write!(text, "{}{}", possible(one, finding), beside(one, finding));
        if found.pairs > 1 {
            let _infallible = writeln!(text, "  the first of {} such pairs", found.pairs);
        }
        text.push('\n');
    }
    if let Some(more) = one.possible.len().checked_sub(POSSIBLE_MAX).filter(|more| *more > 0) {
        let _infallible = writeln!(
            text,
            "and {}; --json has all\n",
            counted(more as u64, "more possible conflict")
        );
    }
    text + &summary(one)
}

/// The text of a possible conflict, which is no error.
fn possible(one: &Judged, finding: &Finding) -> String {
    let words = finding.text(&one.names);
    words.strip_prefix("error").map_or(words.clone(), |rest| format!("possible{rest}"))
}

/// The lines beside a finding: the origin of the memory, and the stacks of the calls.
fn beside(one: &Judged, finding: &Finding) -> String {
    let mut text = String::new();
    if let (Some(origin), Some(block)) = (one.origin(finding), finding.block) {
        let _infallible = writeln!(text, "  {}: {origin}", one.names.block(block));
    }
    for party in finding.first.iter().chain([&finding.second]) {
        let Some(stack) = one.stack(party) else { continue };
        let when = if stack.is_of_first_launch {
            "'s kernel was first launched from"
        } else {
            " called from"
        };
        for (number, frame) in stack.frames.iter().take(FRAMES_MAX).enumerate() {
            let head = if number == 0 { format!("#{}{when}", party.op) } else { "from".to_owned() };
            let _infallible = writeln!(text, "  {head} {frame}");
        }
    }
    text
}

/// The lines about the whole process: the number of findings, and what was not seen.
fn summary(one: &Judged) -> String {
    let mut text = match (one.errors.len() as u64, one.is_whole()) {
        (0, true) => {
            let edge = match one.assume {
                Assume::DriverObserved => {
                    "a documented CUDA edge or one that drivers were seen to keep"
                }
                _ => "a documented CUDA edge",
            };
            format!(
                "every conflict among the copies, fills and frees of this run is ordered by {edge}\n"
            )
        }
        (0, false) => "no error in what was recorded, which is not the whole run\n".to_owned(),
        (errors, _) => format!("{}\n", counted(errors, "error")),
    };
    let kernels = counted(one.kernels, "launch");
    let kernels = kernels.replace("launchs", "launches");
    let _infallible = writeln!(
        text,
        "{} recorded; what {kernels} of kernels read and write was not seen ({} without an address \
         among the arguments); {}",
        counted(one.calls, "call"),
        one.kernels_without_addresses,
        counted(one.possible.len() as u64, "possible conflict"),
    );
    if one.unknown_graphs > 0 {
        let _infallible = writeln!(
            text,
            "{} of {} of graphs have nodes that were not examined",
            one.unknown_graphs,
            counted(one.graphs, "launch").replace("launchs", "launches"),
        );
    }
    if one.value_waits > 0 {
        let _infallible = writeln!(
            text,
            "{} of streams for values in memory, each counted as a wait for all streams",
            counted(one.value_waits, "wait"),
        );
    }
    for trouble in &one.troubles {
        let _infallible = writeln!(text, "not recorded: {trouble}");
    }
    match one.lost {
        None => text += "the record of the process has no end: calls at its end may be missing\n",
        Some(0) => {}
        Some(lost) => {
            let _infallible =
                writeln!(text, "{} lost: the recorder had no room", counted(lost, "call"));
        }
    }
    text
}

fn process_json(one: &Judged) -> Value {
    let finding = |finding: &Finding| {
        let mut value = verdict::finding(finding, &one.names);
        let frames = |party: Option<&Party>| {
            let stack = party.and_then(|party| one.stack(party));
            stack.map_or(&[][..], |stack| &stack.frames)
        };
        value["stacks"] = json!([frames(finding.first.as_ref()), frames(Some(&finding.second))]);
        value["origin"] = one.origin(finding).into();
        value
    };
    let possible = one.possible.iter().map(|found| {
        let mut value = finding(&found.finding);
        value["pairs"] = found.pairs.into();
        value["severity"] = "possible".into();
        value["text"] = self::possible(one, &found.finding).into();
        value
    });
    json!({
        "process": one.process,
        "command": one.command,
        "errors": one.errors.iter().map(finding).collect::<Vec<_>>(),
        "errors_more": one.more,
        "possible": possible.collect::<Vec<_>>(),
        "calls": one.calls,
        "kernels": one.kernels,
        "kernels_without_addresses": one.kernels_without_addresses,
        "graphs": one.graphs,
        "graphs_unknown": one.unknown_graphs,
        "value_waits": one.value_waits,
        "calls_lost": one.lost,
        "complete": one.lost.is_some(),
        "troubles": one.troubles,
    })
}
