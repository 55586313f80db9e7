//! `trijet doctor`: measures this machine and gives advice.
//!
//! `trijet_tools::doctor` measures and draws the conclusions; this module prints them.
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;
mod text;
mod tree;

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
    let mut tree = tree::tree(&findings);
    if options.json {
        verdict.add_to(&mut tree);
        print_json("doctor", &tree)?;
    } else {
        print(text::report(&findings, &tree).trim_end())?;
        verdict.print()?;
    }
    if let Some(first) = findings.failed.first() {
        let cause = format!("{} could not be measured: {}", first.what, first.why);
        return Err(Error::new(ErrorKind::Driver, "doctor", cause));
    }
    device.close()?;
    Ok(verdict.exit_code())
}
