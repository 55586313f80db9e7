//! `trijet bench`: runs a benchmark and prints its results.
#![forbid(unsafe_code)]

use super::verdict::Live;
use crate::args::BenchOptions;
use std::process::ExitCode;
use trijet::Result;

pub(crate) fn run(options: &BenchOptions) -> Result<ExitCode> {
    let device = super::open(options.device, &options.check)?;
    let results = trijet_bench::run(&options.name, &device)?;
    super::print(results.to_string().trim_end())?;
    let verdict = Live::of(&device);
    verdict.print()?;
    device.close()?;
    Ok(verdict.exit_code())
}
