//! Outputs: the bytes are right in every format, the final name means a complete output, and a
//! stopped run can be resumed.
#![expect(clippy::unwrap_used, reason = "a helper that fails should fail its test")]

mod claims;
#[path = "../common/mod.rs"]
mod common;
mod durability;
mod inputs;
mod other_rows;
mod overwrite;
mod ownership;
mod shards;
mod workdir;

use common::{GRAY8, GRAY16, demand, png};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, proptest};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, SystemTime};
use trijet::{ErrorKind, Sink, Source};
use trijet_io::{Array, Dtype, Fingerprint, Input, Journal, Output, Plain, Start, Stopped, Target};
use workdir::{DATA, STARTS, Workdir, everything, only};

#[test]
fn the_final_name_appears_when_the_output_is_complete() {
    let workdir = Workdir::new();
    let target = workdir.target("out.npy");
    let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
    output.write(2..4, &DATA[8..]).unwrap();
    demand(output.finish(), ErrorKind::Io, "out.npy.partial", &["rows 0..2", "not written"]);
    output.write(0..2, &DATA[..8]).unwrap();
    assert_eq!(workdir.names(), ["in.npy", "out.npy.journal", "out.npy.partial"]);
    output.finish().unwrap();
    assert_eq!(workdir.names(), ["in.npy", "out.npy"]);
    let mut expected = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    let text = "{'descr': '<u2', 'fortran_order': False, 'shape': (4, 2), }";
    expected.extend(format!("{text:117}\n").into_bytes());
    assert_eq!(expected.len(), 128);
    expected.extend(DATA);
    assert_eq!(fs::read(workdir.path("out.npy")).unwrap(), expected);
}

#[test]
fn every_format_and_dtype_comes_back_as_it_was() {
    let workdir = Workdir::new();
    let data: Vec<u8> = (0..48).map(|n| n * 5).collect();
    for (dtype, name, kind) in [
        (Dtype::U8, "u8.npy", "npy"),
        (Dtype::U16, "u16.npy", "npy"),
        (Dtype::F32, "f32.npy", "npy"),
        (Dtype::U8, "u8.raw", "raw"),
        (Dtype::U16, "u16.raw", "raw"),
        (Dtype::F32, "f32.bin", "raw"),
        (Dtype::U8, "u8", "png"),
        (Dtype::U16, "u16", "png"),
    ] {
        let array = Array::new(dtype, vec![2, 2, 12 / dtype.bytes()]).unwrap();
        let target = Target::new(&workdir.path(name), array.clone(), &workdir.input).unwrap();
        assert_eq!(target.format().name(), kind, "{name}");
        let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
        output.write(0..2, &data[..24]).unwrap();
        assert!(!target.path().exists(), "{name}");
        output.write(2..4, &data[24..]).unwrap();
        output.finish().unwrap();
        let raw = (kind == "raw").then(|| array.clone());
        let read = Input::open(target.path(), raw).unwrap();
        assert_eq!(read.array(), &array, "{name}");
        let mut bytes = vec![0; 48];
        read.read(0..4, &mut bytes).unwrap();
        assert_eq!(bytes, data, "{name}");
    }
    assert!(workdir.path("u16").join("000001.png").is_file());
}

#[test]
fn images_keep_the_names_of_the_input() {
    let workdir = Workdir::new();
    let folder = workdir.path("stack");
    fs::create_dir(&folder).unwrap();
    png(&folder.join("cell 1.png"), [2, 1], GRAY8, &[1, 2]);
    png(&folder.join("cell 2.png"), [2, 1], GRAY8, &[3, 4]);
    let input = Input::open(&folder, None).unwrap();
    let target = Target::new(&workdir.path("clean"), input.array().clone(), &input).unwrap();
    let run = Fingerprint::new(&input, "copy", &target);
    let mut output = Output::open(&target, &run, Start::New).unwrap();
    output.write(0..2, &[1, 2, 3, 4]).unwrap();
    output.finish().unwrap();
    assert_eq!(Input::open(&workdir.path("clean"), None).unwrap().names(), input.names());
}

