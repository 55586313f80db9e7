//! Losses of power and deaths of a run: rows on the disk, copies of partial outputs, and finished
//! outputs.

use crate::common::{GRAY16, demand, png};
use crate::workdir::{DATA, Workdir, everything, only};
use std::fs;
use trijet::{ErrorKind, Sink};
use trijet_io::{Array, Dtype, Durability, Fingerprint, Output, Start, Stopped, Target};

/// The lines of the journal, without their hashes.
fn lines(workdir: &Workdir, name: &str) -> Vec<String> {
    let text = fs::read_to_string(workdir.path(name)).unwrap();
    let brief = |line: &str| line.split(",\"xxh3\"").next().unwrap().to_owned();
    text.lines().map(brief).collect()
}

#[test]
fn a_run_that_is_stopped_has_its_rows_on_the_disk_and_says_so() {
    for name in ["out.npy", "images"] {
        let workdir = Workdir::new();
        let target = workdir.stack(name);
        let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
        output.write(0..1, &DATA[..4]).unwrap();
        output.write(1..2, &DATA[4..8]).unwrap();
        assert_eq!(output.stop().unwrap(), Stopped::Rows(2));
        let journal = format!("{name}.journal");
        let lines = lines(&workdir, &journal);
        let text = fs::read_to_string(workdir.path(&journal)).unwrap();
        let last = lines.last().unwrap();
        assert_eq!(*last, format!("{{\"synced\":{}}}", text.len() - last.len() - 1), "{name}");
        // A run that does not wait for the disk promises nothing about it.
        let output = Output::open(
            &target,
            &Fingerprint::new(&workdir.input, "copy", &target),
            Start::Resume,
        );
        let mut output = output.unwrap().durability(Durability::InMemory);
        output.write(2..3, &DATA[8..12]).unwrap();
        assert_eq!(output.stop().unwrap(), Stopped::Rows(3));
        assert!(self::lines(&workdir, &journal).last().unwrap().starts_with("{\"rows\":[2,3]"));
    }
}

/// They may have been lost with the power, although the system has them now.
#[test]
fn rows_that_may_not_have_reached_the_disk_are_verified_in_any_case() {
    let workdir = Workdir::new();
    let target = workdir.target("out.npy");
    let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
    output.write(0..1, &DATA[..4]).unwrap();
    output.stop().unwrap();
    let mut output = workdir.resume(&target).durability(Durability::InMemory);
    output.write(1..2, &DATA[4..8]).unwrap();
    drop(output);
    let partial = workdir.path("out.npy.partial");
    let mut bytes = fs::read(&partial).unwrap();
    let first = bytes.len() - DATA.len();
    bytes[first..first + 8].fill(0);
    fs::write(&partial, bytes).unwrap();
    let output = workdir.begin(&target, "copy", Start::ResumeUnverified).unwrap();
    assert_eq!((output.missing(), output.lost()), (only(1..4), &only(1..2)[..]));
}

/// A retry that resumes until it succeeds comes to an end.
#[test]
fn a_finished_output_is_known_to_be_that_of_its_job() {
    for name in ["out.npy", "out.raw", "images"] {
        let workdir = Workdir::new();
        let target = workdir.stack(name);
        let run = Fingerprint::new(&workdir.input, "copy", &target);
        assert!(!target.is_finished(&run).unwrap(), "{name}");
        let mut output = Output::open(&target, &run, Start::New).unwrap();
        output.write(0..4, &DATA).unwrap();
        let journal = workdir.path(&format!("{name}.journal"));
        let lines = fs::read(&journal).unwrap();
        output.finish().unwrap();
        assert_eq!(output.stop().unwrap(), Stopped::Complete, "{name}");
        let before = everything(&workdir);
        assert!(target.is_finished(&run).unwrap(), "{name}");
        // The process was killed before it could delete the journal.
        fs::write(&journal, lines).unwrap();
        assert!(target.is_finished(&run).unwrap(), "{name}");
        assert_eq!(everything(&workdir), before, "{name}");
        // A journal of another job stays.
        fs::write(&journal, "precious").unwrap();
        assert!(target.is_finished(&run).unwrap(), "{name}");
        assert_eq!(fs::read(&journal).unwrap(), b"precious");
        fs::remove_file(&journal).unwrap();
        let other = Fingerprint::new(&workdir.input, "median", &target);
        demand(target.is_finished(&other), ErrorKind::InvalidValue, name, &["already exists"]);
        let changed = if name == "images" { "images/000000.png" } else { name };
        assert!(workdir.path(changed).exists());
        fs::write(workdir.path(changed), "edited").unwrap();
        demand(target.is_finished(&run), ErrorKind::InvalidValue, name, &["already exists"]);
    }
}

