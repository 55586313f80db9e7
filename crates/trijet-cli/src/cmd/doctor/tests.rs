//! The text and the JSON of findings that have every kind of measurement.

use super::{text, tree};
use trijet::{Bytes, Clock, Device, Select};
use trijet_tools::doctor::Findings;
use trijet_tools::doctor::findings::{
    Absent, AllocPair, Blocked, BlockingPair, CallCost, ChainLaunch, Contention, Link, Load,
    Neighbour, Path, QueueShare, Rate,
};
use trijet_tools::doctor::verdict::{HostVerdict, StreamVerdict};
use trijet_tools::stats::Samples;

fn samples(median: f64) -> Samples {
    Samples::of(vec![median * 0.99, median, median, median * 1.01])
}

fn noisy(median: f64) -> Samples {
    Samples::of(vec![median * 0.998, median, median, median * 3.848])
}

fn rate(path: Path, mib: u64, gb_per_s: Samples) -> Rate {
    let (bytes, host_busy) = (Bytes(mib << 20), samples(0.123));
    Rate { path, bytes, copies: 5, gb_per_s, host_busy, pattern: None }
}

fn blocked(call: &str, streams: &'static str, agree: usize) -> Blocked {
    Blocked {
        call: call.to_owned(),
        streams,
        alone_us: samples(2.35),
        beside_us: noisy(1234.0),
        kernel_us: samples(500.0),
        host: HostVerdict::Waits,
        stream: StreamVerdict::HeldBack,
        agreeing: (agree, 7),
    }
}

fn contention(
    at_once: &'static [Load],
    load: Load,
    beside_us: Samples,
    longer_percent: f64,
) -> Contention {
    let alone_us = samples(4000.0);
    Contention { at_once, load, alone_us, beside_us, longer_percent, is_whole: true }
}

/// Findings of a GPU with a neighbour and a link, and without any other measurement.
fn gpu() -> Findings {
    let device = Device::open(Select::Host(0)).expect("a host device");
    let mut f = Findings::new(device.info().clone(), 1);
    f.date = "2026-11-26T10:00:00Z".to_owned();
    f.device.compute = (9, 0);
    f.device.clock = Clock::Device;
    f.device.hardware_queues = Some(8);
    f.device.multiprocessors = 132;
    f.device.memory = Bytes(1 << 37);
    f.device.driver_version = 13_010;
    f.device.l2 = Some(Bytes(50 << 20));
    f.kernel_driver = Some("580.1".to_owned());
    f.neighbours.push(Neighbour {
        ordinal: 2,
        name: "A".to_owned(),
        reached: true,
        reaches: false,
    });
    let [alone, both, all, beside] = [400.0, 390.0, 99.96, 9.99].map(samples);
    f.links.push(Link { from: 0, to: 1, alone, both, all, beside });
    f
}

/// Findings of a GPU with every kind of measurement.
fn findings() -> Findings {
    let mut f = gpu();
    f.rates = vec![
        rate(Path::Upload, 1, samples(23.6)),
        rate(Path::Upload, 256, noisy(55.3)),
        rate(Path::Duplex, 256, samples(50.0)),
        rate(Path::PageableUpload, 256, samples(8.0)),
        rate(Path::OnDevice, 512, noisy(3000.0)),
    ];
    f.calls = vec![
        CallCost {
            call: "launch",
            bare_ns: Some(samples(2100.0)),
            bare_through_ns: Some(noisy(496.0)),
            trijet_ns: Some(samples(73_000.0)),
        },
        CallCost {
            call: "event query",
            bare_ns: None,
            bare_through_ns: None,
            trijet_ns: Some(samples(9.0)),
        },
    ];
    f.blocked = vec![
        blocked("cuMemFree", "non-blocking", 7),
        blocked("cuMemAlloc", "blocking", 6),
        blocked("cuMemHostAlloc", "non-blocking", 7),
    ];
    for (first, second, stream, agree) in [
        ("legacy", "legacy", StreamVerdict::HeldBack, 7),
        ("legacy", "own", StreamVerdict::Free, 5),
        ("own", "legacy", StreamVerdict::IssuedAfter, 7),
        ("own", "own", StreamVerdict::Free, 7),
    ] {
        f.pairs.push(BlockingPair { first, second, stream, agreeing: (agree, 7) });
    }
    f.limits.resident_grids = Some((128, 200));
    f.limits.queue_depth = Some(Err(5000));
    f.limits.stream_bytes = Some(544 << 10);
    for (behind, twice) in [("nothing", 16), ("a memset", 8)] {
        for (streams, at_once, agree) in [(8, 8, 7), (16, twice, 6)] {
            f.queue_shares.push(QueueShare { behind, streams, at_once, agreeing: (agree, 7) });
        }
    }
    f.contention = vec![
        contention(&[Load::Upload, Load::Download], Load::Upload, samples(4000.0), 11.4),
        contention(&[Load::Upload, Load::Download], Load::Download, noisy(4000.0), -0.3),
        contention(&[Load::Computing, Load::Memory], Load::Computing, samples(4000.0), 96.0),
    ];
    f.contention[2].is_whole = false;
    for (way, mib, ns) in [("cuMemAlloc", 1, 1e5), ("cuMemAlloc", 64, 2e6), ("heap", 1, 80.0)] {
        f.allocations.push(AllocPair { way, bytes: Bytes(mib << 20), pair_ns: samples(ns) });
    }
    let (kernel_ns, launch_ns) = (samples(1500.0), noisy(2000.0));
    f.chains.push(ChainLaunch {
        kernel: "empty",
        way: "a graph",
        kernels: 100,
        kernel_ns,
        launch_ns,
    });
    f.absent.push(Absent { what: "peers".to_owned(), why: "there is one GPU".to_owned() });
    f.failed.push(Absent { what: "links".to_owned(), why: "a copy gave wrong bytes".to_owned() });
    f
}