#[test]
fn an_empty_array_gives_an_empty_output() {
    let workdir = Workdir::new();
    for (name, shape) in [("a.npy", vec![0]), ("a.raw", vec![3, 0]), ("images", vec![0, 2, 2])] {
        let array = Array::new(Dtype::U16, shape).unwrap();
        let target = Target::new(&workdir.path(name), array.clone(), &workdir.input).unwrap();
        workdir.begin(&target, "copy", Start::New).unwrap().finish().unwrap();
        assert!(target.path().exists(), "{name}");
    }
    let read = Input::open(&workdir.path("a.npy"), None).unwrap();
    assert_eq!((read.array().shape(), read.layout().rows), (&[0][..], 0));
}

#[test]
fn an_array_that_is_not_an_image_is_not_written_as_png() {
    let workdir = Workdir::new();
    let odd = [
        (Dtype::F32, vec![2, 2], "f32"),
        (Dtype::U8, vec![4], "not an image"),
        (Dtype::U8, vec![1, 2, 3, 4], "not an image"),
        (Dtype::U8, vec![2, 0], "0x2"),
        (Dtype::U8, vec![1, 1 << 31], "2147483648x1"),
    ];
    for (dtype, shape, words) in odd {
        let array = Array::new(dtype, shape).unwrap();
        let target = Target::new(&workdir.path("images"), array, &workdir.input);
        demand(target, ErrorKind::InvalidValue, "images", &[words]);
    }
    let target =
        Target::new(&workdir.path("one.png"), workdir.input.array().clone(), &workdir.input);
    demand(target, ErrorKind::InvalidValue, "one.png", &["folder"]);
}

/// Such a run once went on until the disk was full.
#[test]
fn an_output_that_does_not_fit_on_its_disk_is_refused_before_the_first_row() {
    let workdir = Workdir::new();
    let disk = rustix::fs::statvfs(workdir.folder.path()).unwrap();
    let bytes = 2 * disk.f_bavail * disk.f_frsize;
    let large = workdir.path("large.raw");
    fs::File::create(&large).unwrap().set_len(bytes).unwrap();
    let array = Array::new(Dtype::U8, vec![2, bytes / 2]).unwrap();
    let input = Input::open(&large, Some(array.clone())).unwrap();
    let target = Target::new(&workdir.path("out.raw"), array, &input).unwrap();
    let Some(space) = target.space().unwrap() else {
        panic!("the test needs a file system that does not compress")
    };
    assert_eq!(space.needed.0, bytes);
    assert!(space.free < space.needed);
    let run = Fingerprint::new(&input, "copy", &target);
    let output = Output::open(&target, &run, Start::New).unwrap();
    demand(output.check_space(), ErrorKind::Io, "out.raw", &["still to be written", "free"]);
    drop(output);
    assert!(!workdir.path("out.raw.journal").exists());
    let target = workdir.target("out.raw");
    workdir.begin(&target, "copy", Start::New).unwrap().check_space().unwrap();
}

/// Such outputs once held headerless bytes, and `-` was a folder.
#[test]
fn a_name_with_another_extension_is_plain_bytes_only_if_the_user_says_so() {
    let workdir = Workdir::new();
    let array = workdir.input.array();
    for name in [
        "a.svs",
        "a.lsm",
        "a.jpg",
        "a.nc",
        "a.nii",
        "a.npz",
        "a.n5",
        "a.EXR",
        "a.mat",
        "a.mha",
        "a.vol",
        "a.v2",
        "scan_v1.0",
        "clean_0.5um",
        "a.npy.partial",
    ] {
        let path = workdir.path(name);
        let target = Target::new(&path, array.clone(), &workdir.input);
        demand(target, ErrorKind::InvalidValue, name, &["extension", "--raw", "ends with a slash"]);
        let target = Target::or_headerless(&path, array.clone(), &workdir.input).unwrap();
        assert_eq!(target.format().name(), "raw", "{name}");
    }
    for (name, format) in [
        ("a.npy", "npy"),
        ("a", "png"),
        ("a/", "png"),
        ("a.raw", "raw"),
        ("a.BIN", "raw"),
        ("a.dat", "raw"),
        ("a.d/", "png"),
        ("a.npy/", "png"),
        ("a.zarr", "zarr"),
        ("a.zarr/", "zarr"),
        ("a.raw/.", "png"),
        ("scan_v1.0/", "png"),
    ] {
        let array = Array::new(Dtype::U16, vec![4, 1, 2]).unwrap();
        for describe in [Target::new, Target::or_headerless] {
            let target = describe(&workdir.path(name), array.clone(), &workdir.input).unwrap();
            assert_eq!(target.format().name(), format, "{name}");
            assert_eq!(target.has_header(), format != "raw", "{name}");
        }
    }
    for describe in [Target::new, Target::or_headerless] {
        let target = describe("-".as_ref(), array.clone(), &workdir.input);
        demand(target, ErrorKind::InvalidValue, "-", &["standard output is not supported"]);
    }
}

