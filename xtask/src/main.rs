//! Tasks of the project that cargo alone does not do: `cargo xtask <task>`.

mod bundle;

use std::io;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <task>

  bundle    build a self-contained folder for a GPU host without Rust";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.first().map(String::as_str) {
        Some("bundle") => bundle::run(&args[1..]),
        _ => Err(io::Error::other(USAGE)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
