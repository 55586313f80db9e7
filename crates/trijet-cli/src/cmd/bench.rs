//! `trijet bench`: runs a benchmark and prints its results.
#![forbid(unsafe_code)]

use super::map::devices;
use super::progress::Progress;
use super::stop::cancel_on_signals;
use super::verdict::Live;
use crate::args::BenchOptions;
use crate::ranks;
use std::process::ExitCode;
use trijet::{Cancel, Error, ErrorKind, Result};
use trijet_bench::Setting;
use trijet_bench::progress::{Step, Steps};

pub(crate) fn run(options: &BenchOptions) -> Result<ExitCode> {
    if options.check.check && !trijet_bench::uses_device(&options.name) {
        let cause = format!(
            "`{}` uses devices of its own, which `--check` does not see; leave `--check` out",
            options.name
        );
        return Err(Error::new(ErrorKind::InvalidValue, "bench", cause));
    }
    // As one of several processes, the benchmark takes the GPU of its number on this host.
    let rank =
        if trijet_bench::is_for_ranks(&options.name) { ranks::of_environment()? } else { None };
    let device = match &rank {
        Some(rank) => devices::one_of_rank(options.device, rank, &options.check)?,
        None => super::open(options.device, &options.check)?,
    };
    let progress = Progress::new();
    let mut show = |step: Step<'_>| progress.show(step);
    let cancel = match trijet_bench::has_files(&options.name) {
        true => cancel_on_signals("when the programs in progress have ended")?,
        false => Cancel::new(),
    };
    let trijet = std::env::current_exe().map_err(|error| {
        let cause = format!("cannot find out where this command lies: {error}");
        Error::new(ErrorKind::Io, "bench", cause).caused_by(error)
    })?;
    let setting = Setting { device: &device, trijet, cancel };
    let results = trijet_bench::run(&options.name, &setting, &mut Steps::new(&mut show))?;
    drop(progress);
    // The first of several processes has the results.
    if !results.is_empty() {
        super::print(results.to_string().trim_end())?;
    }
    results.check_whole()?;
    let verdict = Live::of(&device);
    verdict.print()?;
    device.close()?;
    Ok(verdict.exit_code())
}
