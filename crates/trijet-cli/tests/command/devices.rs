//! The choice of a device: what there is, and no quiet replacement for what there is not.

use crate::desk::{Desk, noise};

#[test]
fn the_host_device_is_always_there_and_a_missing_driver_is_said() {
    let desk = Desk::new();
    let said = desk.trijet(&["devices"]).done();
    for words in ["cuda: none", "libcuda.so.1", "host: host device (CPU threads)", "driver:"] {
        assert!(said.contains(words), "`{said}` does not say `{words}`");
    }
}

#[test]
fn devices_as_json_say_the_same() {
    let desk = Desk::new();
    let value = desk.trijet(&["devices", "--json"]).json();
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
fn a_gpu_that_is_not_there_is_an_error_and_not_the_host() {
    let desk = Desk::new();
    desk.npy("in.npy", "|u1", &[4, 4], &noise(16, 1));
    for device in ["cuda:0", "cuda:999"] {
        let map = ["map", "in.npy", "-o", "out.npy", "--op", "median", "--device", device];
        desk.trijet(&map).refused(1, &["libcuda.so.1"]);
        desk.trijet(&["overlap", "--device", device]).refused(1, &["libcuda.so.1"]);
        desk.trijet(&["bench", "enqueue", "--device", device]).refused(1, &["libcuda.so.1"]);
    }
    assert_eq!(desk.names(), ["in.npy"]);
}

/// With the driver that the machine has, if it has one: there are never a thousand GPUs.
#[test]
fn the_thousandth_gpu_is_an_error_that_names_it_or_the_driver() {
    let desk = Desk::new();
    desk.npy("in.npy", "|u1", &[4, 4], &noise(16, 1));
    let map = ["map", "in.npy", "-o", "out.npy", "--op", "median", "--device", "cuda:999"];
    let mut command = desk.command(&map);
    let ran = crate::desk::Ran::from(command.env_remove("TRIJET_LIBCUDA").output().unwrap());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("999") || ran.err.contains("libcuda"), "{}", ran.err);
    assert_eq!(desk.names(), ["in.npy"]);
}

#[test]
fn auto_takes_the_host_where_there_is_no_gpu_and_says_so() {
    let desk = Desk::new();
    desk.npy("in.npy", "|u1", &[4, 4], &noise(16, 1));
    let said = desk.trijet(&["map", "in.npy", "-o", "out.npy", "--op", "median"]).done();
    assert!(said.contains("host device (CPU threads)"), "{said}");
}

#[test]
fn a_name_that_is_no_device_is_a_wrong_call() {
    let desk = Desk::new();
    for name in ["gpu", "cuda", "cuda:", "cuda:-1", "cuda:x", "host:0", ""] {
        let map = ["map", "in.npy", "-o", "out.npy", "--op", "median", "--device", name];
        desk.trijet(&map).refused(2, &["--device", "auto, cuda:N and host"]);
    }
}

/// The output of `devices` with another file in place of the driver library.
fn devices_with_driver(desk: &Desk, library: &str) -> String {
    let mut command = desk.command(&["devices"]);
    let ran = crate::desk::Ran::from(command.env("TRIJET_LIBCUDA", library).output().unwrap());
    ran.done()
}

/// As with a stub or a driver far too old: the file opens, and what it should hold is not there.
#[test]
fn a_library_without_the_drivers_symbols_is_said_to_lack_them() {
    let said = devices_with_driver(&Desk::new(), "libm.so.6");
    assert!(said.contains("cuda: none") && said.contains("no `cuInit`"), "{said}");
    assert!(said.contains("found, without cuInit"), "{said}");
}

#[test]
fn a_file_that_is_no_library_is_said_to_be_none() {
    let desk = Desk::new();
    std::fs::write(desk.path("libcuda.so.1"), b"not a library").unwrap();
    let path = desk.path("libcuda.so.1");
    let said = devices_with_driver(&desk, path.to_str().unwrap());
    assert!(said.contains("cuda: none") && said.contains(path.to_str().unwrap()), "{said}");
}
