//! Every command line of the documents and of the help runs, and ends as the documents state. Every
//! call that a document names has a command, options and a lesson that exist.

use crate::doctor;
use crate::trace::{NSYS, kineto};
use crate::workdir::{Images, Ran, Workdir};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use trijet::Nanos;
use trijet::trace::activity::{Activity, ActivityKind};
use trijet::trace::process_file;

/// The end of a command line that needs a thing that this machine may lack: the words of the line,
/// its exit status, and words of its error. All other lines succeed.
const OTHER_ENDS: &[(&str, i32, &str)] = &[
    // A user's own kernel runs on a GPU only.
    ("--kernel gain.cu", 1, "GPU"),
    ("--kernel blur.cu", 1, "GPU"),
    ("--kernel pair.cu", 1, "GPU"),
    ("--device cuda:1", 1, "libcuda"),
    // These programs do not use CUDA, which is an error of a trace.
    ("trace -- python3 train.py", 1, "nothing was traced"),
    ("trace -o run.trijet", 1, "nothing was traced"),
    ("trace --record", 1, "nothing was traced"),
    ("trace --memory train.csv", 1, "nothing was traced"),
    // The trace has one kernel, and no steps to compare.
    ("trace --read run.trijet --against", 1, ""),
    ("check -- python3 train.py", 1, "no call was recorded"),
    ("check -o run.calls", 1, "no call was recorded"),
    ("check --kernels", 1, "no call was recorded"),
    ("check --write-baseline", 1, "no call was recorded"),
    ("check --baseline", 1, "no call was recorded"),
    // The race of the museum is an error.
    ("check -o finding.html", 1, ""),
];

/// Lines that a reader or a shell completes: they contain a word in capitals, or a variable.
fn is_pattern(line: &str) -> bool {
    let in_capitals = |word: &str| {
        word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase() || "[]|.".contains(c))
    };
    line.contains('$') || line.split(' ').any(in_capitals)
}

/// The arguments of each call of `trijet` in a line of a document, including patterns.
fn named(line: &str) -> Vec<String> {
    let line = line.split("  #").next().unwrap_or_default();
    let arguments = |call: &str| {
        let call = call.trim();
        let rest = call
            .strip_prefix("trijet ")
            .or_else(|| call.strip_prefix("cargo run --release -- "))?;
        // A line of a manifest is no call.
        (!rest.starts_with("= ")).then(|| rest.to_owned())
    };
    line.split(" && ").filter_map(arguments).collect()
}

/// The arguments of each call of `trijet` in a line of a document that can run as it stands.
fn calls(line: &str) -> Vec<String> {
    named(line).into_iter().filter(|call| !is_pattern(call)).collect()
}

/// The lines of a document, each with whether it stands in a block of code.
fn lines(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut fenced = false;
    text.lines().map(move |line| {
        fenced ^= line.starts_with("```");
        (line, fenced || line.starts_with("    "))
    })
}

/// The command lines in the code blocks of a document.
fn of_document(text: &str) -> Vec<String> {
    lines(text).filter(|(_, is_code)| *is_code).flat_map(|(line, _)| calls(line)).collect()
}

/// All calls that a document names: in code blocks, and in the code of sentences and tables.
fn named_by_document(text: &str) -> Vec<String> {
    let of_line = |(line, is_code)| -> Vec<String> {
        if is_code {
            named(line)
        } else {
            line.split('`').skip(1).step_by(2).flat_map(named).collect()
        }
    };
    lines(text).flat_map(of_line).collect()
}

/// The first word of a call that names nothing, if there is one. `help` returns the help of a
/// command, or of all commands for an empty name, and `lessons` is the list of the lessons.
fn unknown(call: &str, help: impl Fn(&str) -> String, lessons: &str) -> Option<String> {
    let has = |text: &str, word: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        text.split(|c: char| !is_part(c)).any(|part| part == word)
    };
    let mut words = call.split_whitespace().take_while(|word| !["--", ">", "|"].contains(word));
    let command = words.next()?;
    let is_free = |word: &str| is_pattern(word) || word == "--help" || word == "--version";
    if is_free(command) {
        return None;
    }
    // A list has a line for each name, which begins with it.
    let lists = |list: &str, name: &str| {
        list.lines().any(|line| line.split_whitespace().next() == Some(name))
    };
    if !lists(&help(""), command) {
        return Some(command.to_owned());
    }
    // The benchmarks are a program of their own.
    if command == "bench" {
        return None;
    }
    let help = help(command);
    let name = |word: &str| {
        word.split('=').next().unwrap_or_default().trim_matches(['[', ']', ',']).to_owned()
    };
    let words: Vec<String> = words.map(name).filter(|word| !is_free(word)).collect();
    let option = words.iter().find(|word| word.starts_with('-') && !has(&help, word));
    let lesson = || words.first().filter(|word| !word.starts_with('-') && !lists(lessons, word));
    option.or_else(|| if command == "lesson" { lesson() } else { None }).cloned()
}

