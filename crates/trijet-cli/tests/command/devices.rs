//! The choice of a device: a missing GPU is never replaced silently.

use crate::built::empty_driver;
use crate::workdir::{Workdir, noise};

#[test]
fn the_host_device_always_exists_and_a_missing_driver_is_reported() {
    let workdir = Workdir::new();
    let printed = workdir.trijet(&["devices", "--verbose"]).done();
    for words in ["cuda: none", "libcuda.so.1", "host: host device (CPU threads)", "driver:"] {
        assert!(printed.contains(words), "`{printed}` does not contain `{words}`");
    }
    let short = workdir.trijet(&["devices"]).done();
    for words in ["no GPU was found", "nvrtc: not found; it compiles", "--verbose"] {
        assert!(short.contains(words), "`{short}` does not contain `{words}`");
    }
    assert!(short.lines().all(|line| line.len() <= 80), "{short}");
}

#[test]
fn devices_as_json_have_the_same_facts() {
    let workdir = Workdir::new();
    let value = workdir.trijet(&["devices", "--json"]).json();
    assert_eq!(value["cuda"].as_array().map(Vec::len), Some(0));
    assert!(value["cuda_missing"].as_str().unwrap().contains("libcuda.so.1"));
    assert!(value["host"]["name"].as_str().unwrap().contains("host device"));
    assert!(value["host"]["memory_bytes"].as_u64().unwrap() > 0);
    let libraries = value["libraries"].as_array().unwrap();
    let names: Vec<_> = libraries.iter().map(|l| l["library"].as_str().unwrap()).collect();
    assert_eq!(names, ["driver", "nvrtc", "nccl", "cupti"]);
    assert_eq!(libraries[0]["found"].as_bool(), Some(false));
    assert!(libraries[0]["why"].as_str().unwrap().contains("libcuda.so.1"));
}

#[test]
fn a_missing_gpu_is_an_error_and_not_replaced_by_the_host() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[4, 4], &noise(16, 1));
    for device in ["cuda:0", "cuda:999"] {
        let map = ["map", "in.npy", "-o", "out.npy", "--op", "median", "--device", device];
        workdir.trijet(&map).refused(1, &["libcuda.so.1"]);
        workdir.trijet(&["overlap", "--device", device]).refused(1, &["libcuda.so.1"]);
    }
    assert_eq!(workdir.names(), ["in.npy"]);
}

/// Uses the driver of the machine, if it has one. No machine has a thousand GPUs.
#[test]
fn the_thousandth_gpu_is_an_error_that_names_it_or_the_driver() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[4, 4], &noise(16, 1));
    let map = ["map", "in.npy", "-o", "out.npy", "--op", "median", "--device", "cuda:999"];
    let mut command = workdir.command(&map);
    let ran = crate::workdir::Ran::from(command.env_remove("TRIJET_LIBCUDA").output().unwrap());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("999") || ran.err.contains("libcuda"), "{}", ran.err);
    assert_eq!(workdir.names(), ["in.npy"]);
}

#[test]
fn auto_opens_the_host_device_without_a_gpu_and_prints_it() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[4, 4], &noise(16, 1));
    let printed = workdir.trijet(&["map", "in.npy", "-o", "out.npy", "--op", "median"]).done();
    assert!(printed.contains("host device (CPU threads)"), "{printed}");
}

#[test]
fn an_unknown_device_name_is_wrong_usage() {
    let workdir = Workdir::new();
    for name in ["gpu", "cuda", "cuda:", "cuda:-1", "cuda:x", "host:0", ""] {
        let map = ["map", "in.npy", "-o", "out.npy", "--op", "median", "--device", name];
        workdir.trijet(&map).refused(2, &["--device", "auto, all, cuda:N or host"]);
    }
}

/// The output of `trijet devices` with another file as the driver library.
fn devices_with_driver(workdir: &Workdir, library: &str) -> String {
    let mut command = workdir.command(&["devices"]);
    let ran = crate::workdir::Ran::from(command.env("TRIJET_LIBCUDA", library).output().unwrap());
    ran.done()
}

