//! The `trijet` command.

mod args;
mod cmd;
mod ranks;
mod steps;
mod values;

use args::{Command, Options};
use std::process::ExitCode;
use trijet::{Error, ErrorKind, Result};

fn main() -> ExitCode {
    let command = Options::of_this_process();
    if opens_devices(&command) {
        cmd::queues::ask_for_all();
    }
    match cmd::stop::outlive_file_limit().and_then(|()| run(command)) {
        Ok(code) => code,
        Err(error) => failed(&error),
    }
}

/// Whether this process uses CUDA. A traced program is another one, and keeps its environment.
fn opens_devices(command: &Command) -> bool {
    match command {
        Command::Devices(_)
        | Command::Map(_)
        | Command::Overlap(_)
        | Command::Doctor(_)
        | Command::Bench(_) => true,
        Command::Trace(_)
        | Command::Check(_)
        | Command::KernelTemplate(_)
        | Command::Completions { .. }
        | Command::Man(_) => false,
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
        Command::Bench(options) => cmd::bench::run(&options),
        Command::KernelTemplate(template) => {
            cmd::shell::kernel_template(template).map(|()| ExitCode::SUCCESS)
        }
        Command::Completions { shell } => {
            cmd::shell::completions(shell).map(|()| ExitCode::SUCCESS)
        }
        Command::Man(options) => cmd::shell::man(&options).map(|()| ExitCode::SUCCESS),
    }
}

/// Prints an error, and returns the exit status.
fn failed(error: &Error) -> ExitCode {
    cmd::print_stderr(format_args!("error: {error}"));
    let message = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source.filter(|cause| !message.ends_with(&cause.to_string())) {
        cmd::print_stderr(format_args!("  caused by: {cause}"));
        source = cause.source();
    }
    match error.kind() {
        ErrorKind::Cancelled => ExitCode::from(cmd::stop::status()),
        _ => ExitCode::FAILURE,
    }
}
