//! Errors of `trijet trace`: of the operating system, and of options that do not fit the trace.
#![forbid(unsafe_code)]

use crate::cmd::print_stderr;
use std::io;
use std::process::ExitCode;
use trijet::{Error, ErrorKind};

pub(super) fn failed(doing: &'static str, error: &io::Error) -> Error {
    Error::new(ErrorKind::Io, doing, error.to_string())
}

/// The exit status for wrong usage, as `clap` has it.
const WRONG_USAGE: u8 = 2;

/// Prints an error of the options, and returns the exit status.
pub(super) fn wrong_usage(wrong: &str) -> ExitCode {
    print_stderr(format_args!("error: {wrong}"));
    ExitCode::from(WRONG_USAGE)
}
