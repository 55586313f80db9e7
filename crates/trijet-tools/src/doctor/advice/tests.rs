//! Tests of the advice with made-up findings. Some of the numbers were measured on an H200.

use super::{Advice, derive, size_for, slots};
use crate::doctor::findings::{AllocPair, Blocked, CallCost, ChainLaunch, Findings, Path, Rate};
use crate::doctor::measure::{CALL_HOP, GRAPH, PLAIN, STREAMED, THRESHOLD_0, THRESHOLD_MAX};
use crate::doctor::verdict::{HostVerdict, StreamVerdict};
use crate::stats::Samples;
use trijet::{Bytes, Device, Select};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const SIZES: [u64; 6] = [64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 256 * MIB];

fn one(value: f64) -> Samples {
    let mut samples = Samples::default();
    samples.push(value);
    samples
}

/// Findings without measurements. No advice depends on the description of the device.
fn empty() -> Findings {
    let device = Device::open(Select::Host(0)).expect("a host device is always there");
    Findings::new(device.info().clone(), 0)
}

fn curve(f: &mut Findings, path: Path, rates: [f64; 6]) {
    for (bytes, rate) in SIZES.into_iter().zip(rates) {
        f.rates.push(Rate {
            path,
            bytes: Bytes(bytes),
            copies: 1,
            gb_per_s: one(rate),
            host_busy: Samples::default(),
            pattern: None,
        });
    }
}

/// Findings with the rates of an H200 on PCIe 5 x16.
fn links() -> Findings {
    let mut f = empty();
    curve(&mut f, Path::Upload, [16.3, 35.0, 47.7, 53.3, 55.0, 55.5]);
    curve(&mut f, Path::Download, [21.5, 40.5, 50.0, 54.0, 55.0, 55.4]);
    curve(&mut f, Path::Duplex, [13.5, 27.5, 45.2, 48.2, 50.1, 50.8]);
    curve(&mut f, Path::PageableUpload, [5.0, 8.0, 10.0, 12.0, 17.0, 17.0]);
    curve(&mut f, Path::PageableDownload, [5.0, 8.0, 10.0, 15.0, 18.0, 18.0]);
    f
}

fn blocked(call: &str, us: f64, host: HostVerdict, stream: StreamVerdict) -> Blocked {
    Blocked {
        call: call.to_owned(),
        streams: "non-blocking",
        alone_us: one(us),
        beside_us: one(us),
        kernel_us: one(30_000.0),
        host,
        stream,
        agreeing: (7, 7),
    }
}

#[track_caller]
fn of(f: &Findings, key: &str) -> Advice {
    let all = derive(f);
    all.iter().find(|a| a.key == key).cloned().unwrap_or_else(|| panic!("no {key} in {all:?}"))
}

#[test]
fn the_chunk_is_the_smallest_that_all_directions_agree_on() {
    let advice = of(&links(), "chunk_bytes");
    // In one direction alone, copies of 4 MiB have 0.960 or 0.975 of the best rate. In both
    // directions at the same time, they have 0.949.
    assert_eq!(advice.value, Some((16 * MIB) as f64));
    assert!(advice.text.contains("H2D 4 MiB, D2H 4 MiB, both at once 16 MiB"), "{}", advice.text);
}

fn several(values: [f64; 5]) -> Samples {
    let mut samples = Samples::default();
    values.into_iter().for_each(|value| samples.push(value));
    samples
}

/// The findings have the rates of a host whose caches are larger than small copies. In an earlier
/// version, the number of slots was computed from the best row of each path, and not from the row
/// that decides the chunks.
#[test]
fn one_row_of_the_table_decides_chunks_and_slots() {
    let mut f = empty();
    curve(&mut f, Path::Upload, [3.0, 6.0, 9.0, 9.9, 10.0, 10.0]);
    curve(&mut f, Path::Download, [3.0, 6.0, 9.0, 9.9, 10.0, 10.0]);
    // Only small copies are fast in both directions at the same time.
    curve(&mut f, Path::Duplex, [2.0, 9.0, 9.0, 4.0, 5.2, 5.2]);
    let (chunk, slots) = (of(&f, "chunk_bytes"), of(&f, "slots"));
    assert_eq!(chunk.value, Some((4 * MIB) as f64));
    assert!(chunk.text.contains("the row of 4 MiB"), "{}", chunk.text);
    assert_eq!(slots.value, Some(2.0));
    assert!(slots.text.contains("in copies of 4 MiB, each direction keeps 40 %"), "{}", slots.text);
}

