//! What the examples share: the device argument, the input, the comparison and the verdict.

use std::fmt::Debug;
use std::process::ExitCode;
use trijet::{Device, Select};

/// A wrong result is an error like any other.
pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Runs an example on the device that its first argument names: `host`, the default, or `cuda:N`.
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
        None => return Err(format!("no device `{named}`; `host` or `cuda:N`").into()),
    };
    let device = Device::open(select)?;
    let shown = example(&device)?;
    // Also reports what a drop could not.
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
