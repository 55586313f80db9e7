//! `--against` and `--fail-if`: a run is compared with an earlier one.

use crate::trace::NSYS;
use crate::workdir::{Ran, Workdir};
use serde_json::{Value, json};
use trijet::trace::file::{About, Reader, Writer};

/// A trace by PyTorch's profiler with ten steps. Each has a copy from page-locked memory and a
/// kernel, whose lengths are in microseconds.
pub(crate) fn trace(step: u64, kernel: u64, name: &str) -> String {
    let of_step = |number: u64| {
        // The first steps take a little longer, so that the times have a spread.
        let at = 10_000 + number * step + number.min(3) * 10;
        let place = format!(r#""device": 0, "context": 1, "stream": 7, "correlation": {number}"#);
        format!(
            r#"{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{number}", "ts": {at},
            "dur": {}, "pid": 77, "tid": 1}},
            {{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": {}, "dur": 5,
            "pid": 77, "tid": 1, "args": {{"correlation": {number}}}}},
            {{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "ts": {},
            "dur": 50, "pid": 0, "tid": 7, "args": {{{place}, "bytes": 4096}}}},
            {{"ph": "X", "cat": "kernel", "name": "{name}", "ts": {}, "dur": {kernel}, "pid": 0,
            "tid": 7, "args": {{{place}}}}}"#,
            step - 20,
            at + 1,
            at + 10,
            at + 70,
        )
    };
    let events: Vec<String> = (0..10).map(of_step).collect();
    let main = r#"{"ph": "X", "cat": "python_function", "name": "train.py(1): main", "pid": 77,
        "tid": 1, "ts": 0, "dur": 99999}"#;
    format!(r#"{{"traceEvents": [{main}, {}]}}"#, events.join(","))
}

/// A folder with a run whose steps take a tenth longer than those of its base.
fn workdir() -> Workdir {
    let workdir = Workdir::new();
    workdir.file("base.json", trace(1000, 800, "scale").as_bytes());
    workdir.file("slow.json", trace(1100, 900, "scale").as_bytes());
    workdir
}

fn compared(workdir: &Workdir, file: &str, base: &str, conditions: &[&str]) -> Ran {
    let conditions = conditions.iter().flat_map(|one| ["--fail-if", one]);
    let call: Vec<_> =
        ["trace", "--read", file, "--against", base].into_iter().chain(conditions).collect();
    workdir.trijet(&call)
}

#[test]
fn a_run_that_takes_longer_fails_its_condition() {
    let workdir = workdir();
    let ran = compared(&workdir, "slow.json", "base.json", &["step > +3 %", "copies > +0 %"]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    for part in [
        "against base.json",
        "for each step",
        "1.00 ms before, 1.10 ms now, +10.0 %; beyond the spread",
        "step > +3 %: FAILED (1.00 ms before, 1.10 ms now, +10.0 %)",
        "copies > +0 %: passed",
        "+100.00 us  1.0 -> 1.0 x  scale",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    let ran = compared(&workdir, "base.json", "slow.json", &["step > +3 %", "kernel scale > +0 %"]);
    assert_eq!(ran.code, Some(0), "a faster run passes: {}", ran.out);
    let ran = compared(&workdir, "slow.json", "base.json", &["kernel scale > +12 %"]);
    assert_eq!(ran.code, Some(1), "{}", ran.out);
    let ran = compared(&workdir, "slow.json", "base.json", &["kernel scale > +13 %", "idle > 1 s"]);
    assert_eq!(ran.code, Some(0), "{}", ran.out);
}

/// Each metric has its own figure. A step is a kernel of 800 or 900 us, and nine of the ten steps have
/// the copy of 50 us before the next one.
#[test]
fn each_metric_of_a_trace_is_the_time_that_it_names() {
    let workdir = workdir();
    for (condition, figures) in [
        ("copies > 40 us", "(45.00 us before, 45.00 us now, +0.0 %)"),
        ("kernels > +12 %", "(800.00 us before, 900.00 us now, +12.5 %)"),
        ("idle > +1 %", "now, "),
    ] {
        let ran = compared(&workdir, "slow.json", "base.json", &[condition]);
        let line = ran.out.lines().find(|line| line.contains(condition)).expect("its answer");
        assert!(line.contains("FAILED (") == (condition != "idle > +1 %"), "{line}");
        assert!(line.contains(figures), "{line}");
    }
    // The gaps between a copy, a kernel and the next step.
    let ran = compared(&workdir, "slow.json", "base.json", &["idle > 100 us", "idle > 200 us"]);
    assert!(ran.out.contains("idle > 100 us: FAILED"), "{}", ran.out);
    assert!(ran.out.contains("idle > 200 us: passed"), "{}", ran.out);
}

/// A run that does not have a kernel does not tell its time: the kernel may have another name. A
/// report without a list tells nothing about it.
#[test]
fn what_a_run_does_not_have_passes_no_condition() {
    let workdir = workdir();
    workdir.file("renamed.json", trace(1000, 2000, "other").as_bytes());
    let open = |ran: Ran| {
        assert_eq!(ran.code, Some(1), "{}", ran.out);
        assert!(ran.out.contains("FAILED, because it cannot be answered"), "{}", ran.out);
    };
    open(compared(&workdir, "renamed.json", "base.json", &["kernel scale > +5 %"]));
    let bare = r#"{ "command": "trace", "processes": [{"process": 1, "devices": [
        {"device": 0, "figures_of": "whole"}]}]}"#;
    workdir.file("bare.json", bare.as_bytes());
    for condition in ["kernels < -10 %", "copies < -10 us", "idle < -5 us", "findings > +0"] {
        let call = ["trace", "--whole", "--read", "base.json", "--against", "bare.json"];
        open(workdir.trijet(&[&call[..], &["--fail-if", condition]].concat()));
    }
}

