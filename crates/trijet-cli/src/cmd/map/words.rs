//! The words of `trijet map` about a job: its report, and the state of its output.
#![forbid(unsafe_code)]

use crate::args::MapOptions;
use crate::cmd::document::print_json;
use crate::cmd::verdict::Live;
use crate::cmd::{print, print_stderr, report};
use crate::ranks::OwnRank;
use crate::timeline;
use crate::values::MapReport;
use serde_json::{Value, json};
use std::process::ExitCode;
use trijet::trace::count;
use trijet::{Device, Error, Report, Result};
use trijet_io::{DamagedImage, Input, Output, Stopped, Target, shown};
use trijet_map::Chain;

/// The exit status of a run that has skipped damaged images, and done all other images.
const SKIPPED: u8 = 4;

/// Maximum number of damaged images that a report names.
const IMAGES_MAX: usize = 20;

/// A job after all rows of this process are done.
pub(super) struct Done<'a> {
    pub(super) options: &'a MapOptions,
    pub(super) input: &'a Input,
    pub(super) target: &'a Target,
    pub(super) chain: &'a Chain,
    pub(super) trace: Option<timeline::Target>,
    /// The rank of this process, if several processes do the job.
    pub(super) rank: Option<OwnRank>,
    /// The number of rows of an earlier run that were kept.
    pub(super) kept: u64,
    /// The damaged images that were skipped.
    pub(super) damaged: Vec<DamagedImage>,
    /// Whether the output has its final name. Otherwise other processes may still write their rows.
    pub(super) is_complete: bool,
}

impl Done<'_> {
    /// The line about the rows that an earlier run has done.
    fn kept_words(&self) -> String {
        let rows = self.target.rows();
        format!(
            "resumed: an earlier run has done {} of {} rows; the figures are about the remaining \
             rows",
            self.kept,
            rows.end - rows.start
        )
    }

    /// The lines about the images that were skipped. At most [`IMAGES_MAX`] images are named.
    fn damaged_words(&self) -> String {
        let (images, out) = (self.damaged.len(), shown(self.target.path()));
        let named = self.damaged.iter().take(IMAGES_MAX);
        let named = named.map(|image| format!("\n  {}: {}", shown(&image.name), image.why));
        let more = match images.saturating_sub(IMAGES_MAX) {
            0 => String::new(),
            more => format!("\n  and {more} more, which --json names"),
        };
        let place = match self.target.path().is_dir() {
            true => format!("not in {out}"),
            false => format!("zeros in {out}"),
        };
        format!(
            "skipped: {}, {place}; to add them, repair the images and run again with \
             --resume:{}{more}",
            count(images as u64, "damaged image"),
            named.collect::<String>()
        )
    }

    /// The state of the output, for an error that occurs after the last row is written.
    pub(super) fn words(&self) -> String {
        if self.is_complete {
            return complete_words(self.target);
        }
        let (rows, out) = (self.target.rows(), shown(self.target.path()));
        let done = format!(
            "rows {}..{} of {out} are done; the output gets its name when all processes have \
             finished",
            rows.start, rows.end
        );
        match self.rank.as_ref().and_then(OwnRank::advice) {
            Some(advice) => format!("{done}\n{advice}"),
            None => done,
        }
    }
}

/// Writes the timeline, and prints the report of each device.
pub(super) fn say_done(
    reports: &[Report],
    devices: Vec<Device>,
    done: &Done<'_>,
) -> Result<ExitCode> {
    let Done { options, input, target, chain, trace, .. } = done;
    let verdict = Live::of_all(&devices)?;
    let job = job_words(target, chain);
    if let (Some(trace), [report]) = (trace, reports) {
        trace.write(report, &job).map_err(|error| error.context("there is no timeline"))?;
    }
    if options.json {
        print_json("map", &json_of(reports, &verdict, done))?;
    } else if options.report == MapReport::None {
        say_left_out(input, Some(target));
        if !done.damaged.is_empty() {
            print_stderr(done.damaged_words());
        }
        verdict.print_findings()?;
    } else {
        print_report(reports, &verdict, done, &job)?;
    }
    for device in devices {
        device.close()?;
    }
    match verdict.exit_code() {
        ExitCode::SUCCESS if !done.damaged.is_empty() => Ok(ExitCode::from(SKIPPED)),
        code => Ok(code),
    }
}

/// Prints the job, the report of each device, the verdict of the checker and the state of the
/// output.
fn print_report(reports: &[Report], verdict: &Live, done: &Done<'_>, job: &str) -> Result<()> {
    let Done { options, input, trace, .. } = done;
    print(job)?;
    say_left_out(input, Some(done.target));
    if done.kept > 0 {
        print(done.kept_words())?;
    }
    if !done.damaged.is_empty() {
        print(done.damaged_words())?;
    }
    for report in reports {
        if options.report == MapReport::Full {
            print(report)?;
        } else {
            print(report.brief())?;
        }
        if let Some(trace) = trace {
            print(format_args!("timeline: {}", shown(trace.path())))?;
        }
    }
    verdict.print()?;
    if done.is_complete { Ok(()) } else { print(done.words()) }
}

/// The first line of a report, and of a plan.
pub(super) fn job_words(target: &Target, chain: &Chain) -> String {
    let form = if target.has_header() { "" } else { " (plain bytes, no header)" };
    format!("{}: {}{form}, {}", shown(target.path()), target.array(), chain.description())
}

