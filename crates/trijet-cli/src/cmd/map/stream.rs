//! `trijet map` from the standard input, and to the standard output. The rows are read and written
//! in order, so nothing can be resumed.
#![forbid(unsafe_code)]

use super::devices;
use super::opening::{needs_one, open_input, rank_of, settings};
use super::rows_done::RowsDone;
use super::words::{say_left_out, say_needs_gpu};
use crate::args::MapOptions;
use crate::cmd::print_stderr;
use crate::cmd::stop::cancel_on_signals;
use crate::cmd::verdict::Live;
use crate::values::MapReport;
use std::io::{IsTerminal, stdout};
use std::path::Path;
use std::process::ExitCode;
use trijet::{ErrorKind, Report, Result, Source};
use trijet_io::{StreamOutput, file_error};
use trijet_map::{Chain, Job, Origin};

/// Runs a job whose output is the standard output.
pub(super) fn run(options: &MapOptions) -> Result<ExitCode> {
    if stdout().is_terminal() {
        let cause = "standard output is a terminal, which cannot show an array; use the name of a \
                     file, or a pipe";
        return Err(file_error::refused("create", Path::new("-"), cause));
    }
    if let Some(rank) = rank_of(options)? {
        return Err(needs_one("process", format_args!("this is {rank}")));
    }
    let input = open_input(options)?;
    let chain = Chain::new(options.steps.all(), &Origin::of(&input))?;
    let input = if chain.reads_as_stored() { input.as_stored() } else { input };
    let cancel = cancel_on_signals("after the chunks in flight")?;
    let devices = devices::open(options.device, None, &options.check)?;
    if devices.len() > 1 {
        return Err(needs_one("device", "--device all has several"));
    }
    match devices.iter().try_for_each(|device| chain.load(device)) {
        Err(error) if error.kind() == ErrorKind::NoDevice => return say_needs_gpu(error, &chain),
        outcome => outcome?,
    }
    let (granule, settings) = (chain.granule(1), settings(options, &input));
    let job = Job::new(&chain, &devices, input.layout(), granule, settings)?;
    let output = StreamOutput::new(stdout(), chain.output().clone());
    let output = if options.raw { output.headerless() } else { output };
    let rows = 0..chain.output().layout().rows;
    let bar = RowsDone::new(rows.end, 0);
    let todo = std::slice::from_ref(&rows);
    let ran = job.run_on_one(&input, output, todo, &cancel, &|rows| bar.add(rows));
    bar.clear();
    let report = ran?;
    let verdict = Live::of_all(&devices)?;
    say_left_out(&input, None);
    say_report(options, &chain, &report);
    verdict.print_to_stderr();
    for device in devices {
        device.close()?;
    }
    Ok(verdict.exit_code())
}

/// Prints the report to standard error, because the output is on standard output.
fn say_report(options: &MapOptions, chain: &Chain, report: &Report) {
    if options.report == MapReport::None {
        return;
    }
    let form = if options.raw { " (plain bytes, no header)" } else { "" };
    let job = format_args!("-: {}{form}, {}", chain.output(), chain.description()).to_string();
    print_stderr(job);
    match options.report {
        MapReport::Full => print_stderr(report),
        _ => print_stderr(report.brief()),
    }
}
