//! `trijet bench`: runs the program `trijet-bench`, as git runs a command that is a program of its
//! own.
#![forbid(unsafe_code)]

use crate::args::BenchArguments;
use std::io::ErrorKind as Io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use trijet::{Error, ErrorKind};
use trijet_tools::command::beside::beside;

/// The program of the benchmarks.
const PROGRAM: &str = "trijet-bench";

/// Replaces this process by the program of the benchmarks, which thus has its input, its outputs
/// and its exit status, and gets its signals. Returns only if the program cannot be started.
pub(crate) fn run(options: &BenchArguments) -> Error {
    let error = Command::new(beside(PROGRAM)).args(&options.arguments).exec();
    let cause = match error.kind() {
        Io::NotFound => format!(
            "the program `{PROGRAM}` is neither in the folder of this command nor in PATH; `cargo build --release -p {PROGRAM}` builds it"
        ),
        _ => format!("the program `{PROGRAM}` cannot be started: {error}"),
    };
    Error::new(ErrorKind::Unsupported, "bench", cause)
}
