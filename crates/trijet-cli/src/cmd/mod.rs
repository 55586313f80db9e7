//! The commands.

pub(crate) mod bench;
mod chain;
pub(crate) mod check;
pub(crate) mod devices;
pub(crate) mod doctor;
mod document;
pub(crate) mod explain;
pub(crate) mod map;
mod memory;
mod operation;
pub(crate) mod overlap;
mod progress;
pub(crate) mod queues;
pub(crate) mod replay;
mod report;
pub(crate) mod sample;
pub(crate) mod shell;
pub(crate) mod stop;
pub(crate) mod trace;
mod user_kernel;
mod verdict;

use crate::args::LiveCheck;
use crate::values::DeviceName;
use crate::wrap::wrapped;
use std::fmt::Display;
use std::io::{ErrorKind as Io, Write, stderr, stdout};
use std::process::ExitCode;
use trijet::check::{CheckOptions, Names};
use trijet::trace::summary::Audience;
use trijet::{Builder, Device, Error, ErrorKind, Result, Select};
use trijet_io::escaped;

/// Opens the device. Only for `auto`, the host device may be opened instead of a GPU.
fn open(name: DeviceName, check: &LiveCheck) -> Result<Device> {
    with_check(builder(name), check).open()
}

/// The options for opening a device by its name.
fn builder(name: DeviceName) -> Builder {
    Device::builder().select(match name {
        DeviceName::Auto => Select::Auto,
        DeviceName::Cuda(ordinal) => Select::Cuda(ordinal),
        DeviceName::Host => Select::Host(0),
    })
}

/// The names in findings about the calls of this command. Their reader cannot change the calls.
fn names() -> Names {
    Names { audience: Audience::User, ..Names::default() }
}

/// Adds the checker to a device that is about to be opened, if `--check` is given.
fn with_check(builder: Builder, check: &LiveCheck) -> Builder {
    let options = CheckOptions { names: names(), ..CheckOptions::default() };
    if check.check { builder.check(options) } else { builder }
}

/// Prints lines for a person, all at once: processes of one job share their output. A terminal gets
/// lines of its width. Control characters of text from outside, such as labels of a ledger, are
/// escaped. It is not an error if the reader has closed the pipe.
fn print(lines: impl Display) -> Result<()> {
    print_text(&wrapped(&escaped(&lines.to_string()), &stdout()))
}

/// Prints a text for programs: a terminal gets its lines as they are.
fn print_text(text: &str) -> Result<()> {
    let mut out = stdout().lock();
    match out.write_all(format!("{text}\n").as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != Io::BrokenPipe => {
            let cause = format!("cannot write to standard output: {error}");
            Err(Error::new(ErrorKind::Io, "print", cause).caused_by(error))
        }
        _ => Ok(()),
    }
}

/// Prints lines to standard error, with control characters escaped. A terminal gets lines of its
/// width. Failures are ignored: the exit status does not depend on them.
pub(crate) fn print_stderr(lines: impl Display) {
    drop(writeln!(stderr(), "{}", wrapped(&escaped(&lines.to_string()), &stderr())));
}

/// The exit status for wrong usage, the same as in `clap`.
const WRONG_USAGE: u8 = 2;

/// Prints an error of the command line, and returns the exit status.
pub(crate) fn wrong_usage(wrong: impl Display) -> ExitCode {
    print_stderr(format_args!("error: {wrong}"));
    ExitCode::from(WRONG_USAGE)
}
