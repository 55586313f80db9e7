//! The documents of `--json` are those of docs/json.md.

use crate::against;
use crate::built::{empty_driver, library};
use crate::doctor;
use crate::tables::{Reader, is_of_benchmarks};
use crate::workdir::{Images, Ran, Workdir, bytes_of, noise, numbers_of};
use serde_json::Value;
use std::path::Path;
use trijet::Nanos;
use trijet::trace::activity::{
    Activity, ActivityKind, End, EnvironmentSample, GraphEdge, GraphNode, GraphNodeId, NameId,
    SampleOf,
};
use trijet::trace::process_file;

fn stack(workdir: &Workdir) {
    let pixels = numbers_of(&noise(64 * 64 * 2 * 8, 3));
    workdir.npy("in.npy", "<u2", &[8, 64, 64], &bytes_of(&pixels));
}

fn maps(reader: &mut Reader, workdir: &Workdir) {
    let run = |args: &[&str]| {
        let call = ["in.npy", "--json", "--op", "median"];
        workdir.map(&[&call[..], args].concat())
    };
    reader.document("map", &run(&["-o", "a.npy", "--check", "--trace", "a.ledger"]));
    reader.document("map", &run(&["-o", "c.npy", "--shard", "0/2", "--chunk", "8KiB"]));
    reader.document("map --claim", &run(&["-o", "e.npy", "--claim", "--check"]));
    states(reader, workdir);
    // Thousands of chunks: the calls cost more than the work, which is worth advice. On a machine
    // that is busy otherwise, something else may limit a run, so the job runs until advice is given.
    workdir.file("small.raw", &vec![1; 4000 * 16]);
    let rows = ["small.raw", "--shape", "4000x16", "--dtype", "u8", "--op", "affine", "--json"];
    let mut runs = (0..50).map(|_| {
        let call = ["--chunk", "16", "-o", "d.raw", "--overwrite"];
        workdir.map(&[&rows[..], &call].concat())
    });
    let has_advice = |ran: &Ran| ran.out.contains("\"change\": \"larger_chunks\"");
    reader.document("map", &runs.find(has_advice).expect("a run of 50 has advice"));
    workdir.images("scans", [8, 8], &Images::U8(&[7; 128]));
    workdir.file("scans/1.png", b"no image");
    let skipping = ["scans", "-o", "scans-good", "--op", "median", "--skip-bad", "--json"];
    reader.document("map", &workdir.map(&skipping));
    reader.document("map --resume", &run(&["-o", "a.npy", "--resume"]));
    let plan = run(&["-o", "b.npy", "--plan"]);
    reader.document("map --plan", &plan);
    workdir.file("plan.json", plan.out.as_bytes());
    let again = ["-o", "b.npy", "--plan", "--against", "plan.json", "--fail-if", "chunks > +0"];
    reader.document("map --plan", &run(&again));
}

/// The states of a job in shards, and of a job with claims whose process has failed.
fn states(reader: &mut Reader, workdir: &Workdir) {
    let status = |out: &str| workdir.trijet(&["status", out, "--json"]);
    reader.document("status", &status("c.npy"));
    let call = ["map", "in.npy", "-o", "f.npy", "--op", "median", "--claim", "--device", "host"];
    let mut command = workdir.command(&call);
    command.env("LD_PRELOAD", library("libfailing_files.so"));
    command.env("FAILING_FILES_ROOT", workdir.path(".").canonicalize().unwrap());
    command.env("FAILING_FILES_LOG", "/dev/null").env("FAILING_FILES_FAULT", "error=28");
    command.env("FAILING_FILES_AT", "write f.npy.partial");
    Ran::from(command.output().unwrap()).refused(1, &["no space left"]);
    reader.document("status", &status("f.npy"));
}

fn overlaps(reader: &mut Reader, workdir: &Workdir) {
    let run = |args: &[&str]| {
        let call = ["overlap", "in.npy", "--device", "host", "--json"];
        workdir.trijet(&[&call[..], args].concat())
    };
    reader.document("overlap", &run(&["--check", "--trace", "b.ledger"]));
    reader.document("overlap", &run(&["--chunk", "8KiB", "--depth", "2", "--times", "auto"]));
    let drop = ["--drop-wait", "1", "--chunk", "8KiB"];
    reader.document("overlap --drop-wait", &run(&[&drop[..], &["--trace", "c.ledger"]].concat()));
    let check = ["--check", "--overwrite"];
    reader.document("overlap --drop-wait", &run(&[&drop[..], &check].concat()));
    for ledger in ["a.ledger", "b.ledger", "c.ledger"] {
        for assume in ["documented", "driver-observed"] {
            let check = ["check", ledger, "--json", "--assume", assume];
            reader.document("check", &workdir.trijet(&check));
        }
    }
    let against = ["check", "a.ledger", "--json", "--against", "c.ledger"];
    let conditions = ["--fail-if", "waits > +900 %"];
    reader.document("check", &workdir.trijet(&[&against[..], &conditions].concat()));
}