#[test]
fn nothing_that_exists_is_overwritten() {
    let workdir = Workdir::new();
    let target = |path: &Path| {
        let target = Target::new(path, workdir.input.array().clone(), &workdir.input)?;
        target.check_free().map(|()| target)
    };
    let refused = |name: &str, words: &str| {
        demand(target(&workdir.path(name)), ErrorKind::InvalidValue, name, &[words]);
    };
    fs::write(workdir.path("old.npy"), "precious").unwrap();
    refused("old.npy", "already exists");
    symlink("nowhere", workdir.path("dangling.npy")).unwrap();
    refused("dangling.npy", "already exists");
    refused("in.npy", "overwrite the input");
    symlink("in.npy", workdir.path("soft.npy")).unwrap();
    refused("soft.npy", "overwrite the input");
    fs::hard_link(workdir.path("in.npy"), workdir.path("hard.npy")).unwrap();
    refused("hard.npy", "overwrite the input");
    symlink(workdir.folder.path(), workdir.path("here")).unwrap();
    refused("here/in.npy", "overwrite the input");
    refused("old.npy/out.npy", "not a folder");
    demand(target("..".as_ref()), ErrorKind::InvalidValue, "..", &["not the name of a file"]);
    let missing = target(&workdir.path("missing/out.npy"));
    demand(missing, ErrorKind::Io, "out.npy", &["missing: no such file or folder"]);
    assert_eq!(fs::read(workdir.path("old.npy")).unwrap(), b"precious");
}

#[test]
fn the_partial_output_and_the_journal_do_not_overwrite_the_input() {
    let workdir = Workdir::new();
    for (input, out) in [("x.npy.partial", "x.npy"), ("y.npy.journal", "y.npy")] {
        fs::write(workdir.path(input), DATA).unwrap();
        let array = Array::new(Dtype::U8, vec![16]).unwrap();
        let plain = Plain::new(array.clone()).any_name();
        let opened = Input::plain(&workdir.path(input), plain).unwrap();
        let target = Target::new(&workdir.path(out), array, &opened);
        demand(target, ErrorKind::InvalidValue, out, &["overwrite the input", input]);
    }
    let folder = workdir.path("z.partial");
    fs::create_dir(&folder).unwrap();
    png(&folder.join("a.png"), [1, 1], GRAY16, &[1, 1]);
    let input = Input::open(&folder, None).unwrap();
    let inside = Target::new(&folder.join("out.npy"), input.array().clone(), &input);
    demand(inside, ErrorKind::InvalidValue, "out.npy", &["inside the input"]);
    let around = Target::new(&workdir.path("z"), input.array().clone(), &input);
    demand(around, ErrorKind::InvalidValue, "z", &["overwrite the input"]);
}

#[test]
fn a_file_that_appears_under_the_final_name_is_not_overwritten() {
    let workdir = Workdir::new();
    let target = workdir.target("out.raw");
    let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
    output.write(0..4, &DATA).unwrap();
    fs::write(workdir.path("out.raw"), "precious").unwrap();
    demand(output.finish(), ErrorKind::InvalidValue, "out.raw", &["already exists"]);
    assert_eq!(fs::read(workdir.path("out.raw")).unwrap(), b"precious");
    assert_eq!(fs::read(workdir.path("out.raw.partial")).unwrap(), DATA);
}

