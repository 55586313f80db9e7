//! `trijet trace`: traces any CUDA program with a library that the CUDA driver loads into it.
#![forbid(unsafe_code)]

mod error;
mod folder;
mod json;
mod memory;
mod program;
mod show;
mod window;

pub(crate) use folder::{Folder, files_in};
pub(crate) use json::json;
pub(crate) use memory::traces_of;
pub(crate) use show::{join, load, missing, page_of};

use super::{print_stderr, wrong_usage};
use crate::args::TraceOptions;
use program::Signals;
use std::ffi::OsString;
use std::io::{self, ErrorKind as Io};
use std::process::{Command, ExitCode, ExitStatus};
use trijet::{Error, ErrorKind, Result};
use trijet_cupti::recorder::RECORDINGS;
use trijet_io::shown;

/// The environment variable that tells the CUDA driver which library to load.
pub(crate) const INJECTION: &str = "CUDA_INJECTION64_PATH";
/// The environment variable that tells NVTX which library to load.
pub(crate) const RANGES_INJECTION: &str = "NVTX_INJECTION64_PATH";

/// The exit statuses that shells use: for a program that was not found, and for a program that
/// could not be started.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;

pub(crate) fn run(options: &TraceOptions) -> Result<ExitCode> {
    let Some((program, arguments)) = options.command.split_first() else {
        let file = options.read.as_deref().expect("clap demands a command or a file");
        return show::file(file, options, &show::outputs(options)?);
    };
    if let Err(wrong) = window::in_order(options) {
        return Ok(wrong_usage(&wrong));
    }
    if std::env::var_os(INJECTION).is_some() {
        let cause = format!("{INJECTION} is set: another tool traces this program; unset it first");
        return Err(Error::new(ErrorKind::InvalidValue, "trace", cause));
    }
    let outputs = show::outputs(options)?;
    let folder = Folder::create()?;
    let mut command = Command::new(program);
    command.args(arguments).env(RECORDINGS, folder.path()).env(INJECTION, folder.library());
    // A tool for the ranges alone, which the user has chosen, gets them.
    if std::env::var_os(RANGES_INJECTION).is_none() {
        command.env(RANGES_INJECTION, folder.library());
    }
    let mut signals = Signals::receive()?;
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Ok(not_started(program, &error)),
    };
    let status = signals.until_end(&mut child)?;
    program::until_all_ended(&folder)?;
    // If the program failed, the exit status is the status of the program. Otherwise the exit
    // status tells whether the trace succeeded.
    let shown = folder
        .files()
        .and_then(|files| show::run(&files, options, &outputs))
        .unwrap_or_else(|error| {
            print_stderr(format_args!("error: {error}"));
            ExitCode::FAILURE
        });
    Ok(if status.success() { shown } else { code(status) })
}

fn not_started(program: &OsString, error: &io::Error) -> ExitCode {
    print_stderr(format_args!("error: cannot start {}: {error}", shown(program)));
    ExitCode::from(if error.kind() == Io::NotFound { NOT_FOUND } else { NOT_STARTED })
}

/// The exit status of the program, or 128 plus the signal that ended it, as shells report it.
fn code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
