//! Parts of an input: `--slice` of its first axis, and the bytes after the `--header` of a raw
//! file.

use crate::workdir::{Images, Ran, Workdir, data_of, noise, pixels_of};
use std::fs;

const SHAPE: [usize; 3] = [5, 12, 13];
const IMAGE: usize = 12 * 13;

/// The same stack in every format.
fn workdir() -> Workdir {
    let workdir = Workdir::new();
    let stack = noise(5 * IMAGE, 41);
    workdir.npy("in.npy", "|u1", &SHAPE, &stack);
    workdir.images("in", [13, 12], &Images::U8(&stack));
    workdir.file("in.raw", &[&[7; 100][..], &stack].concat());
    workdir
}

const RAW: [&str; 3] = ["--shape=5x12x13", "--dtype=u8", "--header=100"];

/// Runs `map` over the stack in one of its formats.
fn map(workdir: &Workdir, input: &str, out: &str, more: &[&str]) -> Ran {
    let described: &[&str] = if input == "in.raw" { &RAW } else { &[] };
    workdir.map(&[&[input, "-o", out], described, more].concat())
}

#[test]
fn a_header_is_skipped_whatever_reads_the_file() {
    let workdir = workdir();
    map(&workdir, "in.npy", "whole.raw", &["--op=median:2"]).done();
    map(&workdir, "in.raw", "a.raw", &["--op=median:2", "--chunk=64"]).done();
    assert_eq!(workdir.read("a.raw"), workdir.read("whole.raw"));
    let plan = map(&workdir, "in.raw", "b.raw", &["--op=median:2", "--plan", "--json"]).json();
    assert_eq!(plan["bytes_out"], 5 * IMAGE);
    for shard in ["1/2", "0/2"] {
        let ran = map(&workdir, "in.raw", "c.raw", &["--op=median:2", "--shard", shard]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
    }
    assert_eq!(workdir.read("c.raw"), workdir.read("whole.raw"));
    let more = ["in.raw", "-o", "d.raw", "--shape=5x12x13", "--dtype=u8", "--op=affine"];
    workdir.map(&more).refused(1, &["has 880", "--header 100 skips it"]);
    fs::rename(workdir.path("in.raw"), workdir.path("in.vol")).unwrap();
    let any = [&["in.vol", "-o", "e.raw", "--raw", "--op=median:2"], &RAW[..]].concat();
    workdir.map(&any).done();
    assert_eq!(workdir.read("e.raw"), workdir.read("whole.raw"));
}

/// A journal of the same file with another header belongs to the same job, and is not continued.
#[test]
fn a_header_is_a_part_of_the_input() {
    let workdir = workdir();
    let call = |header, out: &str, more: &[&str]| {
        let described = ["in.raw", "-o", out, "--shape=860", "--dtype=u8", "--op=affine", header];
        workdir.map(&[&described[..], more].concat())
    };
    call("--header=20", "out.raw", &["--shard=0/2"]);
    let other = ["--shard=0/2", "--resume"];
    workdir.file("in.raw", &noise(861, 44));
    call("--header=1", "out.raw", &other).refused(1, &["out.raw", "--restart"]);
}

#[test]
fn a_slice_is_that_part_of_the_result_of_the_whole() {
    let workdir = workdir();
    for (n, op) in [
        &["--op=affine:2,1"][..],
        &["--op=median:3"],
        &["--op=median:2,wrap", "--op=median:2,mirror"],
    ]
    .into_iter()
    .enumerate()
    {
        let whole = format!("whole{n}.raw");
        map(&workdir, "in.npy", &whole, op).done();
        let whole = workdir.read(&whole);
        for (input, slice, images) in [
            ("in.npy", "1:3", 1..3),
            ("in.npy", ":2", 0..2),
            ("in.raw", "3:", 3..5),
            ("in", "1:4", 1..4),
            ("in", "0:5", 0..5),
        ] {
            for chunk in ["1", "40", "1MiB"] {
                let expected = &whole[images.start * IMAGE..images.end * IMAGE];
                let out = format!("{n}-{input}-{chunk}-{}.npy", slice.replace(':', "_"));
                let more = [op, &["--slice", slice, "--chunk", chunk]].concat();
                map(&workdir, input, &out, &more).done();
                let shape = format!("({}, 12, 13)", images.len());
                assert_eq!(data_of(&workdir.read(&out), "|u1", &shape), expected, "{out}");
            }
        }
    }
}

/// Rows of one image: the windows of the first and the last row reach beyond the slice.
#[test]
fn rows_outside_of_a_slice_are_read_where_the_operation_needs_them() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[20, 9], &noise(180, 42));
    for edges in ["nearest", "reflect", "wrap", "constant"] {
        let op = format!("--op=median:3,{edges}");
        let (whole, part) = (format!("{edges}.raw"), format!("{edges}-part.raw"));
        workdir.map(&["in.npy", "-o", &whole, &op]).done();
        for (n, (first, end)) in [(0, 4), (7, 13), (19, 20)].into_iter().enumerate() {
            let (slice, part) = (format!("--slice={first}:{end}"), format!("{n}{part}"));
            workdir.map(&["in.npy", "-o", &part, &op, &slice, "--chunk=20"]).done();
            assert_eq!(workdir.read(&part), workdir.read(&whole)[first * 9..end * 9], "{part}");
        }
    }
    let image = workdir.map(&["in.npy", "-o", "image", "--op=affine", "--slice=2:9"]);
    image.refused(1, &["image", "a slice of one image", ".npy"]);
}

