//! Inputs that change: the rows that depend on a changed file are not kept.

use crate::common::{GRAY16, demand, dictionary, npy, png};
use crate::workdir::{DATA, Workdir, only};
use std::fs::{self, File, Metadata, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use trijet::{ErrorKind, Sink};
use trijet_io::{Fingerprint, Input, Output, Start, Stopped, Target};

/// A stack of four images of one pixel, in the folder `stack`.
fn stack(workdir: &Workdir) -> PathBuf {
    let folder = workdir.path("stack");
    fs::create_dir(&folder).unwrap();
    for n in 0..4 {
        png(&folder.join(format!("{n}.png")), [2, 1], GRAY16, &[0, n, 0, n]);
    }
    folder
}

/// Opens `out.npy` for a copy of the stack, whose rows depend on `halo` rows on each side.
fn open(workdir: &Workdir, start: Start, halo: u64) -> trijet::Result<Output> {
    let input = Input::open(&workdir.path("stack"), None).unwrap();
    let target = Target::new(&workdir.path("out.npy"), input.array().clone(), &input).unwrap();
    Output::open(&target, &Fingerprint::new(&input, "copy", &target).halo(halo), start)
}

/// Changes an image, so that its size changes, too.
fn change(image: &Path) {
    png(image, [2, 1], GRAY16, &[250, 1, 77, 3]);
    let mut bytes = fs::read(image).unwrap();
    bytes.push(0);
    fs::write(image, bytes).unwrap();
}

fn set_modified(path: &Path, time: SystemTime) {
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// The job is the same, so that it may start over.
#[test]
fn a_job_whose_input_has_changed_is_not_resumed_but_starts_over() {
    let workdir = Workdir::new();
    let target = workdir.target("out.npy");
    let mut output = workdir.begin(&target, "median 3", Start::New).unwrap();
    output.write(0..1, &DATA[..4]).unwrap();
    drop(output);
    let longer = npy(&dictionary("<u2", "False", "(4, 2) "), &DATA);
    fs::write(workdir.path("in.npy"), longer).unwrap();
    let changed = Input::open(&workdir.path("in.npy"), None).unwrap();
    let run = Fingerprint::new(&changed, "median 3", &target);
    let resumed = Output::open(&target, &run, Start::Resume);
    demand(
        resumed,
        ErrorKind::InvalidValue,
        "out.npy",
        &["input", "cannot be resumed", "--restart", "1 row"],
    );
    let output = Output::open(&target, &run, Start::Restart).unwrap();
    assert_eq!(output.missing(), only(0..4));
}

/// The repair of a damaged image once changed the fingerprint of the whole folder.
#[test]
fn an_image_may_change_until_its_rows_are_done() {
    let workdir = Workdir::new();
    let folder = stack(&workdir);
    let open = |start, halo| open(&workdir, start, halo);
    let mut output = open(Start::New, 0).unwrap();
    output.write(0..1, &DATA[..4]).unwrap();
    output.write(3..4, &DATA[12..]).unwrap();
    drop(output);
    change(&folder.join("2.png"));
    let mut output = open(Start::Resume, 0).unwrap();
    assert_eq!(output.missing(), only(1..3));
    output.write(2..3, &DATA[8..12]).unwrap();
    drop(output);
    assert_eq!(open(Start::Resume, 0).unwrap().missing(), only(1..2));
    change(&folder.join("3.png"));
    change(&folder.join("1.png"));
    let words = ["changed", "3.png", "3 rows", "--restart"];
    let error = demand(open(Start::Resume, 0), ErrorKind::InvalidValue, "out.npy", &words);
    assert!(!error.to_string().contains("1.png"), "{error}");
    // Rows that depend on their neighbours depend on the images of these.
    let mut output = open(Start::Restart, 1).unwrap();
    output.write(0..1, &DATA[..4]).unwrap();
    drop(output);
    File::options().append(true).open(folder.join("1.png")).unwrap().set_len(99).unwrap();
    let resumed = open(Start::Resume, 1);
    demand(resumed, ErrorKind::InvalidValue, "out.npy", &["changed", "1.png"]);
}

#[test]
fn rows_belong_to_images_by_their_place_in_the_stack() {
    let workdir = Workdir::new();
    let folder = stack(&workdir);
    let open = |start| open(&workdir, start, 0);
    let mut output = open(Start::New).unwrap();
    output.write(1..2, &DATA[4..8]).unwrap();
    drop(output);
    fs::rename(folder.join("0.png"), folder.join("7.png")).unwrap();
    // The second image is another one now.
    demand(open(Start::Resume), ErrorKind::InvalidValue, "out.npy", &["changed", "2.png"]);
}

/// Files of equal size and time, as a camera writes them.
#[test]
fn images_that_are_exchanged_are_not_resumed() {
    let workdir = Workdir::new();
    let folder = stack(&workdir);
    for n in 0..4 {
        set_modified(&folder.join(format!("{n}.png")), SystemTime::UNIX_EPOCH);
    }
    let open = |start| open(&workdir, start, 0);
    let mut output = open(Start::New).unwrap();
    output.write(0..2, &DATA[..8]).unwrap();
    drop(output);
    fs::rename(folder.join("1.png"), folder.join("spare")).unwrap();
    fs::rename(folder.join("2.png"), folder.join("1.png")).unwrap();
    fs::rename(folder.join("spare"), folder.join("2.png")).unwrap();
    demand(open(Start::Resume), ErrorKind::InvalidValue, "out.npy", &["changed", "1.png"]);
}

#[test]
fn every_path_of_an_input_resumes_every_other_one() {
    let workdir = Workdir::new();
    symlink("in.npy", workdir.path("link.npy")).unwrap();
    symlink(".", workdir.path("here")).unwrap();
    let target = workdir.target("out.npy");
    let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
    output.write(0..1, &DATA[..4]).unwrap();
    drop(output);
    for path in ["link.npy", "here/in.npy", "./in.npy"] {
        let input = Input::open(&workdir.path(path), None).unwrap();
        let run = Fingerprint::new(&input, "copy", &target);
        let output = Output::open(&target, &run, Start::Resume).unwrap();
        assert_eq!(output.missing(), only(1..4), "{path}");
    }
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
                set_modified(&path, SystemTime::UNIX_EPOCH);
            }
            "replaced" => {
                let modified = fs::metadata(&path).unwrap().modified().unwrap();
                fs::write(workdir.path("other"), &input).unwrap();
                set_modified(&workdir.path("other"), modified);
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
    let folder = stack(&workdir);
    let open = |start| open(&workdir, start, 0);
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

/// Makes a change that keeps the size and the time of modification. The clock of the file system
/// ticks a few times in a hundredth of a second, so the last step is repeated until the clock has
/// ticked.
fn in_secret(path: &Path, change: impl FnOnce()) {
    let before = fs::metadata(path).unwrap();
    let times = |state: &Metadata| (state.ctime(), state.ctime_nsec());
    change();
    loop {
        set_modified(path, before.modified().unwrap());
        if times(&fs::metadata(path).unwrap()) != times(&before) {
            break;
        }
    }
}

/// The last byte of a file changes, and its time of modification is put back.
fn change_in_secret(path: &Path) {
    in_secret(path, || {
        let mut bytes = fs::read(path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        File::options().write(true).open(path).unwrap().write_all_at(&bytes, 0).unwrap();
    });
}

/// A new permission, and another file that was written under the old time (`cp -p`), look the same.
#[test]
fn a_file_whose_state_has_changed_is_refused_until_the_user_says_that_it_is_the_same() {
    for change in ["bytes", "permission", "link"] {
        let workdir = Workdir::new();
        let path = workdir.path("in.npy");
        let target = workdir.target("out.npy");
        let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
        output.write(0..1, &DATA[..4]).unwrap();
        drop(output);
        match change {
            "bytes" => change_in_secret(&path),
            "permission" => in_secret(&path, || {
                fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
            }),
            _ => in_secret(&path, || fs::hard_link(&path, workdir.path("backup")).unwrap()),
        }
        let input = Input::open(&path, None).unwrap();
        let run = Fingerprint::new(&input, "copy", &target);
        let words = ["in.npy", "state", "--same-input", "--restart", "1 row"];
        let resumed = Output::open(&target, &run, Start::Resume);
        demand(resumed, ErrorKind::InvalidValue, "out.npy", &words);
        let same = run.clone().same_input();
        let mut output = Output::open(&target, &same, Start::Resume).unwrap();
        assert_eq!(output.missing(), only(1..4), "{change}");
        output.write(1..4, &DATA[4..]).unwrap();
        output.finish().unwrap();
        assert!(target.is_finished(&run).unwrap(), "{change}");
    }
}

/// The rows are kept, because they may be right.
#[test]
fn an_output_whose_input_changed_its_state_during_the_run_is_not_finished() {
    let workdir = Workdir::new();
    let target = workdir.target("out.npy");
    let input = Input::open(&workdir.path("in.npy"), None).unwrap();
    let run = Fingerprint::new(&input, "copy", &target);
    let mut output = Output::open(&target, &run, Start::New).unwrap();
    output.write(0..4, &DATA).unwrap();
    change_in_secret(&workdir.path("in.npy"));
    let words = ["in.npy", "during the run", "--same-input"];
    demand(output.finish(), ErrorKind::Io, "out.npy", &words);
    assert!(!target.path().exists());
    assert_eq!(output.stop().unwrap(), Stopped::Rows(4));
    let mut output = Output::open(&target, &run.same_input(), Start::Resume).unwrap();
    assert_eq!(output.missing(), []);
    output.finish().unwrap();
}

/// A retry must not take the output of other bytes for its output.
#[test]
fn a_finished_output_is_that_of_the_job_only_with_the_same_input() {
    let workdir = Workdir::new();
    let target = workdir.target("out.npy");
    let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
    output.write(0..4, &DATA).unwrap();
    output.finish().unwrap();
    change_in_secret(&workdir.path("in.npy"));
    let input = Input::open(&workdir.path("in.npy"), None).unwrap();
    let run = Fingerprint::new(&input, "copy", &target);
    let words = ["the output of this job", "state", "--same-input"];
    demand(target.is_finished(&run), ErrorKind::InvalidValue, "out.npy", &words);
    assert!(!target.clone().overwrite().is_finished(&run).unwrap());
    assert!(target.is_finished(&run.same_input()).unwrap());
}
