//! `loom`: runs the code that threads share without a lock (`base::atomic`) in every order of its
//! steps that the memory model allows.
#![forbid(unsafe_code)]

use crate::tools::{Result, root};
use std::process::Command;

/// Runs the tests that exist under `--cfg loom` only.
pub(crate) fn run() -> Result<()> {
    let status = Command::new("cargo")
        .args(["test", "--package", "trijet", "--lib", "base::atomic::every_order"])
        .current_dir(root())
        .env("RUSTFLAGS", "--cfg loom")
        // The tests take a second, but an optimised build of the crate takes minutes.
        .env("CARGO_PROFILE_TEST_OPT_LEVEL", "0")
        // Other flags mean another build, which would replace the usual one in the same folder.
        .env("CARGO_TARGET_DIR", root().join("target/loom"))
        .env("CARGO_PROFILE_TEST_DEBUG", "0")
        .status()?;
    if status.success() { Ok(()) } else { Err("loom: a test fails in some order of steps".into()) }
}
