//! `trijet trace`: the exit status of the traced program, and the reasons why nothing is traced.

use crate::built::{empty_driver, library};
use crate::workdir::{Ran, Workdir};
use std::fs;
use trijet::Nanos;
use trijet::trace::activity::{
    Activity, ActivityKind, Api, CopyDirection, End, MarkKind, MemoryKind, NameId,
};
use trijet::trace::process_file;

/// The trace of a rank by PyTorch's profiler: a launch in each of two steps.
pub(crate) fn kineto(rank: u32) -> String {
    let step = |number: u32| {
        let (at, process) = (1000 * number, 100 + rank);
        format!(
            r#"{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{number}", "ts": {at}.0,
            "dur": 900, "pid": {process}, "tid": 1}},
            {{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": {at}.5, "dur": 5,
            "pid": {process}, "tid": 1, "args": {{"correlation": {number}}}}},
            {{"ph": "X", "cat": "kernel", "name": "scale\u001b[31m", "ts": {}.0, "dur": 400, "pid": 0,
            "tid": 7, "args": {{"device": 0, "context": 1, "stream": 7, "correlation": {number}}}}}"#,
            at + 100,
        )
    };
    let events: Vec<String> = (1..=2).map(step).collect();
    format!(
        r#"{{"distributedInfo": {{"rank": {rank}}}, "traceEvents": [{}],
        "baseTimeNanoseconds": 1767189312000000000}}"#,
        events.join(",")
    )
}

