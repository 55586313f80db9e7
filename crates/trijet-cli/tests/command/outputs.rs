//! The files that commands write in addition to the output of `map`: one rule for all.

use crate::workdir::{Workdir, noise};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use trijet::Nanos;
use trijet::trace::activity::{Allocation, AllocationKind, End, MemoryKind};
use trijet::trace::process_file;

/// Each command that writes a file, without the name of the file; the file; and its input.
const COMMANDS: [(&str, &str, &str); 7] = [
    ("replay in.csv --device host -o", "out.html", "in.csv"),
    ("overlap in.npy --device host --drop-wait 1 --chunk 4KiB --picture", "out.png", "in.npy"),
    ("overlap in.npy --device host --repeats 1 --chunk 4KiB --trace", "out.ledger", "in.npy"),
    ("map in.npy -o done.npy --op affine --device host --trace", "out.html", "in.npy"),
    ("map in.npy -o", "out.npy", "in.npy"),
    ("trace --read in.trijet -o", "out.html", "in.trijet"),
    ("trace --read in.trijet --memory", "out.csv", "in.trijet"),
];

/// The trace of two processes, each with its own GPU, that each allocate 300 MiB at the same
/// address.
pub(crate) fn two_ranks() -> Vec<u8> {
    let mut trace = Vec::new();
    for rank in 0..2 {
        process_file::header(&mut trace, 10 + rank, 130_001, Nanos(5));
        let one = Allocation {
            what: AllocationKind::Allocate,
            memory: MemoryKind::Device,
            in_order: true,
            device: rank,
            context: 1,
            stream: 7,
            correlation: 0,
            address: 0x7f00_0000_0000,
            bytes: 300 << 20,
            at: Nanos(10),
        };
        process_file::allocation(&mut trace, &one);
        process_file::end(&mut trace, &End { at: Nanos(20), ..End::default() });
    }
    trace
}

fn workdir() -> Workdir {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[8, 64, 64], &noise(8 * 64 * 64, 5));
    workdir.file("in.csv", b"Action,Pointer,Size,Stream\nallocate,1,4096,0\nfree,1,,0\n");
    workdir.file("in.trijet", &two_ranks());
    workdir
}

/// The words of a command that writes `file`.
fn words<'a>(line: &'a str, file: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let operation: &[&str] =
        if line == "map in.npy -o" { &["--op", "affine", "--device", "host"] } else { &[] };
    let words = line.split_whitespace().chain([file]).chain(operation.iter().copied());
    words.chain(more.iter().copied()).collect()
}

#[test]
fn an_existing_file_is_kept_and_replaced_only_with_overwrite() {
    for (line, file, _) in COMMANDS {
        let workdir = workdir();
        workdir.file(file, b"precious");
        workdir
            .trijet(&words(line, file, &[]))
            .refused(1, &[file, "already exists", "--overwrite"]);
        assert_eq!(workdir.read(file), b"precious", "{line}");
        let names = workdir.names();
        let before = fs::metadata(workdir.path(file)).unwrap().ino();
        fs::hard_link(workdir.path(file), workdir.path("backup")).unwrap();
        if line != "map in.npy -o" {
            let ran = workdir.trijet(&words(line, file, &["--overwrite"]));
            assert_eq!(ran.code, Some(0), "{line}: {}", ran.err);
            assert_ne!(fs::metadata(workdir.path(file)).unwrap().ino(), before, "{line}");
            assert_ne!(workdir.read(file), b"precious", "{line}");
        }
        assert_eq!(workdir.read("backup"), b"precious", "{line}: a backup was changed");
        let left: Vec<String> = workdir.names();
        let left: Vec<&String> =
            left.iter().filter(|name| !["backup", "done.npy"].contains(&name.as_str())).collect();
        assert_eq!(left, names.iter().collect::<Vec<_>>(), "{line}");
    }
}

