//! MRC files of mrcfile, and damaged headers.

use super::{assert_equals, golden, names};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;
use trijet::ErrorKind;
use trijet_io::Input;

fn open(name: &str) -> Input {
    Input::open(&golden("mrc", &format!("{name}.mrc")), None).unwrap()
}

#[test]
fn files_of_mrcfile_have_its_arrays() {
    let names = names("mrc");
    assert!(names.len() > 10);
    for name in names {
        assert_equals(&open(&name), "mrc", &name);
    }
}

#[test]
fn the_size_of_the_pixels_is_known_along_the_axes_of_the_array() {
    let close = |found: Option<f64>, wanted: Option<f64>| match (found, wanted) {
        (Some(found), Some(wanted)) => (found / wanted - 1.0).abs() < 1e-6,
        (found, wanted) => found == wanted,
    };
    for (name, wanted) in [
        ("extended", [Some(3.5e-10), Some(2.5e-10), Some(1.5e-10)]),
        ("stack", [None, Some(2.5e-10), Some(1.5e-10)]),
        ("little-i2", [None; 3]),
    ] {
        let found = open(name).annotations().spacing;
        assert!((0..3).all(|axis| close(found[axis], wanted[axis])), "{name}: {found:?}");
    }
    // Columns are along Z: mrcfile has divided the lengths of the cell by the intervals along X, Y
    // and Z.
    let found = open("turned").annotations().spacing;
    assert!(close(found[2], Some(3.5e-10)) && close(found[0], Some(1.5e-10)), "{found:?}");
    assert!(open("turned").left_out()[0].contains("columns along Z"));
}

/// A golden file with these bytes replaced.
fn changed(folder: &TempDir, changes: &[(usize, &[u8])]) -> PathBuf {
    let mut bytes = fs::read(golden("mrc", "little-i2.mrc")).unwrap();
    for (at, field) in changes {
        bytes[*at..*at + field.len()].copy_from_slice(field);
    }
    let path = folder.path().join("bad.mrc");
    fs::write(&path, bytes).unwrap();
    path
}

#[track_caller]
fn refused(path: &std::path::Path, kind: ErrorKind, words: &[&str]) {
    let error = Input::open(path, None).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for word in words.iter().chain(&["bad.mrc"]) {
        assert!(text.contains(word), "`{text}` has no `{word}`");
    }
}

#[test]
fn a_damaged_header_is_an_error_that_names_the_cause() {
    let folder = tempfile::tempdir().unwrap();
    let int = i32::to_le_bytes;
    for (at, field, word) in [
        (0, int(-1), "length -1"),
        (8, int(i32::MAX), "cut off"),
        (4, int(i32::MIN), "length -2147483648"),
        (92, int(-5), "extended header"),
        (92, int(i32::MAX), "cut off"),
        (92, int(1), "cut off"),
        (208, *b"PAM ", "word MAP"),
        (88, int(401), "volumes of"),
    ] {
        // 2 sections in volumes of 3.
        let path = changed(&folder, &[(36, &int(3)), (at, &field)]);
        refused(&path, ErrorKind::Io, &[word]);
    }
    let path = changed(&folder, &[(36, &int(0)), (88, &int(401))]);
    refused(&path, ErrorKind::Io, &["volumes of 0"]);
    for length in [0, 1, 1023] {
        let bytes = fs::read(golden("mrc", "little-i2.mrc")).unwrap();
        fs::write(folder.path().join("bad.mrc"), &bytes[..length]).unwrap();
        refused(&folder.path().join("bad.mrc"), ErrorKind::Io, &["ends early"]);
    }
}

#[test]
fn elements_that_cannot_be_read_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for (mode, words) in [
        (3, &["complex", "numpy.fromfile(", "offset=1024).reshape(2, 3, 4, 2)"][..]),
        (16, &["colours", "reshape(2, 3, 4, 3)"]),
        (101, &["4 bits (mode 101)", "newstack -mode 0"]),
        (7, &["mode 7"]),
        (-1, &["mode -1"]),
    ] {
        let path = changed(&folder, &[(12, &i32::to_le_bytes(mode))]);
        refused(&path, ErrorKind::InvalidValue, words);
    }
    let path = changed(&folder, &[(212, &[0, 0])]);
    refused(&path, ErrorKind::InvalidValue, &["machine stamp [00, 00]", "permissive=True"]);
}

#[test]
fn a_compressed_file_is_refused_by_the_name_of_its_compression() {
    let folder = tempfile::tempdir().unwrap();
    for (start, word) in [(&b"\x1f\x8b\x08\0"[..], "(gzip)"), (b"BZh91AY", "(bzip2)")] {
        for length in [start.len(), 2000] {
            let mut bytes = start.to_vec();
            bytes.resize(length, 0);
            fs::write(folder.path().join("bad.mrc"), bytes).unwrap();
            let words = [word, "mrcfile.read('"];
            refused(&folder.path().join("bad.mrc"), ErrorKind::InvalidValue, &words);
        }
    }
}
