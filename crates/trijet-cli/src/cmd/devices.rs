//! `trijet devices`: the devices of this machine and the libraries that were found.
#![forbid(unsafe_code)]

use super::document::print_json;
use super::print;
use super::queues::hardware_queues;
use crate::args::DevicesOptions;
use serde_json::{Value, json};
use trijet::probe::{Library, LibraryReport, libraries};
use trijet::trace::count;
use trijet::{Device, DeviceInfo, Error, Result, Select};

pub(crate) fn run(options: &DevicesOptions) -> Result<()> {
    let cuda = Device::cuda_devices();
    let host = Device::open(Select::Host(0))?;
    let libraries = libraries();
    if options.json {
        let list = cuda.as_ref().map(|list| list.iter().map(device_json).collect::<Vec<_>>());
        let value = json!({
            "cuda": list.as_deref().unwrap_or(&[]),
            "cuda_missing": cuda.as_ref().err().map(ToString::to_string),
            "host": device_json(host.info()),
            "libraries": libraries.iter().map(library_json).collect::<Vec<_>>(),
        });
        return print_json("devices", &value);
    }
    match &cuda {
        Ok(list) if list.is_empty() => print("cuda: the driver found no device")?,
        Ok(list) => {
            for (ordinal, info) in list.iter().enumerate() {
                print_device(&format!("cuda:{ordinal}"), info)?;
            }
        }
        Err(error) if options.verbose || !is_absent(error) => {
            print(format_args!("cuda: none ({error})"))?;
        }
        Err(_) => {
            print("no GPU was found: the commands run on the CPU, and you need not do anything")?
        }
    }
    print_device("host", host.info())?;
    print("")?;
    libraries.iter().try_for_each(|library| print_library(library, options))?;
    if !options.verbose && libraries.iter().any(|library| library.state.is_err()) {
        print("`trijet devices --verbose` lists the places that were searched for the libraries")?;
    }
    Ok(())
}

/// Whether the message of the loader means that a library is not installed. Other failures are
/// shown with their reasons.
fn is_absent(error: &Error) -> bool {
    error.to_string().ends_with("No such file or directory")
}

/// The purpose of a library, and how to install it.
fn purpose(library: Library) -> &'static str {
    match library {
        Library::Driver => "comes with the NVIDIA driver of a GPU",
        Library::Nvrtc => "compiles your kernels: pip install nvidia-cuda-nvrtc",
        Library::Nccl => "is for several GPUs: pip install nvidia-nccl-cu13",
        Library::Cupti => "times the engines: pip install nvidia-cuda-cupti",
        _ => "is not needed",
    }
}

fn print_library(
    LibraryReport { library, state, .. }: &LibraryReport,
    options: &DevicesOptions,
) -> Result<()> {
    let name = format!("{library:?}").to_lowercase();
    match state {
        Ok(missing) if missing.is_empty() => print(format_args!("{name:>7}: found")),
        Ok(missing) => print(format_args!("{name:>7}: found, without {}", missing.join(", "))),
        Err(error) if options.verbose || !is_absent(error) => {
            print(format_args!("{name:>7}: {error}"))
        }
        Err(_) => print(format_args!("{name:>7}: not found; it {}", purpose(*library))),
    }
}

fn print_device(name: &str, info: &DeviceInfo) -> Result<()> {
    print(format_args!("{name:>7}: {}", info.name))?;
    if info.compute.0 == 0 {
        print(format_args!(
            "         {}, {} at most",
            count(u64::from(info.multiprocessors), "CPU thread"),
            info.memory
        ))?;
        return Ok(());
    }
    let (major, minor) = info.compute;
    print(format_args!(
        "         compute capability {major}.{minor}, {} multiprocessors, {}, {} copy engines",
        info.multiprocessors, info.memory, info.copy_engines
    ))?;
    print(format_args!("         {}", hardware_queues(info)))?;
    print(format_args!(
        "         stream priorities {} to {}, {} threads and {} KiB of shared memory a block",
        info.priorities.0,
        info.priorities.1,
        info.block_threads_max,
        info.shared_bytes_optin >> 10
    ))?;
    let driver = info.driver_version;
    print(format_args!("         driver for CUDA {}.{}", driver / 1000, driver % 1000 / 10))
}

fn device_json(info: &DeviceInfo) -> Value {
    json!({
        "name": info.name,
        "compute_capability": [info.compute.0, info.compute.1],
        "multiprocessors": info.multiprocessors,
        "copy_engines": info.copy_engines,
        "hardware_queues": info.hardware_queues,
        "memory_bytes": info.memory.0,
        "stream_priorities": [info.priorities.0, info.priorities.1],
        "block_threads_max": info.block_threads_max,
        "shared_bytes": info.shared_bytes,
        "shared_optin_bytes": info.shared_bytes_optin,
        "driver_version": info.driver_version,
    })
}

fn library_json(report: &LibraryReport) -> Value {
    json!({
        "library": format!("{:?}", report.library).to_lowercase(),
        "found": report.state.is_ok(),
        "missing_symbols": report.state.as_ref().ok(),
        "why": report.state.as_ref().err().map(ToString::to_string),
    })
}