/// In an earlier version, the text of advice did not mention that it depended on a figure with a
/// spread of 285 %.
#[test]
fn advice_that_rests_on_noisy_figures_says_so() {
    let quiet = derive(&links());
    assert!(quiet.iter().all(|a| a.noisy.is_empty() && !a.text.contains("noisy")), "{quiet:?}");
    let mut f = links();
    let row = |rate: &&mut Rate| rate.path == Path::Duplex && rate.bytes == Bytes(16 * MIB);
    let rate = f.rates.iter_mut().find(row).expect("it was measured");
    rate.gb_per_s = several([50.1, 50.1, 50.1, 49.9, 192.7]);
    for key in ["chunk_bytes", "slots"] {
        let advice = of(&f, key);
        assert!(
            advice.text.ends_with("noisy, with a spread of: both, each way of 16 MiB 285 %"),
            "{}",
            advice.text
        );
        assert_eq!(advice.noisy, [("both, each way of 16 MiB".to_owned(), 285.0)]);
    }
    assert!(
        of(&f, "pinned_over_pageable_ratio").noisy.is_empty(),
        "the advice does not depend on this figure"
    );
}

#[test]
fn a_dip_behind_a_good_size_moves_the_size_up() {
    let curve = [(Bytes(1), 19.9), (Bytes(2), 15.0), (Bytes(4), 20.0)];
    assert_eq!(size_for(&curve, 0.95), Some(Bytes(4)));
    assert_eq!(size_for(&[], 0.95), None);
}

/// The curve has the rates of a host whose caches are larger than the smaller sizes. For such
/// rates, there must be an answer as well.
#[test]
fn large_sizes_that_are_slower_leave_the_fastest_one() {
    let curve = [(Bytes(1), 15.0), (Bytes(2), 20.0), (Bytes(4), 18.0)];
    assert_eq!(size_for(&curve, 0.95), Some(Bytes(2)));
}

#[test]
fn three_slots_when_copies_overlap_and_handing_over_is_cheap() {
    let mut f = links();
    f.calls.push(CallCost {
        call: CALL_HOP,
        bare_ns: Some(one(2_000.0)),
        bare_through_ns: Some(one(2_900.0)),
        trijet_ns: None,
    });
    let advice = of(&f, "slots");
    assert_eq!(advice.value, Some(3.0));
    assert!(advice.text.contains("2.9 us") && advice.text.contains("0.9 %"), "{}", advice.text);
}

#[test]
fn a_dear_handover_takes_a_slot_more_and_a_half_duplex_link_one_less() {
    assert_eq!(slots(true, 0.03), 4);
    assert_eq!(slots(false, 0.0), 2);
    assert_eq!(slots(true, 0.02), 3);
}

#[test]
fn page_locking_is_weighed_at_16_mib() {
    let advice = of(&links(), "pinned_over_pageable_ratio");
    assert!(advice.text.starts_with("page-lock what is copied: 3.2 times"), "{}", advice.text);
    assert!(advice.text.contains("3.1 for downloads"), "{}", advice.text);
    let mut slow = links();
    slow.rates.retain(|rate| ![Path::PageableUpload, Path::PageableDownload].contains(&rate.path));
    curve(&mut slow, Path::PageableUpload, [50.0; 6]);
    curve(&mut slow, Path::PageableDownload, [50.0; 6]);
    assert!(of(&slow, "pinned_over_pageable_ratio").text.contains("gains little"));
}

#[test]
fn a_threshold_of_0_that_costs_150_times_is_advised_against() {
    let mut f = empty();
    for (way, ns) in [(THRESHOLD_0, 73_000.0), (THRESHOLD_MAX, 489.0)] {
        f.allocations.push(AllocPair { way, bytes: Bytes(MIB), pair_ns: one(ns) });
    }
    let advice = of(&f, "pool_threshold_0_over_max_ratio");
    assert!(advice.text.contains("0.49 us") && advice.text.contains("73.0 us"), "{}", advice.text);
    f.allocations[0].pair_ns = one(500.0);
    assert!(of(&f, "pool_threshold_0_over_max_ratio").text.contains("little difference"));
}

