//! Prints the version, the help, wrong usage and errors of a command.
#![forbid(unsafe_code)]

use super::print::print_stderr;
use super::stop;
use super::wrap::wrapped;
use crate::origin::COMMIT;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{ErrorKind as Io, Write, stderr, stdout};
use std::process::{ExitCode, exit};
use std::sync::LazyLock;
use trijet::{Error, ErrorKind};
use trijet_io::shown;

/// The exit status for wrong usage, which is the same as in `clap`.
const WRONG_USAGE: u8 = 2;

/// The version of this build: a number, and the commit if it is known. All commands of the
/// workspace have the same number.
#[must_use]
pub fn version() -> &'static str {
    static VERSION: LazyLock<String> =
        LazyLock::new(|| version_of(env!("CARGO_PKG_VERSION"), COMMIT));
    &VERSION
}

fn version_of(number: &str, commit: &str) -> String {
    match commit {
        "unknown" => number.to_owned(),
        commit => format!("{number} ({commit})"),
    }
}

/// Parses the arguments of this process with `parse`, and returns the result. If the arguments
/// request the help or the version, or if they are wrong, prints a text and ends the process.
pub fn parsed<T>(args: Vec<OsString>, parse: impl Fn(&[OsString]) -> Result<T, clap::Error>) -> T {
    let wrong = match parse(&args) {
        Ok(command) => return command,
        Err(wrong) => wrong,
    };
    // The message quotes arguments, which may have control characters. So the arguments are escaped
    // and parsed again for the message.
    let escaped: Vec<OsString> = args.iter().map(|arg| shown(arg).to_string().into()).collect();
    say(&parse(&escaped).err().unwrap_or(wrong))
}

/// Prints the help, the version or wrong usage, and ends the process. The exit status is 1 if the
/// help or the version cannot be written.
fn say(said: &clap::Error) -> ! {
    if said.use_stderr() {
        let lines = wrapped(&said.render().ansi().to_string(), &stderr());
        // The text has the colours that clap chooses for the terminal. Errors of the write are
        // ignored, as in clap.
        drop(write!(anstream::stderr(), "{lines}"));
        exit(said.exit_code());
    }
    match said.print().and_then(|()| stdout().flush()) {
        Err(error) if error.kind() != Io::BrokenPipe => {
            drop(writeln!(stderr(), "error: print: cannot write to standard output: {error}"));
            exit(1)
        }
        _ => exit(0),
    }
}

/// Prints an error about the command line, and returns the exit status for wrong usage.
pub fn wrong_usage(wrong: impl Display) -> ExitCode {
    print_stderr(format_args!("error: {wrong}"));
    ExitCode::from(WRONG_USAGE)
}

/// Prints an error of a command, and returns the exit status for a failure.
#[must_use]
pub fn failed(error: &Error) -> ExitCode {
    print_stderr(format_args!("error: {error}"));
    let message = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source.filter(|cause| !message.ends_with(&cause.to_string())) {
        print_stderr(format_args!("  caused by: {cause}"));
        source = cause.source();
    }
    match error.kind() {
        ErrorKind::Cancelled => ExitCode::from(stop::status()),
        _ => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_the_commit_if_it_is_known() {
        assert_eq!(version_of("0.1.0", "unknown"), "0.1.0");
        assert_eq!(version_of("0.1.0", "1f0c-dirty"), "0.1.0 (1f0c-dirty)");
    }
}
