//! `trijet doctor` on the host device: it says what it measures, and its JSON has every kind of
//! figure. No value is asserted that depends on how fast the machine is.

use crate::desk::Desk;
use serde_json::Value;

/// A measured value: its median lies within its range, and there are enough samples.
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

#[test]
fn the_host_device_is_said_to_be_no_gpu_and_the_advice_comes_last() {
    let said = Desk::new().trijet(&["doctor", "--device", "host"]).done();
    let first = said.lines().next().unwrap();
    assert!(first.contains("host device") && first.contains("not a GPU"), "{first}");
    assert!(!said.contains("FAILED"), "{said}");
    let absent = said.find("Not applicable here").expect("what does not apply is listed");
    assert!(said[absent..].contains("graphs and dependent launches"), "{said}");
    let advice = said.find("What follows").expect("there is advice");
    assert!(advice > absent && said[advice..].contains("\n  - chunks of "), "{said}");
    for line in said.lines() {
        assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
    }
}

#[test]
fn everything_measured_is_in_the_json_with_its_unit() {
    let value = Desk::new().trijet(&["doctor", "--device", "host", "--json"]).json();
    assert!(value["measured_on"].as_str().unwrap().contains("not a GPU"), "{value:#}");
    assert!(value["device"]["l2_bytes"].is_null(), "nothing is invented");
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
    assert!(value["limits"]["resident_grids"].as_u64().unwrap() >= 1, "{}", value["limits"]);
    assert_eq!(value["chains"].as_array().map(Vec::len), Some(0));
    assert_eq!(value["failed"].as_array().map(Vec::len), Some(0));
    assert!(list(&value, "not_applicable").iter().all(|a| a["why"].as_str().is_some()));
    assert!(list(&value, "advice").iter().any(|a| a["key"] == "chunk_bytes"));
}

#[test]
fn a_gpu_that_is_not_there_is_not_measured() {
    Desk::new().trijet(&["doctor", "--device", "cuda:0"]).refused(1, &["libcuda.so.1"]);
}
