//! `trijet doctor`: measures this machine and gives advice.
//!
//! `trijet_tools::doctor` measures and draws the conclusions; this module prints them.
#![forbid(unsafe_code)]

mod json;
mod show;

use super::document::print_json;
use super::print;
use super::progress::Progress;
use super::verdict::Live;
use crate::args::DoctorOptions;
use std::process::ExitCode;
use trijet::{Error, ErrorKind, Result};
use trijet_tools::doctor;
use trijet_tools::progress::{Step, Steps};

pub(crate) fn run(options: &DoctorOptions) -> Result<ExitCode> {
    let device = super::open(options.device, &options.check)?;
    let progress = Progress::on_stderr();
    let mut show = |step: Step<'_>| progress.show(step);
    let findings = doctor::run(&device, &mut Steps::new(&mut show))?;
    drop(progress);
    let verdict = Live::of(&device);
    if options.json {
        let mut value = json::json(&findings);
        verdict.add_to(&mut value);
        print_json("doctor", &value)?;
    } else {
        print(show::report(&findings).trim_end())?;
        verdict.print()?;
    }
    if let Some(first) = findings.failed.first() {
        let cause = format!("{} could not be measured: {}", first.what, first.why);
        return Err(Error::new(ErrorKind::Driver, "doctor", cause));
    }
    device.close()?;
    Ok(verdict.exit_code())
}