#[test]
fn a_first_launch_that_was_held_back_is_to_be_avoided() {
    let mut f = empty();
    let name = "first launch, not loaded, bare";
    f.blocked = vec![blocked(name, 5.0, HostVerdict::Free, StreamVerdict::Free)];
    assert!(of(&f, "first_use_us").text.contains("as fast as"));
    f.blocked = vec![blocked(name, 900.0, HostVerdict::Free, StreamVerdict::Free)];
    assert!(of(&f, "first_use_us").text.contains("took the host 0.9 ms"));
    f.blocked = vec![blocked(name, 5.0, HostVerdict::Free, StreamVerdict::HeldBack)];
    assert!(of(&f, "first_use_us").text.ends_with("first launch, not loaded, bare"));
}

#[test]
fn calls_that_wait_and_calls_that_hold_back_are_named() {
    let mut f = empty();
    f.blocked = vec![
        blocked("nothing", 0.1, HostVerdict::Free, StreamVerdict::Free),
        blocked("cuMemFree 1 MiB", 55.0, HostVerdict::Waits, StreamVerdict::IssuedAfter),
        blocked("legacy-stream kernel", 3.0, HostVerdict::Free, StreamVerdict::HeldBack),
        blocked("module load", 25.0, HostVerdict::Waits, StreamVerdict::IssuedAfter),
        blocked("kernel look-up in it", 5.0, HostVerdict::Free, StreamVerdict::HeldBack),
    ];
    assert!(
        of(&f, "calls_that_wait_count").text.ends_with("the host waited in them: cuMemFree 1 MiB")
    );
    let held = of(&f, "calls_that_hold_back_count");
    assert!(held.text.contains("legacy-stream kernel") && !held.text.contains("cuMemFree"));
    assert!(!held.text.contains("look-up"), "{}", held.text);
    assert!(of(&f, "first_use_us").text.ends_with("module load, kernel look-up in it"));
}

#[test]
fn where_kernels_never_overlap_no_call_is_blamed() {
    let mut f = empty();
    f.blocked = vec![
        blocked("nothing", 0.1, HostVerdict::Free, StreamVerdict::HeldBack),
        blocked("pool trim", 5.0, HostVerdict::Free, StreamVerdict::HeldBack),
        blocked("first launch through trijet", 5.0, HostVerdict::Free, StreamVerdict::HeldBack),
    ];
    let all = derive(&f);
    assert!(all.iter().all(|a| a.key != "calls_that_hold_back_count"), "{all:?}");
    assert_eq!(of(&f, "kernels_at_once").value, Some(1.0));
    assert!(of(&f, "first_use_us").text.contains("as fast as"));
}

#[test]
fn more_streams_than_resident_grids_are_advised_against() {
    let mut f = empty();
    f.limits.resident_grids = Some((128, 200));
    f.limits.stream_bytes = Some(561 * KIB);
    let text = of(&f, "resident_grids").text;
    assert!(text.contains("128 kernels") && text.contains("561 KiB"), "{text}");
    f.limits.resident_recorded = Some(8);
    assert!(
        of(&f, "resident_grids").text.contains("ran at once, but only 8 if an event was recorded")
    );
    f.limits.resident_grids = Some((200, 200));
    assert!(derive(&f).is_empty());
}

#[test]
fn short_kernels_are_better_off_in_a_graph() {
    let mut f = empty();
    let chain = |kernel, way, ns| ChainLaunch {
        kernel,
        way,
        kernels: 500,
        kernel_ns: one(ns),
        launch_ns: one(2_350.0),
    };
    f.chains = vec![
        chain(PLAIN, STREAMED, 2_470.0),
        chain(PLAIN, GRAPH, 760.0),
        chain("dependent: trigger, then wait", GRAPH, 500.0),
    ];
    let text = of(&f, "launch_bound_below_ns").text;
    assert!(text.contains("2.5 us") && text.contains("0.76 us") && text.contains("0.50 us"));
}

#[test]
fn nothing_measured_is_nothing_advised() {
    assert!(derive(&empty()).is_empty());
}
