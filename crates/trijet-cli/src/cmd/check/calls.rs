//! `trijet check -- PROGRAM`: the verdict about the calls of a program that does not use Trijet.
#![forbid(unsafe_code)]

use super::baseline::{Baseline, BaselineEntry, FindingLevel, Standing, key};
use crate::args::{CheckOptions, OnlyFindings};
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
use trijet_ledger::base::ledger::{HostStep, OpKind};

/// Maximum number of possible conflicts that the text lists.
const POSSIBLE_MAX: usize = 10;
/// Maximum number of frames that the text has of a stack.
const FRAMES_MAX: usize = 4;

/// Whether a file has the calls of a program.
pub(super) fn is_calls(start: &[u8]) -> bool {
    start.get(HEAD_BYTES..).is_some_and(|rest| rest.starts_with(&MAGIC))
}

/// A process, without its findings that a baseline has.
struct Sorted {
    judged: Judged,
    /// The findings of the baseline that this process has, and the number of its findings that
    /// they stand for.
    accepted: Vec<BaselineEntry>,
    accepted_findings: u64,
    /// The findings in the baseline that are listed, because their last day is over.
    expired: Vec<BaselineEntry>,
}

/// The verdicts of processes, the baseline, and the number of files that cannot be read.
struct SortedProcesses {
    processes: Vec<Sorted>,
    baseline: BaselineFiles,
    unread: usize,
}

/// Checks the calls in a file.
pub(super) fn file(file: &Path, options: &CheckOptions, assume: Assume) -> Result<ExitCode> {
    let files = BaselineFiles::new(options)?;
    show(files.sort(read(file, assume)?, 0), options, |text| print(text))
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

fn sorted(mut judged: Judged, baseline: &mut Baseline) -> Sorted {
    let (mut accepted, mut expired, mut accepted_findings) = (Vec::new(), Vec::new(), 0);
    let mut is_listed = |key: &str| match baseline.standing(key) {
        Standing::New => true,
        Standing::Accepted(entry) => {
            accepted_findings += 1;
            if !accepted.contains(&entry) {
                accepted.push(entry);
            }
            false
        }
        Standing::Expired(entry) => {
            expired.push(entry);
            true
        }
    };
    let errors =
        judged.errors.iter().map(|one| is_listed(&key(&judged, one, FindingLevel::Declared)));
    let errors: Vec<_> = errors.collect();
    let possible = judged.possible.iter();
    let possible =
        possible.map(|one| is_listed(&key(&judged, &one.finding, FindingLevel::Possible)));
    let possible: Vec<_> = possible.collect();
    let mut listed = errors.into_iter();
    judged.errors.retain(|_| listed.next().unwrap_or(true));
    let mut listed = possible.into_iter();
    judged.possible.retain(|_| listed.next().unwrap_or(true));
    Sorted { judged, accepted, accepted_findings, expired }
}

pub(super) fn run(options: &CheckOptions, assume: Assume) -> Result<ExitCode> {
    let existing = options.overwrite.existing();
    let output = options.output.as_deref();
    let output = output.map(|path| NewFile::new("save the calls", path, existing, &[]));
    let output = output.transpose()?;
    let baseline = BaselineFiles::new(options)?;
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
        show(baseline.sort(processes, unread), options, |text| {
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
    print: impl Fn(&str) -> Result<()>,
) -> Result<ExitCode> {
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

fn counted(count: u64, one: &str) -> String {
    trijet::trace::count(count, one)
}

/// The text about a process.
fn text(sorted: &Sorted, only: Option<OnlyFindings>) -> String {
    let Sorted { judged: one, accepted, expired, .. } = sorted;
    let beside = |finding: &Finding, level| {
        let key = key(one, finding, level);
        let over = expired.iter().find(|entry| entry.key == key);
        let over = over.map(|entry| format!("  no longer in the baseline: {}\n", entry.words()));
        beside(one, finding) + &over.unwrap_or_default()
    };
    let mut text = format!("process {}: {}\n", one.process, one.command);
    for finding in &one.errors {
        text += &finding.text(&one.names);
        text += &beside(finding, FindingLevel::Declared);
        text.push('\n');
    }
    for found in one.possible.iter().take(POSSIBLE_MAX) {
        let finding = &found.finding;
        let beside = beside(finding, FindingLevel::Possible);
        let _infallible = write!(text, "{}{beside}", possible(one, finding));
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
    if only.is_none() {
        for entry in accepted {
            let _infallible = writeln!(text, "in the baseline: {} ({})", entry.key, entry.words());
        }
    }
    text + &summary(sorted)
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
        let when = match party.kind {
            OpKind::Host(HostStep::Access) => " at",
            _ if stack.is_of_first_launch => "'s kernel was first launched from",
            _ => " called from",
        };
        for (number, frame) in stack.frames.iter().take(FRAMES_MAX).enumerate() {
            let head = if number == 0 { format!("#{}{when}", party.op) } else { "from".to_owned() };
            let _infallible = writeln!(text, "  {head} {frame}");
        }
    }
    text
}

/// The lines about the whole process: the number of findings, and what was not seen.
fn summary(sorted: &Sorted) -> String {
    let Sorted { judged: one, accepted_findings: accepted, .. } = sorted;
    let mut text = match (one.errors.len() as u64, one.is_whole()) {
        (0, true) if *accepted > 0 && one.is_capped => {
            "there are too many errors to keep, and only some are compared with the baseline\n"
                .to_owned()
        }
        (0, true) if *accepted > 0 => {
            format!("no new error; {} in the baseline\n", counted(*accepted, "finding"))
        }
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

fn process_json(sorted: &Sorted) -> Value {
    let one = &sorted.judged;
    let finding = |finding: &Finding, level| {
        let mut value = verdict::finding(finding, &one.names);
        let frames = |party: Option<&Party>| {
            let stack = party.and_then(|party| one.stack(party));
            stack.map_or(&[][..], |stack| &stack.frames)
        };
        value["stacks"] = json!([frames(finding.first.as_ref()), frames(Some(&finding.second))]);
        value["origin"] = one.origin(finding).into();
        value["key"] = key(one, finding, level).into();
        value
    };
    let errors = one.errors.iter().map(|one| finding(one, FindingLevel::Declared));
    let accepted = sorted.accepted.iter().map(BaselineEntry::json);
    let possible = one.possible.iter().map(|found| {
        let mut value = finding(&found.finding, FindingLevel::Possible);
        value["pairs"] = found.pairs.into();
        value["severity"] = "possible".into();
        value["text"] = self::possible(one, &found.finding).into();
        value
    });
    json!({
        "process": one.process,
        "command": one.command,
        "errors": errors.collect::<Vec<_>>(),
        "errors_more": one.more,
        "possible": possible.collect::<Vec<_>>(),
        "accepted": accepted.collect::<Vec<_>>(),
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