/// The output and another program create the same name at the same time.
#[test]
fn a_final_name_belongs_to_the_first_that_creates_it() {
    let workdir = Workdir::new();
    let out = workdir.path("out.raw");
    for round in 0..100 {
        let target = workdir.target("out.raw");
        let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
        output.write(0..4, &DATA).unwrap();
        let ready = Barrier::new(2);
        let (finished, created) = thread::scope(|scope| {
            let other = scope.spawn(|| {
                ready.wait();
                File::create_new(&out).is_ok()
            });
            ready.wait();
            (output.finish().is_ok(), other.join().unwrap())
        });
        assert_ne!(finished, created, "round {round}");
        assert_eq!(fs::read(&out).unwrap().is_empty(), created, "round {round}");
        drop(output);
        fs::remove_file(&out).unwrap();
        if !finished {
            workdir.begin(&target, "copy", Start::Resume).unwrap().finish().unwrap();
            fs::remove_file(&out).unwrap();
        }
    }
}

/// A plain rename replaces an empty folder.
#[test]
fn a_folder_that_appears_under_the_final_name_is_not_replaced() {
    let workdir = Workdir::new();
    let target = workdir.stack("images");
    let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
    output.write(0..4, &DATA).unwrap();
    fs::create_dir(workdir.path("images")).unwrap();
    demand(output.finish(), ErrorKind::InvalidValue, "images", &["already exists"]);
    assert_eq!(fs::read_dir(workdir.path("images")).unwrap().count(), 0);
}

#[test]
fn a_partial_output_without_a_journal_is_never_changed() {
    for name in ["out.npy", "out.raw", "images"] {
        let workdir = Workdir::new();
        let target = workdir.stack(name);
        let partial = workdir.path(&format!("{name}.partial"));
        let refused = |words: &[&str]| {
            let before = everything(&workdir);
            for start in STARTS {
                let output = workdir.begin(&target, "copy", start);
                demand(output, ErrorKind::InvalidValue, &format!("{name}.partial"), words);
                assert_eq!(everything(&workdir), before, "{name}, {start:?}");
            }
        };
        fs::write(&partial, "precious").unwrap();
        refused(&["no journal", "move it elsewhere"]);
        fs::remove_file(&partial).unwrap();
        symlink("nowhere", &partial).unwrap();
        refused(&["no journal"]);
        fs::remove_file(&partial).unwrap();
        fs::create_dir(&partial).unwrap();
        png(&partial.join("000000.png"), [2, 1], GRAY16, &[1, 2, 3, 4]);
        refused(&["no journal"]);
    }
}

#[test]
fn a_file_that_is_not_a_journal_is_never_changed() {
    let workdir = Workdir::new();
    let target = workdir.target("out.npy");
    let journal = workdir.path("out.npy.journal");
    let refused = |words: &[&str]| {
        let before = everything(&workdir);
        for start in STARTS {
            let output = workdir.begin(&target, "copy", start);
            demand(output, ErrorKind::InvalidValue, "out.npy.journal", words);
            assert_eq!(everything(&workdir), before, "{start:?}");
        }
    };
    for text in ["Dear diary", "{}\n", "[\"trijet journal\",1,{}]\n", "[\"trijet\"]\n"] {
        fs::write(&journal, text).unwrap();
        refused(&["not a journal", "move it elsewhere"]);
    }
    fs::remove_file(&journal).unwrap();
    fs::create_dir(&journal).unwrap();
    refused(&["not a journal"]);
    fs::remove_dir(&journal).unwrap();
    fs::write(workdir.path("empty"), "").unwrap();
    symlink("empty", &journal).unwrap();
    refused(&["not a journal"]);
    fs::remove_file(&journal).unwrap();
    symlink("nowhere", &journal).unwrap();
    refused(&["not a journal"]);
}

#[test]
fn the_partial_output_of_another_job_is_never_changed() {
    let workdir = Workdir::new();
    let target = workdir.target("out.npy");
    let mut output = workdir.begin(&target, "median 3", Start::New).unwrap();
    output.write(0..2, &DATA[..8]).unwrap();
    drop(output);
    let before = everything(&workdir);
    for start in STARTS {
        let other = workdir.begin(&target, "median 5", start);
        let words = ["another job", "median 3", "median 5", "delete this file"];
        demand(other, ErrorKind::InvalidValue, "out.npy.journal", &words);
        assert_eq!(everything(&workdir), before, "{start:?}");
    }
}

