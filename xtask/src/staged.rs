//! `staged`, `graphs` and `tasks`: random pipelines over items, random graphs and random programs
//! of tasks. The result of each is compared with a serial run. `tenancy`: all short sequences of
//! steps on lanes.
//!
//! The tests of the library run a few of these programs. These tasks run any number of them.
#![forbid(unsafe_code)]

use crate::tools::{Result, root};
use std::process::Command;

/// The default number of random pipelines, graphs or programs of each test.
const PROGRAMS: &str = "5000";

/// Runs a number of random pipelines on each kind of host device.
pub(crate) fn pipelines(arguments: &[&str]) -> Result<()> {
    run(["pipeline", "staged::random"], "TRIJET_STAGED", arguments)
}

/// Runs a number of random graphs, each in three orders of the device.
pub(crate) fn graphs(arguments: &[&str]) -> Result<()> {
    run(["graphs", "any_order"], "TRIJET_GRAPHS", arguments)
}

/// Runs a number of random programs of tasks.
pub(crate) fn tasks(arguments: &[&str]) -> Result<()> {
    run(["task", "random"], "TRIJET_TASKS", arguments)
}

/// Runs all short sequences of steps on lanes. `cargo test` runs a part of them.
pub(crate) fn tenancy() -> Result<()> {
    run(["tenancy", ""], "TRIJET_ALL_SEQUENCES", &["1"])
}

fn run([program, filter]: [&str; 2], variable: &str, arguments: &[&str]) -> Result<()> {
    let programs = arguments.first().copied().unwrap_or(PROGRAMS);
    let status = Command::new("cargo")
        .args(["test", "--package", "trijet", "--test", program, filter])
        .env(variable, programs)
        .current_dir(root())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{program}: a test failed; see its output above").into())
    }
}
