//! `staged`, `graphs`, `tasks` and `tenancy`: random pipelines over items, random graphs and random
//! programs of tasks, compared with a serial run of each, and all short sequences of steps on lanes.
//!
//! The tests of the library run a few of them. These tasks run any number of them.
#![forbid(unsafe_code)]

use crate::tools::{Result, root};
use std::process::Command;

/// The default number of random pipelines, graphs or programs of each test.
const PROGRAMS: &str = "5000";

/// Runs this many random pipelines on each kind of host device.
pub(crate) fn pipelines(arguments: &[&str]) -> Result<()> {
    run(["pipeline", "staged::random"], "TRIJET_STAGED", arguments)
}

/// Runs this many random graphs, each in three orders of the device.
pub(crate) fn graphs(arguments: &[&str]) -> Result<()> {
    run(["graphs", "any_order"], "TRIJET_GRAPHS", arguments)
}

/// Runs this many random programs of tasks.
pub(crate) fn tasks(arguments: &[&str]) -> Result<()> {
    run(["task", "random"], "TRIJET_TASKS", arguments)
}

/// Runs all short sequences of steps on lanes, of which `cargo test` draws a part.
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
