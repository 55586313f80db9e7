//! Helpers of the examples: their arguments, their input, the comparison and the result.

use std::fmt::Debug;
use std::process::ExitCode;
use trijet::check::Options;
use trijet::{Device, Select};

/// A wrong result is an error like any other.
pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Runs an example on the device that its first argument names: `host`, the default, or `cuda:N`.
/// With the second argument `check`, the checker runs along, and a finding is an error; `plain` is the
/// same as none.
pub(crate) fn run(example: fn(&Device) -> Outcome<String>) -> ExitCode {
    let name = env!("CARGO_BIN_NAME");
    match attempt(example) {
        Ok(shown) => {
            println!("PASS {name}: {shown}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("FAIL {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn attempt(example: fn(&Device) -> Outcome<String>) -> Outcome<String> {
    let named = std::env::args().nth(1).unwrap_or_else(|| "host".to_owned());
    let select = match named.strip_prefix("cuda:") {
        Some(ordinal) => Select::Cuda(ordinal.parse().map_err(|e| format!("`{named}`: {e}"))?),
        None if named == "host" => Select::Host(0),
        None => return Err(format!("unknown device `{named}`: use `host` or `cuda:N`").into()),
    };
    let device = match std::env::args().nth(2).as_deref() {
        None | Some("plain") => Device::open(select)?,
        Some("check") => Device::builder().select(select).check(Options::default()).open()?,
        Some(other) => {
            return Err(format!("unknown argument `{other}`: use `check` or `plain`").into());
        }
    };
    let mut shown = example(&device)?;
    if let Some(verdict) = device.verdict() {
        if !verdict.findings.is_empty() {
            return Err(verdict.to_string().into());
        }
        shown += &format!(" (checked: {} accesses, no finding)", verdict.accesses);
    }
    // Also returns errors of earlier drops.
    device.close()?;
    Ok(shown)
}

/// Element `i` of every example's input: a small whole number, so that sums and products of a few
/// are exact in single precision.
pub(crate) fn sample(i: usize) -> f32 {
    (i % 1021) as f32
}

/// Compares every element with what the CPU computes for it.
pub(crate) fn verify<T: PartialEq + Debug>(
    what: &str,
    got: &[T],
    want: impl Fn(usize) -> T,
) -> Outcome<()> {
    match got.iter().enumerate().find(|(i, value)| **value != want(*i)) {
        Some((i, value)) => Err(format!("{what}[{i}] is {value:?}, not {:?}", want(i)).into()),
        None => Ok(()),
    }
}
