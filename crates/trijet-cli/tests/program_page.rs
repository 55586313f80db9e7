//! Pages of traced programs, and of a replay. The test program keeps them in cargo's folder for tests,
//! where `cargo xtask browser` opens them.

use std::path::Path;
use std::process::Command;
use trijet::Nanos;
use trijet::trace::activity::{
    Activity, ActivityKind, Api, ContextInfo, CopyDirection, End, MemoryKind, NameId, OverheadKind,
    ProcessTrace,
};
use trijet_ledger::profile::{FiguresOf, PageOptions, Profile, analyse, page, what_if};

const NAMES: [&str; 7] = [
    "_Z4gemmIfEvPT_",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    "_Z7softmaxIfEvPT_",
    "cudaLaunchKernel",
    "cudaMemcpyAsync",
    "cudaStreamSynchronize",
    "_Z9layernormIfEvPT_",
];

/// A time as CUPTI states it: nanoseconds since 1970.
const EPOCH: u64 = 1_790_000_000_000_000_000;

fn keep(name: &str, bytes: &[u8]) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// Numbers that look random, and are the same in every run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// The stream, the name, the kind, the time and the bytes of an operation of a training.
fn operation(number: u32) -> (usize, Option<u32>, ActivityKind, u64, u64) {
    let upload = ActivityKind::Copy {
        direction: CopyDirection::Upload,
        from: MemoryKind::Pageable,
        to: MemoryKind::Device,
    };
    match number % 16 {
        3 => (1, None, upload, 9000, 1 << 19),
        9 => (2, Some(1), ActivityKind::Kernel, 16_000, 0),
        n if n % 3 == 0 => (0, Some(0), ActivityKind::Kernel, 7000, 0),
        n if n % 3 == 1 => (0, Some(2), ActivityKind::Kernel, 2500, 0),
        _ => (0, Some(6), ActivityKind::Kernel, 1700, 0),
    }
}

/// One rank of an invented training: `operations` operations with a call each, with jitter.
fn rank(process: u32, operations: u32) -> ProcessTrace {
    let mut draw = Draw(u64::from(process));
    let mut trace = ProcessTrace {
        process,
        interface: 130_001,
        names: NAMES.map(str::to_owned).to_vec(),
        contexts: vec![ContextInfo { context: 1, device: 0, null_stream: 7 }],
        ..ProcessTrace::default()
    };
    let (mut host, mut free) = (EPOCH, [EPOCH; 3]);
    for number in 0..operations {
        let copy = Activity {
            kind: ActivityKind::Kernel,
            begin: Nanos(0),
            end: Nanos(0),
            bytes: 0,
            name: None,
            device: process % 2,
            context: 1,
            stream: 7,
            thread: process,
            correlation: number + 1,
            node: None,
        };
        let (lane, name, kind, took, bytes) = operation(number);
        let called = if name.is_some() { 3 } else { 4 };
        let end = host + 1900 + draw.below(900);
        trace.activities.push(Activity {
            kind: ActivityKind::Call(Api::Runtime),
            begin: Nanos(host),
            end: Nanos(end),
            name: Some(NameId(called)),
            ..copy
        });
        let begin = free[lane].max(end) + 700 + draw.below(600);
        free[lane] = begin + took + draw.below(took / 8);
        trace.activities.push(Activity {
            kind,
            begin: Nanos(begin),
            end: Nanos(free[lane]),
            bytes,
            name: name.map(NameId),
            stream: [7, 13, 14][lane],
            ..copy
        });
        host = end + 800 + draw.below(500);
        if number % 64 == 63 {
            let end = free[0].max(host) + 5000;
            trace.activities.push(Activity {
                kind: ActivityKind::Call(Api::Runtime),
                begin: Nanos(host),
                end: Nanos(end),
                name: Some(NameId(5)),
                correlation: 0,
                ..copy
            });
            host = end + 20_000;
        }
    }
    let activities = trace.activities.len() as u64;
    trace.end = Some(End { activities, at: Nanos(host), ..End::default() });
    trace
}