/// It once discarded them before the run that was to replace them could start.
#[test]
fn rows_of_an_earlier_run_stay_until_the_first_row_of_the_next() {
    for name in ["out.npy", "images"] {
        let workdir = Workdir::new();
        let target = workdir.stack(name);
        let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
        output.write(0..2, &DATA[..8]).unwrap();
        drop(output);
        let before = everything(&workdir);
        let output = workdir.begin(&target, "copy", Start::Restart).unwrap();
        assert_eq!(output.stop().unwrap(), Stopped::Rows(2), "{name}");
        assert_eq!(everything(&workdir), before, "{name}");
        let mut output = workdir.begin(&target, "copy", Start::Restart).unwrap();
        output.write(2..3, &DATA[8..12]).unwrap();
        drop(output);
        assert_eq!(workdir.resume(&target).done().ranges(), only(2..3), "{name}");
    }
}

/// Such a row once ended the process with a panic.
#[test]
fn a_journal_with_a_part_of_an_image_is_damaged() {
    let workdir = Workdir::new();
    let array = Array::new(Dtype::U16, vec![2, 2, 2]).unwrap();
    let target = Target::new(&workdir.path("images"), array, &workdir.input).unwrap();
    let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
    output.write(0..2, &DATA[..8]).unwrap();
    drop(output);
    let journal = workdir.path("images.journal");
    let text = fs::read_to_string(&journal).unwrap();
    for rows in ["[0,1]", "[1,2]", "[1,3]"] {
        fs::write(&journal, text.replace("[0,2]", rows)).unwrap();
        let resumed = workdir.begin(&target, "copy", Start::Resume);
        demand(resumed, ErrorKind::Io, "images.journal", &["damaged", "--restart"]);
    }
}

/// Users copy the finished part to a larger disk when the first one is full.
#[test]
fn a_copy_of_a_partial_output_is_continued_if_it_has_the_rows() {
    for name in ["out.npy", "images"] {
        let workdir = Workdir::new();
        let target = workdir.stack(name);
        let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
        output.write(0..1, &DATA[..4]).unwrap();
        output.write(1..2, &DATA[4..8]).unwrap();
        output.stop().unwrap();
        let partial = workdir.path(&format!("{name}.partial"));
        let original = workdir.path("original");
        fs::rename(&partial, &original).unwrap();
        let copy = |zeros: &[usize]| {
            if name == "images" {
                fs::create_dir(&partial).unwrap();
                for n in 0..2 {
                    let image = format!("00000{n}.png");
                    fs::copy(original.join(&image), partial.join(&image)).unwrap();
                    if zeros.contains(&n) {
                        png(&partial.join(&image), [2, 1], GRAY16, &[9, 9, 9, 9]);
                    }
                }
            } else {
                let mut bytes = fs::read(&original).unwrap();
                let first = bytes.len() - DATA.len();
                zeros.iter().for_each(|n| bytes[first + 4 * n..][..4].fill(0));
                fs::write(&partial, bytes).unwrap();
            }
        };
        // No part of it is ours, whatever its form.
        copy(&[0, 1]);
        let before = everything(&workdir);
        for start in [Start::Resume, Start::ResumeUnverified, Start::Restart] {
            let output = workdir.begin(&target, "copy", start);
            let words = ["not the partial output", "move both elsewhere"];
            demand(output, ErrorKind::InvalidValue, &format!("{name}.partial"), &words);
            assert_eq!(everything(&workdir), before, "{name}, {start:?}");
        }
        if name == "images" {
            fs::remove_dir_all(&partial).unwrap();
        }
        copy(&[1]);
        let mut output = workdir.begin(&target, "copy", Start::ResumeUnverified).unwrap();
        assert_eq!(output.lost(), only(1..2), "{name}");
        output.write(1..4, &DATA[4..]).unwrap();
        output.finish().unwrap();
    }
}
