//! Tasks of the project that cargo itself does not have: `cargo xtask <task>`.

mod browser;
mod bundle;
mod explore;
mod figures;
mod files;
mod fuzz;
mod loom;
mod miri;
mod mutants;
mod nvrtc;
mod perfetto;
mod programs;
mod ptx;
mod results;
mod staged;
mod tools;
mod verdicts;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <task>

  browser      open timeline pages in Chromium and use them by script
  bundle       build a self-contained folder for a GPU host without Rust
  explore [--programs N] [--seed S] [--search N]
               run random programs; with --search, compare the exhaustive search of each small
               program with N random orders
  files        let every file call of `trijet map` fail, kill its runs, and cut the power of its disk
  fuzz [SECONDS [TARGET]]
               run all fuzz targets, or one, for SECONDS each (default: 60)
  graphs [PROGRAMS]
               compare random graphs with a serial run of each, in three orders of the device
               (default: 5000)
  loom         try every order of the steps of code that threads share without a lock
  miri         run the tests of unsafe code under Miri
  mutants [--list | ID..]
               run the tests with deliberate faults, and list the faults that no test finds
  perfetto     read a trace with Perfetto's own classes
  programs [PROGRAMS [--seed S]]
               run random programs of the public interface against the laws (default: 1000000)
  ptx [--check]
               generate the .ptx beside every kernel source; with --check, only compare, assemble
               and lint
  figures      draw the figures of the documents from the results of the benchmarks
  results [--check]
               write the tables of the documents from the results of the benchmarks; with --check,
               only compare
  staged [PROGRAMS]
               compare random pipelines over items with a serial run of each, and run them without
               a wait (default: 5000 on threads, in random orders of the device, and without a wait)
  tasks [PROGRAMS]
               compare random programs of tasks with their tasks one after another, in random orders
               of the device, and half as many on threads (default: 5000)
  verdicts PROGRAM [DEVICE [RUNS]]
               what equal runs of `trijet map` name as their limit, and what their advice brings where
               it is followed (default: 20 runs of each job on the device of `auto`)

browser, files, miri and perfetto print SKIPPED where their tools are missing.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["browser"] => browser::run(),
        ["bundle", ..] => bundle::run(&args[1..]).map_err(Into::into),
        ["explore", ..] => explore::run(&args[1..]),
        ["files"] => files::run(),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["loom"] => loom::run(),
        ["miri"] => miri::run(),
        ["mutants", "--list"] => mutants::list(),
        ["mutants", only @ ..] => mutants::run(only),
        ["perfetto"] => perfetto::run(),
        ["programs", rest @ ..] => programs::run(rest),
        ["ptx"] => ptx::generate(),
        ["ptx", "--check"] => ptx::check(),
        ["figures"] => figures::write(),
        ["results"] => results::write(),
        ["results", "--check"] => results::check(),
        ["staged", rest @ ..] => staged::pipelines(rest),
        ["graphs", rest @ ..] => staged::graphs(rest),
        ["tasks", rest @ ..] => staged::tasks(rest),
        ["verdicts", rest @ ..] => verdicts::run(rest),
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
