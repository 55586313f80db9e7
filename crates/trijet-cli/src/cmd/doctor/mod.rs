//! `trijet doctor`: measures this machine and gives advice.
//!
//! `trijet_bench::doctor` measures and draws the conclusions; this module prints them.
#![forbid(unsafe_code)]

mod json;
mod show;

use super::print;
use crate::args::DoctorOptions;
use trijet::{Error, ErrorKind, Result};
use trijet_bench::doctor;

pub(crate) fn run(options: &DoctorOptions) -> Result<()> {
    let device = super::open(options.device)?;
    let findings = doctor::run(&device)?;
    if options.json {
        print(format_args!("{:#}", json::json(&findings)))?;
    } else {
        print(show::report(&findings).trim_end())?;
    }
    if let Some(first) = findings.failed.first() {
        let cause = format!("{} could not be measured: {}", first.what, first.why);
        return Err(Error::new(ErrorKind::Driver, "doctor", cause));
    }
    device.close()
}
