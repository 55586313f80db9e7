//! Paths where an output cannot be written, and disks without space.

use crate::workdir::{Images, Ran, Workdir, noise, pixels_of};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;

/// A folder with one small image.
fn workdir() -> Workdir {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[8, 8], &noise(64, 1));
    workdir
}

/// Runs `map in.npy -o OUT`, which must fail and change nothing.
#[track_caller]
fn refused(workdir: &Workdir, out: &str, words: &[&str]) {
    let (names, input) = (workdir.names(), workdir.read("in.npy"));
    workdir.map(&["in.npy", "-o", out, "--op", "median"]).refused(1, words);
    assert_eq!(workdir.names(), names, "{out} left a file");
    assert_eq!(workdir.read("in.npy"), input, "the input was changed");
}

#[test]
fn an_existing_output_is_not_overwritten() {
    let workdir = workdir();
    workdir.file("old.npy", b"precious");
    fs::create_dir(workdir.path("folder")).unwrap();
    symlink("nowhere", workdir.path("dangling.npy")).unwrap();
    refused(&workdir, "old.npy", &["old.npy", "already exists"]);
    refused(&workdir, "folder", &["folder", "already exists"]);
    refused(&workdir, "dangling.npy", &["dangling.npy", "already exists"]);
    assert_eq!(workdir.read("old.npy"), b"precious");
    let resume = ["in.npy", "-o", "old.npy", "--op", "median", "--resume"];
    workdir.map(&resume).refused(1, &["old.npy", "already exists"]);
}

#[test]
fn an_output_that_is_the_input_is_refused_under_every_path() {
    let workdir = workdir();
    symlink("in.npy", workdir.path("soft.npy")).unwrap();
    fs::hard_link(workdir.path("in.npy"), workdir.path("hard.npy")).unwrap();
    symlink(".", workdir.path("here")).unwrap();
    for out in ["in.npy", "./in.npy", "soft.npy", "hard.npy", "here/in.npy"] {
        refused(&workdir, out, &[out, "input in.npy"]);
    }
}

#[test]
fn an_output_inside_the_input_is_refused() {
    let workdir = Workdir::new();
    workdir.images("in", [4, 4], &Images::U8(&noise(32, 2)));
    for out in ["in/out.npy", "in/out", "in/0.png/"] {
        workdir.map(&["in", "-o", out, "--op", "median"]).refused(1, &[out]);
    }
    assert_eq!(fs::read_dir(workdir.path("in")).unwrap().count(), 2);
}

#[test]
fn the_folder_of_the_output_must_exist() {
    let workdir = workdir();
    refused(&workdir, "no/such/out.npy", &["no/such/out.npy", "no such file or folder"]);
    refused(&workdir, "in.npy/out.npy", &["in.npy/out.npy", "not a folder"]);
}

#[test]
fn a_format_that_cannot_hold_the_array_is_refused() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "<f4", &[2, 2], &[0; 16]);
    workdir.map(&["in.npy", "-o", "images", "--op", "affine"]).refused(1, &["images", ".npy"]);
    assert_eq!(workdir.names(), ["in.npy"]);
}

/// Runs the command with a limit of 16 blocks for every file: 8 or 16 KiB, depending on the shell.
/// The signal for exceeding the limit is ignored, so that a write fails with an error, as on a full
/// disk.
pub(crate) fn with_file_limit(workdir: &Workdir, args: &[&str]) -> Ran {
    let command = workdir.command(args);
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\""])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(workdir.path("."))
        .stdin(Stdio::null());
    Ran::from(shell.output().unwrap())
}

/// A folder keeps files open until they are on the disk. Without any left, the command could not
/// discard the folder.
#[test]
fn few_open_files_end_a_run_with_nothing_left_that_has_no_rows() {
    // A file as the input keeps one more file open than a folder, so the limit is reached
    // elsewhere.
    for (files, input) in (6..40).flat_map(|files| [(files, "in"), (files, "in.npy")]) {
        let workdir = Workdir::new();
        workdir.images("in", [4, 4], &Images::U8(&noise(40 * 16, 6)));
        workdir.npy("in.npy", "|u1", &[40, 4, 4], &noise(40 * 16, 6));
        let args = ["map", input, "-o", "out", "--op", "affine", "--device", "host", "--chunk=1"];
        let command = workdir.command(&args);
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-c", &format!("ulimit -n {files}; exec \"$0\" \"$@\"")])
            .arg(command.get_program())
            .args(command.get_args())
            .current_dir(workdir.path("."));
        let ran = Ran::from(shell.output().unwrap());
        if ran.code == Some(0) {
            assert_eq!(workdir.names(), ["in", "in.npy", "out"], "{files} files");
        } else if ran
            .err
            .contains("out.partial remains without a finished row; --restart deletes it")
        {
            // The command cannot delete the new files either, and the message reports no more than
            // that.
            assert!(files < 10 && !ran.err.contains("nothing is kept"), "{files}: {}", ran.err);
            workdir.trijet(&[&args[..], &["--restart"]].concat()).done();
        } else if !ran.err.contains("use --resume to continue") {
            assert_eq!(workdir.names(), ["in", "in.npy"], "{files} files: {}", ran.err);
        }
    }
}

#[test]
fn a_disk_without_space_for_the_output_is_an_error_before_the_run() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[256, 256], &noise(65_536, 3));
    for out in ["out.npy", "out.raw"] {
        let args = ["map", "in.npy", "-o", out, "--op", "median", "--device", "host"];
        with_file_limit(&workdir, &args).refused(1, &[&format!("{out}.partial"), "File too large"]);
        assert!(!workdir.exists(out), "{out}");
    }
}

/// The first images compress well; the noise of the last one does not fit.
#[test]
fn a_disk_that_becomes_full_keeps_the_written_rows_for_resume() {
    let workdir = Workdir::new();
    let mut stack = vec![9; 6 * 256 * 256];
    let last = 5 * 256 * 256;
    stack[last..].copy_from_slice(&noise(256 * 256, 4));
    workdir.images("in", [256, 256], &Images::U8(&stack));
    let args = ["map", "in", "-o", "out", "--op", "affine", "--device", "host", "--chunk", "64KiB"];
    with_file_limit(&workdir, &args)
        .refused(1, &["out.partial/5.png", "File too large", "--resume"]);
    assert_eq!(workdir.names(), ["in", "out.journal", "out.partial"]);
    let kept = fs::metadata(workdir.path("out.partial/0.png")).unwrap().modified().unwrap();
    workdir.trijet(&[&args[..], &["--resume"]].concat()).done();
    assert_eq!(workdir.names(), ["in", "out"]);
    let expected: Vec<u16> = stack.into_iter().map(u16::from).collect();
    assert!(pixels_of(&workdir.path("out")) == expected, "the resumed images differ");
    let now = fs::metadata(workdir.path("out/0.png")).unwrap().modified().unwrap();
    assert_eq!(now, kept, "the first image was written again");
}

/// A picture of no bytes and empty pages once stayed behind.
#[test]
fn a_picture_or_a_manual_that_does_not_fit_leaves_no_file() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "<u2", &[8, 64, 64], &noise(64 * 64 * 2 * 8, 3));
    let picture = ["overlap", "in.npy", "--device", "host", "--radius", "1", "--chunk", "8KiB"];
    let ran = with_file_limit(&workdir, &[&picture[..], &["--drop-wait", "1"]].concat());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("damaged.png") && ran.err.contains("File too large"), "{}", ran.err);
    let ran = with_file_limit(&workdir, &["man", "pages"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("File too large"), "{}", ran.err);
    assert_eq!(workdir.names(), ["in.npy"]);
}