/// A folder with the files that the lines name.
fn prepared() -> Workdir {
    let workdir = Workdir::new();
    let pixels: Vec<u8> =
        (0..2 * 3 * 16 * 24u32).flat_map(|n| n.to_le_bytes()).take(2304).collect();
    workdir.npy("stack.npy", "<u2", &[3, 16, 24], &pixels);
    workdir.npy("in.npy", "<u2", &[3, 16, 24], &pixels);
    workdir.npy("dark.npy", "<u2", &[16, 24], &[0; 768]);
    workdir.npy("bright.npy", "<u2", &[16, 24], &[9; 768]);
    workdir.images("scans", [8, 8], &Images::U8(&[7; 128]));
    workdir
        .trijet(&["map", "stack.npy", "-o", "scan.tif", "--op", "affine", "--device", "host"])
        .done();
    workdir.file("in.raw", &vec![1; 4096 * 4096 * 2]);
    workdir.file("in.vol", &vec![1; 512 + 64 * 64 * 2]);
    workdir.file("imagej.raw", &vec![1; 64 * 64 * 2]);
    workdir.file("train.py", b"print('trained')\n");
    workdir.file("train.csv", b"Action,Pointer,Size,Stream\nallocate,1,4096,0\nfree,1,,0\n");
    let museum = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trijet-calls/tests/museum");
    let race = fs::read(museum.join("event_moved.race.calls")).unwrap();
    workdir.file("event_moved.race.calls", &race);
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
        node: None,
    };
    process_file::activity(&mut trace, &kernel);
    workdir.file("run.trijet", &trace);
    for (name, rank) in [("pytorch.json", 0), ("rank0.json.gz", 0), ("rank1.json.gz", 1)] {
        workdir.file(name, kineto(rank).as_bytes());
    }
    workdir.file("report.sqlite", NSYS);
    workdir.file("base.trijet", &trace);
    let report = workdir.trijet(&["trace", "--json", "--read", "base.trijet"]).done();
    workdir.file("base.json", report.as_bytes());
    let small = ["--size", "8MiB", "--radius", "1", "--repeats", "1", "--device", "host"];
    let call = [&["overlap", "--trace", "run.ledger"], &small[..]].concat();
    assert_eq!(workdir.trijet(&call).code, Some(0));
    fs::copy(workdir.path("run.ledger"), workdir.path("base.ledger")).unwrap();
    let template = workdir.trijet(&["map", "--kernel-template"]).done();
    workdir.file("gain.cu", template.as_bytes());
    workdir.file("pair.cu", template.replace("gain", "pair").as_bytes());
    let template = workdir.trijet(&["map", "--kernel-template", "halo"]).done();
    workdir.file("blur.cu", template.as_bytes());
    workdir
}

/// The words of a line as a shell has them. The words after a redirection are left out.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (number, part) in line.split('"').enumerate() {
        if number % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
            if let Some(end) = part.split_whitespace().position(|word| word == ">") {
                let rest = part.split_whitespace().count() - end;
                words.truncate(words.len() - rest);
                break;
            }
        }
    }
    words
}

/// Runs one line, whose output may go to a file.
fn run(workdir: &Workdir, line: &str) -> Ran {
    // Another test needs the same run, which takes seconds.
    if line == "doctor" {
        return doctor::printed();
    }
    if let Some(file) = line.strip_prefix("sample ") {
        drop(fs::remove_file(workdir.path(file)));
    }
    // A line runs again with another name for its output, because outputs are not replaced.
    for output in [
        "clean.npy",
        "out.npy",
        "try.npy",
        "out.raw",
        "flat.tif",
        "maximum.tif",
        "sinograms.npy",
        "run.html",
        "pageable.html",
        "run.json",
        "run.pftrace",
        "run.ledger",
    ] {
        let is_input = line.starts_with("what-if run.ledger") && output == "run.ledger";
        if line.contains(output) && !is_input && !line.contains("--read") && !line.contains("check")
        {
            drop(fs::remove_file(workdir.path(output)));
        }
    }
    for folder in ["small.zarr", "mask"] {
        if line.contains(folder) {
            drop(fs::remove_dir_all(workdir.path(folder)));
        }
    }
    workdir.trijet(&words(line).iter().map(String::as_str).collect::<Vec<_>>())
}

/// The same line with less work. Without a GPU, `--device host` changes nothing. `overlap` takes
/// seconds for its usual stack and radius, and `doctor` takes as long for JSON as for text.
fn shortened(line: &str) -> String {
    let line = line.replace(" --device host", "");
    let line = line.replace("doctor --json > machine.json", "doctor");
    let is_long = line.starts_with("overlap") && !line.contains("--size") && !line.contains(".npy");
    let (call, file) = line.split_once(" > ").unwrap_or((&line, ""));
    let call = if is_long { format!("{call} --size 8MiB --radius 1") } else { call.to_owned() };
    if file.is_empty() { call } else { format!("{call} > {file}") }
}

/// The calls of a program on a GPU, without a finding.
const CALLS: &[u8] = include_bytes!("../../../trijet-calls/tests/golden/ordered.calls");