#[test]
fn a_link_in_place_of_the_partial_output_is_not_followed() {
    for name in ["out.npy", "images"] {
        let workdir = Workdir::new();
        let target = workdir.stack(name);
        let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
        output.write(0..2, &DATA[..8]).unwrap();
        drop(output);
        let partial = format!("{name}.partial");
        fs::rename(workdir.path(&partial), workdir.path("moved")).unwrap();
        symlink("moved", workdir.path(&partial)).unwrap();
        let before = everything(&workdir);
        for start in [Start::Resume, Start::Restart] {
            let output = workdir.begin(&target, "copy", start);
            demand(output, ErrorKind::InvalidValue, &partial, &["not a partial output"]);
            assert_eq!(everything(&workdir), before, "{name}, {start:?}");
        }
    }
}

#[test]
fn partial_work_is_neither_lost_nor_continued_without_a_word() {
    for name in ["out.npy", "out.raw", "images"] {
        let workdir = Workdir::new();
        let target = workdir.stack(name);
        let mut output = workdir.begin(&target, "copy 7", Start::New).unwrap();
        output.write(1..3, &DATA[4..12]).unwrap();
        drop(output);
        let journal =
            File::options().write(true).open(workdir.path(&format!("{name}.journal"))).unwrap();
        journal.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)).unwrap();
        let before = everything(&workdir);
        let words = [
            "2 of 4 rows",
            "copy 7",
            &format!("{name}.partial"),
            "2023-11-14 22:13:20 UTC",
            "--resume",
            "--restart",
        ];
        let again = workdir.begin(&target, "copy 7", Start::New);
        demand(again, ErrorKind::InvalidValue, name, &words);
        assert_eq!(everything(&workdir), before, "{name}");
        let output = workdir.begin(&target, "copy 7", Start::Resume).unwrap();
        assert_eq!(output.done().count(), 2, "{name}");
        drop(output);
        let output = workdir.begin(&target, "copy 7", Start::Restart).unwrap();
        assert_eq!(output.missing(), only(0..4), "{name}");
    }
}

/// Nothing is lost, so the user is not asked.
#[test]
fn a_partial_output_without_rows_is_replaced() {
    for name in ["out.npy", "images"] {
        let workdir = Workdir::new();
        let target = workdir.stack(name);
        let journal = workdir.path(&format!("{name}.journal"));
        for start in STARTS {
            let mut output = workdir.begin(&target, "copy", start).unwrap();
            output.write(0..1, &DATA[..4]).unwrap();
            drop(output);
            // The run died before it had written a row.
            let text = fs::read_to_string(&journal).unwrap();
            let lines: String = text.split_inclusive('\n').take(2).collect();
            fs::write(&journal, lines).unwrap();
        }
        workdir.begin(&target, "copy", Start::New).unwrap().finish().unwrap_err();
        // The run died before it had created its partial output.
        for header in ["", "[\"trijet jour", "[\"trijet journal\",3,{\"input\""] {
            let partial = workdir.path(&format!("{name}.partial"));
            let removed = if name == "images" {
                fs::remove_dir_all(partial)
            } else {
                fs::remove_file(partial)
            };
            removed.unwrap();
            fs::write(&journal, header).unwrap();
            let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
            output.write(0..1, &DATA[..4]).unwrap();
        }
    }
}

#[test]
fn a_run_that_ends_without_rows_leaves_nothing() {
    for name in ["out.npy", "out.raw", "images"] {
        let workdir = Workdir::new();
        let target = workdir.stack(name);
        for start in STARTS {
            drop(workdir.begin(&target, "copy", start).unwrap());
            assert_eq!(workdir.names(), ["in.npy"], "{name}, {start:?}");
            let output = workdir.begin(&target, "copy", start).unwrap();
            assert_eq!(output.stop().unwrap(), Stopped::Nothing, "{name}, {start:?}");
            assert_eq!(workdir.names(), ["in.npy"], "{name}, {start:?}");
        }
        let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
        output.write(1..3, &DATA[4..12]).unwrap();
        assert_eq!(output.stop().unwrap(), Stopped::Rows(2));
        assert_eq!(workdir.names().len(), 3, "{name}");
    }
}

