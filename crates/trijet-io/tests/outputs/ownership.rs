//! Files of others: files next to an output are not changed, whatever their names.

use crate::common::{GRAY16, demand, png};
use crate::workdir::{DATA, Workdir, everything, only};
use std::fs;
use std::os::unix::fs::symlink;
use trijet::{ErrorKind, Sink};
use trijet_io::Start;

/// A backup by hard links once changed with the file that it was to preserve.
#[test]
fn a_partial_output_with_another_name_is_not_changed() {
    let workdir = Workdir::new();
    let target = workdir.target("out.npy");
    let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
    output.write(0..1, &DATA[..4]).unwrap();
    drop(output);
    for name in ["out.npy.partial", "out.npy.journal"] {
        fs::hard_link(workdir.path(name), workdir.path("backup")).unwrap();
        let before = everything(&workdir);
        let resumed = workdir.begin(&target, "copy", Start::Resume);
        demand(resumed, ErrorKind::InvalidValue, name, &["a second name", "hard link"]);
        assert_eq!(everything(&workdir), before, "{name}");
        fs::remove_file(workdir.path("backup")).unwrap();
    }
    assert_eq!(workdir.resume(&target).missing(), only(1..4));
}

#[test]
fn a_backup_of_images_by_hard_links_is_not_changed() {
    let workdir = Workdir::new();
    let target = workdir.stack("images");
    let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
    output.write(0..2, &DATA[..8]).unwrap();
    let image = workdir.path("images.partial/000000.png");
    fs::hard_link(&image, workdir.path("backup.png")).unwrap();
    let before = fs::read(workdir.path("backup.png")).unwrap();
    output.write(0..1, &DATA[8..12]).unwrap();
    assert_eq!(fs::read(workdir.path("backup.png")).unwrap(), before);
    assert_ne!(fs::read(image).unwrap(), before);
}

#[test]
fn a_link_in_place_of_an_image_is_not_followed() {
    let workdir = Workdir::new();
    let target = workdir.stack("images");
    let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
    output.write(0..1, &DATA[..4]).unwrap();
    fs::write(workdir.path("precious"), "precious").unwrap();
    symlink("../precious", workdir.path("images.partial/000001.png")).unwrap();
    let before = everything(&workdir);
    let written = output.write(1..2, &DATA[4..8]);
    demand(written, ErrorKind::InvalidValue, "000001.png", &["not a partial output"]);
    drop(output);
    assert_eq!(
        everything(&workdir).iter().filter(|(path, _)| !path.ends_with("images.journal")).count(),
        before.iter().filter(|(path, _)| !path.ends_with("images.journal")).count(),
    );
    assert_eq!(fs::read(workdir.path("precious")).unwrap(), b"precious");
    let restarted = workdir.begin(&target, "copy", Start::Restart);
    demand(restarted, ErrorKind::InvalidValue, "000001.png", &["not a partial output"]);
    assert_eq!(fs::read(workdir.path("precious")).unwrap(), b"precious");
}

#[test]
fn a_folder_of_other_files_is_not_discarded() {
    let workdir = Workdir::new();
    let target = workdir.stack("images");
    let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
    output.write(0..4, &DATA).unwrap();
    png(&workdir.path("images.partial/holiday.png"), [2, 1], GRAY16, &[1, 2, 3, 4]);
    // A reader would take it for a page of the stack.
    let words = ["not part of this output", "--resume"];
    demand(output.finish(), ErrorKind::InvalidValue, "holiday.png", &words);
    drop(output);
    let before = everything(&workdir);
    let restarted = workdir.begin(&target, "copy", Start::Restart);
    demand(restarted, ErrorKind::InvalidValue, "holiday.png", &["not a partial output"]);
    assert_eq!(everything(&workdir), before);
    fs::rename(workdir.path("images.partial/holiday.png"), workdir.path("holiday.png")).unwrap();
    workdir.resume(&target).finish().unwrap();
    assert_eq!(fs::read_dir(workdir.path("images")).unwrap().count(), 4);
}

/// Another run, or a user, has replaced the partial output while this run was writing.
#[test]
fn a_partial_output_that_was_replaced_is_not_published() {
    for name in ["out.npy", "out.raw", "images"] {
        let workdir = Workdir::new();
        let target = workdir.stack(name);
        let partial = workdir.path(&format!("{name}.partial"));
        let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
        output.write(0..4, &DATA).unwrap();
        fs::rename(&partial, workdir.path("moved")).unwrap();
        let words = ["not the partial output", "of this run"];
        demand(output.finish(), ErrorKind::InvalidValue, &format!("{name}.partial"), &words);
        if name == "images" {
            fs::create_dir(&partial).unwrap();
        } else {
            fs::write(&partial, "unfinished").unwrap();
        }
        demand(output.finish(), ErrorKind::InvalidValue, &format!("{name}.partial"), &words);
        assert!(!target.path().exists(), "{name}");
        // A writer of images has not followed the name either.
        if name == "images" {
            output.write(0..1, &DATA[..4]).unwrap();
            assert_eq!(fs::read_dir(&partial).unwrap().count(), 0);
        }
    }
}

/// The lines before a damaged one name the partial output, and were once ignored by `--restart`.
#[test]
fn a_file_in_place_of_the_partial_output_is_not_discarded_with_a_damaged_journal() {
    let workdir = Workdir::new();
    let target = workdir.target("out.npy");
    let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
    output.write(0..1, &DATA[..4]).unwrap();
    drop(output);
    let (journal, partial) = (workdir.path("out.npy.journal"), workdir.path("out.npy.partial"));
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text + "garbage\n").unwrap();
    let own = workdir.path("own");
    fs::rename(&partial, &own).unwrap();
    fs::write(&partial, "precious").unwrap();
    let before = everything(&workdir);
    let restarted = workdir.begin(&target, "copy", Start::Restart);
    demand(restarted, ErrorKind::InvalidValue, "out.npy.partial", &["not the partial output"]);
    assert_eq!(everything(&workdir), before);
    fs::rename(&own, &partial).unwrap();
    let mut output = workdir.begin(&target, "copy", Start::Restart).unwrap();
    output.write(0..4, &DATA).unwrap();
    output.finish().unwrap();
}

#[test]
fn a_journal_of_another_run_is_not_deleted() {
    let workdir = Workdir::new();
    let target = workdir.target("out.npy");
    let journal = workdir.path("out.npy.journal");
    for is_finished in [false, true] {
        let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
        if is_finished {
            output.write(0..4, &DATA).unwrap();
        }
        fs::rename(&journal, workdir.path("moved")).unwrap();
        fs::write(&journal, "precious").unwrap();
        let ended = if is_finished { output.finish() } else { output.stop().map(|_| ()) };
        demand(ended, ErrorKind::InvalidValue, "out.npy.journal", &["replaced"]);
        assert_eq!(fs::read(&journal).unwrap(), b"precious");
        fs::remove_file(&journal).unwrap();
    }
}
