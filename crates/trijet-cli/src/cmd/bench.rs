//! `trijet bench`: runs a benchmark and prints its results.
#![forbid(unsafe_code)]

use crate::args::BenchOptions;
use trijet::Result;

pub(crate) fn run(options: &BenchOptions) -> Result<()> {
    let device = super::open(options.device)?;
    let results = trijet_bench::run(&options.name, &device)?;
    super::print(results.to_string().trim_end())?;
    device.close()
}
