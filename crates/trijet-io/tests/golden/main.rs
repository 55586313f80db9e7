//! Files of each format that the usual packages have written, compared with their arrays.
#![expect(clippy::unwrap_used, reason = "a helper that fails should fail its test")]

mod hdf5;
mod hdf5_structure;
mod mrc;
mod nifti;
mod npz;

use std::fs;
use std::path::{Path, PathBuf};
use trijet::Source;
use trijet_io::Input;

/// The path of a file in the folder of the golden files of `format`.
fn golden(format: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format).join(name)
}

/// The names without extension of all golden files of `format` that have an array beside them.
fn names(format: &str) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(golden(format, ""))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "npy"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

/// The bytes of all rows of an input.
fn whole(input: &Input) -> Vec<u8> {
    let layout = input.layout();
    let mut bytes = vec![0; usize::try_from(layout.bytes().unwrap()).unwrap()];
    input.read(0..layout.rows, &mut bytes).unwrap();
    bytes
}

/// Asserts that an input has the type, the shape and the elements of the golden `.npy` file
/// `name`, when all rows are read at once and when each row is read alone.
#[track_caller]
fn assert_equals(input: &Input, format: &str, name: &str) {
    let wanted = Input::open(&golden(format, &format!("{name}.npy")), None).unwrap();
    assert_eq!(input.array(), wanted.array(), "{name}");
    let data = whole(&wanted);
    assert_eq!(whole(input), data, "{name}");
    let layout = input.layout();
    let row = usize::try_from(layout.row_bytes).unwrap();
    for (number, bytes) in (0..).zip(data.chunks(row)) {
        let mut read = vec![0; row];
        input.read(number..number + 1, &mut read).unwrap();
        assert_eq!(read, bytes, "{name}: row {number}");
    }
}
