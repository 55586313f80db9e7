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
        return print_host(info);
    }
    let (major, minor) = info.compute;
    print(format_args!(
        "         compute capability {major}.{minor}, {} multiprocessors, {}, {} copy engines",
        info.multiprocessors, info.memory, info.copy_engines
    ))?;
    print(format_args!("         {}", hardware_queues(info)))?;
    print(format_args!(
        "         stream priorities {} to {}, {} threads a block",
        info.priorities.0, info.priorities.1, info.block_threads_max,
    ))?;
    print_multiprocessor(info)?;
    let (l2, rate) = (info.l2.map(|size| format!("L2 cache {size}")), memory_rate(info));
    let known: Vec<String> = l2.into_iter().chain(rate).collect();
    if !known.is_empty() {
        print(format_args!("         {}", known.join(", ")))?;
    }
    let driver = info.driver_version;
    print(format_args!("         driver for CUDA {}.{}", driver / 1000, driver % 1000 / 10))
}

/// A host device refuses the launches that the GPU of its model would refuse.
fn print_host(info: &DeviceInfo) -> Result<()> {
    print(format_args!(
        "         {}, {} at most",
        count(u64::from(info.multiprocessors), "CPU thread"),
        info.memory
    ))?;
    print("         refuses launches as a modelled GPU would refuse them:")?;
    print_multiprocessor(info)
}

fn print_multiprocessor(info: &DeviceInfo) -> Result<()> {
    let registers = info.multiprocessor_registers.map(|n| format!("{n} registers, "));
    print(format_args!(
        "         a multiprocessor: {} threads, {} blocks, {}warps of {}",
        info.multiprocessor_threads_max,
        info.multiprocessor_blocks_max,
        registers.unwrap_or_default(),
        info.warp_threads
    ))?;
    let clusters = match info.cluster_blocks_max {
        1 => "no clusters".to_owned(),
        blocks => format!("clusters of {blocks} blocks"),
    };
    print(format_args!(
        "         shared memory: {} KiB, {} KiB a block; {clusters} at most",
        info.multiprocessor_shared_bytes >> 10,
        info.shared_bytes_optin >> 10
    ))
}

/// The theoretical rate of device memory in words; `None` if it is unknown.
fn memory_rate(info: &DeviceInfo) -> Option<String> {
    let (bits, khz) = (info.memory_bus_bits?, info.memory_clock_khz?);
    let rate = info.memory_bytes_per_s? as f64 / 1e9;
    Some(format!("memory of {rate:.0} GB/s in theory ({bits} bits, {} MHz)", khz / 1000))
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
        "limits_are_modelled": info.compute.0 == 0,
        "multiprocessor_threads_max": info.multiprocessor_threads_max,
        "multiprocessor_blocks_max": info.multiprocessor_blocks_max,
        "multiprocessor_shared_bytes": info.multiprocessor_shared_bytes,
        "multiprocessor_registers": info.multiprocessor_registers,
        "warp_threads": info.warp_threads,
        "cluster_blocks_max": info.cluster_blocks_max,
        "l2_bytes": info.l2.map(|size| size.0),
        "memory_bus_bits": info.memory_bus_bits,
        "memory_clock_khz": info.memory_clock_khz,
        "memory_bytes_per_s": info.memory_bytes_per_s,
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
