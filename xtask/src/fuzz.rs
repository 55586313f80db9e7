//! The fuzz targets under libFuzzer, with the stable compiler and no sanitizer: nearly all of the
//! code forbids unsafe code, and what a parser does wrong is a panic.
//!
//! New inputs go to `target/fuzz/corpus/<target>`; an input that fails is written to
//! `target/fuzz/failures`, and a shortened form of it belongs to the seeds, with its fix.
#![forbid(unsafe_code)]

use crate::tools::{Result, root};
use std::fs;
use std::process::Command;

/// The targets of `fuzz/Cargo.toml`.
const TARGETS: [&str; 4] = ["program", "npy", "images", "journal"];

/// How the code counts its edges for the fuzzer (the flags of cargo-fuzz 0.13).
const FLAGS: [&str; 9] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    // Coverage of one crate in several units does not link with the counters of another.
    "-Ccodegen-units=1",
    "-Cdebug-assertions",
];

/// An input that takes longer has found an endless loop.
const TIMEOUT_S: u64 = 20;

/// How long each target runs when nobody says it.
const SECONDS: u64 = 60;

/// Runs every target, or the one named, for so many seconds each.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let (seconds, only) = match words {
        [] => (SECONDS, None),
        [seconds] => (seconds.parse()?, None),
        [seconds, target] => (seconds.parse()?, Some(*target)),
        _ => return Err("usage: cargo xtask fuzz [SECONDS [TARGET]]".into()),
    };
    let targets: Vec<&str> =
        TARGETS.into_iter().filter(|target| only.is_none_or(|only| only == *target)).collect();
    if targets.is_empty() {
        return Err(format!("no such target; there are {}", TARGETS.join(", ")).into());
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
        // The target triple keeps the flags away from build scripts.
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

/// The triple of this machine.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output()?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc names no host".into())
}
