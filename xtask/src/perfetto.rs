//! `perfetto`: reads a trace with the classes that Perfetto generates from its own definitions.
//!
//! The classes come from a wheel, which is installed under `target`. If the wheel cannot be
//! installed, the task prints SKIPPED.
#![forbid(unsafe_code)]

use crate::tools::{Result, root, target};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The wheel with the classes. Its version is pinned, so that a new release does not break an old
/// commit.
const WHEEL: &str = "perfetto==0.59.1";

/// Checks the trace that the test `timeline` writes.
pub(crate) fn run() -> Result<()> {
    let python = match environment() {
        Ok(python) => python,
        Err(reason) => {
            println!("== perfetto: SKIPPED 1 trace: {reason}");
            return Ok(());
        }
    };
    let status = Command::new("cargo")
        .args(["test", "--test", "timeline", "--quiet"])
        .current_dir(root())
        .status()?;
    if !status.success() {
        return Err("perfetto: the test `timeline` failed, so there is no trace".into());
    }
    let status = Command::new(python)
        .arg(root().join("xtask/src/perfetto/check.py"))
        .arg(target().join("tmp/pipeline.pftrace"))
        .status()?;
    if status.success() { Ok(()) } else { Err("perfetto: the trace is wrong".into()) }
}

/// The Python interpreter of a virtual environment with the wheel. The environment is created if it
/// is missing.
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
    run_quietly(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    run_quietly(Command::new(&python).args(["-m", "pip", "install", "--quiet", WHEEL]))?;
    if ready(&python) { Ok(python) } else { Err(format!("{WHEEL} lacks the classes of a trace")) }
}

/// Runs a command. If the command fails, the error is the last line that it printed.
fn run_quietly(command: &mut Command) -> std::result::Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(text.lines().last().unwrap_or("the command printed no reason").to_owned())
}
