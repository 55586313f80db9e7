//! `trijet devices`: the devices of this machine and the libraries that were found.
#![forbid(unsafe_code)]

use super::document::print_json;
use super::print;
use super::queues::hardware_queues;
use crate::args::DevicesOptions;
use serde_json::{Value, json};
use trijet::probe::{LibraryReport, libraries};
use trijet::{Device, DeviceInfo, Result, Select};

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
        Err(error) => print(format_args!("cuda: none ({error})"))?,
    }
    print_device("host", host.info())?;
    print("")?;
    for library in &libraries {
        let name = format!("{:?}", library.library).to_lowercase();
        match &library.state {
            Ok(missing) if missing.is_empty() => print(format_args!("{name:>7}: found"))?,
            Ok(missing) => print(format_args!("{name:>7}: found, without {}", missing.join(", ")))?,
            Err(error) => print(format_args!("{name:>7}: {error}"))?,
        }
    }
    Ok(())
}

fn print_device(name: &str, info: &DeviceInfo) -> Result<()> {
    print(format_args!("{name:>7}: {}", info.name))?;
    if info.compute.0 == 0 {
        print(format_args!(
            "         {} CPU threads, {} at most",
            info.multiprocessors, info.memory
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
