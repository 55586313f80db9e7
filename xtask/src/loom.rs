//! The pieces that threads share without a lock, in every order of their steps that the memory
//! model allows (`base::atomic`).
#![forbid(unsafe_code)]

use crate::tools::{Result, root};
use std::process::Command;

/// Runs the tests that are there under `--cfg loom` only.
pub(crate) fn run() -> Result<()> {
    let status = Command::new("cargo")
        .args(["test", "--package", "trijet", "--lib", "base::atomic::every_order"])
        .current_dir(root())
        .env("RUSTFLAGS", "--cfg loom")
        // The models take a second; optimising the crate for them takes minutes.
        .env("CARGO_PROFILE_TEST_OPT_LEVEL", "0")
        // Other flags are another build: in a folder of its own it does not drive out the usual one.
        .env("CARGO_TARGET_DIR", root().join("target/loom"))
        .env("CARGO_PROFILE_TEST_DEBUG", "0")
        .status()?;
    if status.success() { Ok(()) } else { Err("loom: an order of steps fails".into()) }
}
