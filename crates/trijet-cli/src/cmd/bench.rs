//! `trijet bench`: a benchmark's record on standard output.
#![forbid(unsafe_code)]

use crate::args::BenchOptions;
use trijet::Result;

pub(crate) fn run(options: &BenchOptions) -> Result<()> {
    let device = super::open(options.device)?;
    let record = trijet_bench::run(&options.name, &device)?;
    super::print(record.to_string().trim_end())?;
    device.close()
}
