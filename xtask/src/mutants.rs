//! Which deliberate faults of the ordering do the tests catch? One build with `--cfg mutants`, then
//! one run of the tests per fault, until one fails. A run that hangs counts as caught.
#![forbid(unsafe_code)]

use crate::tools::{Result, root};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A fault: the number of its switch, what it does, and the file.
struct Mutant {
    id: u32,
    what: String,
    file: String,
}

/// A test program and what to run of it, the quickest first.
const RUNS: &[(&str, &[&str])] = &[
    ("semantics", &["greedy::", "seeded::"]),
    ("soundness", &[]),
    ("oracle", &["serially", "every_conflict"]),
    ("trijet", &["stream::", "memory::", "device::host::", "witness::"]),
    ("faults", &["a_fault", "a_loss"]),
    ("host_only", &[]),
    ("tenancy", &[]),
];

/// Programs that each test of random programs draws.
const PROGRAMS: &str = "0..100";

/// Seconds after which a run hangs.
const PATIENCE: &str = "120";

/// Prints the faults.
pub(crate) fn list() -> Result<()> {
    for mutant in found()? {
        println!("{:3}  {}  ({})", mutant.id, mutant.what, mutant.file);
    }
    Ok(())
}

/// Runs the tests under the faults `only`, or under every one.
pub(crate) fn run(only: &[&str]) -> Result<()> {
    let only = only.iter().map(|id| id.parse()).collect::<std::result::Result<Vec<u32>, _>>()?;
    let programs = build()?;
    if let Some(failure) = failing(&programs, None)? {
        return Err(format!("without a fault, {failure}").into());
    }
    let mut mutants = found()?;
    mutants.retain(|mutant| only.is_empty() || only.contains(&mutant.id));
    let (mut caught, all) = (0, mutants.len());
    for mutant in mutants {
        let failure = failing(&programs, Some(mutant.id))?;
        caught += usize::from(failure.is_some());
        let by = failure.unwrap_or_else(|| "SURVIVED".to_owned());
        println!("{:3}  {:<60}  {by}", mutant.id, mutant.what);
    }
    println!("{caught} of {all} caught");
    Ok(())
}

/// The first test that fails under a fault.
fn failing(programs: &[(&str, PathBuf)], mutant: Option<u32>) -> Result<Option<String>> {
    for (name, filters) in RUNS {
        let (_, program) = programs
            .iter()
            .find(|(built, _)| built == name)
            .ok_or_else(|| format!("cargo built no test program `{name}`"))?;
        let mut command = Command::new("timeout");
        command.arg(PATIENCE).arg(program).args(*filters).arg("--quiet");
        command.env("TRIJET_SEEDS", PROGRAMS).env("PROPTEST_CASES", "64");
        command.env("RUST_BACKTRACE", "0").current_dir(root().join("crates/trijet"));
        if let Some(id) = mutant {
            command.env("TRIJET_MUTANT", id.to_string());
        }
        let output = command.stderr(Stdio::null()).output()?;
        if output.status.success() {
            continue;
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let test = text.lines().find_map(|line| {
            line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----"))
        });
        let test = test.map_or_else(|| format!("it ends with {}", output.status), str::to_owned);
        return Ok(Some(format!("{name}: {test}")));
    }
    Ok(None)
}

/// Builds the test programs with the switches.
fn build() -> Result<Vec<(&'static str, PathBuf)>> {
    let mut command = Command::new("cargo");
    command.args(["test", "--package", "trijet", "--lib", "--no-run", "--message-format=json"]);
    for (name, _) in RUNS.iter().filter(|(name, _)| *name != "trijet") {
        command.args(["--test", name]);
    }
    let output = command
        .current_dir(root())
        .env("RUSTFLAGS", "--cfg mutants")
        // Other flags are another build: in a folder of its own it does not drive out the usual one.
        .env("CARGO_TARGET_DIR", root().join("target/mutants"))
        .env("CARGO_PROFILE_TEST_DEBUG", "0")
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err("the tests do not build with --cfg mutants".into());
    }
    let mut programs = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let message: serde_json::Value = serde_json::from_str(line)?;
        let name = message["target"]["name"].as_str().unwrap_or("");
        let run = RUNS.iter().find(|(known, _)| *known == name);
        if let (Some((name, _)), Some(path)) = (run, message["executable"].as_str()) {
            programs.push((*name, PathBuf::from(path)));
        }
    }
    Ok(programs)
}

/// The switches in the sources, by number.
fn found() -> Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    collect(&root().join("crates/trijet/src"), &mut mutants)?;
    mutants.sort_by_key(|mutant| mutant.id);
    Ok(mutants)
}

fn collect(folder: &Path, mutants: &mut Vec<Mutant>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, mutants)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let below = path.strip_prefix(root().join("crates/trijet/src"))?;
            switches(&fs::read_to_string(&path)?, &below.display().to_string(), mutants)?;
        }
    }
    Ok(())
}

/// Reads `mutant::on(7, "what it does")`.
fn switches(text: &str, file: &str, mutants: &mut Vec<Mutant>) -> Result<()> {
    for part in text.split("mutant::on(").skip(1) {
        let strange = || format!("{file}: a switch without its number and text");
        let (id, rest) = part.split_once(',').ok_or_else(strange)?;
        let what = rest.split('"').nth(1).ok_or_else(strange)?;
        let id = id.trim().parse().map_err(|_| strange())?;
        mutants.push(Mutant { id, what: what.to_owned(), file: file.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_the_switches_are_dense_and_unique() {
        let ids: Vec<u32> = found().expect("the sources are there").iter().map(|m| m.id).collect();
        let expected: Vec<u32> = (1..).take(ids.len()).collect();
        assert!(!ids.is_empty() && ids == expected, "{ids:?}");
    }
}