/// The base lost rank 0, and the new run has lost rank 2.
#[test]
fn devices_are_paired_by_their_ranks() {
    let workdir = Workdir::new();
    let report = |ranks: [u64; 2]| {
        let process = |rank: u64| {
            json!({ "process": rank, "rank": rank, "devices": [{ "device": 0, "figures_of": "whole",
                "idle": { "total_ns": 1000 * (rank + 1) } }] })
        };
        json!({ "command": "trace", "processes": ranks.map(process) })
    };
    let base = serde_json::to_string_pretty(&report([1, 2])).unwrap();
    workdir.file("base.json", base.replacen('{', "{ \"command\": \"trace\",", 1).as_bytes());
    for rank in [0, 1] {
        let ranked = format!(r#"{{"distributedInfo": {{"rank": {rank}}},"#);
        let of_rank = trace(1000, 800, "scale").replacen('{', &ranked, 1);
        workdir.file(&format!("rank{rank}.json"), of_rank.as_bytes());
    }
    let call = ["trace", "--whole", "--read", "rank0.json", "--read", "rank1.json"];
    let ran = workdir.trijet(&[&call[..], &["--against", "base.json"]].concat());
    for part in [
        "rank 0 device 0: nothing to compare it with",
        "rank 2 device 0 of the base: nothing to compare it with",
        "idle      2.00 us before",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
}

/// The document of a report has what a trace has.
#[test]
fn the_base_may_be_a_saved_report() {
    let workdir = workdir();
    let report = workdir.trijet(&["trace", "--json", "--read", "base.json"]).out;
    workdir.file("report.json", report.as_bytes());
    let of = |base: &str| -> Value {
        let call = ["trace", "--json", "--read", "slow.json", "--against", base];
        let mut json: Value = serde_json::from_str(&workdir.trijet(&call).out).unwrap();
        json["against"]["devices"].take()
    };
    let from_trace = of("base.json");
    assert_eq!(from_trace[0]["step"]["change_percent"].as_f64().unwrap().round(), 10.0);
    assert_eq!(from_trace, of("report.json"));
}

/// A difference within the spread of the steps of one run may be chance.
#[test]
fn a_difference_within_the_spread_is_called_that() {
    let workdir = workdir();
    workdir.file("close.json", trace(1005, 800, "scale").as_bytes());
    let ran = compared(&workdir, "close.json", "base.json", &["step > +3 %"]);
    assert_eq!(ran.code, Some(0), "{}", ran.out);
    assert!(ran.out.contains("+0.5 %; within the spread"), "{}", ran.out);
}

#[test]
fn a_condition_that_cannot_be_answered_fails() {
    let workdir = workdir();
    let ran = compared(&workdir, "slow.json", "base.json", &["kernel other > +0 %"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("kernel other > +0 %: FAILED, because it cannot be answered"));
    // The export has two devices, and the base has one.
    workdir.file("report.sqlite", NSYS);
    let ran = compared(&workdir, "report.sqlite", "base.json", &["step > +900 %"]);
    assert_eq!(ran.code, Some(1), "{}", ran.out);
    assert!(ran.out.contains("process 78 device 0: nothing to compare it with"), "{}", ran.out);
    let ran =
        compared(&workdir, "report.sqlite", "report.sqlite", &["step > +0 %", "findings > +0"]);
    assert_eq!(ran.code, Some(0), "{}", ran.out);
}

#[test]
fn new_remarks_and_names_that_are_gone_are_listed_without_characters_that_terminals_obey() {
    let workdir = workdir();
    workdir.file("renamed.json", trace(1000, 800, "other\\u001b[31m").as_bytes());
    workdir.file("busy.json", trace(880, 810, "scale").as_bytes());
    let ran = compared(&workdir, "renamed.json", "base.json", &[]);
    assert!(ran.out.contains("1.0 -> 0.0 x  scale") && !ran.out.contains('\u{1b}'), "{}", ran.out);
    let hostile = r#"{ "command": "trace", "processes": [{"process": "\u001b[2J", "devices": [
        {"device": 0, "figures_of": "whole", "kernels": [{"name": "k\u001b[2J", "total_ns": 1}],
        "findings": [{"key": "\u001b[2J", "title": "\u001b[2J", "cost_ns": 1}]}]}]}"#;
    workdir.file("hostile.json", hostile.as_bytes());
    let call = ["trace", "--whole", "--read", "base.json", "--against", "hostile.json"];
    let ran = workdir.trijet(&call);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("gone: ?[2J") && !ran.out.contains('\u{1b}'), "{}", ran.out);
}