#[test]
fn traces_of_pytorchs_profiler_are_read() {
    let workdir = Workdir::new();
    for rank in [0, 1] {
        workdir.file(&format!("rank{rank}.json"), kineto(rank).as_bytes());
    }
    let ran = workdir.trijet(&["trace", "--read", "rank0.json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("scale") && !ran.out.contains('\u{1b}'), "{}", ran.out);
    assert!(ran.out.contains("cannot be answered"), "{}", ran.out);
    let both = ["trace", "--json", "--read", "rank0.json", "--read", "rank1.json"];
    let json: serde_json::Value = serde_json::from_str(&workdir.trijet(&both).out).unwrap();
    let ranks: Vec<_> =
        json["processes"].as_array().unwrap().iter().map(|one| &one["rank"]).collect();
    assert_eq!(ranks, [0, 1], "{json}");
    let page = ["trace", "--read", "rank0.json", "-o", "page.html"];
    assert_eq!(workdir.trijet(&page).code, Some(0));
    assert!(workdir.exists("page.html"));
    workdir.file("other.json", b"{\"a\": 1}");
    let ran = workdir.trijet(&["trace", "--read", "other.json"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("other.json: the trace has no operation of a GPU"), "{}", ran.err);
}

/// An export of Nsight Systems with two processes, whose names have characters that terminals obey.
pub(crate) const NSYS: &[u8] = include_bytes!("../../../../fuzz/seeds/nsys/two-processes");

#[test]
fn exports_of_nsight_systems_are_read() {
    let workdir = Workdir::new();
    workdir.file("report.sqlite", NSYS);
    let ran = workdir.trijet(&["trace", "--read", "report.sqlite"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(!ran.out.contains('\u{1b}'), "{}", ran.out);
    for part in ["process 77 python3 ?[1mtrain.py", "process 78", "scale", "by Nsight Systems"] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    let json = workdir.trijet(&["trace", "--read", "report.sqlite", "--json"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    for process in json["processes"].as_array().unwrap() {
        let device = &process["devices"][0];
        assert_eq!(device["steps"]["count"], 4, "{json}");
        // Four kernels of 690 us, and the copies of 86 us that lie between them.
        let busy: Vec<_> =
            device["engines"].as_array().unwrap().iter().map(|one| &one["busy_ns"]).collect();
        assert_eq!(busy, [4 * 690_000, 3 * 86_000], "{json}");
    }
    let page = ["trace", "--read", "report.sqlite", "-o", "page.html"];
    assert_eq!(workdir.trijet(&page).code, Some(0));
    let page = fs::read_to_string(workdir.path("page.html")).unwrap();
    assert!(!page.contains('\u{1b}'));
    workdir.file("other.sqlite", &NSYS[..600]);
    let ran = workdir.trijet(&["trace", "--read", "other.sqlite"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("other.sqlite: the SQLite file cannot be read"), "{}", ran.err);
}

/// A step copies pageable memory in a function of Python, and computes in another one.
#[test]
fn remarks_have_the_functions_at_their_longest_times() {
    let workdir = Workdir::new();
    let event = |category: &str, name: &str, thread: u32, at: u32, length: u32, more: &str| {
        format!(
            r#"{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": 77, "tid": {thread},
            "ts": {at}, "dur": {length}, "args": {{{more}}}}}"#
        )
    };
    let place = r#""device": 0, "context": 1, "stream": 7, "correlation": "#;
    let events = [
        event("python_function", "train.py(60): main\\u001b[2J", 5, 0, 3000, ""),
        event("python_function", "train.py(31): load", 5, 90, 100, ""),
        event("python_function", "train.py(40): compute", 5, 200, 900, ""),
        event("cuda_runtime", "cudaMemcpyAsync", 5, 100, 20, r#""correlation": 1"#),
        event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 7, 300, 500, &format!("{place}1")),
        event("cuda_runtime", "cudaLaunchKernel", 5, 210, 20, r#""correlation": 2"#),
        event("kernel", "gemm", 7, 900, 900, &format!("{place}2")),
    ];
    let file = format!(
        r#"{{"baseTimeNanoseconds": 1767189312000000000, "traceEvents": [{}]}}"#,
        events.join(",")
    );
    workdir.file("stacks.json", file.as_bytes());
    let text = workdir.trijet(&["trace", "--read", "stacks.json"]).done();
    let line = "PERF/PAGEABLE (process 77, device 0): train.py(31): load < train.py(60): main?[2J";
    assert!(text.contains(line), "{text}");
    let json = workdir.trijet(&["trace", "--read", "stacks.json", "--json"]).done();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let findings = json["processes"][0]["devices"][0]["findings"].as_array().unwrap();
    let pageable = findings.iter().find(|one| one["key"] == "PERF/PAGEABLE").unwrap();
    assert_eq!(pageable["sources"].as_array().unwrap().len(), 1, "{json}");
}

/// Two ranks in files of two clocks, whose ten collectives end at the same time: rank 1 begins each
/// 300 us later.
#[test]
fn ranks_in_several_files_are_compared_on_one_clock() {
    let workdir = Workdir::new();
    let file = |rank: u32, clock: u64, late: u64| {
        let event = |number: u64| {
            let (begin, length) = (clock + 1000 * number + late, 500 - late + number % 3);
            let args = r#""args": {"device": 0, "context": 1, "stream": 20}"#;
            format!(
                r#"{{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                "pid": 0, "tid": 20, "ts": {begin}, "dur": {length}, {args}}},
                {{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7,
                "ts": {}, "dur": 300, "args": {{"device": 0, "context": 1, "stream": 7}}}}"#,
                clock + 1000 * number + 600
            )
        };
        let events: Vec<String> = (0..10).map(event).collect();
        let events = events.join(",");
        format!(r#"{{"distributedInfo": {{"rank": {rank}}}, "traceEvents": [{events}]}}"#)
    };
    workdir.file("rank0.json", file(0, 5_000, 0).as_bytes());
    workdir.file("rank1.json", file(1, 77_005_000, 300).as_bytes());
    let call = ["trace", "--whole", "--json", "--read", "rank0.json", "--read", "rank1.json"];
    let json: serde_json::Value = serde_json::from_str(&workdir.trijet(&call).done()).unwrap();
    let note = json["processes"][1]["notes"].to_string();
    for part in ["moved back by 77.000 s", "of 10 collectives", "within 0 ns"] {
        assert!(note.contains(part), "{note}");
    }
    let job = &json["jobs"][0];
    assert_eq!(job["collectives"], 10, "{json}");
    assert_eq!(job["ranks"][1]["last_in"], 10, "{job}");
    assert_eq!(job["ranks"][1]["late_ns"], 3_000_000, "{job}");
    // The file of both, as one trace, has the same ranks.
    let both = ["trace", "--read", "rank0.json", "--read", "rank1.json", "-o", "both.json"];
    workdir.trijet(&both).done();
    let call = ["trace", "--whole", "--json", "--read", "both.json"];
    let both: serde_json::Value = serde_json::from_str(&workdir.trijet(&call).done()).unwrap();
    assert_eq!(both["jobs"], json["jobs"]);
    // A file of another tool, without collectives.
    workdir.file("report.sqlite", NSYS);
    let mixed = ["trace", "--read", "rank0.json", "--read", "report.sqlite"];
    let text = workdir.trijet(&mixed).done();
    assert!(text.contains("the clock of file 2 was not compared with that of file 1"), "{text}");
}

/// The JSON of a trace tells the same as the trace, and the table has a row for each activity.
#[test]
fn a_saved_trace_is_written_for_other_tools() {
    let workdir = Workdir::new();
    workdir.file("run.trijet", &named());
    let report = |file: &str| -> serde_json::Value {
        let ran = workdir.trijet(&["trace", "--json", "--read", file]);
        serde_json::from_str(&ran.out).unwrap()
    };
    for output in ["run.json", "run.csv"] {
        let ran = workdir.trijet(&["trace", "--read", "run.trijet", "-o", output]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
    }
    let (own, other) = (report("run.trijet"), report("run.json"));
    let facts = |report: &serde_json::Value| {
        let process = &report["processes"][0];
        let device = &process["devices"][0];
        [&device["engines"], &device["kernels"], &device["steps"], &process["ranges"]]
            .map(Clone::clone)
    };
    assert_eq!(facts(&own), facts(&other));
    let table = String::from_utf8(fs::read(workdir.path("run.csv")).unwrap()).unwrap();
    let activities = own["processes"][0]["activities"].as_u64().unwrap();
    assert_eq!(table.lines().count() as u64, activities + 1, "{table}");
}

/// Runs `trijet trace` without a driver.
fn trace(workdir: &Workdir, options: &[&str], program: &[&str]) -> Ran {
    let call = [&["trace"], options, &["--"], program].concat();
    workdir.trijet(&call)
}

#[test]
fn exit_status_and_output_are_those_of_the_program() {
    let workdir = Workdir::new();
    for code in [1, 7, 255] {
        let ran =
            trace(&workdir, &[], &["sh", "-c", &format!("echo out; echo err >&2; exit {code}")]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(code), "out\n"), "{ran:?}");
        assert!(ran.err.starts_with("err\n"), "{ran:?}");
    }
    let killed = trace(&workdir, &[], &["sh", "-c", "kill -TERM $$"]);
    assert_eq!(killed.code, Some(128 + 15), "{killed:?}");
}

#[test]
fn without_a_driver_nothing_is_traced_and_the_reason_is_printed() {
    let workdir = Workdir::new();
    let ran = trace(&workdir, &["-o", "kept.trijet"], &["true"]);
    assert_eq!(ran.code, Some(1), "nothing was traced");
    assert!(!workdir.exists("kept.trijet"));
    assert!(ran.err.contains("nothing was traced: there is no CUDA driver"), "{}", ran.err);
    assert!(ran.err.contains("libcuda.so.1"), "{}", ran.err);
    let ran = trace(&workdir, &["--json"], &["true"]);
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert!(json["missing"].as_str().unwrap().contains("no CUDA driver"), "{json}");
    assert_eq!(json["processes"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_program_that_cannot_be_started_is_an_error_as_in_a_shell() {
    let workdir = Workdir::new();
    trace(&workdir, &[], &["no-such-program"]).refused(127, &["no-such-program"]);
    workdir.file("plain", b"no program");
    trace(&workdir, &[], &["./plain"]).refused(126, &["./plain"]);
}

#[test]
fn a_second_tool_is_refused_before_the_program_runs() {
    let workdir = Workdir::new();
    let mut command = workdir.command(&["trace", "--", "touch", "ran"]);
    let ran = Ran::from(command.env("CUDA_INJECTION64_PATH", "other.so").output().unwrap());
    ran.refused(1, &["CUDA_INJECTION64_PATH", "another tool"]);
    assert!(!workdir.exists("ran"));
}

#[test]
fn exactly_one_of_a_program_and_a_trace_file_is_needed() {
    let workdir = Workdir::new();
    workdir.trijet(&["trace"]).refused(2, &["COMMAND"]);
    workdir.trijet(&["trace", "--read", "a", "--", "true"]).refused(2, &["--read"]);
    workdir.trijet(&["trace", "--read", "a", "-o", "b"]).refused(2, &["b: ", ".html"]);
    workdir.trijet(&["trace", "--from", "1s", "--", "true"]).refused(2, &["--output"]);
    workdir.trijet(&["trace", "-o", "b", "--from", "1s", "--", "true"]).refused(2, &["--from"]);
}

/// The empty driver loads the tracing library as a real one does. CUPTI is a missing file, or a
/// library without the symbols of CUPTI.
#[test]
fn without_cupti_the_trace_has_the_reason() {
    let workdir = Workdir::new();
    let program = env!("CARGO_BIN_EXE_trijet");
    for (cupti, words) in
        [("/nonexistent/libcupti.so", "/nonexistent/libcupti.so"), ("libm.so.6", "no `cupti")]
    {
        let mut command = workdir.command(&["trace", "--", program, "devices"]);
        command.env("TRIJET_LIBCUDA", empty_driver()).env("TRIJET_LIBCUPTI", cupti);
        let ran = Ran::from(command.output().unwrap());
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.out.contains("empty driver"), "the program ran: {}", ran.out);
        assert!(ran.err.contains("nothing was traced") && ran.err.contains(words), "{}", ran.err);
    }
}

#[test]
fn a_damaged_trace_is_refused_with_the_position_of_the_damage() {
    let workdir = Workdir::new();
    let read = ["trace", "--read", "kept.trijet"];
    workdir.trijet(&read).refused(1, &["kept.trijet", "No such file"]);
    workdir.file("kept.trijet", b"\x93NUMPY, which is something else");
    workdir.trijet(&read).refused(1, &["kept.trijet", "byte 0", "not a trace"]);
    let mut file = Vec::new();
    trijet::trace::process_file::header(&mut file, 1, 130_001, trijet::Nanos(5));
    file.extend([99, 0, 0, 0]);
    fs::write(workdir.path("kept.trijet"), &file).unwrap();
    workdir.trijet(&read).refused(1, &["kept.trijet", "byte 40", "kind 99"]);
    fs::write(workdir.path("kept.trijet"), b"").unwrap();
    workdir.trijet(&read).refused(1, &["kept.trijet", "empty"]);
}

/// The trace of a program that loads for 6 s and then makes 100 steps: an upload, two kernels of
/// 1.5 ms, and 1 ms on the host.
pub(crate) fn training() -> Vec<u8> {
    let mut file = Vec::new();
    process_file::header(&mut file, 7, 130_001, Nanos(1));
    process_file::command(&mut file, "python3 train.py");
    for (id, name) in (0..).zip(["init", "forward", "backward"]) {
        process_file::name(&mut file, NameId(id), name.as_bytes());
    }
    let (from, to) = (MemoryKind::Pinned, MemoryKind::Device);
    let upload = ActivityKind::Copy { direction: CopyDirection::Upload, from, to };
    let mut count = 0;
    let mut add = |kind, name: Option<u32>, begin_us: u64, took_us: u64| {
        let one = Activity {
            kind,
            begin: Nanos((1 + begin_us) * 1000),
            end: Nanos((1 + begin_us + took_us) * 1000),
            bytes: if name.is_none() { 1 << 20 } else { 0 },
            name: name.map(NameId),
            device: 0,
            context: 1,
            stream: 7,
            thread: 1,
            correlation: 0,
            node: None,
        };
        process_file::activity(&mut file, &one);
        count += 1;
    };
    add(ActivityKind::Kernel, Some(0), 0, 10);
    for begin in (0..100).map(|step| 6_000_000 + step * 4100) {
        add(upload, None, begin, 100);
        add(ActivityKind::Kernel, Some(1), begin + 100, 1500);
        add(ActivityKind::Kernel, Some(2), begin + 1600, 1500);
    }
    let at = Nanos(6_500_000_000);
    process_file::end(&mut file, &End { activities: count, at, ..End::default() });
    file
}

/// The trace of a program that names its 10 steps. A step launches a kernel of its own name.
pub(crate) fn named() -> Vec<u8> {
    let mut file = Vec::new();
    process_file::header(&mut file, 7, 130_001, Nanos(1));
    process_file::name(&mut file, NameId(0), b"cudaLaunchKernel");
    for step in 0..10 {
        process_file::name(&mut file, NameId(1 + 2 * step), format!("step {step}").as_bytes());
        process_file::name(&mut file, NameId(2 + 2 * step), format!("k{step}").as_bytes());
    }
    let mut count = 0;
    let mut add = |kind, name: Option<u32>, begin_us: u64, end_us: u64, correlation| {
        let one = Activity {
            kind,
            begin: Nanos(begin_us * 1000),
            end: Nanos(end_us * 1000),
            bytes: 0,
            name: name.map(NameId),
            device: 0,
            context: 1,
            stream: 7,
            thread: 1,
            correlation,
            node: None,
        };
        process_file::activity(&mut file, &one);
        count += 1;
    };
    for step in 0..10_u32 {
        let (at, name) = (100 + 100 * u64::from(step), 1 + 2 * step);
        add(ActivityKind::Mark(MarkKind::Start), Some(name), at, at, step);
        add(ActivityKind::Call(Api::Runtime), Some(0), at + 1, at + 5, 100 + step);
        add(ActivityKind::Kernel, Some(name + 1), at + 10, at + 80, 100 + step);
        add(ActivityKind::Mark(MarkKind::End), None, at + 90, at + 90, step);
    }
    let at = Nanos(2_000_000);
    process_file::end(&mut file, &End { activities: count, at, ..End::default() });
    file
}

/// The ranges that a profiler of NVTX sees in a run of `trijet` with these arguments.
fn seen(workdir: &Workdir, arguments: &[&str]) -> Vec<String> {
    let mut command = workdir.command(arguments);
    command.env("NVTX_INJECTION64_PATH", library("libempty_cupti.so"));
    command.env("EMPTY_CUPTI_RANGES", workdir.path("ranges"));
    Ran::from(command.output().unwrap()).done();
    let ranges = String::from_utf8(workdir.read("ranges")).unwrap();
    fs::remove_file(workdir.path("ranges")).unwrap();
    ranges.lines().map(str::to_owned).collect()
}

#[test]
fn a_profiler_that_listens_gets_a_range_for_each_chunk() {
    let workdir = Workdir::new();
    workdir.trijet(&["sample", "in.npy", "--images", "4"]).done();
    let map = ["map", "in.npy", "-o", "out.npy", "--op", "median:3", "--device", "host"];
    let ranges = seen(&workdir, &[&map[..], &["--chunk", "512KiB"]].concat());
    assert_eq!(ranges[..2], ["push trijet: chunk 0", "pop"]);
    assert_eq!(ranges.iter().filter(|one| one.starts_with("push trijet: chunk")).count(), 4);
    assert_eq!(ranges.len(), 8, "each range ends: {ranges:?}");
}

#[test]
fn a_library_that_does_not_listen_changes_nothing() {
    let workdir = Workdir::new();
    workdir.trijet(&["sample", "in.npy", "--images", "1"]).done();
    for library in ["libm.so.6", "/nonexistent/library.so"] {
        let map = ["map", "in.npy", "-o", "out.npy", "--op", "median:3", "--device", "host"];
        let mut command = workdir.command(&[&map[..], &["--overwrite"]].concat());
        Ran::from(command.env("NVTX_INJECTION64_PATH", library).output().unwrap()).done();
    }
}

#[test]
fn a_program_that_names_its_steps_has_these_steps() {
    let workdir = Workdir::new();
    workdir.file("run.trijet", &named());
    let text = workdir.trijet(&["trace", "--read", "run.trijet"]).done();
    for words in [
        "10 steps in 970.00 us",
        "a step is the range step #, with one kernel from k0",
        "named ranges (NVTX) of the whole run",
        "       900.00 us   700.00 us        10  step #",
        "all 10 kernels are in stream 7",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    workdir.trijet(&["trace", "--read", "run.trijet", "-o", "run.html"]).done();
    let page = String::from_utf8(workdir.read("run.html")).unwrap();
    assert!(page.contains("Named ranges of process 7") && page.contains("ranges 1"));
}

#[test]
fn the_figures_are_those_of_the_steps_and_with_whole_those_of_the_run() {
    let workdir = Workdir::new();
    workdir.file("run.trijet", &training());
    let steps = workdir.trijet(&["trace", "--read", "run.trijet"]).done();
    for words in [
        "100 steps in 408.90 ms",
        "time per step: median 4.10 ms",
        "a step is 2 kernels from forward",
        "start: 6.000 s before the first step",
        "nothing on the device limits",
        "fix: enqueue earlier",
    ] {
        assert!(steps.contains(words), "{words}: {steps}");
    }
    let whole = workdir.trijet(&["trace", "--read", "run.trijet", "--whole"]).done();
    assert!(whole.contains("6.409 s from the first operation"), "{whole}");
    workdir.trijet(&["trace", "--read", "run.trijet", "-o", "run.html"]).done();
    let page = String::from_utf8(workdir.read("run.html")).unwrap();
    assert!(page.contains("100 steps in 408.90 ms") && page.contains("start: 6.000 s"));
    // The verdict has these words too, but no bar is marked with them.
    let bars = page.replace("nothing on the device limits the run", "");
    assert!(!bars.contains("limits the run"), "no engine is busy enough");
    // Page and terminal show the same share.
    assert!(steps.contains("   73.4 %") && page.contains("73.4 %</li>"), "{steps}");
}

/// The trace ends 6.409 s after its start.
#[test]
fn a_time_outside_of_the_trace_or_in_the_wrong_order_is_wrong_usage() {
    let workdir = Workdir::new();
    workdir.file("run.trijet", &training());
    for (times, words) in [
        (["--from", "7s"].as_slice(), "--from 7s is outside"),
        (&["--from", "6.409s"], "--from 6.409s is outside"),
        (&["--to", "6.409000001s"], "--to 6.409000001s is outside"),
        (&["--to", "0s"], "--to 0s is outside"),
        (&["--from", "2s", "--to", "1s"], "--from 2s is not before --to 1s"),
        (&["--from", "2s", "--to", "2s"], "--from 2s is not before --to 2s"),
    ] {
        let call = [&["trace", "--read", "run.trijet", "-o", "part.html"], times].concat();
        workdir.trijet(&call).refused(2, &[words, "from 0s to 6.409s"]);
        assert!(!workdir.exists("part.html"), "{words}");
    }
    let call =
        ["trace", "--read", "run.trijet", "-o", "part.html", "--from", "6s", "--to", "6.409s"];
    workdir.trijet(&call).done();
    let wrong = ["-o", "other.html", "--from", "2s", "--to", "1s"];
    trace(&workdir, &wrong, &["touch", "ran"]).refused(2, &["--from 2s is not before --to 1s"]);
    assert!(!workdir.exists("ran"), "refused before the program runs");
}

#[test]
fn what_follows_the_end_of_a_trace_is_reported() {
    let workdir = Workdir::new();
    let whole = training();
    workdir.file("run.trijet", &[whole.as_slice(), b"garbage"].concat());
    let cut = format!("truncate --size={}", whole.len());
    let words = ["run.trijet", "after the end of its trace", cut.as_str()];
    workdir.trijet(&["trace", "--read", "run.trijet"]).refused(1, &words);
}
