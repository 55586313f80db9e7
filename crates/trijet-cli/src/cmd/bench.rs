//! `trijet bench`: replaces this process by the program `trijet-bench`, in the same way as git runs
//! an external command.
#![forbid(unsafe_code)]

use crate::args::BenchArguments;
use std::io::ErrorKind as Io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use trijet::{Error, ErrorKind};
use trijet_tools::command::beside::beside;

/// The file name of the program of the benchmarks.
const PROGRAM: &str = "trijet-bench";

/// Replaces this process by the program of the benchmarks. The program gets the input, the outputs
/// and the signals of this process, and its exit status is the exit status of the command. Returns
/// only if the program cannot be started.
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
