//! `mutants`: finds the tests that catch deliberate faults of the ordering. The sources are copied,
//! and all faults are written into the copy, each with a switch. The copy is built once. Then the
//! tests run once per fault, until a test fails. A run that hangs counts as caught.
#![forbid(unsafe_code)]

mod faults;

use crate::tools::{Result, root};
use faults::Fault;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The path of the table of faults, for messages.
const TABLE: &str = "xtask/src/mutants/faults.txt";

/// The folders of the sources with deliberate faults.
const SOURCES: [&str; 2] = ["crates/trijet/src", "crates/trijet-ledger/src"];

/// The source of the module that is added to each copied crate. It switches the faults on.
const SWITCH: &str = r#"//! The switch of the deliberate faults.
use std::sync::LazyLock;

static CHOSEN: LazyLock<Option<u32>> = LazyLock::new(|| {
    let chosen = std::env::var("TRIJET_MUTANT").ok()?;
    Some(chosen.parse().expect("TRIJET_MUTANT must be the number of a fault"))
});

/// Whether the fault with the number `id` is on.
pub(crate) fn on(id: u32) -> bool {
    *CHOSEN == Some(id)
}
"#;

/// A test program, and the filters for its tests. The quickest program comes first.
const RUNS: &[(&str, &[&str])] = &[
    ("semantics", &["greedy::", "seeded::"]),
    ("memory", &["heap::", "kept_blocks::", "growing::", "red_zones::", "foreign::an_export"]),
    ("task", &[]),
    ("workers", &[]),
    ("communication", &[]),
    ("ranks", &["collective", "gradients_of_ranks", "disagree"]),
    ("soundness", &[]),
    ("oracle", &["serially"]),
    (
        "trijet",
        &[
            "log::",
            "order::",
            "heap::",
            "stream::",
            "memory::",
            "device::host::",
            "explore::",
            "graph::",
            "task::",
            "workers::",
            "comm::",
            "ranks::",
            "training::",
        ],
    ),
    ("graphs", &["a_launch_follows"]),
    ("faults", &["a_fault", "a_loss"]),
    ("host_device", &["states::", "twins::"]),
    ("tenancy", &[]),
];

/// The seeds for each test of random programs.
const PROGRAMS: &str = "0..100";

/// The time in seconds after which a run counts as hanging.
const PATIENCE: &str = "120";

/// Prints the faults.
pub(crate) fn list() -> Result<()> {
    for fault in table()? {
        println!("{:3}  {}  ({})", fault.id, fault.what, fault.file);
    }
    Ok(())
}

/// Runs the tests with each of the faults `only`, or with each fault of the table if `only` is
/// empty.
pub(crate) fn run(only: &[&str]) -> Result<()> {
    let only = only.iter().map(|id| id.parse()).collect::<std::result::Result<Vec<usize>, _>>()?;
    let mut faults = table()?;
    faults.retain(|fault| only.is_empty() || only.contains(&fault.id));
    fill_copy()?;
    let programs = build()?;
    demand_tests(&programs)?;
    if let Some(failure) = failing(&programs, None)? {
        return Err(format!("without a fault, {failure}").into());
    }
    let (mut caught, all) = (0, faults.len());
    for fault in faults {
        let failure = failing(&programs, Some(fault.id))?;
        caught += usize::from(failure.is_some());
        let by = failure.unwrap_or_else(|| "SURVIVED".to_owned());
        println!("{:3}  {:<60}  {by}", fault.id, fault.what);
    }
    println!("{caught} of {all} faults caught");
    Ok(())
}

/// Fails if a filter of [`RUNS`] selects no test, because a run without tests would seem to pass.
fn demand_tests(programs: &[(&str, PathBuf)]) -> Result<()> {
    for (name, filters) in RUNS {
        for filter in *filters {
            let program = program(programs, name)?;
            let output = Command::new(program).args([filter, "--list"]).output()?;
            if !String::from_utf8(output.stdout)?.lines().any(|line| line.ends_with(": test")) {
                return Err(format!("`{filter}` selects no test of `{name}`").into());
            }
        }
    }
    Ok(())
}

