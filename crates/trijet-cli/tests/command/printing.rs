//! Output to a closed pipe or a full disk.

use crate::workdir::{Ran, Workdir, noise};
use std::fs::File;
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
