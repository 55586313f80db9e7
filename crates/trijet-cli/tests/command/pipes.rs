//! Standard input and standard output: the bytes are those of a run with files.

use crate::on_terminal::{Shown, on_terminal};
use crate::workdir::{Workdir, noise};
use std::io::Write;
use std::process::{Output, Stdio};
use std::thread;

/// The bytes of a stack of u16 of this shape.
fn stack() -> Vec<u8> {
    noise(2 * 6 * 20 * 10, 4)
}

const RAW: [&str; 2] = ["--shape=6x20x10", "--dtype=u16"];
const MEDIAN: [&str; 3] = ["--op=median:2", "--op=affine:0.5,3", "--chunk=400"];

fn workdir() -> Workdir {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "<u2", &[6, 20, 10], &stack());
    workdir
}

/// Runs `map` on the host device with these bytes on its standard input, through a pipe.
fn piped(workdir: &Workdir, args: &[&str], input: &[u8]) -> Output {
    let mut command = workdir.command(&[&["map", "--device", "host"], args].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    thread::scope(|scope| {
        // A command that refuses the input does not read it.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().unwrap()
    })
}

/// The standard output of a run that succeeds.
#[track_caller]
fn bytes_of(ran: Output) -> Vec<u8> {
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    ran.stdout
}

/// Asserts that a run failed with an error that contains `words`.
#[track_caller]
fn failed(ran: &Output, words: &[&str]) {
    let text = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{text}");
    assert!(words.iter().all(|word| text.contains(word)), "{text} lacks one of {words:?}");
}

#[test]
fn a_run_through_pipes_gives_the_bytes_of_a_run_with_files() {
    let workdir = workdir();
    workdir.map(&[&["in.npy", "-o", "out.npy"], &MEDIAN[..]].concat()).done();
    let (expected, file) = (workdir.read("out.npy"), workdir.read("in.npy"));
    let header = expected.len() - stack().len();
    let run = |args: &[&str], more: &[&str], input: &[u8]| {
        piped(&workdir, &[args, &MEDIAN, more].concat(), input)
    };
    assert!(bytes_of(run(&["-", "-o", "-"], &[], &file)) == expected);
    assert!(bytes_of(run(&["-", "-o", "-"], &RAW, &stack())) == expected);
    let raw = [&RAW[..], &["--raw"]].concat();
    assert!(bytes_of(run(&["-", "-o", "-"], &raw, &stack())) == expected[header..]);
    assert!(bytes_of(run(&["-", "-o", "-"], &["--raw"], &file)) == expected[header..]);
    assert!(bytes_of(run(&["in.npy", "-o", "-"], &[], &[])) == expected);
    let big: Vec<u8> = stack().as_chunks::<2>().0.iter().flat_map(|[a, b]| [*b, *a]).collect();
    let headed = [&[7; 5], &big[..]].concat();
    let more = [&RAW[..], &["--endian=big", "--header=5"]].concat();
    assert!(bytes_of(run(&["-", "-o", "-"], &more, &headed)) == expected);
    for (out, more) in [("a.npy", &[][..]), ("b.npy", &RAW)] {
        let input = if more.is_empty() { file.clone() } else { stack() };
        bytes_of(run(&["-", "-o", out], more, &input));
        assert!(workdir.read(out) == expected, "{out}");
    }
}

#[test]
fn operations_of_another_shape_go_through_pipes() {
    let workdir = workdir();
    let file = workdir.read("in.npy");
    for (number, op) in ["bin:2", "crop:3:17,1:9", "project:max", "median:1,z=1"].iter().enumerate()
    {
        let out = format!("out{number}.npy");
        let axis = if op.starts_with("project") { "--axis=1" } else { "--axis=0" };
        for chunk in ["--chunk=100", "--chunk=1MiB"] {
            let options = ["--op", op, chunk, axis];
            if !workdir.exists(&out) {
                workdir.map(&[&["in.npy", "-o", &out], &options[..]].concat()).done();
            }
            let input = if axis == "--axis=0" { "-" } else { "in.npy" };
            let ran = piped(&workdir, &[&[input, "-o", "-"], &options[..]].concat(), &file);
            assert!(bytes_of(ran) == workdir.read(&out), "{op} {chunk}");
        }
    }
}

/// A program that reads the array must not find a report in it.
#[test]
fn the_report_of_a_run_to_standard_output_is_on_standard_error() {
    let workdir = workdir();
    let run = |more: &[&str]| {
        let ran = piped(&workdir, &[&["in.npy", "-o", "-"], &MEDIAN[..], more].concat(), &[]);
        let text = String::from_utf8(ran.stderr.clone()).unwrap();
        let header = bytes_of(ran).len() - stack().len();
        assert_eq!(header, 128, "{more:?}");
        text
    };
    for more in [&[][..], &["--report=full"], &["--check"]] {
        let text = run(more);
        assert!(text.contains("-: u16 [6, 20, 10], median radius=2"), "{text}");
        assert_eq!(text.contains("check: "), more == ["--check"], "{text}");
    }
    assert_eq!(run(&["--report=none"]), "");
}

#[test]
fn options_that_need_a_file_are_refused() {
    let workdir = workdir();
    let op = ["--op", "affine"];
    for (input, output, options) in [
        ("-", "out.npy", &["--resume", "--slice=1:2", "--shard=0/2"][..]),
        ("in.npy", "-", &["--resume", "--restart", "--overwrite", "--slice=1:2"]),
        ("in.npy", "-", &["--shard=0/2", "--plan", "--json", "--skip-bad", "--trace=a.html"]),
    ] {
        for option in options {
            let call = [&[input, "-o", output, option], &op[..]].concat();
            let name = option.split('=').next().unwrap();
            workdir
                .map(&call)
                .refused(2, &[name, "cannot be used with standard", "name of a file"]);
        }
    }
    assert_eq!(workdir.names(), ["in.npy"]);
}

#[test]
fn a_damaged_stream_is_refused_with_the_cause() {
    let workdir = workdir();
    let file = workdir.read("in.npy");
    let refused = |args: &[&str], input: &[u8], words: &[&str]| {
        let call = [&["-", "-o", "-", "--op=affine"], args].concat();
        failed(&piped(&workdir, &call, input), words);
    };
    refused(&[], b"", &["-: the header is cut off"]);
    refused(&[], b"no array here", &["magic bytes", "--shape and --dtype"]);
    refused(&[], &file[..60], &["-: the header is cut off"]);
    refused(&[], &file[..file.len() - 1], &["the data are cut off", "needs 2400 bytes"]);
    refused(&[], &[&file[..], &[0]].concat(), &["longer than u16 [6, 20, 10]"]);
    refused(&RAW, &stack()[1..], &["the data are cut off"]);
    let header = [&RAW[..], &["--header=9000"]].concat();
    refused(&header, &stack(), &["ends within the header"]);
    let fortran = String::from_utf8_lossy(&file[..128]).replace("False", "True ");
    let fortran: Vec<u8> =
        fortran.chars().map(|c| if c > '\x7f' { 0x93 } else { c as u8 }).collect();
    refused(&[], &[&fortran[..], &file[128..]].concat(), &["Fortran order", "name of the file"]);
}

/// The rows that are done cannot be continued, because the stream is gone.
#[test]
fn a_run_that_reads_a_stream_starts_over() {
    let workdir = workdir();
    let file = workdir.read("in.npy");
    let call = ["-", "-o", "out.npy", "--op=affine:2", "--chunk=400"];
    let cut = piped(&workdir, &call, &file[..file.len() - 1]);
    failed(&cut, &["out.npy is not finished", "use --restart"]);
    failed(&piped(&workdir, &call, &file), &["out.npy", "--restart"]);
    bytes_of(piped(&workdir, &[&call[..], &["--restart"]].concat(), &file));
    workdir.map(&["in.npy", "-o", "same.npy", "--op=affine:2"]).done();
    assert!(workdir.read("out.npy") == workdir.read("same.npy"));
}

#[test]
fn an_array_is_not_written_to_a_terminal() {
    let workdir = workdir();
    let call = ["map", "--device", "host", "in.npy", "-o", "-", "--op=affine"];
    let shown = on_terminal(workdir.command(&call), 160, Shown::Both);
    assert!(shown.contains("standard output is a terminal"), "{shown}");
}
