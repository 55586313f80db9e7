//! Output to a closed pipe or a full disk.

use crate::workdir::{Ran, Workdir, noise};
use std::fs::{self, File};
use std::io::{PipeWriter, pipe};

/// A pipe whose reader is closed.
fn closed_pipe() -> PipeWriter {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    writer
}

/// `trijet overlap | head` once ended with a panic.
#[test]
fn a_closed_pipe_is_not_an_error() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[8, 8], &noise(64, 1));
    let map = ["map", "in.npy", "-o", "out.npy", "--op", "median", "--device", "host"];
    let overlap = ["overlap", "in.npy", "--device", "host", "--repeats", "1"];
    for args in [&["devices"][..], &["devices", "--json"], &map, &overlap] {
        Ran::from(workdir.command(args).stdout(closed_pipe()).output().unwrap()).done();
    }
    assert!(workdir.exists("out.npy"));
}

#[test]
fn a_full_disk_behind_standard_output_is_an_error() {
    let workdir = Workdir::new();
    for args in [&["devices"][..], &["devices", "--json"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ran = Ran::from(workdir.command(args).stdout(full).output().unwrap());
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        assert!(ran.err.contains("No space left on device"), "{}", ran.err);
    }
}

#[test]
fn a_closed_error_stream_does_not_change_the_exit_status() {
    let workdir = Workdir::new();
    let map = ["map", "in.npy", "-o", "out.npy", "--op", "median", "--device", "host"];
    let ran = Ran::from(workdir.command(&map).stderr(closed_pipe()).output().unwrap());
    assert_eq!(ran.code, Some(1));
}

/// Help and version once ended with success although nothing was written.
#[test]
fn help_that_cannot_be_written_is_an_error() {
    let workdir = Workdir::new();
    for args in
        [&["--help"][..], &["--version"], &["help", "map"], &["map", "-h"], &["bench", "-h"]]
    {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ran = Ran::from(workdir.command(args).stdout(full).output().unwrap());
        assert_eq!(ran.code, Some(1), "{args:?}: {}", ran.err);
        assert!(ran.err.contains("No space left on device"), "{args:?}: {}", ran.err);
        Ran::from(workdir.command(args).stdout(closed_pipe()).output().unwrap()).done();
    }
}

/// Asserts that the text has no control characters but the ends of lines.
#[track_caller]
fn plain(text: &str) {
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
}

/// Names once went to the terminal unchanged: a line feed broke the line, and ESC set the title.
#[test]
fn control_characters_of_names_are_shown_as_escapes() {
    let workdir = Workdir::new();
    let missing = workdir.map(&["no\n\u{1b}[31mred.npy", "-o", "o.npy", "--op", "affine"]);
    plain(&missing.err);
    assert!(missing.err.lines().nth(1).is_some_and(|line| line.starts_with("  caused by: ")));
    missing.refused(1, &["open: no\\n\\u001b[31mred.npy: no such file"]);

    let name = "a\u{1b}]0;owned\u{7}\r\u{9b}.npy";
    workdir.npy(name, "|u1", &[4, 4], &noise(16, 1));
    let out = "o\u{1b}.npy";
    let plan = workdir.map(&[name, "-o", out, "--op", "affine", "--plan"]).done();
    plain(&plan);
    let json = workdir.map(&[name, "-o", out, "--op", "affine", "--json"]);
    plain(&json.out);
    let json = json.json();
    assert_eq!((&json["input"], &json["output"]), (&name.into(), &out.into()));
    let again = workdir.map(&[name, "-o", out, "--op", "affine", "--resume"]).done();
    plain(&again);
    assert!(again.starts_with("o\\u001b.npy is complete"), "{again}");

    fs::create_dir(workdir.path("in")).unwrap();
    workdir.file("in/x\u{1b}[2J.png", b"not an image");
    let damaged = workdir.map(&["in", "-o", "p", "--op", "affine"]);
    plain(&damaged.err);
    damaged.refused(1, &["in/x\\u001b[2J.png: damaged PNG"]);
}

/// The message about wrong usage quotes arguments. A shell may have made them from names.
#[test]
fn control_characters_of_arguments_are_shown_as_escapes() {
    let workdir = Workdir::new();
    let name = "b\u{1b}]0;owned\u{7}.npy";
    for args in [
        &["a.npy", name, "-o", "o.npy", "--op", "affine"][..],
        &["a.npy", "-o", "o.npy", "--op", name],
        &["a.npy", "-o", "o.npy", "--kernel", name],
    ] {
        let ran = workdir.map(args);
        plain(&ran.err);
        ran.refused(2, &["b\\u001b]0;owned\\u0007.npy"]);
    }
}

#[test]
fn control_characters_of_a_ledger_are_shown_as_escapes() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[64, 64], &noise(4096, 1));
    let file = "t\u{1b}[2J.ledger";
    workdir.map(&["in.npy", "-o", "o.npy", "--op", "median", "--trace", file]).done();
    plain(&workdir.trijet(&["check", file]).out);
}