#[test]
fn a_resumed_run_writes_the_missing_rows_only() {
    for name in ["out.npy", "out.raw", "images"] {
        let workdir = Workdir::new();
        let target = workdir.stack(name);
        let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
        output.write(0..1, &DATA[..4]).unwrap();
        output.write(2..3, &DATA[8..12]).unwrap();
        drop(output);
        let mut output = workdir.resume(&target);
        assert_eq!(output.done().ranges(), [0..1, 2..3], "{name}");
        assert_eq!(output.missing(), [1..2, 3..4], "{name}");
        output.write(1..2, &DATA[4..8]).unwrap();
        drop(output);
        let mut output = workdir.resume(&target);
        assert_eq!(output.done().ranges(), only(0..3), "{name}");
        output.write(3..4, &DATA[12..]).unwrap();
        output.finish().unwrap();
        let raw = Array::new(Dtype::U16, vec![4, 2]).unwrap();
        let read = Input::open(&workdir.path(name), (name == "out.raw").then_some(raw)).unwrap();
        let mut bytes = [0; 16];
        read.read(0..4, &mut bytes).unwrap();
        assert_eq!(bytes, DATA, "{name}");
    }
}

#[test]
fn a_partial_output_that_lacks_rows_of_its_journal_is_not_resumed() {
    let workdir = Workdir::new();
    let target = workdir.target("out.npy");
    let partial = workdir.path("out.npy.partial");
    let stop = || {
        let mut output = workdir.begin(&target, "copy", Start::Restart).unwrap();
        output.write(0..2, &DATA[..8]).unwrap();
    };
    let refused = |words: &[&str]| {
        let before = everything(&workdir);
        let resumed = workdir.begin(&target, "copy", Start::Resume);
        demand(resumed, ErrorKind::Io, "out.npy.partial", &[words, &["--restart"]].concat());
        assert_eq!(everything(&workdir), before);
    };
    stop();
    fs::remove_file(&partial).unwrap();
    refused(&["missing"]);
    stop();
    fs::write(&partial, "short").unwrap();
    refused(&["5 bytes instead of 144"]);
    stop();
    assert_eq!(workdir.resume(&target).missing(), only(2..4));
    let mut other = fs::read(&partial).unwrap();
    other[9] ^= 1;
    fs::write(&partial, other).unwrap();
    refused(&["header is damaged"]);
    stop();
    assert_eq!(workdir.resume(&target).missing(), only(2..4));
}

#[test]
fn a_partial_output_without_one_of_its_images_is_not_resumed() {
    let workdir = Workdir::new();
    let target = workdir.stack("images");
    let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
    output.write(0..2, &DATA[..8]).unwrap();
    drop(output);
    fs::remove_file(workdir.path("images.partial").join("000001.png")).unwrap();
    let resumed = workdir.begin(&target, "copy", Start::Resume);
    let words = ["images.partial", "missing", "--restart"];
    demand(resumed, ErrorKind::Io, "000001.png", &words);
}

#[test]
fn rows_that_could_not_be_written_are_not_in_the_journal() {
    let workdir = Workdir::new();
    let target = workdir.stack("images");
    let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
    output.write(0..1, &DATA[..4]).unwrap();
    let obstacle = workdir.path("images.partial").join("000002.png");
    fs::create_dir(&obstacle).unwrap();
    let refused = output.write(1..3, &DATA[4..12]);
    demand(refused, ErrorKind::InvalidValue, "images.partial/000002.png", &["write"]);
    drop(output);
    fs::remove_dir(obstacle).unwrap();
    assert_eq!(workdir.resume(&target).missing(), only(1..4));
}

#[test]
fn an_incomplete_last_line_is_ignored() {
    for cut in 0.. {
        let workdir = Workdir::new();
        let target = workdir.target("out.npy");
        let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
        output.write(0..1, &DATA[..4]).unwrap();
        output.write(1..2, &DATA[4..8]).unwrap();
        drop(output);
        let journal = workdir.path("out.npy.journal");
        let whole = fs::read_to_string(&journal).unwrap();
        let lines: Vec<&str> = whole.split_inclusive('\n').collect();
        assert_eq!(lines.len(), 5, "a header, the partial output, the input, and two chunks");
        let length = whole.len() - cut;
        // Without a header there is no partial output yet.
        if length <= lines[0].len() {
            return;
        }
        fs::write(&journal, &whole[..length]).unwrap();
        let mut output = workdir.resume(&target);
        let rows = whole[..length].matches('\n').count().saturating_sub(3);
        assert_eq!(output.missing(), only(rows as u64..4), "{length} of {} bytes", whole.len());
        // The next line must not be appended to the incomplete one.
        output.write(3..4, &DATA[12..]).unwrap();
        drop(output);
        assert_eq!(workdir.resume(&target).missing(), only(rows as u64..3));
    }
}