/// The test program with this name.
fn program<'a>(programs: &'a [(&str, PathBuf)], name: &str) -> Result<&'a Path> {
    let found = programs.iter().find(|(built, _)| *built == name);
    let (_, program) = found.ok_or_else(|| format!("cargo built no test program `{name}`"))?;
    Ok(program)
}

/// The first test that fails with a fault; `None` if all tests pass.
fn failing(programs: &[(&str, PathBuf)], fault: Option<usize>) -> Result<Option<String>> {
    for (name, filters) in RUNS {
        let mut command = Command::new("timeout");
        command.arg(PATIENCE).arg(program(programs, name)?).args(*filters).arg("--quiet");
        command.env("TRIJET_SEEDS", PROGRAMS).env("PROPTEST_CASES", "64");
        command.env("TRIJET_ALL_SEQUENCES", "1");
        command.env("RUST_BACKTRACE", "0").current_dir(copy().join("crates/trijet"));
        if let Some(id) = fault {
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
        let test =
            test.map_or_else(|| format!("the program ended with {}", output.status), str::to_owned);
        return Ok(Some(format!("{name}: {test}")));
    }
    Ok(None)
}

/// Builds the test programs of the copy.
fn build() -> Result<Vec<(&'static str, PathBuf)>> {
    let mut command = Command::new("cargo");
    command.args(["test", "--package", "trijet", "--lib", "--no-run", "--message-format=json"]);
    for (name, _) in RUNS.iter().filter(|(name, _)| *name != "trijet") {
        command.args(["--test", name]);
    }
    let output = command
        .current_dir(copy())
        // A switch may leave unused code or lines that are too long, so warnings are off.
        .env("RUSTFLAGS", "--cap-lints allow")
        .env("CARGO_TARGET_DIR", root().join("target/mutants/build"))
        .env("CARGO_PROFILE_TEST_DEBUG", "0")
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err("the tests do not build with the faults".into());
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

/// Copies the sources of the repository to [`copy`], with all faults and their switches. Unchanged
/// files keep their time of modification, so that cargo builds only changed files again.
fn fill_copy() -> Result<()> {
    let place = |file: &str| {
        let mut places = SOURCES.iter().map(|folder| Path::new(folder).join(file));
        places.find(|path| root().join(path).exists())
    };
    let read = |file: &str| fs::read_to_string(root().join(place(file)?)).ok();
    let (texts, objections) = faults::apply(&table()?, read);
    if let Some((line, what)) = objections.first() {
        return Err(format!("{TABLE}:{line}: {what}").into());
    }
    let mut files = BTreeMap::new();
    for path in listed()? {
        files.insert(path.clone(), fs::read(root().join(path))?);
    }
    for folder in SOURCES.map(Path::new) {
        let root_file = folder.join("lib.rs");
        let library = fs::read_to_string(root().join(&root_file))?;
        files.insert(root_file, format!("{library}\nmod mutant;\n").into_bytes());
        files.insert(folder.join("mutant.rs"), SWITCH.as_bytes().to_vec());
    }
    let rewritten = texts.into_iter().filter_map(|(file, text)| Some((place(&file)?, text)));
    files.extend(rewritten.map(|(path, text)| (path, text.into_bytes())));
    fs::create_dir_all(copy())?;
    remove_others(&copy(), &files)?;
    for (path, bytes) in files {
        let path = copy().join(path);
        if fs::read(&path).is_ok_and(|there| there == bytes) {
            continue;
        }
        fs::create_dir_all(path.parent().ok_or("a file lies in a folder")?)?;
        fs::write(&path, bytes)?;
    }
    Ok(())
}

/// The files that git tracks or would add.
fn listed() -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let names = String::from_utf8(output.stdout)?;
    let paths = names.split_terminator('\0').map(PathBuf::from);
    Ok(paths.filter(|path| root().join(path).is_file()).collect())
}

/// Removes all files from the copy that are not in `files`.
fn remove_others(folder: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let below = path.strip_prefix(copy())?;
        if path.is_dir() {
            remove_others(&path, files)?;
        } else if !files.contains_key(below) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// The folder to which the sources are copied.
fn copy() -> PathBuf {
    root().join("target/mutants/src")
}

/// The faults, by number.
fn table() -> Result<Vec<Fault>> {
    faults::parse(faults::TABLE).map_err(|(line, what)| format!("{TABLE}:{line}: {what}").into())
}