#[test]
fn a_wrong_condition_or_base_is_refused_by_its_word() {
    let workdir = workdir();
    let refused = |condition, words| {
        compared(&workdir, "slow.json", "base.json", &[condition]).refused(2, &[words]);
    };
    refused("stpe > +3 %", "`stpe` is no metric");
    refused("step > 3 %", "`3 %` needs a sign");
    workdir.trijet(&["trace", "--read", "a", "--fail-if", "step > 1 s"]).refused(2, &["--against"]);
    compared(&workdir, "slow.json", "none.json", &[]).refused(1, &["none.json"]);
    workdir.file("half.json", b"{ \"command\": \"trace\", ");
    compared(&workdir, "slow.json", "half.json", &[]).refused(1, &["half.json"]);
}

/// Without a GPU: the ledgers of runs on a host device, with chunks of two sizes.
#[test]
fn ledgers_are_compared_by_findings_operations_waits_and_bytes() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "<u2", &[8, 64, 64], &[1; 8 * 64 * 64 * 2]);
    for (ledger, chunk) in [("base.ledger", "16KiB"), ("small.ledger", "8KiB")] {
        let call = ["in.npy", "--op", "median", "--chunk", chunk, "--trace", ledger, "--check"];
        let output = ["-o", "out.npy", "--overwrite"];
        let ran = workdir.map(&[&call[..], &output].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.err);
    }
    let check = |file: &str, conditions: &[&str]| {
        let conditions = conditions.iter().flat_map(|one| ["--fail-if", one]);
        let call = ["check", file, "--against", "base.ledger"];
        workdir.trijet(&call.into_iter().chain(conditions).collect::<Vec<_>>())
    };
    let same = check("base.ledger", &["operations > +0", "waits > +0", "findings > 0"]);
    assert_eq!(same.code, Some(0), "{}", same.out);
    let more = check("small.ledger", &["bytes > +0 %", "operations > +50 %"]);
    assert_eq!(more.code, Some(1), "{}", more.out);
    for part in ["bytes > +0 %: passed", "operations > +50 %: FAILED", "    copy: "] {
        assert!(more.out.contains(part), "{part}: {}", more.out);
    }
    let call = ["check", "--json", "small.ledger", "--against", "base.ledger"];
    let json: Value = serde_json::from_str(&workdir.trijet(&call).out).unwrap();
    let against = &json["against"];
    assert!(against["operations"]["now"].as_f64() > against["operations"]["base"].as_f64());
    assert_eq!((&against["new_findings"], &against["failed"]), (&json!([]), &json!(false)));
    let some = check("small.ledger", &["waits > 0", "bytes > 1 KiB"]);
    for part in ["waits > 0: FAILED", "bytes > 1 KiB: FAILED"] {
        assert!(some.out.contains(part), "{part}: {}", some.out);
    }
    // A ledger that lacks entries: its counts are those of a part of the run.
    let bytes = workdir.read("base.ledger");
    let reader = Reader::new(bytes.as_slice()).unwrap();
    let about = About { dropped: 1, ..reader.about().clone() };
    let mut writer = Writer::new(Vec::new(), &about).unwrap();
    for op in reader {
        writer.push(&op.unwrap()).unwrap();
    }
    workdir.file("part.ledger", &writer.finish().unwrap());
    let part = check("part.ledger", &["waits > +0"]);
    assert!(part.out.contains("FAILED, because it cannot be answered"), "{}", part.out);
}

