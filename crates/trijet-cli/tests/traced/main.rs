//! Traced programs that do everything that a program may do to a library inside of it. The driver
//! is a library of empty functions, and CUPTI is a stand-in that reports as many records as it is
//! asked for.
//!
//! This program is both the tests and the traced programs: the variable `TRACED_PROGRAM` selects
//! the program with that name.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

#[path = "../../../trijet/tests/common/built.rs"]
mod built;
mod calling;
mod checks;
mod chosen;
mod cuda;
mod faults;
mod graphs;
mod kernels;
mod memory;
mod programs;
mod run;
mod tests;
mod touching;

use libtest_mimic::{Arguments, Trial, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Ok(name) = std::env::var(run::PROGRAM) {
        programs::run(&name);
        return ExitCode::SUCCESS;
    }
    let trials = tests::ALL.iter().chain(checks::ALL).chain(faults::ALL).map(|(name, test)| {
        Trial::test(*name, move || {
            test();
            Ok(())
        })
    });
    run(&Arguments::from_args(), trials.collect()).exit_code()
}
