//! Tasks of the project that cargo alone does not do: `cargo xtask <task>`.

mod browser;
mod bundle;
mod explore;
mod fuzz;
mod lint;
mod loom;
mod miri;
mod mutants;
mod nvrtc;
mod perfetto;
mod ptx;
mod tools;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <task>

  browser      open the pages of timelines in Chromium, where it is, and use them by script
  bundle       build a self-contained folder for a GPU host without Rust
  explore      run random programs: --programs N from --seed S on; with --search N, compare the
               exhaustive search with N drawn orders of each
  fuzz [SECONDS [TARGET]]
               run the fuzz targets, or one, for a minute or SECONDS each
  loom         try every order of the steps of what threads share without a lock
  miri         run the tests of unsafe code under Miri, where the nightly compiler has it
  mutants [--list | ID..]
               run the tests under deliberate faults of the ordering, and say which survive
  perfetto     read a trace of ours with Perfetto's own classes, where they can be had
  ptx          generate the .ptx next to every kernel source
  ptx --check  generate again and compare, assemble and lint; writes nothing";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["browser"] => browser::run(),
        ["bundle", ..] => bundle::run(&args[1..]).map_err(Into::into),
        ["explore", ..] => explore::run(&args[1..]),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["loom"] => loom::run(),
        ["miri"] => miri::run(),
        ["mutants", "--list"] => mutants::list(),
        ["mutants", only @ ..] => mutants::run(only),
        ["perfetto"] => perfetto::run(),
        ["ptx"] => ptx::generate(),
        ["ptx", "--check"] => ptx::check(),
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
