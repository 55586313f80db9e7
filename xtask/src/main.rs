//! Tasks of the project that cargo itself does not have: `cargo xtask <task>`.

mod book;
mod browser;
mod bundle;
mod claims;
mod environment;
mod explore;
mod features;
mod figures;
mod files;
mod formats;
mod fuzz;
mod loom;
mod miri;
mod mutants;
mod nvrtc;
mod patches;
mod perfetto;
mod programs;
mod ptx;
mod python;
mod read_all;
mod results;
mod staged;
mod tools;
mod verdicts;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <task>

  book         build the documents as a site, and follow its links
  browser      open timeline pages in Chromium and test them by a script
  bundle       build a self-contained folder for a GPU host without Rust
  claims [RUNS [LANES]]
               share jobs among eight processes: one is slow, one is killed, and one is cut off for longer than
               its lease (default: 20 runs, 2 at once); `claims nfs FOLDER` does so over NFS
  damage [MUTATIONS]
               read damaged files of every format, and damaged blocks of every codec (default:
               1000000 of each)
  explore [--programs N] [--seed S] [--search N]
               run random programs; with --search, compare the exhaustive search of each small
               program with N random orders
  features     compile the library with each of its features alone, and every package with only the
               features that it names
  files        make each file call of `trijet map` fail, kill its runs, and simulate losses of power
  formats      read files that the tests have written with the libraries of their formats, and run
               `trijet map` on files that these libraries write by default and with usual options
  fuzz [SECONDS [TARGET]]
               run all fuzz targets, or one, for SECONDS each (default: 60)
  graphs [PROGRAMS]
               compare random graphs with a serial run of each, in three orders of the device
               (default: 5000)
  loom         try every order of the steps of code that threads share without a lock
  miri         run the tests of unsafe code under Miri
  mutants [--list | ID..]
               run the tests with one deliberate fault at a time, and print the test that finds it;
               with --list, only list the faults
  perfetto     read a trace with Perfetto's own classes
  programs [PROGRAMS [--seed S]]
               run random programs of the public interface against the laws (default: 1000000)
  python       build the Python package, run its tests and examples, and check its types
  ptx [--check]
               generate the .ptx beside every kernel source; with --check, only compare, assemble
               and lint
  read-all FILE
               read an array with all processors, and print the rate
  recipes      run the recipes for Python with Dask, Ray, Snakemake and Jupyter
  figures      draw the figures of the documents from the results of the benchmarks
  results [--check]
               write the tables of the documents from the results of the benchmarks; with --check,
               only compare
  staged [PROGRAMS]
               compare random pipelines over items with a serial run of each: on threads and in random
               orders of the device; also run them without a wait (default: 5000 of each kind)
  tasks [PROGRAMS]
               compare random programs of tasks with a serial run of each: PROGRAMS in random orders of
               the device, and half as many on threads (default: 5000)
  tenancy      run every short sequence of steps on lanes; `cargo test` runs a part of them
  verdicts PROGRAM [DEVICE [RUNS]]
               print the limits that runs of the same job of `trijet map` report, and how much time
               following their advice saves (default: 20 runs of each job on the device of `auto`)
  wheel        build the wheel of the Python package, and test it in an empty environment

browser, claims, files, formats, miri, perfetto, python and recipes print SKIPPED where their tools are missing.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["book"] => book::run(),
        ["browser"] => browser::run(),
        ["bundle", ..] => bundle::run(&args[1..]).map_err(Into::into),
        ["claims", rest @ ..] => claims::run(rest),
        ["damage"] => fuzz::damage("1000000"),
        ["damage", mutations] => fuzz::damage(mutations),
        ["explore", ..] => explore::run(&args[1..]),
        ["features"] => features::run(),
        ["files", outputs @ ..] => files::run(outputs),
        ["formats"] => formats::run(),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["loom"] => loom::run(),
        ["miri"] => miri::run(),
        ["mutants", "--list"] => mutants::list(),
        ["mutants", only @ ..] => mutants::run(only),
        ["perfetto"] => perfetto::run(),
        ["python"] => python::check(),
        ["recipes"] => python::recipes(),
        ["programs", rest @ ..] => programs::run(rest),
        ["read-all", file] => read_all::run(file),
        ["ptx"] => ptx::generate(),
        ["ptx", "--check"] => ptx::check(),
        ["figures"] => figures::write(),
        ["results"] => results::write(),
        ["results", "--check"] => results::check(),
        ["staged", rest @ ..] => staged::pipelines(rest),
        ["graphs", rest @ ..] => staged::graphs(rest),
        ["tasks", rest @ ..] => staged::tasks(rest),
        ["tenancy"] => staged::tenancy(),
        ["verdicts", rest @ ..] => verdicts::run(rest),
        ["wheel"] => python::wheel(),
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