/// The text of the report about the findings `f`.
fn report(f: &Findings) -> String {
    text::report(f, &tree::tree(f))
}

#[test]
fn each_section_has_its_table_and_noisy_values_are_marked_and_counted() {
    let printed = report(&findings());
    for line in [
        "  cuda:0 to cuda:1: 400 GB/s, 390 both ways, 100 in all pairs at once, 9.99 with host copies",
        "  size         H2D  both, each way  pageable H2D",
        "  1 MiB       23.6               -             -",
        "  256 MiB    ~55.3            50.0           8.0",
        "  within the device: ~3000 GB/s, reads and writes together",
        "  ~ noisy: 2 with a spread (max - min) over 20 % of the median; at most 285 %",
        "   (on device of 512 MiB)",
        "  launch                       2.10 us 2.08..2.12    ~496 ns  73.0 us 72.3..73.7",
        "  event query                                   -          -     9 ns 0.01..0.01",
        "  call, blocking streams a and b          alone   beside host  kernel on b  runs",
        "  cuMemAlloc                            2.35 us ~1.23 ms waits held back    6/7",
        "  legacy                        waits       no 5/7",
        "  queue depth: none of 5000 launches on a busy stream blocked the host",
        "  device memory of a stream: 544 KiB",
        "  after each kernel                8 streams      16 streams",
        "  nothing                                  8       16 in 6/7",
        "  hardware queues of its streams: 8",
        "  at once                           upload  download  computing",
        "  upload, download                    11 %      ~0 %          -",
        "  computing, memory-bound                -         -      >96 %",
        "  > at least: the other work ended first",
        "  ~ noisy: 1 with a spread (max - min) over 20 % of the median; at most 285 %",
        "   (download in upload, download)",
        "  heap                                          80 ns        -",
        "  empty                         a graph                 100   1.50 us  ~2.00 us",
        "  peers: there is one GPU",
        "  links: a copy gave wrong bytes",
        "  - avoid these calls in a running pipeline, because the host waited in them:",
    ] {
        assert!(printed.lines().any(|printed| printed == line), "no `{line}` in\n{printed}");
    }
}

#[test]
fn a_spread_of_more_than_ten_times_the_median_is_no_number() {
    let mut f = findings();
    f.allocations[0].pair_ns = Samples::of(vec![1.0, 1.0, 12.0]);
    let printed = report(&f).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        printed.contains("at most more than ten times the median (cuMemAlloc, 1 MiB)"),
        "{printed}"
    );
}

#[test]
fn a_section_without_a_measurement_has_no_title() {
    let device = findings().device;
    let printed = report(&Findings::new(device, 0));
    let titles = printed.split("\n\n").skip(1).filter_map(|section| section.lines().next());
    let advice = "Advice from these numbers (measured on this machine, not guaranteed)";
    assert_eq!(titles.collect::<Vec<_>>(), ["Limits", advice], "{printed}");
}