/// The trace of two ranks. Rank 1 is late for each of ten collectives, and rank 0 has a kernel that
/// ends before it starts.
pub(crate) fn ranks() -> Vec<u8> {
    const NAMES: [&str; 2] = ["gemm", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(Args)"];
    let mut file = Vec::new();
    for rank in 0..2 {
        process_file::header(&mut file, 100 + rank, 130_001, Nanos(1));
        process_file::rank(&mut file, rank);
        for (id, name) in (0..).zip(NAMES) {
            process_file::name(&mut file, NameId(id), name.as_bytes());
        }
        let mut count = 0;
        let mut kernel = |name: u32, stream, begin_us: u64, end_us: u64| {
            count += 1;
            let one = Activity {
                kind: ActivityKind::Kernel,
                begin: Nanos((1000 + begin_us) * 1000),
                end: Nanos((1000 + end_us) * 1000),
                bytes: 0,
                name: Some(NameId(name)),
                device: 0,
                context: 1,
                stream,
                thread: 1,
                correlation: 0,
                node: None,
            };
            process_file::activity(&mut file, &one);
        };
        for step in (0..10).map(|step| step * 1000) {
            let computed = step + 300 + u64::from(rank) * 200;
            kernel(0, 7, step, computed);
            kernel(1, 13, computed + 2, step + 552);
        }
        if rank == 0 {
            kernel(0, 7, 20_010, 20_000);
        }
        let at = Nanos(30_000_000);
        process_file::end(&mut file, &End { activities: count, at, ..End::default() });
    }
    file
}

/// The trace of a launch of a graph on a device whose clock falls.
fn with_a_graph_and_samples() -> Vec<u8> {
    let at = |us: u64| Nanos((1000 + us) * 1000);
    let mut file = Vec::new();
    process_file::header(&mut file, 100, 130_001, at(0));
    process_file::name(&mut file, NameId(0), b"gemm");
    process_file::node(&mut file, GraphNodeId(0), &GraphNode { graph: 6, node: Some(1 << 32) });
    process_file::edge(&mut file, &GraphEdge { graph: 6, from: 1 << 32, to: (1 << 32) + 1 });
    let kernel = Activity {
        kind: ActivityKind::Kernel,
        begin: at(0),
        end: at(300),
        bytes: 0,
        name: Some(NameId(0)),
        device: 0,
        context: 1,
        stream: 7,
        thread: 1,
        correlation: 0,
        node: Some(GraphNodeId(0)),
    };
    process_file::activity(&mut file, &kernel);
    let clocks = |sm| SampleOf::Clocks { sm, memory: 2619, reasons: 4 };
    let samples = [
        (100, clocks(1980)),
        (200, clocks(1500)),
        (200, SampleOf::Temperature(60)),
        (200, SampleOf::Power { power: 500_000, limit: 700_000 }),
        (200, SampleOf::Fan(30)),
    ];
    for (us, of) in samples {
        process_file::sample(&mut file, &EnvironmentSample { device: 0, at: at(us), of });
    }
    process_file::end(&mut file, &End { activities: 1, at: at(400), ..End::default() });
    file
}

fn others(reader: &mut Reader, workdir: &Workdir) {
    reader.document("devices", &workdir.trijet(&["devices", "--json"]));
    let mut with_driver = workdir.command(&["devices", "--json"]);
    let ran = Ran::from(with_driver.env("TRIJET_LIBCUDA", empty_driver()).output().unwrap());
    reader.document("devices", &ran);
    reader.document("doctor", &doctor::examined());
    let text = "Action,Pointer,Size,Stream,Device\nallocate,1,4096,0,0\nfree,1,,0,0\nallocate,2,4096,0,1\n";
    workdir.file("a.csv", text.as_bytes());
    let replay = ["replay", "a.csv", "--device", "host", "--json", "--check", "--limit", "20MiB"];
    reader.document("replay", &workdir.trijet(&replay));
    for name in ["race", "torch-kernel"] {
        let golden = format!("trijet-calls/tests/golden/{name}.calls");
        let calls = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(golden);
        let check = ["check", "--json", calls.to_str().unwrap()];
        reader.document("check -- PROGRAM", &workdir.trijet(&check));
        let write = ["--write-baseline", "baseline.json", "--overwrite"];
        workdir.trijet(&[&check[..], &write].concat());
        let accepted = [&check[..], &["--baseline", "baseline.json"]].concat();
        reader.document("check -- PROGRAM", &workdir.trijet(&accepted));
    }
    for name in [&[][..], &["one-stream", "--device", "host"]] {
        reader.document("lesson", &workdir.trijet(&[&["lesson", "--json"], name].concat()));
    }
    reader.document("trace", &workdir.trijet(&["trace", "--json", "--", "true"]));
    workdir.file("run.trijet", &crate::trace::training());
    workdir.file("ranks.trijet", &ranks());
    workdir.file("named.trijet", &crate::trace::named());
    reader.document("trace", &workdir.trijet(&["trace", "--read", "named.trijet", "--json"]));
    reader.document("trace", &workdir.trijet(&["trace", "--read", "ranks.trijet", "--json"]));
    workdir.file("graph.trijet", &with_a_graph_and_samples());
    reader.document("trace", &workdir.trijet(&["trace", "--read", "graph.trijet", "--json"]));
    workdir.file("base.json", against::trace(1000, 800, "scale").as_bytes());
    workdir.file("slow.json", against::trace(1100, 900, "other").as_bytes());
    let compared = ["trace", "--read", "slow.json", "--json", "--against", "base.json"];
    let conditions = ["--fail-if", "step > +20 %", "--fail-if", "kernel scale > 0 ns"];
    reader.document("trace", &workdir.trijet(&[&compared[..], &conditions].concat()));
    for whole in [&[][..], &["--whole"]] {
        let read = ["trace", "--read", "run.trijet", "--json"];
        reader.document("trace", &workdir.trijet(&[&read[..], whole].concat()));
    }
}

#[test]
fn every_field_of_every_document_is_in_docs_json_md_and_is_printed() {
    let workdir = Workdir::new();
    stack(&workdir);
    let mut reader = Reader::new();
    maps(&mut reader, &workdir);
    overlaps(&mut reader, &workdir);
    others(&mut reader, &workdir);
    reader.demand_all(|section| !is_of_benchmarks(section));
}

#[test]
fn the_document_of_a_trace_has_the_figures_of_its_text() {
    let workdir = Workdir::new();
    workdir.file("run.trijet", &crate::trace::training());
    workdir.file("ranks.trijet", &ranks());
    let read = |name: &str| -> Value {
        serde_json::from_str(&workdir.trijet(&["trace", "--read", name, "--json"]).done()).unwrap()
    };
    let run = read("run.trijet");
    let device = &run["processes"][0]["devices"][0];
    assert_eq!((&device["figures_of"], &device["steps"]["count"]), (&"steps".into(), &100.into()));
    assert_eq!(device["steps"]["time_per_step"]["median_ns"], 4_100_000);
    assert_eq!((&device["limiting"], &device["lower_bound_ns"]), (&().into(), &300_000_000.into()));
    let lost = &device["lost"][0];
    assert_eq!(
        (&lost["cause"], &lost["time_ns"]),
        (&"idle_outside_of_cuda".into(), &99_000_000.into())
    );
    let shown = workdir.trijet(&["trace", "--read", "run.trijet"]).done();
    let findings = device["findings"].as_array().unwrap();
    assert!(findings.len() >= 2 && run["races"].is_string(), "{run:#}");
    for finding in findings {
        let line = shown.lines().find(|line| line.contains(finding["key"].as_str().unwrap()));
        let cost = Nanos(finding["cost_ns"].as_u64().unwrap()).to_string();
        assert!(line.is_some_and(|line| line.contains(&cost)), "{finding}\n{shown}");
    }
    let ranks = read("ranks.trijet");
    let found = &ranks["processes"][0]["contradicting_records"][0];
    assert_eq!((&found["key"], &found["count"]), (&"end".into(), &1.into()), "{ranks:#}");
    let rank = &ranks["jobs"][0]["ranks"][1];
    assert_eq!((&rank["rank"], &rank["awaited_ns"]), (&1.into(), &2_000_000.into()), "{ranks:#}");
    assert_eq!(ranks["jobs"][0]["by_name"][0]["exposed_ns"], 3_000_000);
}