/// Stubs and very old drivers are such libraries: the file opens, but symbols are missing.
#[test]
fn a_driver_library_without_its_symbols_is_reported() {
    let printed = devices_with_driver(&Workdir::new(), "libm.so.6");
    assert!(printed.contains("cuda: none") && printed.contains("no `cuInit`"), "{printed}");
    assert!(printed.contains("found, without cuInit"), "{printed}");
}

#[test]
fn a_driver_file_that_is_not_a_library_is_reported() {
    let workdir = Workdir::new();
    std::fs::write(workdir.path("libcuda.so.1"), b"not a library").unwrap();
    let path = workdir.path("libcuda.so.1");
    let printed = devices_with_driver(&workdir, path.to_str().unwrap());
    assert!(
        printed.contains("cuda: none") && printed.contains(path.to_str().unwrap()),
        "{printed}"
    );
}

#[test]
fn a_gpu_has_its_multiprocessors_and_its_memory_rate() {
    let workdir = Workdir::new();
    let ran = |args: &[&str]| {
        let mut command = workdir.command(args);
        crate::workdir::Ran::from(command.env("TRIJET_LIBCUDA", empty_driver()).output().unwrap())
    };
    let printed = ran(&["devices"]).done();
    for line in [
        "a multiprocessor: 2048 threads, 32 blocks, 65536 registers, warps of 32",
        "shared memory: 228 KiB, 227 KiB a block; clusters of 8 blocks at most",
        "L2 cache 50 MiB, memory of 3352 GB/s in theory (5120 bits, 2619 MHz)",
    ] {
        assert!(printed.lines().any(|printed| printed.trim() == line), "no `{line}`: {printed}");
    }
    let devices = printed.lines().take_while(|line| !line.is_empty());
    assert!(devices.into_iter().all(|line| line.len() <= 80), "{printed}");
    let gpu = &ran(&["devices", "--json"]).json()["cuda"][0];
    assert_eq!(gpu["limits_are_modelled"], false);
    assert_eq!(gpu["multiprocessor_registers"], 65_536);
    assert_eq!(gpu["multiprocessor_shared_bytes"], 228 << 10);
    assert_eq!(gpu["l2_bytes"], 50 << 20);
    assert_eq!(
        (&gpu["memory_bus_bits"], &gpu["memory_clock_khz"]),
        (&5120.into(), &2_619_000.into())
    );
    assert_eq!(gpu["memory_bytes_per_s"], 3_352_320_000_000_u64);
}

/// The host device refuses the same launches as a GPU, but has no registers, no cache of its own
/// and no memory bus.
#[test]
fn the_limits_of_the_host_device_are_called_modelled() {
    let workdir = Workdir::new();
    let printed = workdir.trijet(&["devices"]).done();
    let told = printed.find("modelled GPU").expect("the model is named");
    let limits = "a multiprocessor: 2048 threads, 32 blocks, warps of 32";
    assert!(printed[told..].contains(limits), "{printed}");
    let host = &workdir.trijet(&["devices", "--json"]).json()["host"];
    assert_eq!(host["limits_are_modelled"], true);
    assert_eq!((&host["warp_threads"], &host["cluster_blocks_max"]), (&32.into(), &8.into()));
    for unknown in ["multiprocessor_registers", "l2_bytes", "memory_bus_bits", "memory_bytes_per_s"]
    {
        assert!(host[unknown].is_null(), "{unknown}: {host}");
    }
}

#[test]
fn the_hardware_queues_are_8_unless_the_user_says_how_many() {
    let workdir = Workdir::new();
    for (value, queues) in [(None, "8"), (Some("4"), "4"), (Some("many"), "unknown")] {
        let mut command = workdir.command(&["devices"]);
        command.env("TRIJET_LIBCUDA", empty_driver()).env_remove("CUDA_DEVICE_MAX_CONNECTIONS");
        command.envs(value.map(|value| ("CUDA_DEVICE_MAX_CONNECTIONS", value)));
        let printed = crate::workdir::Ran::from(command.output().unwrap()).done();
        let wanted = format!("hardware queues of its streams: {queues}\n");
        assert!(printed.contains(&wanted), "{value:?}: {printed}");
    }
}
