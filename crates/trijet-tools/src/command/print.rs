//! Prints lines for people and texts for programs.
#![forbid(unsafe_code)]

use super::wrap::wrapped;
use std::fmt::Display;
use std::io::{ErrorKind as Io, Write, stderr, stdout};
use trijet::{Error, ErrorKind, Result};
use trijet_io::escaped;

/// Prints lines for a person. One call writes all lines, because the processes of a job may share
/// their output. If the output is a terminal, the lines are broken to its width. Control characters
/// are escaped, because the lines may have text from outside this program, such as labels of a
/// ledger. If the output is a pipe whose reader has closed it, this is not an error.
///
/// # Errors
/// `Io`.
pub fn print(lines: impl Display) -> Result<()> {
    print_text(&wrapped(&escaped(&lines.to_string()), &stdout()))
}

/// Prints a text for a program. The lines of the text are not broken.
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

/// Prints lines to standard error, with control characters escaped. If standard error is a
/// terminal, the lines are broken to its width. Errors are ignored, because the exit status must
/// not depend on them.
pub fn print_stderr(lines: impl Display) {
    drop(writeln!(stderr(), "{}", wrapped(&escaped(&lines.to_string()), &stderr())));
}
