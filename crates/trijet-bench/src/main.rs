//! The command `trijet-bench`: runs one benchmark and prints its results.
#![forbid(unsafe_code)]

use clap::Parser;
use std::process::ExitCode;
use trijet::{Cancel, Device, Error, ErrorKind, Result, Select};
use trijet_bench::Setting;
use trijet_bench::progress::{Step, Steps};
use trijet_bench::results::Results;

/// Benchmarks of trijet. The results go to standard output, and the steps to standard error.
#[derive(Debug, Parser)]
struct Options {
    /// The benchmark: overlap, enqueue, virtual, pitfalls, files, staging, devices, tuner, latency or check; check needs no GPU.
    name: String,
    /// The number of the CUDA device.
    #[arg(long, default_value_t = 0)]
    device: u32,
}

fn main() -> ExitCode {
    let whole = run(&Options::parse()).and_then(|results| {
        print!("{results}");
        results.check_whole()
    });
    match whole {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<Results> {
    // The checker uses no device.
    let is_of_host = options.name == "check";
    let select = if is_of_host { Select::Host(0) } else { Select::Cuda(options.device) };
    let device = Device::open(select)?;
    let own = std::env::current_exe().map_err(|error| {
        let cause = format!("cannot find out where this program lies: {error}");
        Error::new(ErrorKind::Io, "bench", cause).caused_by(error)
    })?;
    let trijet = own.with_file_name("trijet");
    let setting = Setting { device: &device, trijet, cancel: Cancel::new() };
    let mut show = |step: Step<'_>| eprintln!("[{}/{}] {}", step.number, step.of, step.what);
    trijet_bench::run(&options.name, &setting, &mut Steps::new(&mut show))
}
