//! Writing over an output that exists, and pages that are made ahead.

use crate::common::demand;
use crate::workdir::{DATA, STARTS, Workdir, everything, only};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use trijet::{ErrorKind, Sink};
use trijet_io::{Array, Dtype, Fingerprint, Start, Target};

/// An output that is written over: four rows of two 16-bit elements.
fn target(workdir: &Workdir, name: &str) -> Target {
    workdir.target(name).overwrite()
}

fn images(workdir: &Workdir) -> Target {
    let array = Array::new(Dtype::U16, vec![4, 1, 2]).unwrap();
    Target::new(&workdir.path("images"), array, &workdir.input).unwrap()
}

fn finish(workdir: &Workdir, target: &Target, operation: &str, data: &[u8]) {
    let mut output = workdir.begin(target, operation, Start::New).unwrap();
    output.write(0..4, data).unwrap();
    output.finish().unwrap();
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

const OTHER: [u8; 16] = [9; 16];

/// The file stays the same one, with its pages, and gets the length of the new output.
#[test]
fn an_output_is_written_over_in_its_own_file() {
    for (name, old) in [("out.raw", 3), ("out.raw", 16), ("out.npy", 5000), ("out.npy", 0)] {
        let workdir = Workdir::new();
        let new = workdir.path("new.npy").with_extension(Path::new(name).extension().unwrap());
        finish(&workdir, &workdir.target(new.to_str().unwrap()), "copy", &DATA);
        let out = workdir.path(name);
        fs::write(&out, vec![7; old]).unwrap();
        let before = inode(&out);
        finish(&workdir, &target(&workdir, name), "copy", &DATA);
        assert_eq!(inode(&out), before, "{name}");
        assert!(fs::read(&out).unwrap() == fs::read(&new).unwrap(), "{name} from {old} bytes");
        fs::remove_file(&new).unwrap();
        assert_eq!(workdir.names(), ["in.npy", name]);
    }
}

/// A command that is repeated with both options until it succeeds.
#[test]
fn the_output_of_another_job_is_no_end_of_this_one() {
    let workdir = Workdir::new();
    finish(&workdir, &workdir.target("out.raw"), "double", &OTHER);
    let target = target(&workdir, "out.raw");
    let job = |operation| Fingerprint::new(&workdir.input, operation, &target);
    let (other, own) = (job("double"), job("copy"));
    assert!(target.is_finished(&other).unwrap());
    assert!(!target.is_finished(&own).unwrap());
    finish(&workdir, &target, "copy", &DATA);
    assert!(target.is_finished(&own).unwrap());
}

#[test]
fn an_output_that_does_not_exist_is_created() {
    let workdir = Workdir::new();
    finish(&workdir, &target(&workdir, "out.raw"), "copy", &DATA);
    assert_eq!(fs::read(workdir.path("out.raw")).unwrap(), DATA);
}

#[test]
fn images_are_written_over() {
    let workdir = Workdir::new();
    finish(&workdir, &images(&workdir), "copy", &OTHER);
    let before = inode(&workdir.path("images"));
    finish(&workdir, &images(&workdir).overwrite(), "copy", &DATA);
    assert_eq!(inode(&workdir.path("images")), before);
    let written = everything(&workdir);
    fs::remove_dir_all(workdir.path("images")).unwrap();
    finish(&workdir, &images(&workdir), "copy", &DATA);
    assert!(everything(&workdir) == written, "as images that were not there before");
}

#[test]
fn the_old_output_stays_until_the_first_row() {
    let workdir = Workdir::new();
    fs::write(workdir.path("out.raw"), "precious").unwrap();
    let before = everything(&workdir);
    for start in STARTS {
        let output = workdir.begin(&target(&workdir, "out.raw"), "copy", start).unwrap();
        assert_eq!(fs::read(workdir.path("out.raw")).unwrap(), b"precious");
        output.begin_ahead().stop().unwrap();
        assert_eq!(everything(&workdir), before, "{start:?}");
    }
}

/// The final name means a complete output at any time.
#[test]
fn an_interrupted_run_leaves_a_partial_output() {
    let workdir = Workdir::new();
    fs::write(workdir.path("out.raw"), OTHER).unwrap();
    let target = target(&workdir, "out.raw");
    let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
    output.write(1..2, &DATA[4..8]).unwrap();
    drop(output);
    assert_eq!(workdir.names(), ["in.npy", "out.raw.journal", "out.raw.partial"]);
    let words = ["1 of 4 rows", "--resume"];
    demand(workdir.begin(&target, "copy", Start::New), ErrorKind::InvalidValue, "out.raw", &words);
    let mut output = workdir.resume(&target);
    assert_eq!(output.missing(), [0..1, 2..4]);
    output.write(0..1, &DATA[..4]).unwrap();
    output.write(2..4, &DATA[8..]).unwrap();
    output.finish().unwrap();
    assert_eq!(fs::read(workdir.path("out.raw")).unwrap(), DATA);
    assert_eq!(workdir.names(), ["in.npy", "out.raw"]);
    let fingerprint = Fingerprint::new(&workdir.input, "copy", &target);
    assert!(target.is_finished(&fingerprint).unwrap());
}

/// A run that is continued has its own file, and does not touch another file with the final name.
#[test]
fn a_file_beside_a_partial_output_is_not_written_over() {
    let workdir = Workdir::new();
    let target = target(&workdir, "out.raw");
    let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
    output.write(0..2, &DATA[..8]).unwrap();
    fs::write(workdir.path("out.raw"), "precious").unwrap();
    output.write(2..4, &DATA[8..]).unwrap();
    demand(output.finish(), ErrorKind::InvalidValue, "out.raw", &["already exists"]);
    drop(output);
    let before = everything(&workdir);
    let resumed = workdir.begin(&target, "copy", Start::Resume);
    demand(resumed, ErrorKind::InvalidValue, "out.raw", &["already exists"]);
    assert_eq!(everything(&workdir), before);
}

#[test]
fn only_an_output_of_the_same_format_is_written_over() {
    let workdir = Workdir::new();
    fs::create_dir(workdir.path("folder.raw")).unwrap();
    fs::write(workdir.path("precious"), "precious").unwrap();
    symlink("precious", workdir.path("soft.raw")).unwrap();
    symlink("nothing", workdir.path("dangling.raw")).unwrap();
    fs::write(workdir.path("hard.raw"), "precious").unwrap();
    fs::hard_link(workdir.path("hard.raw"), workdir.path("backup")).unwrap();
    finish(&workdir, &images(&workdir), "copy", &OTHER);
    fs::write(workdir.path("images/thesis.tex"), "precious").unwrap();
    let before = everything(&workdir);
    let cases = [
        (target(&workdir, "folder.raw"), "folder.raw", "not a regular file"),
        (target(&workdir, "soft.raw"), "soft.raw", "not a regular file"),
        (target(&workdir, "dangling.raw"), "dangling.raw", "not a regular file"),
        (target(&workdir, "hard.raw"), "hard.raw", "hard link"),
        (images(&workdir).overwrite(), "thesis.tex", "not an image of this output"),
    ];
    for (target, name, words) in cases {
        demand(target.check_free(), ErrorKind::InvalidValue, name, &[words]);
        for start in STARTS {
            let begun = workdir.begin(&target, "copy", start);
            demand(begun, ErrorKind::InvalidValue, name, &[words]);
        }
    }
    assert_eq!(everything(&workdir), before);
}

/// An output that cannot be opened keeps its name and its bytes.
#[test]
fn an_output_that_cannot_be_written_keeps_its_name() {
    let workdir = Workdir::new();
    let target = target(&workdir, "out.raw");
    fs::write(workdir.path("out.raw"), "precious").unwrap();
    let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
    // A second name, after the check.
    fs::hard_link(workdir.path("out.raw"), workdir.path("backup")).unwrap();
    demand(output.write(0..4, &DATA), ErrorKind::InvalidValue, "out.raw", &["hard link"]);
    drop(output);
    assert_eq!(workdir.names(), ["backup", "in.npy", "out.raw"]);
    assert_eq!(fs::read(workdir.path("out.raw")).unwrap(), b"precious");
}

/// A target that is large enough for pages made ahead: rows of 1 MiB.
fn large(workdir: &Workdir) -> Target {
    let array = Array::new(Dtype::U8, vec![70, 1 << 20]).unwrap();
    Target::new(&workdir.path("out.raw"), array, &workdir.input).unwrap()
}

#[test]
fn pages_made_ahead_leave_nothing_behind() {
    let workdir = Workdir::new();
    let before = everything(&workdir);
    for start in STARTS {
        let output = workdir.begin(&large(&workdir), "copy", start).unwrap().begin_ahead();
        assert_eq!(workdir.names(), ["in.npy", "out.raw.journal"]);
        drop(output);
        assert_eq!(everything(&workdir), before, "{start:?}");
    }
}

#[test]
fn an_output_with_pages_made_ahead_is_as_any_other() {
    let workdir = Workdir::new();
    let target = large(&workdir);
    let data: Vec<u8> = (0..70 << 20).map(|n: u32| (n % 253).to_le_bytes()[0]).collect();
    let part = |rows: std::ops::Range<usize>| &data[rows.start << 20..rows.end << 20];
    let mut output = workdir.begin(&target, "copy", Start::New).unwrap().begin_ahead();
    output.write(60..70, part(60..70)).unwrap();
    drop(output);
    assert_eq!(fs::metadata(workdir.path("out.raw.partial")).unwrap().len(), 70 << 20);
    let mut output = workdir.resume(&target).begin_ahead();
    assert_eq!(output.missing(), only(0..60));
    output.write(0..60, part(0..60)).unwrap();
    output.finish().unwrap();
    assert!(fs::read(workdir.path("out.raw")).unwrap() == data);
    let fingerprint = Fingerprint::new(&workdir.input, "copy", &target);
    assert!(target.is_finished(&fingerprint).unwrap());
}
