//! `programs`: runs many random programs against the laws.
//!
//! The test program `soundness` runs a share of the seeds on all processors, and prints the
//! failures. The shares run one after another, each in its own process. So if a random program
//! hangs or ends its process, it is one of the few programs of that share.
#![forbid(unsafe_code)]

use crate::bundle::explorer_here;
use crate::tools::Result;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

/// The tests that read `TRIJET_PROGRAMS`.
const TESTS: &str = "programs::programs_";

/// The number of seeds of one process. Such a process works for some seconds.
const SHARE: u64 = 5_000;

fn options(arguments: &[&str]) -> Result<(u64, u64)> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is not a number"));
    match arguments {
        [] => Ok((1_000_000, 0)),
        [programs] => Ok((number(programs)?, 0)),
        [programs, "--seed", seed] => Ok((number(programs)?, number(seed)?)),
        _ => Err("usage: cargo xtask programs [PROGRAMS [--seed S]]".into()),
    }
}

/// Runs the programs of a share. Returns whether all of them passed.
fn run_share(program: &Path, seeds: &Range<u64>) -> Result<bool> {
    let status = Command::new(program)
        .args([TESTS, "--nocapture"])
        .env("TRIJET_PROGRAMS", format!("{}..{}", seeds.start, seeds.end))
        .env("RUST_BACKTRACE", "0")
        .status()?;
    eprintln!("seeds {}..{}: {status}", seeds.start, seeds.end);
    Ok(status.success())
}

/// Runs a number of programs that the library orders, and as many programs that are ordered by
/// hand.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let (programs, first) = options(arguments)?;
    let (program, commit) = explorer_here("soundness")?;
    let (mut start, end) = (first, first + programs);
    let mut failed = 0;
    while start < end {
        let seeds = start..end.min(start + SHARE);
        start = seeds.end;
        failed += u64::from(!run_share(&program, &seeds)?);
    }
    println!("seeds={first}..{end} shares-failed={failed} commit={commit}");
    if failed == 0 { Ok(()) } else { Err("at least one share failed: see its output above".into()) }
}

#[cfg(test)]
mod tests {
    use super::options;

    #[test]
    fn the_first_seed_and_the_number_of_programs_are_numbers() {
        assert_eq!(options(&[]).ok(), Some((1_000_000, 0)));
        assert_eq!(options(&["10", "--seed", "3"]).ok(), Some((10, 3)));
        assert!(options(&["many"]).is_err());
        assert!(options(&["10", "3"]).is_err());
    }
}
