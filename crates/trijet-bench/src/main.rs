//! The command `trijet-bench`: runs one benchmark and prints its results.
#![forbid(unsafe_code)]

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use trijet::{Cancel, Device, Select};
use trijet_bench::Setting;
use trijet_bench::progress::{Step, Steps};

/// Benchmarks of trijet. The results go to standard output, and the steps to standard error.
#[derive(Debug, Parser)]
struct Options {
    /// The benchmark: overlap, enqueue, virtual, pitfalls, files, staging or check; check needs no GPU.
    name: String,
    /// The number of the CUDA device.
    #[arg(long, default_value_t = 0)]
    device: u32,
}

fn main() -> ExitCode {
    let options = Options::parse();
    // The checker uses no device.
    let is_of_host = options.name == "check";
    let select = if is_of_host { Select::Host(0) } else { Select::Cuda(options.device) };
    let device = Device::open(select);
    let mut show = |step: Step<'_>| eprintln!("[{}/{}] {}", step.number, step.of, step.what);
    let mut steps = Steps::new(&mut show);
    let outcome = device.and_then(|device| {
        let own = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("trijet-bench"));
        let trijet = own.with_file_name("trijet");
        let setting = Setting { device: &device, trijet, cancel: Cancel::new() };
        trijet_bench::run(&options.name, &setting, &mut steps)
    });
    let whole = outcome.and_then(|results| {
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
