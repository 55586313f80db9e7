//! NIfTI files of nibabel, and damaged headers.

use super::{assert_equals, golden, names, whole};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use trijet::{ErrorKind, Source};
use trijet_io::Input;

fn file_of(name: &str) -> PathBuf {
    let compressed = golden("nifti", &format!("{name}.nii.gz"));
    if compressed.exists() { compressed } else { golden("nifti", &format!("{name}.nii")) }
}

fn open(name: &str) -> Input {
    Input::open(&file_of(name), None).unwrap()
}

#[test]
fn files_of_nibabel_have_its_arrays_transposed() {
    let names = names("nifti");
    assert!(names.len() > 15);
    for name in names {
        assert_equals(&open(&name), "nifti", &name);
    }
}

#[test]
fn the_size_of_the_voxels_is_known() {
    for (name, wanted) in [
        ("one-i2", [Some(3.5e-3), Some(2.5e-3), Some(1.5e-3)]),
        ("two-big", [Some(3.5e-3), Some(2.5e-3), Some(1.5e-3)]),
        ("series", [Some(3.5e-3), Some(2.5e-3), Some(1.5e-3)]),
        ("line", [None, None, Some(1.5e-3)]),
    ] {
        assert_eq!(open(name).annotations().spacing, wanted, "{name}");
    }
}

#[test]
fn a_compressed_file_is_read_in_any_order_with_the_same_rows() {
    let input = open("zipped");
    assert!(!input.is_parallel());
    let error = open("zipped").swap_first_axes().unwrap_err().to_string();
    assert!(error.contains("decoded from its start"), "{error}");
    let data = whole(&input);
    let layout = input.layout();
    let row = usize::try_from(layout.row_bytes).unwrap();
    let at = |row_number: u64| usize::try_from(row_number).unwrap() * row;
    // Forwards with a halo, over a gap, backwards within the last read, and back to the start.
    for rows in [0..40, 30..80, 30..40, 200..210, 100..101, 399..400, 0..400, 0..0, 7..9] {
        let mut read = vec![0; at(rows.end) - at(rows.start)];
        input.read(rows.clone(), &mut read).unwrap();
        assert_eq!(read, data[at(rows.start)..at(rows.end)], "{rows:?}");
    }
}

#[test]
fn a_damaged_compressed_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.nii.gz");
    let good = fs::read(file_of("zipped")).unwrap();
    let read = |bytes: &[u8]| {
        fs::write(&bad, bytes).unwrap();
        let input = Input::open(&bad, None)?;
        let mut rows = vec![0; usize::try_from(input.array().bytes()).unwrap()];
        input.read(0..input.layout().rows, &mut rows)
    };
    read(&good).unwrap();
    for length in [0, 5, 200, good.len() / 2, good.len() - 1] {
        let error = read(&good[..length]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{length}: {error}");
        assert!(error.to_string().contains("bad.nii.gz"), "{error}");
    }
    // A bit of the checksum: the last read reports it, although all rows were decoded.
    let mut changed = good.clone();
    let at = changed.len() - 8;
    changed[at] ^= 1;
    assert!(read(&changed).unwrap_err().to_string().contains("damaged"));
}

/// A golden file with these bytes replaced.
fn changed(folder: &TempDir, name: &str, changes: &[(usize, &[u8])]) -> PathBuf {
    let mut bytes = fs::read(file_of(name)).unwrap();
    for (at, field) in changes {
        bytes[*at..*at + field.len()].copy_from_slice(field);
    }
    let path = folder.path().join("bad.nii");
    fs::write(&path, bytes).unwrap();
    path
}

#[track_caller]
fn refused(path: &Path, kind: ErrorKind, words: &[&str]) {
    let text = Input::open(path, None).unwrap_err();
    assert_eq!(text.kind(), kind, "{text}");
    let text = text.to_string();
    for word in words {
        assert!(text.contains(word), "`{text}` has no `{word}`");
    }
}

#[test]
fn a_damaged_header_is_an_error_that_names_the_cause() {
    let folder = tempfile::tempdir().unwrap();
    let short = i16::to_le_bytes;
    for (at, field, word) in [
        (0, short(347), "size of a header"),
        (40, short(0), "0 axes"),
        (40, short(8), "8 axes"),
        (40, short(-3), "-3 axes"),
        (42, short(-1), "length -1"),
        (46, short(i16::MAX), "cut off"),
        (70, short(77), "unknown code 77"),
    ] {
        refused(&changed(&folder, "one-i2", &[(at, &field)]), ErrorKind::Io, &[word, "bad.nii"]);
    }
    for start in [-1.0, 351.0, 352.5, f32::NAN, f32::INFINITY, 1e30] {
        let path = changed(&folder, "one-i2", &[(108, &f32::to_le_bytes(start))]);
        refused(&path, ErrorKind::Io, &["vox_offset"]);
    }
    let path = changed(&folder, "one-i2", &[(108, &f32::to_le_bytes(1e9))]);
    refused(&path, ErrorKind::Io, &["cut off"]);
    for (at, field, word) in
        [(24, i64::MAX, "overflows"), (24, i64::MIN, "length -"), (168, i64::MIN, "vox_offset")]
    {
        let path = changed(&folder, "two", &[(at, &field.to_le_bytes())]);
        let error = Input::open(&path, None).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    let bytes = fs::read(file_of("two")).unwrap();
    for length in [0, 3, 4, 347, 539, bytes.len() - 1] {
        fs::write(folder.path().join("bad.nii"), &bytes[..length]).unwrap();
        refused(&folder.path().join("bad.nii"), ErrorKind::Io, &["bad.nii"]);
    }
}

#[test]
fn files_whose_elements_are_not_read_are_refused_with_a_line_of_python() {
    let folder = tempfile::tempdir().unwrap();
    let line = "get_fdata(dtype='<f4').T";
    refused(&file_of("scaled"), ErrorKind::InvalidValue, &["scl_slope", line]);
    refused(&file_of("colours"), ErrorKind::InvalidValue, &["colours of three bytes", "dataobj"]);
    let pair = changed(&folder, "one-i2", &[(344, b"ni1\0")]);
    refused(&pair, ErrorKind::InvalidValue, &["second file (.img)", line]);
    let analyze = changed(&folder, "one-i2", &[(344, &[0; 4])]);
    refused(&analyze, ErrorKind::InvalidValue, &["Analyze", line]);
    // These slopes state that the elements are the values.
    for (slope, intercept) in [(0.0, 5.0), (1.0, 0.0), (f32::NAN, f32::NAN)] {
        let fields = [slope, intercept].map(f32::to_le_bytes).concat();
        Input::open(&changed(&folder, "one-i2", &[(112, &fields)]), None).unwrap();
    }
    let fields = [1.0, 5.0].map(f32::to_le_bytes).concat();
    let path = changed(&folder, "one-i2", &[(112, &fields)]);
    refused(&path, ErrorKind::InvalidValue, &["times 1 plus 5"]);
}
