//! `staged`: random pipelines over items, compared with a serial run of each.
//!
//! The tests of the library run some; this task runs as many as one likes.
#![forbid(unsafe_code)]

use crate::tools::{Result, root};
use std::process::Command;

/// The programs on threads, and as many in orders of the device and without a wait.
const PROGRAMS: &str = "5000";

/// Runs so many random pipelines on each kind of host device.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let programs = arguments.first().copied().unwrap_or(PROGRAMS);
    let status = Command::new("cargo")
        .args(["test", "--package", "trijet", "--test", "pipeline", "staged::random"])
        .env("TRIJET_STAGED", programs)
        .current_dir(root())
        .status()?;
    if status.success() { Ok(()) } else { Err("staged: a random pipeline has a wrong end".into()) }
}