#[test]
fn images_of_a_slice_keep_their_names() {
    let workdir = workdir();
    map(&workdir, "in", "out", &["--op=affine", "--slice=2:4"]).done();
    let mut names: Vec<_> = fs::read_dir(workdir.path("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["2.png", "3.png"]);
    map(&workdir, "in.npy", "numbered", &["--op=affine", "--slice=2:4"]).done();
    assert_eq!(pixels_of(&workdir.path("numbered")), pixels_of(&workdir.path("out")));
}

#[test]
fn shards_of_a_slice_are_the_slice() {
    let workdir = workdir();
    let part = ["--op=median:2", "--slice=1:4", "--chunk=50"];
    for (input, out) in [("in.npy", "a.npy"), ("in", "b.npy")] {
        map(&workdir, input, "whole.npy", &part).done();
        for shard in ["2/3", "0/3", "1/3"] {
            let ran = map(&workdir, input, out, &[&part[..], &["--shard", shard]].concat());
            assert_eq!(ran.code, Some(0), "{}", ran.err);
        }
        assert_eq!(workdir.read(out), workdir.read("whole.npy"), "{input}");
        fs::remove_file(workdir.path("whole.npy")).unwrap();
    }
}

#[test]
fn a_slice_is_resumed_as_the_same_slice_only() {
    let workdir = workdir();
    let part = ["--op=median:2", "--slice=1:5", "--chunk=1", "--depth=1"];
    map(&workdir, "in", "expected.npy", &part).done();
    let sound = workdir.read("in/3.png");
    workdir.file("in/3.png", &[&sound[..60], &[0; 8]].concat());
    map(&workdir, "in", "out.npy", &part).refused(1, &["in/3.png", "use --resume"]);
    let resume = |slice: &[&str]| {
        let call = [&["--op=median:2", "--chunk=1", "--depth=1", "--resume"], slice].concat();
        map(&workdir, "in", "out.npy", &call)
    };
    resume(&["--slice=0:5"]).refused(1, &["another job", "slice was \"1:5\"", "there is none"]);
    resume(&["--slice=1:4"]).refused(1, &["slice was \"1:5\", now it is \"1:4\""]);
    resume(&[]).refused(1, &["slice was \"1:5\"", "there is none"]);
    workdir.file("in/3.png", &sound);
    resume(&["--slice=1:"]).done();
    assert_eq!(workdir.read("out.npy"), workdir.read("expected.npy"));
    // An image outside of the slice may change.
    workdir.images("new", [13, 12], &Images::U8(&noise(IMAGE, 43)));
    fs::copy(workdir.path("new/0.png"), workdir.path("in/0.png")).unwrap();
    let again = resume(&["--slice=1:5"]).done();
    assert!(again.contains("is complete"), "{again}");
}
