//! Lines for people and for programs.
#![forbid(unsafe_code)]

use super::wrap::wrapped;
use std::fmt::Display;
use std::io::{ErrorKind as Io, Write, stderr, stdout};
use trijet::{Error, ErrorKind, Result};
use trijet_io::escaped;

/// Prints lines for a person, all at once: processes of one job share their output. A terminal gets
/// lines of its width. Control characters of text from outside, such as labels of a ledger, are
/// escaped. It is not an error if the reader has closed the pipe.
///
/// # Errors
/// `Io`.
pub fn print(lines: impl Display) -> Result<()> {
    print_text(&wrapped(&escaped(&lines.to_string()), &stdout()))
}

/// Prints a text for programs: a terminal gets its lines as they are.
///
/// # Errors
/// `Io`.
pub fn print_text(text: &str) -> Result<()> {
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
pub fn print_stderr(lines: impl Display) {
    drop(writeln!(stderr(), "{}", wrapped(&escaped(&lines.to_string()), &stderr())));
}
