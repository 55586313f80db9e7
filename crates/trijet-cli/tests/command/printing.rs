//! What the command prints, and to whom: a reader that hangs up, a full disk, nobody.

use crate::desk::{Desk, Ran, noise};
use std::fs::File;
use std::io::{PipeWriter, pipe};

/// A pipe whose reader is gone.
fn nobody() -> PipeWriter {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    writer
}

/// `trijet overlap | head` once ended in a panic.
#[test]
fn a_reader_that_hangs_up_has_seen_enough() {
    let desk = Desk::new();
    desk.npy("in.npy", "|u1", &[8, 8], &noise(64, 1));
    let map = ["map", "in.npy", "-o", "out.npy", "--op", "median", "--device", "host"];
    let overlap = ["overlap", "in.npy", "--device", "host", "--repeats", "1"];
    for args in [&["devices"][..], &["devices", "--json"], &map, &overlap] {
        let ran = Ran::from(desk.command(args).stdout(nobody()).output().unwrap());
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{args:?}");
    }
    assert!(desk.exists("out.npy"));
}

#[test]
fn a_report_that_finds_no_space_is_an_error() {
    let desk = Desk::new();
    for args in [&["devices"][..], &["devices", "--json"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ran = Ran::from(desk.command(args).stdout(full).output().unwrap());
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        assert!(ran.err.contains("No space left on device"), "{}", ran.err);
    }
}

#[test]
fn an_error_that_nobody_reads_keeps_its_exit_code() {
    let desk = Desk::new();
    let map = ["map", "in.npy", "-o", "out.npy", "--op", "median", "--device", "host"];
    let ran = Ran::from(desk.command(&map).stderr(nobody()).output().unwrap());
    assert_eq!(ran.code, Some(1));
}
