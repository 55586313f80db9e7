//! Benchmarks of trijet, and the measurements of `trijet doctor`.
//!
//! A definition gives the sizes and repeats of a benchmark. Each benchmark verifies its result,
//! warms up, runs the programs that it compares in turn, and prints the median and the spread of
//! every figure.

mod bare;
pub mod check;
pub mod doctor;
pub mod enqueue;
mod manual;
pub mod overlap;
pub mod pitfalls;
pub mod progress;
pub mod results;
pub mod simulate;
pub mod stats;

/// The names of the benchmarks.
pub const NAMES: [&str; 5] = ["overlap", "enqueue", "virtual", "check", "pitfalls"];

/// Whether a benchmark runs on the device that it is given. The others open devices of their own.
#[must_use]
pub fn uses_device(name: &str) -> bool {
    !["virtual", "check"].contains(&name)
}

/// Runs a benchmark by its name. Its steps go to `steps` when they begin.
///
/// # Errors
/// `InvalidValue` for an unknown name or a wrong result; every error of the device.
pub fn run(
    name: &str,
    device: &trijet::Device,
    steps: &mut progress::Steps<'_>,
) -> trijet::Result<results::Results> {
    match name {
        "overlap" => overlap::run(device, steps),
        "enqueue" => enqueue::run(device, steps),
        "virtual" => simulate::run(steps),
        "check" => check::run(steps),
        "pitfalls" => pitfalls::run(device, steps),
        _ => Err(trijet::Error::new(
            trijet::ErrorKind::InvalidValue,
            "bench",
            format!("no benchmark is called `{name}`; choose one of {}", NAMES.join(", ")),
        )),
    }
}