/// A loss of power may leave a file with the right length and zeros at its end.
#[test]
fn zeros_in_place_of_lines_are_ignored() {
    let workdir = Workdir::new();
    let target = workdir.target("out.npy");
    let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
    output.write(0..1, &DATA[..4]).unwrap();
    output.write(1..2, &DATA[4..8]).unwrap();
    drop(output);
    let journal = workdir.path("out.npy.journal");
    let mut text = fs::read(&journal).unwrap();
    let last = text.iter().rposition(|&byte| byte == b'{').unwrap();
    text[last..].fill(0);
    text.extend(b"\0\0\n{\"rows\":[2,3],\"xxh3\":\"0123456789abcdef\"}\n");
    fs::write(&journal, text).unwrap();
    assert_eq!(workdir.resume(&target).missing(), only(1..4));
}

/// After a loss of power, and when another program has changed the partial output.
#[test]
fn a_resumed_run_writes_rows_again_that_are_not_as_they_were_written() {
    for (name, first) in [("out.npy", "out.npy.partial"), ("images", "images.partial/000001.png")] {
        let workdir = Workdir::new();
        let target = workdir.stack(name);
        let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
        for rows in 0..3 {
            let at = rows * 4;
            output.write(rows as u64..rows as u64 + 1, &DATA[at..at + 4]).unwrap();
        }
        // The rows of a stopped output are known to be on the disk.
        assert_eq!(output.stop().unwrap(), Stopped::Rows(3));
        let damaged = workdir.path(first);
        let mut bytes = fs::read(&damaged).unwrap();
        if name == "images" {
            bytes.clear();
        } else {
            // The second row is zero, as in a part of a file that never reached the disk.
            let end = bytes.len();
            bytes[end - 12..end - 8].fill(0);
        }
        fs::write(&damaged, bytes).unwrap();
        let output = workdir.begin(&target, "copy", Start::ResumeUnverified).unwrap();
        assert_eq!((output.missing(), output.lost()), (only(3..4), &[][..]), "{name}");
        drop(output);
        let mut output = workdir.resume(&target);
        assert_eq!(
            (output.missing(), output.lost()),
            (vec![1..2, 3..4], &only(1..2)[..]),
            "{name}"
        );
        output.write(3..4, &DATA[12..]).unwrap();
        drop(output);
        // The loss is in the journal, so it is not found again.
        let mut output = workdir.resume(&target);
        assert_eq!((output.missing(), output.lost()), (only(1..2), &[][..]), "{name}");
        output.write(1..2, &DATA[4..8]).unwrap();
        drop(output);
        let mut output = workdir.resume(&target);
        assert_eq!((output.missing().len(), output.lost().len()), (0, 0), "{name}");
        output.finish().unwrap();
        let mut bytes = [0; 16];
        Input::open(&workdir.path(name), None).unwrap().read(0..4, &mut bytes).unwrap();
        assert_eq!(bytes, DATA, "{name}");
    }
}

#[test]
fn a_damaged_line_in_the_middle_is_an_error() {
    let workdir = Workdir::new();
    let target = workdir.target("out.npy");
    let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
    output.write(0..1, &DATA[..4]).unwrap();
    drop(output);
    let journal = workdir.path("out.npy.journal");
    let header =
        fs::read_to_string(&journal).unwrap().split_inclusive('\n').next().unwrap().to_owned();
    let sound = r#"{"rows":[0,1],"xxh3":"0123456789abcdef"}"#;
    let rows = |rows: &str| sound.replace("[0,1]", rows);
    let mut lines = ["[0]", "[2,1]", "[0,5]"].map(rows).to_vec();
    lines.extend(["garbage", "{}", "", "{\"rows\":[0,1]}", "{\"lost\":[0,5]}"].map(String::from));
    lines.push(sound.replace("0123", "word"));
    for line in lines {
        fs::write(&journal, format!("{header}{line}\n{sound}\n")).unwrap();
        let resumed = workdir.begin(&target, "copy", Start::Resume);
        let at = format!("byte {}", header.len());
        demand(resumed, ErrorKind::Io, "out.npy.journal", &["damaged", &at]);
    }
    fs::write(&journal, "[\"trijet journal\",3,damaged]\n").unwrap();
    for start in STARTS {
        let words = ["header is damaged", "delete the file"];
        demand(workdir.begin(&target, "copy", start), ErrorKind::Io, "out.npy.journal", &words);
    }
}

