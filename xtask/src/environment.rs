//! Virtual environments of Python under `target`, with pinned wheels.
#![forbid(unsafe_code)]

use crate::tools::target;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Python interpreter of a virtual environment with `wheels`, in which `modules` can be
/// imported. The environment is created if it is missing.
///
/// # Errors
/// The reason, if the wheels cannot be installed.
pub(crate) fn environment(wheels: &[&str], modules: &str) -> Result<PathBuf, String> {
    let name = wheels.join("-").replace("==", "-");
    let folder = target().join("tools").join(name);
    let python = folder.join("bin/python");
    let import = format!("import {modules}");
    let ready = |python: &Path| {
        let import = Command::new(python).args(["-c", &import]).output();
        import.is_ok_and(|output| output.status.success())
    };
    if ready(&python) {
        return Ok(python);
    }
    run_quietly(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    let pip = ["-m", "pip", "install", "--quiet"];
    run_quietly(Command::new(&python).args(pip).args(wheels))?;
    if ready(&python) { Ok(python) } else { Err(format!("cannot import {modules}")) }
}

/// Runs a command. If the command fails, the error is the last line that it printed.
fn run_quietly(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(text.lines().last().unwrap_or("the command printed no reason").to_owned())
}
