//! `trijet trace`: traces any CUDA program with a library that the CUDA driver loads into it.
#![forbid(unsafe_code)]

mod against;
mod base;
mod diff;
mod foreign;
mod json;
mod memory;
mod show;
mod sources;
mod window;

pub(crate) use json::json;
pub(crate) use memory::traces_of;
pub(crate) use show::{join, load, missing, page_of};

use super::program::{Injected, Run, exit_status};
use super::{print_stderr, wrong_usage};
use crate::args::TraceOptions;
use std::process::ExitCode;
use trijet::Result;

pub(crate) fn run(options: &TraceOptions) -> Result<ExitCode> {
    // A base that cannot be read is an error before the program starts.
    let base = options.against.as_deref().map(|base| base::base(base, show::extent(options)));
    let base = base.transpose()?;
    if options.command.is_empty() {
        return show::files(&options.read, options, &show::outputs(options)?, base.as_ref());
    }
    if let Err(wrong) = window::in_order(options) {
        return Ok(wrong_usage(&wrong));
    }
    let outputs = show::outputs(options)?;
    let ran = Run::new(&options.command, Injected::Trace, &options.recorded())?;
    let (status, folder) = match ran {
        Run::NotStarted(code) => return Ok(code),
        Run::Ended { status, folder } => (status, folder),
    };
    // If the program failed, the exit status is the status of the program. Otherwise the exit
    // status tells whether the trace succeeded.
    let shown = folder
        .files()
        .and_then(|files| show::run(&files, options, &outputs, base.as_ref()))
        .unwrap_or_else(|error| {
            print_stderr(format_args!("error: {error}"));
            ExitCode::FAILURE
        });
    Ok(exit_status(status, shown))
}