#[test]
fn another_job_is_not_resumed() {
    let workdir = Workdir::new();
    let target = workdir.target("out.npy");
    let mut output = workdir.begin(&target, "median 3", Start::New).unwrap();
    output.write(0..1, &DATA[..4]).unwrap();
    drop(output);
    let other = |input: &Input, operation: &str, target: &Target, words: &[&str]| {
        let run = Fingerprint::new(input, operation, target);
        let resumed = Output::open(target, &run, Start::Resume);
        demand(resumed, ErrorKind::InvalidValue, "out.npy", words);
    };
    other(&workdir.input, "median 5", &target, &["operation", "median 3", "median 5"]);
    let array = Array::new(Dtype::U16, vec![2, 4]).unwrap();
    let wide = Target::new(&workdir.path("out.npy"), array, &workdir.input).unwrap();
    other(&workdir.input, "median 3", &wide, &["output_array", "[4, 2]", "[2, 4]"]);
}

#[test]
fn two_runs_do_not_write_one_output() {
    let workdir = Workdir::new();
    let target = workdir.target("out.npy");
    let first = workdir.begin(&target, "copy", Start::New).unwrap();
    for start in STARTS {
        let second = workdir.begin(&target, "copy", start);
        demand(second, ErrorKind::InvalidValue, "out.npy.journal", &["another run"]);
    }
    drop(first);
    Journal::lock(&workdir.path("out.npy.journal")).unwrap();
}

/// Chunks that cover eleven rows, in any order, some of them twice.
fn chunks() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let cuts = prop::collection::btree_set(1..11_u64, 0..6);
    let twice = prop::collection::vec((0..11_u64, 1..4_u64), 0..3);
    (cuts, twice).prop_flat_map(|(cuts, twice)| {
        let edges: Vec<u64> = [0].into_iter().chain(cuts).chain([11]).collect();
        let mut chunks: Vec<(u64, u64)> = edges.windows(2).map(|pair| (pair[0], pair[1])).collect();
        chunks.extend(twice.into_iter().map(|(start, rows)| (start, (start + rows).min(11))));
        Just(chunks).prop_shuffle()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_output_does_not_depend_on_the_order_of_the_chunks(
        chunks in chunks(),
        stop in 0..8_usize,
        data in prop::collection::vec(any::<u8>(), 66),
        name in prop::sample::select(vec!["out.npy", "out.raw", "images"]),
    ) {
        let workdir = Workdir::new();
        let shape = if name == "images" { vec![11, 1, 3] } else { vec![11, 3] };
        let array = Array::new(Dtype::U16, shape).unwrap();
        let write = |out: &str, chunks: &[(u64, u64)], stop: usize| {
            let target = Target::new(&workdir.path(out), array.clone(), &workdir.input).unwrap();
            let mut output = workdir.begin(&target, "copy", Start::New).unwrap();
            for (n, &(start, end)) in chunks.iter().enumerate() {
                if n == stop {
                    drop(output);
                    output = workdir.resume(&target);
                }
                let at = |row: u64| usize::try_from(row).unwrap() * 6;
                output.write(start..end, &data[at(start)..at(end)]).unwrap();
            }
            output.finish().unwrap();
            files(target.path())
        };
        let other = format!("other{}", name.strip_prefix("out").unwrap_or(""));
        assert_eq!(write(name, &chunks, stop), write(&other, &[(0, 11)], 9));
    }
}

/// The bytes of a file, or of all files of a folder in the order of their names.
fn files(path: &Path) -> Vec<Vec<u8>> {
    if path.is_file() {
        return vec![fs::read(path).unwrap()];
    }
    let mut paths: Vec<PathBuf> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}
