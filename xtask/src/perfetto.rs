//! A trace of ours, read by the classes that Perfetto generates from its own definitions.
//!
//! They come with a wheel, which is put into a folder of its own under `target`. Where it cannot be
//! had nothing runs, and the last line says so.
#![forbid(unsafe_code)]

use crate::tools::{Result, root, target};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The wheel, pinned, so that a new one does not fail an old commit.
const WHEEL: &str = "perfetto==0.59.1";

/// Checks the trace that the test `timeline` left.
pub(crate) fn run() -> Result<()> {
    let python = match environment() {
        Ok(python) => python,
        Err(why) => {
            println!("== perfetto: SKIPPED 1 trace: {why}");
            return Ok(());
        }
    };
    let status = Command::new("cargo")
        .args(["test", "--package", "trijet", "--test", "timeline", "--quiet"])
        .current_dir(root())
        .status()?;
    if !status.success() {
        return Err("perfetto: the trace was not made".into());
    }
    let status = Command::new(python)
        .arg(root().join("xtask/src/perfetto/check.py"))
        .arg(target().join("tmp/pipeline.pftrace"))
        .status()?;
    if status.success() { Ok(()) } else { Err("perfetto: the trace is not as it must be".into()) }
}

/// The interpreter of an environment that has the wheel.
fn environment() -> std::result::Result<PathBuf, String> {
    let folder = target().join("tools").join(WHEEL.replace("==", "-"));
    let python = folder.join("bin/python");
    let ready = |python: &Path| {
        let import = ["-c", "import perfetto.protos.perfetto.trace.perfetto_trace_pb2"];
        Command::new(python).args(import).output().is_ok_and(|output| output.status.success())
    };
    if ready(&python) {
        return Ok(python);
    }
    said(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    said(Command::new(&python).args(["-m", "pip", "install", "--quiet", WHEEL]))?;
    if ready(&python) { Ok(python) } else { Err(format!("{WHEEL} has no classes")) }
}

/// Runs a command; why it failed, in its last line.
fn said(command: &mut Command) -> std::result::Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(text.lines().last().unwrap_or("no word why").to_owned())
}
