//! The run of a foreign program, into which the CUDA driver loads the recorder: its start, the
//! signals that it gets, its end, and the files that its processes wrote.
#![forbid(unsafe_code)]

mod error;
mod folder;
mod injected;
mod signals;

pub(crate) use folder::{Folder, files_in};
pub(crate) use injected::{INJECTION, Injected};

use super::print_stderr;
use signals::{Signals, until_all_ended};
use std::ffi::OsString;
use std::io::{self, ErrorKind as Io};
use std::process::{Command, ExitCode, ExitStatus};
use trijet::{Error, ErrorKind, Result};
use trijet_cupti::calls::KERNELS;
use trijet_io::shown;

/// The environment variable that tells NVTX which library to load.
pub(crate) const RANGES_INJECTION: &str = "NVTX_INJECTION64_PATH";

/// The exit statuses that shells use: for a program that was not found, and for a program that
/// could not be started.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;

/// A program that has run.
#[derive(Debug)]
pub(crate) enum Run {
    /// The program was not started; the exit status states why.
    NotStarted(ExitCode),
    /// The program and all its processes have ended.
    Ended {
        /// The status of the program.
        status: ExitStatus,
        /// The folder with the files of its processes. They are removed with it.
        folder: Folder,
    },
}

impl Run {
    /// Runs the program and its arguments with the recorder. `variables` are added to its
    /// environment.
    ///
    /// # Errors
    /// Another tool is in the environment; the folder cannot be made; errors of the system.
    pub(crate) fn new(
        command: &[OsString],
        injected: Injected,
        variables: &[(&str, String)],
    ) -> Result<Self> {
        let (program, arguments) = command.split_first().expect("clap demands a program");
        if std::env::var_os(INJECTION).is_some() {
            let cause =
                format!("{INJECTION} is set: another tool examines this program; unset it first");
            return Err(Error::new(ErrorKind::InvalidValue, injected.verb(), cause));
        }
        let folder = Folder::create(injected)?;
        let mut command = Command::new(program);
        command.args(arguments).env(injected.variable(), folder.path());
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.env(INJECTION, folder.library());
        if injected == Injected::CallsAndKernels {
            command.env(KERNELS, "1");
        }
        // A tool for the ranges alone, which the user has chosen, gets them.
        if injected == Injected::Trace && std::env::var_os(RANGES_INJECTION).is_none() {
            command.env(RANGES_INJECTION, folder.library());
        }
        let mut signals = Signals::receive()?;
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return Ok(Self::NotStarted(not_started(program, &error))),
        };
        let status = signals.until_end(&mut child)?;
        until_all_ended(&folder)?;
        Ok(Self::Ended { status, folder })
    }
}

fn not_started(program: &OsString, error: &io::Error) -> ExitCode {
    print_stderr(format_args!("error: cannot start {}: {error}", shown(program)));
    ExitCode::from(if error.kind() == Io::NotFound { NOT_FOUND } else { NOT_STARTED })
}

/// The exit status of the command: the status of the program if it failed, or else `own`.
pub(crate) fn exit_status(status: ExitStatus, own: ExitCode) -> ExitCode {
    if status.success() { own } else { code(status) }
}

/// The exit status of the program, or 128 plus the signal that ended it, as shells report it.
fn code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
