//! `trijet map --overwrite`: an existing output is replaced in its own file or folder.

use crate::workdir::{Ran, Workdir, noise};
use std::fs;
use std::os::unix::fs::MetadataExt;

const OUTPUTS: [&str; 3] = ["out.npy", "out.raw", "out"];

fn workdir() -> Workdir {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "<u2", &[6, 40, 32], &noise(6 * 40 * 32 * 2, 5));
    workdir
}

fn inode(workdir: &Workdir, name: &str) -> u64 {
    fs::metadata(workdir.path(name)).unwrap().ino()
}

#[test]
fn an_output_that_is_written_over_is_that_of_a_new_run() {
    for out in OUTPUTS {
        let workdir = workdir();
        let median = ["in.npy", "-o", out, "--op", "median:2"];
        let affine = ["in.npy", "-o", out, "--op", "affine:0.5,3", "--chunk=4096"];
        workdir.map(&median).done();
        workdir.map(&affine).refused(1, &[out, "already exists; use --overwrite"]);
        let before = inode(&workdir, out);
        workdir.map(&[&affine[..], &["--overwrite"]].concat()).done();
        assert_eq!(inode(&workdir, out), before);
        assert_eq!(workdir.names(), ["in.npy", out]);
        fs::rename(workdir.path(out), workdir.path("found")).unwrap();
        workdir.map(&affine).done();
        let same = |name: &str| match workdir.path(out).is_dir() {
            true => {
                workdir.read(&format!("{out}/{name}")) == workdir.read(&format!("found/{name}"))
            }
            false => workdir.read(out) == workdir.read("found"),
        };
        assert!((0..6).all(|n| same(&format!("{n:06}.png"))), "{out}");
    }
}

#[test]
fn a_retry_with_both_options_ends() {
    for out in OUTPUTS {
        let workdir = workdir();
        workdir.map(&["in.npy", "-o", out, "--op", "median:2"]).done();
        let run = ["in.npy", "-o", out, "--op", "affine", "--resume", "--overwrite"];
        let first = workdir.map(&run);
        assert_eq!(first.code, Some(0), "{}", first.err);
        assert!(!first.out.contains("an earlier run"), "{}", first.out);
        let said = workdir.map(&run).done();
        assert!(said.contains(&format!("{out} is complete: an earlier run")), "{said}");
    }
}

/// The command writes over neither the input, nor files that no run has made, nor an output of
/// several processes.
#[test]
fn what_is_not_to_be_written_over_is_not() {
    let workdir = workdir();
    let over = |out: &'static str, more: &[&'static str]| {
        workdir.map(&[&["in.npy", "-o", out, "--op", "affine", "--overwrite"], more].concat())
    };
    over("in.npy", &[]).refused(1, &["in.npy", "input"]);
    fs::create_dir(workdir.path("folder.npy")).unwrap();
    over("folder.npy", &[]).refused(1, &["folder.npy", "is not a regular file"]);
    fs::create_dir(workdir.path("mine")).unwrap();
    workdir.file("mine/notes.txt", b"precious");
    over("mine", &[]).refused(1, &["notes.txt", "is not an image of this output"]);
    assert_eq!(workdir.read("mine/notes.txt"), b"precious");
    over("out.npy", &["--shard", "0/2"]).refused(2, &["--overwrite", "--shard"]);
    assert_eq!(workdir.names(), ["folder.npy", "in.npy", "mine"]);
}

#[test]
fn a_rank_is_refused_to_write_over_an_output() {
    let workdir = workdir();
    let args = ["map", "in.npy", "-o", "out.npy", "--op", "affine", "--overwrite", "--device=host"];
    let mut command = workdir.command(&args);
    for (name, value) in [("RANK", "1"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "1")] {
        command.env(name, value);
    }
    let ran = Ran::from(command.output().unwrap());
    ran.refused(1, &["--overwrite needs a job of one process, but this is rank 1 of 2 (torchrun)"]);
}