#[test]
fn an_input_is_not_replaced_under_any_path_of_it() {
    for (line, file, input) in COMMANDS {
        let workdir = workdir();
        let before = workdir.read(input);
        symlink(".", workdir.path("here")).unwrap();
        symlink(input, workdir.path(file)).unwrap();
        let here = format!("here/{file}");
        for path in [file, here.as_str()] {
            for more in [&[][..], &["--overwrite"]] {
                workdir.trijet(&words(line, path, more)).refused(1, &[path, "the input", input]);
            }
        }
        fs::remove_file(workdir.path(file)).unwrap();
        fs::hard_link(workdir.path(input), workdir.path(file)).unwrap();
        workdir
            .trijet(&words(line, file, &["--overwrite"]))
            .refused(1, &[file, "the input", input]);
        assert!(workdir.read(input) == before, "{line} changed its input");
    }
}

#[test]
fn only_a_regular_file_is_replaced() {
    for (line, file, _) in COMMANDS {
        let workdir = workdir();
        symlink("nowhere", workdir.path(file)).unwrap();
        for more in [&[][..], &["--overwrite"]] {
            let ran = workdir.trijet(&words(line, file, more));
            assert_eq!(ran.code, Some(1), "{line}: {}", ran.err);
            assert!(!workdir.exists("nowhere") && workdir.exists(file), "{line}");
        }
        fs::remove_file(workdir.path(file)).unwrap();
        fs::create_dir(workdir.path(file)).unwrap();
        workdir.trijet(&words(line, file, &["--overwrite"])).refused(1, &[file]);
    }
}

#[test]
fn two_outputs_of_one_run_have_two_names() {
    for line in [
        "trace --read in.trijet -o out.html --memory ./out.html",
        "overlap in.npy --device host --drop-wait 1 --picture out.html --trace ./out.html",
        "map in.npy -o out.html --raw --op affine --device host --trace ./out.html",
    ] {
        let workdir = workdir();
        let words: Vec<&str> = line.split_whitespace().collect();
        workdir.trijet(&words).refused(1, &["out.html", "is the output"]);
        assert!(!workdir.exists("out.html"), "{line}");
    }
}

/// The temporary name fits, too.
#[test]
fn a_name_may_be_as_long_as_the_system_allows() {
    let workdir = workdir();
    let file = format!("{}.html", "x".repeat(250));
    workdir.trijet(&["replay", "in.csv", "--device", "host", "-o", &file]).done();
    assert!(workdir.exists(&file));
}

#[test]
fn the_file_of_a_kernel_is_not_written_over() {
    let workdir = workdir();
    let template = workdir.trijet(&["map", "--kernel-template"]).done();
    workdir.file("gain.cu", template.as_bytes());
    let call = ["in.npy", "-o", "gain.cu", "--kernel", "gain.cu", "--entry", "gain", "--overwrite"];
    let call = [&call[..], &["--arg", "factor=2.5", "--raw"]].concat();
    workdir.map(&call).refused(1, &["gain.cu", "would overwrite the input gain.cu"]);
    assert_eq!(workdir.read("gain.cu"), template.as_bytes());
}

#[test]
fn pages_of_the_manual_are_all_written_or_none() {
    let workdir = Workdir::new();
    fs::create_dir(workdir.path("pages")).unwrap();
    workdir.file("pages/trijet-map.1", b"precious");
    workdir
        .trijet(&["man", "pages"])
        .refused(1, &["trijet-map.1", "already exists", "--overwrite"]);
    assert_eq!(workdir.read("pages/trijet-map.1"), b"precious");
    assert_eq!(fs::read_dir(workdir.path("pages")).unwrap().count(), 1);
    workdir.trijet(&["man", "pages", "--overwrite"]).done();
    assert!(workdir.read("pages/trijet-map.1").starts_with(b".ie"));
    workdir.trijet(&["man", "a/b"]).done();
    assert!(workdir.exists("a/b/trijet.1"));
}
