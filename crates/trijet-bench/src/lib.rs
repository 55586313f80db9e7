//! Benchmarks of trijet, and the measurements of `trijet doctor`.
//!
//! A definition gives the sizes and repeats of a benchmark. Each benchmark verifies its result,
//! warms up, runs the programs that it compares in turn, and prints the median and the spread of
//! every figure.

pub mod allocations;
pub mod allreduce;
mod bare;
mod beside;
pub mod chains;
mod changed;
pub mod check;
mod clusters;
mod decode;
mod definition;
pub mod devices;
pub mod doctor;
pub mod enqueue;
pub mod files;
pub mod gemm;
pub mod gradients;
pub mod growth;
pub mod latency;
pub mod layers;
mod manual;
mod mapping;
pub mod memory;
pub mod overlap;
mod peer;
pub mod pitfalls;
mod process;
pub mod progress;
mod repeated;
mod replayed;
pub mod results;
mod rounds;
mod setting;
pub mod simulate;
pub mod soak;
pub mod staging;
pub mod stats;
pub mod tasks;
pub mod training;
pub mod tuner;
mod turns;
pub mod workers;
mod workload;

pub use setting::Setting;

/// The names of the benchmarks.
pub const NAMES: [&str; 21] = [
    "overlap",
    "enqueue",
    "virtual",
    "check",
    "pitfalls",
    "files",
    "staging",
    "devices",
    "tuner",
    "latency",
    "chains",
    "gemm",
    "memory",
    "growth",
    "training",
    "soak",
    "tasks",
    "workers",
    "allreduce",
    "gradients",
    "layers",
];

/// Whether a benchmark runs on the device that it is given. The others open devices of their own, or
/// start commands that do.
#[must_use]
pub fn uses_device(name: &str) -> bool {
    !["virtual", "check", "files", "devices", "training", "allreduce", "gradients", "layers"]
        .contains(&name)
}

/// Whether a benchmark has large files while it runs. It ends with `Cancelled`, and removes them,
/// when [`Setting::cancel`] is cancelled; a process that a signal ends would leave them.
#[must_use]
pub fn has_files(name: &str) -> bool {
    name == "files"
}

/// Whether a benchmark is also a program for several processes that a launcher starts, each with a device.
#[must_use]
pub fn is_for_ranks(name: &str) -> bool {
    name == "allreduce"
}

/// Runs a benchmark by its name. Its steps go to `steps` when they begin.
///
/// # Errors
/// `InvalidValue` for an unknown name or a wrong result; `Cancelled`; every error of the device.
pub fn run(
    name: &str,
    setting: &Setting<'_>,
    steps: &mut progress::Steps<'_>,
) -> trijet::Result<results::Results> {
    let device = setting.device;
    match name {
        "overlap" => overlap::run(setting, steps),
        "enqueue" => enqueue::run(device, steps),
        "virtual" => simulate::run(steps),
        "check" => check::run(steps),
        "pitfalls" => pitfalls::run(device, steps),
        "files" => files::run(setting, steps),
        "staging" => staging::run(setting, steps),
        "devices" => devices::run(setting, steps),
        "tuner" => tuner::run(setting, steps),
        "latency" => latency::run(setting, steps),
        "chains" => chains::run(setting, steps),
        "gemm" => gemm::run(setting, steps),
        "memory" => memory::run(setting, steps),
        "growth" => growth::run(setting, steps),
        "training" => training::run(setting, steps),
        "soak" => soak::run(setting, steps),
        "tasks" => tasks::run(setting, steps),
        "workers" => workers::run(setting, steps),
        "allreduce" => allreduce::run(setting, steps),
        "gradients" => gradients::run(setting, steps),
        "layers" => layers::run(setting, steps),
        _ => Err(trijet::Error::new(
            trijet::ErrorKind::InvalidValue,
            "bench",
            format!("no benchmark is called `{name}`; choose one of {}", NAMES.join(", ")),
        )),
    }
}