/// The parts of the input that are not in the output.
pub(super) fn left_out(input: &Input, target: Option<&Target>) -> Vec<String> {
    let of_target = target.into_iter().flat_map(Target::left_out);
    input.left_out().iter().chain(of_target).cloned().collect()
}

/// Warns of parts of the input that are not in the output, if there are any.
pub(super) fn say_left_out(input: &Input, target: Option<&Target>) {
    let parts = left_out(input, target);
    if !parts.is_empty() {
        print_stderr(format_args!("not in the output: {}", parts.join("; ")));
    }
}

/// The JSON of a job: the reports of its devices, the verdict of the checker, and the files and the
/// operation of the job.
fn json_of(reports: &[Report], verdict: &Live, done: &Done<'_>) -> Value {
    let mut values: Vec<Value> = reports.iter().map(report::json).collect();
    let mut value = match values.len() {
        1 => values.swap_remove(0),
        _ => json!({ "rows": reports.iter().map(|r| r.rows).sum::<u64>(), "devices": values }),
    };
    verdict.add_to(&mut value);
    add_job(&mut value, done.options, done.target, done.chain);
    value["complete"] = (done.is_complete && done.damaged.is_empty()).into();
    let damaged =
        |image: &DamagedImage| json!({ "name": image.name.to_string_lossy(), "why": image.why });
    value["damaged"] = done.damaged.iter().map(damaged).collect();
    value["left_out"] = left_out(done.input, Some(done.target)).into();
    value["kept_rows"] = done.kept.into();
    if done.target.shard().is_some() {
        let rows = done.target.rows();
        value["shard"] = json!({ "rows": [rows.start, rows.end] });
    }
    value
}

/// The words about a complete output, for an error that occurs after the last row is written.
fn complete_words(target: &Target) -> String {
    format!("{} is complete", shown(target.path()))
}

/// Adds the files and the operation of the job to its JSON.
pub(super) fn add_job(value: &mut Value, options: &MapOptions, target: &Target, chain: &Chain) {
    value["input"] = options.input.to_string_lossy().into_owned().into();
    value["output"] = target.path().to_string_lossy().into_owned().into();
    value["output_format"] = target.format().name().into();
    value["operation"] = chain.description().into();
}

/// Ends a run whose output is already complete, with success. A script that repeats a run until it
/// succeeds therefore comes to an end.
pub(super) fn say_finished(
    options: &MapOptions,
    target: &Target,
    chain: &Chain,
) -> Result<ExitCode> {
    if options.json {
        let rows = target.rows();
        let kept = rows.end - rows.start;
        let mut value = json!({ "rows": 0, "kept_rows": kept, "complete": true });
        add_job(&mut value, options, target, chain);
        print_json("map", &value)?;
    } else if options.report != MapReport::None {
        let complete = complete_words(target);
        print(format_args!("{complete}: an earlier run of this job has finished it"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The exit status for a job that needs a GPU on a host without one. This status is used only if
/// the checks of the user's kernels found no error.
const NEEDS_GPU: u8 = 3;

/// Reports that a kernel needs a GPU. If all kernels of the user were checked, the exit status is
/// [`NEEDS_GPU`]. Otherwise the result is an error.
pub(super) fn say_needs_gpu(error: Error, chain: &Chain) -> Result<ExitCode> {
    let advice = "`trijet devices` lists what was found. Nothing was written";
    match chain.needs_gpu() {
        Some(words) => {
            print_stderr(format_args!("{words}\n{advice}"));
            Ok(ExitCode::from(NEEDS_GPU))
        }
        // The message has the cause first, and then the advice.
        None => Err(Error::new(error.kind(), "map", format!("{error}; {advice}"))),
    }
}

/// Maximum number of ranges of rows that a message names.
const RANGES_MAX: usize = 4;

/// The message about rows of an earlier run whose bytes in the file are no longer the bytes that
/// this run wrote.
pub(super) fn lost_words(output: &Output, target: &Target) -> String {
    let ranges = output.lost();
    let named = ranges.iter().take(RANGES_MAX).map(|rows| format!("{}..{}", rows.start, rows.end));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match ranges.len().saturating_sub(RANGES_MAX) {
        0 => String::new(),
        more => format!(" and {}", count(more as u64, "more range")),
    };
    format!(
        "{}: rows {named}{more} were written, but the file has other bytes now; they are \
         computed again",
        shown(target.path())
    )
}

/// The message about an output that cannot be locked.
pub(super) fn unlocked_words(target: &Target) -> String {
    format!(
        "{}: the file system has no locks; do not start another run with this output until this \
         run has ended",
        shown(target.path())
    )
}

/// Adds the state of the output to an error.
pub(super) fn explain(error: Error, input: &Input, output: Output, target: &Target) -> Error {
    let (out, rows) = (shown(target.path()), target.rows());
    let rows = rows.end - rows.start;
    match output.stop() {
        Ok(Stopped::Nothing) => {
            error.context(format!("{out}: no row was finished, so nothing is kept"))
        }
        Ok(Stopped::Rows(done)) => error.context(format!(
            "{out} is not finished: {done} of {rows} rows are kept; {}",
            match input.is_stream() {
                true => "use --restart to start over, because standard input is read once",
                false => "use --resume to continue",
            }
        )),
        // The error states that the output is complete.
        Ok(Stopped::Complete) => error,
        Err(second) => error.context(second.to_string()),
    }
}
