//! `loom`: runs the code that threads share without a lock (`base::atomic`) in every order of its
//! steps that the memory model allows.
#![forbid(unsafe_code)]

use crate::tools::{Result, root};
use std::process::Command;

/// Runs the tests of the package that compiles them with loom.
pub(crate) fn run() -> Result<()> {
    let status = Command::new("cargo")
        .args(["test", "--package", "trijet-loom"])
        .current_dir(root())
        .status()?;
    if status.success() { Ok(()) } else { Err("loom: a test fails in some order of steps".into()) }
}
