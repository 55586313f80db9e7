//! Every command line of the documents and of the help runs, and ends as the documents state.

use crate::workdir::{Images, Ran, Workdir};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use trijet::Nanos;
use trijet::trace::activity::{Activity, ActivityKind};
use trijet::trace::process_file;

/// The end of a command line that needs a thing that this machine may lack: the words of the line,
/// its exit status, and words of its error. All other lines succeed.
const OTHER_ENDS: &[(&str, i32, &str)] = &[
    // A user's own kernel runs on a GPU only.
    ("--kernel gain.cu", 1, "GPU"),
    ("--kernel blur.cu", 1, "GPU"),
    ("--device cuda:1", 1, "libcuda"),
    // These programs do not use CUDA, which is an error of a trace.
    ("trace -- python3 train.py", 1, "nothing was traced"),
    ("trace -o run.trijet", 1, "nothing was traced"),
    ("trace --memory train.csv", 1, "nothing was traced"),
];

/// Lines that a reader completes: they contain a word in capitals, or name a file of the reader.
fn is_pattern(line: &str) -> bool {
    let in_capitals = |word: &str| {
        word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase() || "[]|.".contains(c))
    };
    line.split(' ').any(in_capitals)
}

/// The arguments of each call of `trijet` in a line of a document.
fn calls(line: &str) -> Vec<String> {
    let line = line.split("  #").next().unwrap_or_default();
    let arguments = |call: &str| {
        let call = call.trim();
        let rest = call
            .strip_prefix("trijet ")
            .or_else(|| call.strip_prefix("cargo run --release -- "))?;
        // A line of a manifest is no call.
        let is_call = !is_pattern(rest) && !rest.starts_with("= ");
        is_call.then(|| rest.to_owned())
    };
    line.split(" && ").filter_map(arguments).collect()
}

/// The command lines in the code blocks of a document.
fn of_document(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        }
        if fenced || line.starts_with("    ") {
            found.extend(calls(line));
        }
    }
    found
}

/// A folder with the files that the lines name.
fn prepared() -> Workdir {
    let workdir = Workdir::new();
    let pixels: Vec<u8> =
        (0..2 * 3 * 16 * 24u32).flat_map(|n| n.to_le_bytes()).take(2304).collect();
    workdir.npy("stack.npy", "<u2", &[3, 16, 24], &pixels);
    workdir.npy("in.npy", "<u2", &[3, 16, 24], &pixels);
    workdir.images("scans", [8, 8], &Images::U8(&[7; 128]));
    workdir.file("in.raw", &vec![1; 4096 * 4096 * 2]);
    workdir.file("in.vol", &vec![1; 512 + 64 * 64 * 2]);
    workdir.file("train.py", b"print('trained')\n");
    workdir.file("train.csv", b"Action,Pointer,Size,Stream\nallocate,1,4096,0\nfree,1,,0\n");
    workdir.file("a.out", b"#!/bin/sh\nexit 0\n");
    let mut rights = fs::metadata(workdir.path("a.out")).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut rights, 0o755);
    fs::set_permissions(workdir.path("a.out"), rights).unwrap();
    let mut trace = Vec::new();
    process_file::header(&mut trace, 1, 130_001, Nanos(5));
    // Four seconds, because an example shows a part of them.
    let kernel = Activity {
        kind: ActivityKind::Kernel,
        begin: Nanos(10),
        end: Nanos(4_000_000_010),
        bytes: 0,
        name: None,
        device: 0,
        context: 1,
        stream: 7,
        thread: 1,
        correlation: 0,
    };
    process_file::activity(&mut trace, &kernel);
    workdir.file("run.trijet", &trace);
    let small = ["--size", "8MiB", "--repeats", "1", "--device", "host"];
    let call = [&["overlap", "--trace", "run.ledger"], &small[..]].concat();
    assert_eq!(workdir.trijet(&call).code, Some(0));
    let template = workdir.trijet(&["map", "--kernel-template"]).done();
    workdir.file("gain.cu", template.as_bytes());
    let template = workdir.trijet(&["map", "--kernel-template", "halo"]).done();
    workdir.file("blur.cu", template.as_bytes());
    workdir
}

/// Runs one line, whose output may go to a file.
fn run(workdir: &Workdir, line: &str) -> Ran {
    let (line, _) = line.split_once(" > ").unwrap_or((line, ""));
    if let Some(file) = line.strip_prefix("sample ") {
        drop(fs::remove_file(workdir.path(file)));
    }
    // A line runs again with another name for its output, because outputs are not replaced.
    for output in [
        "clean.npy",
        "out.npy",
        "try.npy",
        "out.raw",
        "run.html",
        "pageable.html",
        "run.json",
        "run.pftrace",
        "run.ledger",
    ] {
        if line.contains(output) && !line.contains("--read") && !line.contains("check") {
            drop(fs::remove_file(workdir.path(output)));
        }
    }
    workdir.trijet(&line.split_whitespace().collect::<Vec<_>>())
}

fn check(workdir: &Workdir, lines: &BTreeSet<String>) {
    for line in lines {
        let other = OTHER_ENDS.iter().find(|end| line.contains(end.0));
        let (status, words) = other.map_or((0, ""), |end| (end.1, end.2));
        for output in ["-o run.trijet", "--memory train.csv"] {
            if let Some((_, file)) = output.split_once(' ').filter(|_| line.contains(output)) {
                drop(fs::remove_file(workdir.path(file)));
            }
        }
        let ran = run(workdir, line);
        assert_eq!(ran.code, Some(status), "`trijet {line}`: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(words), "`trijet {line}`: {}", ran.err);
    }
}

/// The command lines of all documents.
fn of_documents() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut documents = vec![root.join("README.md")];
    documents.extend(fs::read_dir(root.join("docs")).unwrap().map(|file| file.unwrap().path()));
    documents.retain(|file| file.extension().is_some_and(|kind| kind == "md"));
    documents.iter().flat_map(|file| of_document(&fs::read_to_string(file).unwrap())).collect()
}

#[test]
fn every_command_line_of_the_documents_runs() {
    let lines = of_documents();
    assert!(lines.len() > 10, "{lines:?}");
    check(&prepared(), &lines);
}

#[test]
fn every_example_of_the_help_runs() {
    let workdir = prepared();
    let mut lines = BTreeSet::new();
    for command in ["map", "overlap", "doctor", "trace", "check", "devices", "lesson"] {
        let help = workdir.trijet(&[command, "--help"]).done();
        let examples = help.lines().skip_while(|line| *line != "Examples:").skip(1);
        lines.extend(examples.flat_map(calls));
    }
    assert!(lines.len() > 10, "{lines:?}");
    // The other test runs the lines that documents have too.
    check(&workdir, &(&lines - &of_documents()));
}

/// The blocks of text in a document.
fn blocks(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n```text\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0))
}

/// A summary in a document once named another chunk than the command did.
#[test]
fn the_summaries_of_the_documents_are_those_that_the_command_prints() {
    let call = ["overlap", "--size", "8MiB", "--device", "host", "--report", "full"];
    let printed = Workdir::new().trijet(&call).done();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (document, lines) in [("docs/timeline.md", 10), ("docs/metrics.md", 1)] {
        let text = fs::read_to_string(root.join(document)).unwrap();
        let block = blocks(&text).find(|block| block.starts_with("limits: "));
        let block = block.unwrap_or_else(|| panic!("{document} has no summary"));
        assert!(block.lines().count() >= lines, "{document}: {block}");
        assert!(
            printed.contains(&format!("\n{block}")),
            "{document} has\n{block}\nand not\n{printed}"
        );
    }
}
