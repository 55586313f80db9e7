//! The command `trijet-bench`: lists the benchmarks, describes one, or runs it and prints its
//! results.
#![forbid(unsafe_code)]

mod options;
mod show;

use crate::benchmarks::{Benchmark, Runs, named};
use crate::setting::Setting;
use options::BenchOptions;
use std::process::ExitCode;
use trijet::ranks::LauncherRank;
use trijet::{Cancel, Device, Error, ErrorKind, Result};
use trijet_tools::command::beside::beside;
use trijet_tools::command::device::{of_process, open, open_each};
use trijet_tools::command::document::print_json;
use trijet_tools::command::print::print;
use trijet_tools::command::progress::Progress;
use trijet_tools::command::stop::{cancel_on_signals, outlive_file_limit};
use trijet_tools::command::usage::failed;
use trijet_tools::command::verdict::Live;
use trijet_tools::progress::{Step, Steps};

/// Runs the command of this process, and returns the exit status.
#[must_use]
pub fn main() -> ExitCode {
    let options = BenchOptions::of_this_process();
    match outlive_file_limit().and_then(|()| run(&options)) {
        Ok(code) => code,
        Err(error) => failed(&error),
    }
}

fn run(options: &BenchOptions) -> Result<ExitCode> {
    let benchmark = options.name.as_deref().and_then(named);
    match (benchmark, options.help) {
        (Some(benchmark), true) => print(show::description(benchmark))?,
        (Some(benchmark), false) => return run_one(benchmark, options),
        (None, true) => print(BenchOptions::help_text())?,
        (None, false) if options.json => print_json("bench", &show::all())?,
        (None, false) => print(show::list())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens the device. If the benchmark runs as several processes, each process opens the GPU whose
/// number is the local rank of the process.
fn device(benchmark: &Benchmark, options: &BenchOptions) -> Result<Device> {
    let rank = if benchmark.runs == Runs::Ranks { LauncherRank::of_environment()? } else { None };
    let Some(rank) = rank else { return open(options.device, &options.check) };
    let local = rank.local.and_then(|local| u64::try_from(local).ok());
    let name = of_process(options.device, local)?;
    Ok(open_each(&[name], &options.check)?.remove(0))
}

fn run_one(benchmark: &Benchmark, options: &BenchOptions) -> Result<ExitCode> {
    let device = device(benchmark, options)?;
    let progress = Progress::on_stderr();
    let mut show = |step: Step<'_>| progress.show(step);
    let cancel = match benchmark.runs == Runs::Commands {
        true => cancel_on_signals("when the programs in progress have ended")?,
        false => Cancel::new(),
    };
    let own = std::env::current_exe().map_err(|error| {
        let cause = format!("the path of this command cannot be found: {error}");
        Error::new(ErrorKind::Io, "bench", cause).caused_by(error)
    })?;
    let folder = own.with_file_name("");
    let setting = Setting { device: &device, trijet: beside("trijet"), folder, cancel };
    let results = benchmark.run(&setting, &mut Steps::new(&mut show))?;
    drop(progress);
    let verdict = Live::of(&device);
    // Of several processes, only rank 0 has results.
    if !results.is_empty() {
        show::results(benchmark, &results, options, &verdict)?;
    }
    results.check_whole()?;
    if !options.json {
        verdict.print()?;
    }
    device.close()?;
    Ok(verdict.exit_code())
}
