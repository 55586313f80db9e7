//! What the journal says of the disk, inputs that change during a run, and finished outputs.

use crate::common::{GRAY16, demand, png};
use crate::workdir::{DATA, STARTS, Workdir, everything, only};
use std::fs;
use trijet::{ErrorKind, Sink};
use trijet_io::{Array, Dtype, Durability, Fingerprint, Input, Output, Start, Stopped, Target};

fn stack(workdir: &Workdir, name: &str) -> Target {
    let array = Array::new(Dtype::U16, vec![4, 1, 2]).unwrap();
    Target::new(&workdir.path(name), array, &workdir.input).unwrap()
}

/// The lines of the journal, without their hashes.
fn lines(workdir: &Workdir, name: &str) -> Vec<String> {
    let text = fs::read_to_string(workdir.path(name)).unwrap();
    let brief = |line: &str| line.split(",\"xxh3\"").next().unwrap().to_owned();
    text.lines().map(brief).collect()
}

#[test]
fn the_journal_says_which_rows_have_reached_the_disk() {
    for name in ["out.npy", "images"] {
        let workdir = Workdir::new();
        let target = stack(&workdir, name);
        let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
        output.write(0..1, &DATA[..4]).unwrap();
        output.write(1..2, &DATA[4..8]).unwrap();
        assert_eq!(output.stop().unwrap(), Stopped::Rows(2));
        let journal = format!("{name}.journal");
        let lines = lines(&workdir, &journal);
        let text = fs::read_to_string(workdir.path(&journal)).unwrap();
        let last = lines.last().unwrap();
        assert_eq!(*last, format!("{{\"synced\":{}}}", text.len() - last.len() - 1), "{name}");
        // A run that does not wait for the disk says nothing of it.
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

#[test]
fn an_output_whose_input_changed_during_the_run_is_not_finished() {
    let workdir = Workdir::new();
    let target = workdir.target("out.npy");
    for change in ["rewritten", "replaced", "deleted"] {
        let input = fs::read(workdir.path("in.npy")).unwrap();
        let open = Input::open(&workdir.path("in.npy"), None).unwrap();
        let run = Fingerprint::new(&open, "copy", &target);
        let mut output = Output::open(&target, &run, Start::New).unwrap();
        output.write(0..4, &DATA).unwrap();
        let path = workdir.path("in.npy");
        match change {
            "rewritten" => {
                fs::write(&path, &input).unwrap();
                let file = fs::File::options().write(true).open(&path).unwrap();
                file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
            }
            "replaced" => {
                let modified = fs::metadata(&path).unwrap().modified().unwrap();
                fs::write(workdir.path("other"), &input).unwrap();
                let file = fs::File::options().write(true).open(workdir.path("other")).unwrap();
                file.set_modified(modified).unwrap();
                fs::rename(workdir.path("other"), &path).unwrap();
            }
            _ => fs::remove_file(&path).unwrap(),
        }
        let words = ["in.npy", "changed during the run", "not kept"];
        demand(output.finish(), ErrorKind::Io, "out.npy", &words);
        assert!(!target.path().exists(), "{change}");
        assert_eq!(output.stop().unwrap(), Stopped::Nothing, "{change}");
        fs::write(&path, &input).unwrap();
        assert_eq!(workdir.names(), ["in.npy"], "{change}");
    }
}

/// Only the rows of the image that has changed are worthless.
#[test]
fn rows_of_other_images_are_kept_when_one_changed_during_the_run() {
    let workdir = Workdir::new();
    let folder = workdir.path("stack");
    fs::create_dir(&folder).unwrap();
    for n in 0..4 {
        png(&folder.join(format!("{n}.png")), [2, 1], GRAY16, &[0, n, 0, n]);
    }
    let open = |start| {
        let input = Input::open(&folder, None).unwrap();
        let target = Target::new(&workdir.path("out.npy"), input.array().clone(), &input).unwrap();
        Output::open(&target, &Fingerprint::new(&input, "copy", &target), start)
    };
    let mut output = open(Start::New).unwrap();
    for rows in 0..4 {
        output.write(rows..rows + 1, &DATA[..4]).unwrap();
    }
    fs::copy(folder.join("2.png"), folder.join("new")).unwrap();
    fs::rename(folder.join("new"), folder.join("2.png")).unwrap();
    let error = demand(output.finish(), ErrorKind::Io, "out.npy", &["2.png", "changed"]);
    assert!(!error.to_string().contains("1.png"), "{error}");
    assert_eq!(output.stop().unwrap(), Stopped::Rows(3));
    let mut output = open(Start::Resume).unwrap();
    assert_eq!(output.missing(), only(2..3));
    output.write(2..3, &DATA[..4]).unwrap();
    output.finish().unwrap();
}

/// Files of equal size and time, as a camera writes them.
#[test]
fn images_that_are_exchanged_are_not_resumed_though_their_size_and_time_are_equal() {
    let workdir = Workdir::new();
    let folder = workdir.path("stack");
    fs::create_dir(&folder).unwrap();
    for n in 0..4 {
        let path = folder.join(format!("{n}.png"));
        png(&path, [2, 1], GRAY16, &[0, n, 0, n]);
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    }
    let open = |start| {
        let input = Input::open(&folder, None).unwrap();
        let target = Target::new(&workdir.path("out.npy"), input.array().clone(), &input).unwrap();
        Output::open(&target, &Fingerprint::new(&input, "copy", &target), start)
    };
    let mut output = open(Start::New).unwrap();
    output.write(0..2, &DATA[..8]).unwrap();
    drop(output);
    fs::rename(folder.join("1.png"), folder.join("spare")).unwrap();
    fs::rename(folder.join("2.png"), folder.join("1.png")).unwrap();
    fs::rename(folder.join("spare"), folder.join("2.png")).unwrap();
    demand(open(Start::Resume), ErrorKind::InvalidValue, "out.npy", &["changed", "1.png"]);
}

/// A retry that resumes until it succeeds comes to an end.
#[test]
fn a_finished_output_is_known_to_be_that_of_its_job() {
    for name in ["out.npy", "out.raw", "images"] {
        let workdir = Workdir::new();
        let target = stack(&workdir, name);
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
        let target = stack(&workdir, name);
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

#[test]
fn a_run_that_cannot_start_leaves_nothing() {
    for start in STARTS {
        let workdir = Workdir::new();
        let target = workdir.target("out.npy");
        drop(workdir.begin(&target, "copy", start).unwrap());
        assert_eq!(workdir.names(), ["in.npy"]);
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

/// Users copy what is done to a larger disk when the first one is full.
#[test]
fn a_copy_of_a_partial_output_is_continued_if_it_has_the_rows() {
    for name in ["out.npy", "images"] {
        let workdir = Workdir::new();
        let target = stack(&workdir, name);
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
        // Nothing of it is ours, whatever its form.
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