/// Outputs of lines that several documents have, which are deleted before each line.
const OUTPUTS: [&str; 4] =
    ["-o run.trijet", "-o run.calls", "--memory train.csv", "--write-baseline baseline.json"];

fn check(workdir: &Workdir, lines: &BTreeSet<String>) {
    for line in lines {
        let other = OTHER_ENDS.iter().find(|end| line.contains(end.0));
        let (status, words) = other.map_or((0, ""), |end| (end.1, end.2));
        if line == "check run.calls" {
            workdir.file("run.calls", CALLS);
        }
        if line.starts_with("what-if run.trijet") {
            fs::copy(workdir.path("base.trijet"), workdir.path("run.trijet")).unwrap();
        }
        if line.starts_with("what-if run.ledger") {
            fs::copy(workdir.path("base.ledger"), workdir.path("run.ledger")).unwrap();
        }
        if line.contains("--against plan.json") {
            let plan = ["map", "in.npy", "-o", "out.npy", "--op", "median", "--plan", "--json"];
            workdir.file("plan.json", workdir.trijet(&plan).out.as_bytes());
        }
        if line.starts_with("check --baseline baseline.json") {
            workdir.file("baseline.json", br#"{"version": 1, "findings": []}"#);
        }
        for output in OUTPUTS {
            if let Some((_, file)) = output.split_once(' ').filter(|_| line.contains(output)) {
                drop(fs::remove_file(workdir.path(file)));
            }
        }
        let ran = run(workdir, line);
        assert_eq!(ran.code, Some(status), "`trijet {line}`: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(words), "`trijet {line}`: {}", ran.err);
    }
}

/// The documents in a folder of the repository.
fn documents_in(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|kind| kind == "md")).collect()
}

/// The command lines of the documents for users.
fn of_documents() -> BTreeSet<String> {
    let mut documents = documents_in("docs");
    documents.extend(documents_in("").into_iter().filter(|file| file.ends_with("README.md")));
    let texts = documents.iter().map(|file| fs::read_to_string(file).unwrap());
    texts.flat_map(|text| of_document(&text)).map(|line| shortened(&line)).collect()
}

#[test]
fn every_command_line_of_the_documents_runs() {
    let lines = of_documents();
    assert!(lines.len() > 10, "{lines:?}");
    check(&prepared(), &lines);
}

#[test]
fn every_call_that_a_document_names_has_a_command_options_and_a_lesson_that_exist() {
    let workdir = Workdir::new();
    let lessons = workdir.trijet(&["lesson"]).done();
    let known = RefCell::new(BTreeMap::new());
    let help = |command: &str| {
        let call: Vec<&str> =
            [command, "--help"].into_iter().filter(|word| !word.is_empty()).collect();
        let mut known = known.borrow_mut();
        known.entry(command.to_owned()).or_insert_with(|| workdir.trijet(&call).done()).clone()
    };
    let folders = ["", "docs", "docs/design", "crates/trijet/examples"];
    let (mut count, mut found) = (0, Vec::new());
    for file in folders.into_iter().flat_map(documents_in) {
        for call in named_by_document(&fs::read_to_string(&file).unwrap()) {
            count += 1;
            if let Some(word) = unknown(&call, help, &lessons) {
                found.push(format!("{}: `trijet {call}`: no `{word}`", file.display()));
            }
        }
    }
    assert!(count > 100, "{count} calls");
    assert_eq!(found, [""; 0]);
}

#[test]
fn a_call_that_names_nothing_is_found() {
    let text = "`trijet a` and `b`\n```sh\ntrijet c --d  # e\n```\n| `trijet F` |\n";
    assert_eq!(named_by_document(text), ["a", "c --d", "F"]);
    let help = |command: &str| {
        let commands = "  map  a word\n  lesson  a word\n  bench  a word\n";
        if command.is_empty() { commands } else { "  -o, --output <FILE>\n      --dtype\n" }
            .to_owned()
    };
    let unknown = |call: &str| unknown(call, help, "  one-stream  a word\n");
    for good in ["map a.npy -o b", "map -- --none", "NAME", "--help", "map --help", "bench --none"]
    {
        assert_eq!(unknown(good), None, "{good}");
    }
    for good in ["lesson one-stream", "lesson NAME", "map --dtype=u8 [--output OUT] > c"] {
        assert_eq!(unknown(good), None, "{good}");
    }
    let bad = [("mop", "mop"), ("map --out b", "--out"), ("map -p b", "-p"), ("lesson two", "two")];
    for (call, word) in bad {
        assert_eq!(unknown(call).as_deref(), Some(word), "{call}");
    }
}

#[test]
fn every_example_of_the_help_runs() {
    let workdir = prepared();
    let mut lines = BTreeSet::new();
    for command in ["map", "overlap", "doctor", "trace", "what-if", "check", "devices", "lesson"] {
        let help = workdir.trijet(&[command, "--help"]).done();
        let examples = help.lines().skip_while(|line| *line != "Examples:").skip(1);
        lines.extend(examples.flat_map(calls).map(|line| shortened(&line)));
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
