//! `trijet doctor` on the host device: the text names the measurements, and the JSON has every kind
//! of measurement. No assertion depends on the speed of the machine.

use crate::built::empty_driver;
use crate::workdir::{Ran, Workdir};
use serde_json::Value;
use std::sync::LazyLock;

/// Asserts that a measured value has enough samples and a median within its range.
#[track_caller]
fn is_figure(value: &Value) {
    let number = |key: &str| value[key].as_f64().unwrap_or_else(|| panic!("no {key}: {value}"));
    assert!(number("min") <= number("median") && number("median") <= number("max"), "{value}");
    assert!(value["samples"].as_u64().unwrap() >= 5, "{value}");
}

#[track_caller]
fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    let list = value[key].as_array().unwrap_or_else(|| panic!("no {key}"));
    assert!(!list.is_empty(), "{key} is empty");
    list
}

/// A run with a verdict, as JSON. It takes seconds, so tests share it.
pub(crate) fn examined() -> Ran {
    static EXAMINED: LazyLock<Ran> = LazyLock::new(|| {
        Workdir::new().trijet(&["doctor", "--device", "host", "--check", "--json"])
    });
    EXAMINED.clone()
}

/// A run whose output is text. Without a GPU, it measures the host device. It takes seconds, so
/// tests share it.
pub(crate) fn printed() -> Ran {
    static PRINTED: LazyLock<Ran> = LazyLock::new(|| Workdir::new().trijet(&["doctor"]));
    PRINTED.clone()
}

#[test]
fn the_first_line_names_the_host_device_and_the_advice_comes_last() {
    let ran = printed();
    let steps = ran.progress();
    assert!(steps.len() == 14 && steps[0] == "[1/14] new streams", "{steps:?}");
    let printed = ran.done();
    let first = printed.lines().next().unwrap();
    assert!(first.contains("host device") && first.contains("not of a GPU"), "{first}");
    assert_eq!(first.matches("host device").count(), 1, "{first}");
    assert!(!printed.contains("FAILED"), "{printed}");
    // It was 1023 launches in one run, and 149 in the next.
    assert!(printed.contains("queue depth: a host device has no hardware queue"), "{printed}");
    let absent =
        printed.find("Not applicable here").expect("the inapplicable measurements are listed");
    assert!(printed[absent..].contains("graphs and dependent launches"), "{printed}");
    // The measured device is a processor. Its chunks and slots differ from the ones of a link.
    let advice = printed.find("No advice").expect("it says that there is no advice");
    assert!(advice > absent && !printed.contains("chunks of 16 MiB"), "{printed}");
    assert!(!printed.contains("0000 %") && !printed.contains("page-lock what"), "{printed}");
    for row in
        ["upload, download, computing", "upload, download, memory-bound", "computing, memory-bound"]
    {
        assert!(printed.lines().any(|line| line.trim_start().starts_with(row)), "{printed}");
    }
    for line in printed.lines() {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
}

#[test]
fn every_measurement_is_in_the_json_with_its_unit() {
    let value = examined().json();
    assert!(value["measured_on"].as_str().unwrap().contains("not a GPU"), "{value:#}");
    assert!(value["device"]["l2_bytes"].is_null(), "an unknown size is null");
    for copy in list(&value, "copies") {
        is_figure(&copy["rate_gb_per_s"]);
        assert!(copy["size_bytes"].as_u64().unwrap() >= 1 << 16, "{copy}");
    }
    for path in ["h2d", "d2h", "duplex_each_way", "pageable_h2d", "pageable_d2h"] {
        assert!(list(&value, "copies").iter().any(|copy| copy["path"] == path), "no {path}");
    }
    for call in list(&value, "calls") {
        is_figure(&call["trijet_host_ns"]);
        assert!(call["bare_host_ns"].is_null(), "there is no driver to call: {call}");
    }
    for row in list(&value, "blocking") {
        is_figure(&row["host_alone_us"]);
        is_figure(&row["host_beside_kernel_us"]);
        let host = row["host"].as_str().unwrap();
        assert!(["free", "waits", "unclear"].contains(&host), "{row}");
    }
    assert_eq!(list(&value, "default_streams").len(), 16);
    for pair in list(&value, "allocations") {
        is_figure(&pair["pair_ns"]);
    }
    let contention = list(&value, "contention");
    for row in contention {
        is_figure(&row["alone_us"]);
        is_figure(&row["beside_us"]);
        assert!(row["longer_percent"].as_f64().is_some_and(f64::is_finite), "{row}");
        assert!(list(row, "at_once").contains(&row["work"]), "{row}");
    }
    let pairs = contention.iter().filter(|row| list(row, "at_once").len() == 2);
    assert_eq!((pairs.count(), contention.len()), (12, 18));
    assert!(value["limits"]["resident_grids"].as_u64().unwrap() >= 1, "{}", value["limits"]);
    assert_eq!(value["chains"].as_array().map(Vec::len), Some(0));
    assert_eq!(value["shared_hardware_queues"].as_array().map(Vec::len), Some(0));
    assert!(list(&value, "not_applicable").iter().any(|a| a["what"] == "shared hardware queues"));
    assert_eq!(value["failed"].as_array().map(Vec::len), Some(0));
    assert!(list(&value, "not_applicable").iter().all(|a| a["why"].as_str().is_some()));
    assert_eq!(value["advice"].as_array().map(Vec::len), Some(0), "advice is about GPUs");
}

/// The empty driver copies nothing and runs no kernel, so its times are times of nothing.
#[test]
fn work_that_a_driver_does_not_do_has_no_figures() {
    let workdir = Workdir::new();
    let mut command = workdir.command(&["doctor", "--device", "cuda:0", "--json"]);
    let ran = Ran::from(command.env("TRIJET_LIBCUDA", empty_driver()).output().unwrap());
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    let value: Value = serde_json::from_str(&ran.out).expect("a document");
    assert_eq!(value["device"]["l2_bytes"], 50 << 20);
    let why = list(&value, "failed").iter().find(|failed| failed["what"] == "contention");
    let why = why.expect("a failed measurement")["why"].as_str().unwrap();
    assert!(why.contains("work beside other work gave wrong results: upload"), "{why}");
    assert_eq!(value["contention"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_missing_gpu_is_an_error() {
    Workdir::new().trijet(&["doctor", "--device", "cuda:0"]).refused(1, &["libcuda.so.1"]);
}
