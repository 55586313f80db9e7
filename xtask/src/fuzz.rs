//! `fuzz`: runs the fuzz targets under libFuzzer, with the stable compiler and without a sanitizer.
//! Nearly all of the code forbids unsafe code, so a mistake in a parser shows as a panic.
//!
//! New inputs go to `target/fuzz/corpus/<target>`, and failing inputs to `target/fuzz/failures`.
//! The commit that fixes a failure adds the shortened input to the seeds.
#![forbid(unsafe_code)]

use crate::tools::{Result, root};
use std::fs;
use std::process::Command;

/// The targets of `fuzz/Cargo.toml`.
const TARGETS: [&str; 16] = [
    "program",
    "npy",
    "images",
    "tiff",
    "hdf5",
    "zarr",
    "mrc",
    "nifti",
    "npz",
    "journal",
    "claims",
    "codecs",
    "ptx",
    "allocations",
    "kineto",
    "nsys",
];

/// The compiler flags for coverage, as in cargo-fuzz 0.13.
const FLAGS: [&str; 9] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    // The coverage counters do not link if a crate has several codegen units.
    "-Ccodegen-units=1",
    "-Cdebug-assertions",
];

/// The time in seconds after which libFuzzer reports an input as an endless loop.
const TIMEOUT_S: u64 = 20;

/// The default time of each target in seconds.
const SECONDS: u64 = 60;

/// Runs every target of the readers of files with `mutations` damaged files, without a fuzzer.
pub(crate) fn damage(mutations: &str) -> Result<()> {
    mutations.parse::<u64>()?;
    let status = Command::new("cargo")
        .args(["test", "--release", "--package", "trijet-io", "--package", "trijet-codecs"])
        .args(["--package", "trijet-traces", "--test", "fuzzed"])
        .env("TRIJET_MUTATIONS", mutations)
        .current_dir(root())
        .status()?;
    if status.success() { Ok(()) } else { Err("damage: a reader failed".into()) }
}

/// Runs one target or all targets, each for a number of seconds.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let (seconds, only) = match arguments {
        [] => (SECONDS, None),
        [seconds] => (seconds.parse()?, None),
        [seconds, target] => (seconds.parse()?, Some(*target)),
        _ => return Err("usage: cargo xtask fuzz [SECONDS [TARGET]]".into()),
    };
    let targets: Vec<&str> =
        TARGETS.into_iter().filter(|target| only.is_none_or(|only| only == *target)).collect();
    if targets.is_empty() {
        return Err(format!("unknown target; the targets are {}", TARGETS.join(", ")).into());
    }
    let (host, output) = (host()?, root().join("target/fuzz"));
    let failures = output.join("failures");
    fs::create_dir_all(&failures)?;
    let temporary = output.join("tmp");
    fs::create_dir_all(&temporary)?;
    for target in targets {
        println!("== {target}: {seconds} s");
        let corpus = output.join("corpus").join(target);
        fs::create_dir_all(&corpus)?;
        // With an explicit target, the flags do not apply to build scripts.
        let status = Command::new("cargo")
            .args(["run", "--quiet", "--release", "--target", &host, "--bin", target, "--"])
            .arg(&corpus)
            .arg(root().join("fuzz/seeds").join(target))
            .arg(format!("-artifact_prefix={}/{target}-", failures.display()))
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-timeout={TIMEOUT_S}"))
            .args(["-max_len=4096", "-print_final_stats=1", "-verbosity=0"])
            .current_dir(root().join("fuzz"))
            .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"))
            .env("CARGO_TARGET_DIR", output.join("build"))
            .env("TMPDIR", &temporary)
            .status()?;
        if !status.success() {
            return Err(format!("`{target}` failed: see {}", failures.display()).into());
        }
    }
    fs::remove_dir_all(&temporary)?;
    Ok(())
}

/// The target triple of this machine.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output()?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "`rustc -vV` does not print the host".into())
}