/// Two ranks. The second one computes for longer before each of 200 all-reduces.
fn late_rank() -> [ProcessTrace; 2] {
    let mut draw = Draw(7);
    let mut traces = [11, 12].map(|process| ProcessTrace {
        activities: Vec::new(),
        command: "python3 train.py".to_owned(),
        rank: Some(process - 11),
        ..rank(process, 1)
    });
    for at in (0..200).map(|step| EPOCH + step * 2_000_000) {
        let computed = [1_000_000, 1_200_000].map(|time| at + time + draw.below(20_000));
        let end = computed[0].max(computed[1]) + 300_000;
        for (trace, computed) in traces.iter_mut().zip(computed) {
            let kernel = |name, stream, begin, end| Activity {
                kind: ActivityKind::Kernel,
                begin: Nanos(begin),
                end: Nanos(end),
                bytes: 0,
                name: Some(NameId(name)),
                device: 0,
                context: 1,
                stream,
                thread: 1,
                correlation: 0,
                node: None,
            };
            trace.activities.push(kernel(0, 7, at, computed));
            trace.activities.push(kernel(1, 14, computed + 3000, end));
        }
    }
    for trace in &mut traces {
        let activities = trace.activities.len() as u64;
        trace.end = Some(End { activities, ..End::default() });
    }
    traces
}

fn rendered(traces: &[ProcessTrace], options: &PageOptions) -> Vec<u8> {
    let mut traces = traces.to_vec();
    let profile =
        Profile::of(traces.iter_mut().map(|trace| analyse(trace, FiguresOf::Steps)).collect());
    page(&traces, &profile, options)
}

fn titled(title: &str) -> PageOptions {
    PageOptions { title: title.to_owned(), ..PageOptions::default() }
}

#[test]
fn a_page_has_the_devices_the_findings_and_their_places() {
    let launcher = ProcessTrace { process: 10, interface: 1, ..ProcessTrace::default() };
    let traces = [launcher, rank(11, 2000), rank(12, 2000)];
    let bytes = rendered(&traces, &titled("torchrun <train>"));
    let page = String::from_utf8(bytes.clone()).unwrap();
    for text in [
        "<title>torchrun &lt;train&gt;</title>",
        "process 11, GPU 1",
        "process 12, GPU 0",
        "\"name\":\"communication\"",
        "\"name\":\"thread 11\"",
        "PERF/EXPOSED-COMM",
        "PERF/PAGEABLE",
        "Process 10 executed no operation on a GPU",
        "gemm&lt;float&gt;",
        "<noscript>",
    ] {
        assert!(page.contains(text), "{text}");
    }
    // The places are on the clock of the timeline, which starts with the first activity.
    let (_, place) = page.split_once("href=\"#t=").unwrap();
    let (from, _) = place.split_once(',').unwrap();
    assert!(from.parse::<u64>().unwrap() < 1_000_000_000, "{from}");
    assert!(!page.contains(" us "), "a page writes \u{b5}s");
    keep("program.html", &bytes);
}

#[test]
fn a_page_of_ranks_names_the_late_one() {
    let bytes = rendered(&late_rank(), &titled("python3 train.py"));
    let page = String::from_utf8(bytes.clone()).unwrap();
    for text in [
        "<h2 id=\"h-ranks\">Ranks</h2>",
        "Communication of 2 ranks",
        "<td>rank 1</td><td>process 12, GPU 0</td>",
        "waiting for a later rank",
        "PERF/LATE-RANK",
        "ms for rank 1 in 200 of them",
    ] {
        assert!(page.contains(text), "{text}");
    }
    keep("ranks.html", &bytes);
    let alone = String::from_utf8(rendered(&late_rank()[..1], &titled("alone"))).unwrap();
    assert!(!alone.contains("h-ranks"), "one rank is compared with none");
}

