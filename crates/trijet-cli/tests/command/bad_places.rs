//! Places where an output cannot lie, and disks that end.

use crate::desk::{Desk, Images, Ran, noise, pixels_of};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;

/// A folder with one small image.
fn desk() -> Desk {
    let desk = Desk::new();
    desk.npy("in.npy", "|u1", &[8, 8], &noise(64, 1));
    desk
}

/// Runs `map in.npy -o OUT`, which must be refused and change nothing.
#[track_caller]
fn refused(desk: &Desk, out: &str, words: &[&str]) {
    let (names, input) = (desk.names(), desk.read("in.npy"));
    desk.map(&["in.npy", "-o", out, "--op", "median"]).refused(1, words);
    assert_eq!(desk.names(), names, "{out} left something");
    assert_eq!(desk.read("in.npy"), input, "the input was changed");
}

#[test]
fn an_output_that_exists_is_left_alone() {
    let desk = desk();
    desk.file("old.npy", b"precious");
    fs::create_dir(desk.path("folder")).unwrap();
    symlink("nowhere", desk.path("dangling.npy")).unwrap();
    refused(&desk, "old.npy", &["old.npy", "exists already"]);
    refused(&desk, "folder", &["folder", "exists already"]);
    refused(&desk, "dangling.npy", &["dangling.npy", "exists already"]);
    assert_eq!(desk.read("old.npy"), b"precious");
    let resume = ["in.npy", "-o", "old.npy", "--op", "median", "--resume"];
    desk.map(&resume).refused(1, &["old.npy", "exists already"]);
}

#[test]
fn an_output_on_the_input_is_refused_under_every_name() {
    let desk = desk();
    symlink("in.npy", desk.path("soft.npy")).unwrap();
    fs::hard_link(desk.path("in.npy"), desk.path("hard.npy")).unwrap();
    symlink(".", desk.path("here")).unwrap();
    for out in ["in.npy", "./in.npy", "soft.npy", "hard.npy", "here/in.npy"] {
        refused(&desk, out, &[out, "input in.npy"]);
    }
}

#[test]
fn an_output_inside_the_input_is_refused() {
    let desk = Desk::new();
    desk.images("in", [4, 4], &Images::U8(&noise(32, 2)));
    for out in ["in/out.npy", "in/out", "in/0.png"] {
        desk.map(&["in", "-o", out, "--op", "median"]).refused(1, &[out]);
    }
    assert_eq!(fs::read_dir(desk.path("in")).unwrap().count(), 2);
}

#[test]
fn the_folder_of_the_output_must_be_there() {
    let desk = desk();
    refused(&desk, "no/such/out.npy", &["no/such/out.npy", "no such file or folder"]);
    refused(&desk, "in.npy/out.npy", &["in.npy/out.npy", "not a folder"]);
}

#[test]
fn a_format_that_cannot_hold_the_array_is_refused() {
    let desk = Desk::new();
    desk.npy("in.npy", "<f4", &[2, 2], &[0; 16]);
    for (out, words) in [("images", ".npy"), ("one.png", "folder")] {
        desk.map(&["in.npy", "-o", out, "--op", "affine"]).refused(1, &[out, words]);
    }
    assert_eq!(desk.names(), ["in.npy"]);
}

/// Runs the command where no file may grow beyond 16 blocks: 8 or 16 KiB, as the shell counts. The
/// signal is ignored, so the system answers the write with an error, as a full disk would.
fn cramped(desk: &Desk, args: &[&str]) -> Ran {
    let command = desk.command(args);
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\""])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(desk.path("."))
        .stdin(Stdio::null());
    Ran::from(shell.output().unwrap())
}

#[test]
fn a_disk_without_room_for_the_output_is_said_before_the_work() {
    let desk = Desk::new();
    desk.npy("in.npy", "|u1", &[256, 256], &noise(65_536, 3));
    for out in ["out.npy", "out.raw"] {
        let args = ["map", "in.npy", "-o", out, "--op", "median", "--device", "host"];
        cramped(&desk, &args).refused(1, &[&format!("{out}.partial"), "File too large"]);
        assert!(!desk.exists(out), "{out}");
    }
}

/// The first images compress to little; the noise of a later one does not fit.
#[test]
fn a_disk_that_fills_in_the_middle_keeps_what_is_written_for_resume() {
    let desk = Desk::new();
    let mut stack = vec![9; 6 * 256 * 256];
    let last = 5 * 256 * 256;
    stack[last..].copy_from_slice(&noise(256 * 256, 4));
    desk.images("in", [256, 256], &Images::U8(&stack));
    let args = ["map", "in", "-o", "out", "--op", "affine", "--device", "host", "--chunk", "64KiB"];
    cramped(&desk, &args).refused(1, &["out.partial/5.png", "File too large", "--resume"]);
    assert_eq!(desk.names(), ["in", "out.journal", "out.partial"]);
    let kept = fs::metadata(desk.path("out.partial/0.png")).unwrap().modified().unwrap();
    desk.trijet(&[&args[..], &["--resume"]].concat()).done();
    assert_eq!(desk.names(), ["in", "out"]);
    let expected: Vec<u16> = stack.into_iter().map(u16::from).collect();
    assert!(pixels_of(&desk.path("out")) == expected, "the resumed images differ");
    let now = fs::metadata(desk.path("out/0.png")).unwrap().modified().unwrap();
    assert_eq!(now, kept, "the first image was written again");
}
