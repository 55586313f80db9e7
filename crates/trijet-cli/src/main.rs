//! The `trijet` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    trijet_cli::main(std::env::args_os())
}