#[test]
fn a_page_of_a_part_of_the_time_has_the_operations_of_that_time() {
    let traces = [rank(11, 2000)];
    let count = |options: &PageOptions| {
        let page = String::from_utf8(rendered(&traces, options)).unwrap();
        let (_, count) = page.split_once("{\"count\":").unwrap();
        count.split_once(',').unwrap().0.parse::<usize>().unwrap()
    };
    let whole = count(&PageOptions::default());
    let window = Some(Nanos(1_000_000)..Nanos(2_000_000));
    let part = count(&PageOptions { window, ..PageOptions::default() });
    assert!(whole > 2000 && part > 50 && part < whole / 4, "{part} of {whole}");
    let none = Some(Nanos(u64::MAX)..Nanos(u64::MAX));
    assert_eq!(count(&PageOptions { window: none, ..PageOptions::default() }), 0);
}

/// A page of two million operations has at most 20 MB, and is built so by `cargo xtask browser`. `cargo test` builds one of a tenth of
/// the operations and demands a tenth of the bytes, because without optimisation the large one takes 20 s.
#[test]
fn a_page_of_two_million_operations_has_at_most_twenty_megabytes() {
    let is_whole = std::env::var_os("TRIJET_WHOLE_PAGE").is_some();
    let (each, bytes_max) = if is_whole { (1_000_000, 20_000_000) } else { (100_000, 2_000_000) };
    let traces = [rank(11, each), rank(12, each)];
    let bytes = rendered(&traces, &titled(&format!("2 ranks, {each} operations each")));
    assert!(bytes.len() <= bytes_max, "{} bytes", bytes.len());
    keep("huge.html", &bytes);
}

/// The page that replays a run with changes. `cargo xtask browser` compares the times that its script
/// computes with the times in its data.
fn model(operations: u32) -> String {
    let mut trace = rank(11, operations);
    // A page-locked copy, from which the rate of the link is learned.
    let pinned = ActivityKind::Copy {
        direction: CopyDirection::Upload,
        from: MemoryKind::Pinned,
        to: MemoryKind::Device,
    };
    let copy = trace.activities.iter_mut().find(|one| one.bytes > 0).expect("there is a copy");
    (copy.kind, copy.end) = (pinned, Nanos(copy.begin.0 + (copy.end.0 - copy.begin.0) / 2));
    what_if(&mut trace, FiguresOf::Whole, "python3 <train>.py").expect("the records have an order")
}

#[test]
fn a_page_of_a_model_has_its_fixes_with_their_times() {
    let page = model(2000);
    for text in [
        "<title>What if: python3 &lt;train&gt;.py</title>",
        "[\"NoWaits\",\"delete the waits for streams, events and the device\",",
        "\"GPU 1, stream 13\"",
        "\"thread 11\"",
        "\"gemm\\u003cfloat\\u003e\"",
    ] {
        assert!(page.contains(text), "{text}");
    }
    keep("what_if.html", page.as_bytes());
}

/// A page of a million operations has at most 20 MB; `cargo test` builds one of a tenth of them.
#[test]
fn a_page_of_the_model_of_a_million_operations_has_at_most_twenty_megabytes() {
    let is_whole = std::env::var_os("TRIJET_WHOLE_PAGE").is_some();
    let (operations, bytes_max) =
        if is_whole { (1_000_000, 20_000_000) } else { (100_000, 2_000_000) };
    let page = model(operations);
    assert!(page.len() <= bytes_max, "{} bytes", page.len());
    keep("what_if_huge.html", page.as_bytes());
}

