//! Every example, as a user runs it, on the host device.
//!
//! `cargo test` builds the examples before it runs this program, and `--test examples` alone does
//! not. A missing example fails. Examples are short, because they are there to be read.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An example has fewer lines than this, its header included.
const LINES_BELOW: usize = 60;

/// What the folder holds besides the examples.
const OTHERS: [(&str, &str); 2] = [
    ("common", "what the examples share"),
    ("python", "a library that Python loads on a GPU; the program `gpu` runs it"),
];

/// The sources of the examples, in the order of their names.
fn sources() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let entries = std::fs::read_dir(&folder).expect("the examples have a folder");
    let paths = entries.map(|entry| entry.expect("the folder can be read").path());
    let mut sources: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "rs")).collect();
    sources.sort();
    sources
}

fn name(source: &Path) -> String {
    source.file_stem().expect("a source has a name").to_string_lossy().into_owned()
}

/// Runs the program that cargo built of an example. It lies beside the folder of the tests.
fn run(name: &str, arguments: &[&str]) -> Output {
    let test = std::env::current_exe().expect("this program has a path");
    let built = test.ancestors().nth(2).expect("it lies in `deps`").join("examples");
    let program = built.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(program.exists(), "{} is missing: cargo build --examples", program.display());
    Command::new(program).args(arguments).output().expect("it can be started")
}

/// The tests below run each file, so an example in a folder of its own would escape them.
#[test]
fn every_example_is_a_file_of_the_folder() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let entries = std::fs::read_dir(&folder).expect("the examples have a folder");
    let names = entries.map(|entry| entry.expect("the folder can be read").file_name());
    let mut others: Vec<_> =
        names.filter(|name| !name.to_string_lossy().ends_with(".rs")).collect();
    others.sort();
    assert_eq!(others, OTHERS.map(|(name, _)| name), "move an example out of its own folder");
}

#[test]
fn every_example_passes_on_the_host_device() {
    let sources = sources();
    assert!(sources.len() >= 7, "{sources:?}");
    for name in sources.iter().map(|source| name(source)) {
        for arguments in [&[][..], &["host"]] {
            let output = run(&name, arguments);
            let said = String::from_utf8(output.stdout).unwrap();
            let failed = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(0), "{name}: {said}{failed}");
            assert!(said.starts_with(&format!("PASS {name}: ")), "{name}: {said}");
            assert_eq!(said.lines().count(), 1, "{name}: {said}");
            assert_eq!(failed, "", "{name}");
        }
    }
}

/// The examples show how programs are written, so the checker must have nothing to report.
#[test]
fn every_example_runs_under_the_checker_without_a_finding() {
    for name in sources().iter().map(|source| name(source)) {
        let output = run(&name, &["host", "check"]);
        let printed = String::from_utf8(output.stdout).unwrap();
        let failed = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}: {printed}{failed}");
        let checked = printed.trim_end().split_once(" (checked: ").map(|(_, rest)| rest);
        let accesses = checked.and_then(|rest| rest.strip_suffix(" accesses, no finding)"));
        assert!(accesses.is_some_and(|n| n.parse::<u64>().unwrap() > 0), "{name}: {printed}");
    }
    let output = run("batches", &["host", "chekc"]);
    assert_eq!(output.status.code(), Some(1), "an unknown argument is an error");
}

#[test]
fn a_device_that_cannot_be_served_fails() {
    for name in sources().iter().map(|source| name(source)) {
        for device in ["cuda:4095", "cuda:", "gpu"] {
            let output = run(&name, &[device]);
            assert_eq!(output.status.code(), Some(1), "{name} {device}");
            assert_eq!(output.stdout, b"", "{name} {device}");
            let failed = String::from_utf8(output.stderr).unwrap();
            assert!(failed.starts_with(&format!("FAIL {name}: ")), "{name} {device}: {failed}");
        }
    }
}

#[test]
fn every_example_is_short_and_says_what_it_shows() {
    for source in sources() {
        let text = std::fs::read_to_string(&source).unwrap();
        let lines = text.lines().count();
        assert!(lines < LINES_BELOW, "{}: {lines} lines", source.display());
        assert!(text.starts_with("//! "), "{}", source.display());
    }
}
