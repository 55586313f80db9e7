//! The commands.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod devices;
pub(crate) mod doctor;
pub(crate) mod map;
mod operation;
pub(crate) mod overlap;
mod report;
pub(crate) mod trace;
mod user_kernel;

use crate::args::DeviceName;
use std::fmt::Display;
use std::io::{ErrorKind as Io, Write, stderr, stdout};
use trijet::{Device, Error, ErrorKind, Result, Select};

/// Opens the device. The host device is opened in place of a GPU for `auto` only.
fn open(name: DeviceName) -> Result<Device> {
    Device::open(match name {
        DeviceName::Auto => Select::Auto,
        DeviceName::Cuda(ordinal) => Select::Cuda(ordinal),
        DeviceName::Host => Select::Host(0),
    })
}

/// Prints a line. It is not an error if the reader has closed the pipe.
fn print(line: impl Display) -> Result<()> {
    let mut out = stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != Io::BrokenPipe => {
            let cause = format!("cannot write to standard output: {error}");
            Err(Error::new(ErrorKind::Io, "print", cause).caused_by(error))
        }
        _ => Ok(()),
    }
}

/// Prints a line to standard error. Failures are ignored: the exit status does not depend on them.
pub(crate) fn print_stderr(line: impl Display) {
    drop(writeln!(stderr(), "{line}"));
}
