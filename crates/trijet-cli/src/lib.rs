//! The command `trijet`: [`main`] runs a command line. Also saved runs, pictures, timelines,
//! generated images, and digests of results.
#![forbid(unsafe_code)]

mod against;
mod args;
mod array_task;
mod cmd;
pub mod digest;
pub mod key;
pub mod micrograph;
pub mod picture;
mod ranks;
mod report_words;
pub mod saved;
mod steps;
pub mod timeline;
mod values;
pub mod watched;

use args::{Command, Options};
use std::ffi::OsString;
use std::process::ExitCode;
use trijet::Result;
use trijet_tools::command::stop::outlive_file_limit;
use trijet_tools::command::usage::failed;

/// The report of a run as the object that `--json` prints.
#[must_use]
pub fn json_of_report(report: &trijet::Report) -> serde_json::Value {
    cmd::report::json(report)
}

/// Runs the command line `args`, whose first argument is the name of the program, and returns the
/// exit status. Wrong usage prints a message and ends the process.
#[must_use]
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let command = Options::of_arguments(args);
    cmd::queues::ask_for(streams_of(&command));
    match outlive_file_limit().and_then(|()| run(command)) {
        Ok(code) => code,
        Err(error) => failed(&error),
    }
}

/// Maximum number of streams with kernels that this process uses at once on a device. The result is
/// 0 for commands that use only a few streams. A program that `trijet trace` starts is another
/// process, and is not counted.
fn streams_of(command: &Command) -> usize {
    match command {
        // The number of streams is the number of slots.
        Command::Overlap(options) => options.depth.unwrap_or(0),
        Command::Map(_)
        | Command::Devices(_)
        | Command::Doctor(_)
        | Command::Bench(_)
        | Command::Trace(_)
        | Command::Check(_)
        | Command::Replay(_)
        | Command::WhatIf(_)
        | Command::KernelTemplate(_)
        | Command::Explain(_)
        | Command::Lesson(_)
        | Command::Sample(_)
        | Command::Status(_)
        | Command::Completions { .. }
        | Command::Man(_) => 0,
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Devices(options) => cmd::devices::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Map(options) => cmd::map::run(&options),
        Command::Overlap(options) => cmd::overlap::run(&options),
        Command::Doctor(options) => cmd::doctor::run(&options),
        Command::Trace(options) => cmd::trace::run(&options),
        Command::Check(options) => cmd::check::run(&options),
        Command::Replay(options) => cmd::replay::run(&options),
        Command::WhatIf(options) => cmd::what_if::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Bench(options) => Err(cmd::bench::run(&options)),
        Command::Explain(options) => cmd::explain::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Lesson(options) => cmd::lesson::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Status(options) => cmd::status::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Sample(options) => cmd::sample::run(&options).map(|()| ExitCode::SUCCESS),
        Command::KernelTemplate(template) => {
            cmd::shell::kernel_template(template).map(|()| ExitCode::SUCCESS)
        }
        Command::Completions { shell } => {
            cmd::shell::completions(shell).map(|()| ExitCode::SUCCESS)
        }
        Command::Man(options) => cmd::shell::man(&options).map(|()| ExitCode::SUCCESS),
    }
}