/// Activities at the ends of the clock, of every kind, with hostile names.
#[test]
fn no_trace_makes_the_page_panic_or_run_a_script() {
    let ends = [0, 1, 2, u64::MAX / 2, u64::MAX - 1, u64::MAX];
    let copy = ActivityKind::Copy {
        direction: CopyDirection::Download,
        from: MemoryKind::Device,
        to: MemoryKind::Pageable,
    };
    let kinds = [
        ActivityKind::Kernel,
        copy,
        ActivityKind::Call(Api::Runtime),
        ActivityKind::Fill,
        ActivityKind::Overhead(OverheadKind::LazyLoading),
    ];
    let names = ["cudaMalloc", "</script><script>alert(1)</script>", "k\u{1b}[0m\u{202e}"];
    let mut draw = Draw(1);
    for round in 0..200 {
        let mut pick = |count: usize| usize::try_from(draw.below(count as u64)).unwrap();
        let activities = (0..40).map(|_| {
            let (a, b) = (ends[pick(ends.len())], ends[pick(ends.len())]);
            Activity {
                kind: kinds[pick(kinds.len())],
                begin: Nanos(a.min(b)),
                end: Nanos(a.max(b)),
                bytes: ends[pick(ends.len())],
                name: Some(NameId(u32::try_from(pick(4)).unwrap())),
                device: u32::try_from(pick(3)).unwrap(),
                context: 1,
                stream: u32::try_from(pick(3)).unwrap(),
                thread: u32::try_from(pick(2)).unwrap(),
                correlation: u32::try_from(pick(4)).unwrap(),
                node: None,
            }
        });
        let trace = ProcessTrace {
            process: round,
            interface: 1,
            activities: activities.collect(),
            names: names.map(str::to_owned).to_vec(),
            troubles: names.map(str::to_owned).to_vec(),
            ..ProcessTrace::default()
        };
        let mut lawful = trace.clone();
        let page = String::from_utf8(rendered(&[trace], &titled(names[1]))).unwrap();
        for page in what_if(&mut lawful, FiguresOf::Whole, names[1]).into_iter().chain([page]) {
            assert_eq!(page.matches("<script").count(), 3);
            assert!(!page.contains(['\u{1b}', '\u{202e}']));
        }
    }
}

/// A program with more threads than a page has tracks: the engines keep their tracks.
#[test]
fn a_page_of_many_threads_shows_the_engines_and_says_what_it_leaves_out() {
    let mut trace = rank(11, 2000);
    let call = trace.activities[0];
    for thread in 0..1000 {
        trace.activities.push(Activity { thread: 10_000 + thread, correlation: 0, ..call });
    }
    let page = String::from_utf8(rendered(&[trace], &titled("threads"))).unwrap();
    assert!(page.contains("\"name\":\"kernels\"") && page.contains("\"name\":\"communication\""));
    // 1001 threads and 3 streams, for 600 tracks.
    assert!(
        page.contains("404 streams, threads and levels of named ranges have no row."),
        "the remark"
    );
}

/// A trace with an allocation that one allocator refuses, so that the page has all its parts.
#[test]
fn a_page_of_a_replay_is_kept_for_the_browser() {
    let mib = 1 << 20;
    let mut trace = "Action,Pointer,Size,Stream\n".to_owned();
    trace.extend((0..10).map(|number| format!("allocate,{number},{},{}\n", 2 * mib, number % 3)));
    trace.extend((0..10).step_by(2).map(|number| format!("free,{number},,0\n")));
    trace += &format!("allocate,10,{},0\n", 5 * mib);
    let folder = tempfile::tempdir().unwrap();
    let name = "allocations_of_a_training_with_a_name_that_is_long.csv";
    std::fs::write(folder.path().join(name), trace).unwrap();
    let mut replay = Command::new(env!("CARGO_BIN_EXE_trijet"));
    replay.args(["replay", name, "--device", "host", "--limit", "20MiB", "-o", "replay.html"]);
    let replay = replay.env_clear().env("TRIJET_LIBCUDA", "/nonexistent/libcuda.so.1");
    let ran = replay.current_dir(folder.path()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    keep("replay.html", &std::fs::read(folder.path().join("replay.html")).unwrap());
}
