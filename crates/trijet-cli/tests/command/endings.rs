//! Ends of runs of `trijet map`: the messages about the output are true, and a retry comes to an
//! end.

use crate::held::Held;
use crate::workdir::{Ran, Workdir, noise};
use std::fs::{self, File};
use std::process::{Command, Stdio};

const RUN: [&str; 5] = ["in.npy", "-o", "out.npy", "--op", "affine"];

/// A folder with one small image.
fn workdir() -> Workdir {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[8, 8], &noise(64, 1));
    workdir
}

/// A retry once failed for ever with the message that the output exists.
#[test]
fn a_run_that_is_resumed_until_it_succeeds_ends() {
    for out in ["out.npy", "out.raw"] {
        let workdir = workdir();
        let run = ["in.npy", "-o", out, "--op", "affine"];
        workdir.map(&run).done();
        let before = workdir.read(out);
        let resume = [&run[..], &["--resume"]].concat();
        let said = workdir.map(&resume).done();
        assert!(said.contains(&format!("{out} is complete: an earlier run")), "{said}");
        let report = workdir.map(&[&resume[..], &["--json"]].concat()).json();
        assert_eq!((&report["rows"], &report["output"]), (&0.into(), &out.into()));
        assert_eq!(workdir.read(out), before);
        assert_eq!(workdir.names(), ["in.npy", out]);
        // It is not the output of another job.
        let other = [&resume[..], &["--scale", "2"]].concat();
        workdir.map(&other).refused(1, &[out, "already exists"]);
        workdir.map(&run).refused(1, &[out, "already exists"]);
        // Nor is it a file that was changed later, or whose input was changed.
        let input = workdir.read("in.npy");
        fs::remove_file(workdir.path("in.npy")).unwrap();
        workdir.file("in.npy", &input);
        workdir.map(&resume).refused(1, &[out, "already exists"]);
    }
}

/// The error once did not report the state of the output.
#[test]
fn a_report_that_cannot_be_printed_says_that_the_output_is_complete() {
    for more in [&[][..], &["--json"]] {
        let workdir = workdir();
        let args = [&["map", "--device", "host"], &RUN[..], more].concat();
        let mut command = workdir.command(&args);
        command.stdout(File::options().write(true).open("/dev/full").unwrap());
        let ran = Ran::from(command.output().unwrap());
        ran.refused(1, &["out.npy is complete", "standard output", "No space left"]);
        assert_eq!(workdir.names(), ["in.npy", "out.npy"]);
        workdir.map(&[&RUN[..], &["--resume"]].concat()).done();
    }
}

/// `--restart` once discarded the rows before it was known that the run can start.
#[test]
fn rows_are_kept_when_the_run_that_would_replace_them_cannot_start() {
    let workdir = Workdir::new();
    workdir.images("in", [64, 64], &crate::workdir::Images::U8(&noise(4 * 4096, 5)));
    let mut damaged = workdir.read("in/2.png");
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x55;
    workdir.file("in/2.png", &damaged);
    let run = ["in", "-o", "out", "--op", "affine", "--chunk", "1", "--depth", "1"];
    workdir.map(&run).refused(1, &["damaged PNG", "128 of 256 rows"]);
    let journal = workdir.read("out.journal");
    // Now the first image is unreadable too.
    let first = workdir.read("in/0.png");
    workdir.file("in/0.png", &first[..first.len() / 2]);
    workdir.map(&[&run[..], &["--restart"]].concat()).refused(1, &["in/0.png", "128 of 256 rows"]);
    assert!(workdir.read("out.journal") == journal, "the journal has changed");
    assert!(workdir.exists("out.partial/1.png"));
    // Without an earlier run nothing is left.
    let mut new = run;
    new[2] = "new";
    workdir.map(&new).refused(1, &["in/0.png", "nothing is kept"]);
    assert_eq!(workdir.names(), ["in", "out.journal", "out.partial"]);
}

/// The signal of the limit once ended the process without a message.
#[test]
fn a_limit_of_file_sizes_is_an_error() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[256, 256], &noise(65_536, 3));
    let command =
        workdir.command(&["map", "--device", "host", "in.npy", "-o", "out.npy", "--op", "affine"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 16; exec \"$0\" \"$@\""]).arg(command.get_program());
    shell.args(command.get_args()).current_dir(workdir.path(".")).stdin(Stdio::null());
    let ran = Ran::from(shell.output().unwrap());
    ran.refused(1, &["out.npy.partial", "File too large", "nothing is kept"]);
    assert_eq!(workdir.names(), ["in.npy"]);
}

/// The suffix of the partial output once made a name too long.
#[test]
fn an_output_may_have_the_longest_name() {
    let workdir = workdir();
    for length in [247, 248, 254, 255] {
        let out = format!(
            "{}.npy",
            "é".repeat(200)[..(length - 4) / 2 * 2].to_owned() + &"x".repeat(length % 2)
        );
        assert_eq!(out.len(), length);
        workdir.map(&["in.npy", "-o", &out, "--op", "affine"]).done();
        assert_eq!(workdir.names(), ["in.npy", &out]);
        fs::remove_file(workdir.path(&out)).unwrap();
    }
    let long = "x".repeat(256);
    workdir.map(&["in.npy", "-o", &long, "--op", "affine"]).refused(1, &["name too long"]);
    assert_eq!(workdir.names(), ["in.npy"]);
}

/// The final name was once given to rows of two versions of the input.
#[test]
fn an_input_that_changes_during_the_run_is_an_error() {
    let workdir = Workdir::new();
    let data = noise(512 * 256, 2);
    workdir.npy("in.npy", "|u1", &[512, 256], &data);
    let args =
        ["map", "--device", "host", "in.npy", "-o", "out.npy", "--op", "median", "--radius", "7"];
    let command = workdir.command(&[&args[..], &["--chunk", "1", "--depth", "2"]].concat());
    let run = Held::start(command, &workdir.path("out.npy.partial"));
    let run = run.until(|| workdir.exists("out.npy.partial"));
    let input = File::options().write(true).open(workdir.path("in.npy")).unwrap();
    input.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    run.end().refused(1, &["in.npy", "changed during the run", "nothing is kept"]);
    assert_eq!(workdir.names(), ["in.npy"]);
}