/// Smaller chunks need less memory, and there are more of them.
#[test]
fn plans_are_compared_by_chunks_memory_and_bytes() {
    let workdir = Workdir::new();
    workdir.file("in.raw", &vec![1; 4096 * 4096]);
    let job =
        ["in.raw", "--shape", "4096x4096", "--dtype", "u8", "--op", "affine", "-o", "out.raw"];
    let plan =
        |options: &[&str]| workdir.trijet(&[&["map"], &job[..], &["--plan"], options].concat());
    let base = plan(&["--json"]);
    workdir.file("base.json", base.out.as_bytes());
    let same = plan(&["--against", "base.json", "--fail-if", "device > +0 B"]);
    assert_eq!(same.code, Some(0), "{}", same.err);
    assert!(same.out.contains("all figures are equal"), "{}", same.out);
    assert!(same.out.contains("device > +0 B: passed"), "{}", same.out);
    let less = ["--chunk", "128", "--against", "base.json", "--json"];
    let more = ["--fail-if", "chunks > +0 %", "--fail-if", "pinned > +0 B"];
    let less = plan(&[&less[..], &more].concat());
    assert_eq!(less.code, Some(1), "{}", less.err);
    let against = &serde_json::from_str::<Value>(&less.out).unwrap()["against"];
    let figure = |name: &str| [&against[name]["base"], &against[name]["now"]].map(Value::as_f64);
    assert!(figure("chunks")[0] < figure("chunks")[1], "{against}");
    assert!(figure("pinned")[0] > figure("pinned")[1], "{against}");
    let holds = |at: usize| &against["conditions"][at]["holds"];
    assert_eq!([holds(0), holds(1)], [&json!(true), &json!(false)]);
    workdir.file("other.json", b"{\"command\": \"map\"}");
    let wrong = plan(&["--against", "other.json"]);
    assert_eq!(wrong.code, Some(1));
    assert!(
        wrong.err.contains("other.json is no plan of `trijet map --plan --json`"),
        "{}",
        wrong.err
    );
    workdir.file("other.json", b"{\"command\": \"map\"");
    let cut = plan(&["--against", "other.json"]);
    assert!(cut.err.contains("EOF while parsing"), "{}", cut.err);
    let word = plan(&["--against", "base.json", "--fail-if", "waits > +0"]);
    assert!(word.err.contains("`waits` is no metric; the metrics are chunks"), "{}", word.err);
}

/// Records that CUPTI lost, or activities beyond the limit of the reader, may be of any kernel.
#[test]
fn a_run_with_lost_records_passes_no_condition() {
    let workdir = workdir();
    let report = workdir.trijet(&["trace", "--read", "base.json", "--json"]).out;
    let mut report: Value = serde_json::from_str(&report).unwrap();
    for lost in ["activities_left_out", "dropped_activities"] {
        let process = &mut report["processes"][0];
        process["activities_left_out"] = json!(0);
        process["dropped_activities"] = json!(0);
        process[lost] = json!(1);
        let text = report.to_string().replacen('{', "{ \"command\": \"trace\",", 1);
        workdir.file("lost.json", text.as_bytes());
        let conditions = ["step > +90 %", "kernels > +90 %", "findings > +9", "kernel scale > 1 s"];
        let ran = compared(&workdir, "base.json", "lost.json", &conditions);
        assert_eq!(ran.code, Some(1), "{lost}: {}", ran.err);
        assert!(ran.out.contains("records of a run were lost"), "{lost}: {}", ran.out);
        let unanswered = ran.out.matches("FAILED, because it cannot be answered").count();
        assert_eq!(unanswered, conditions.len(), "{lost}: {}", ran.out);
    }
}
