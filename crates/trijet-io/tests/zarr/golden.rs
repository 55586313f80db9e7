//! Arrays that zarr-python has written (`golden/zarr/make.py`).

use crate::workdir::{Workdir, inside, whole};
use serde_json::Value;
use std::path::Path;
use trijet::Source;
use trijet_io::Input;

/// The bytes of a text in base64.
fn decoded(text: &Value) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("{other} is not base64"),
    };
    let text = text.as_str().unwrap().trim_end_matches('=');
    let mut bytes = Vec::new();
    for four in text.as_bytes().chunks(4) {
        let bits = four.iter().fold(0_u32, |bits, &byte| bits << 6 | u32::from(value(byte)));
        let bits = bits << (8 + 6 * (4 - four.len()));
        bytes.extend(&bits.to_be_bytes()[..four.len() * 3 / 4]);
    }
    bytes
}

/// Reads each array of a golden file at once and by single rows, and compares it with the `.npy`
/// file of the same array.
fn check(golden: &str) {
    let golden: Value = serde_json::from_str(golden).unwrap();
    let mut failures = Vec::new();
    for (name, case) in golden["cases"].as_object().unwrap() {
        let workdir = Workdir::new();
        for (path, bytes) in case["files"].as_object().unwrap() {
            workdir.file(&format!("a.zarr/{path}"), decoded(bytes));
        }
        let array = case["array"].as_str().unwrap();
        let expected = workdir.file("expected.npy", decoded(&golden["arrays"][array]));
        let expected = Input::open(&expected, None).unwrap();
        let path = match case["inner"].as_str().unwrap() {
            "" => workdir.path("a.zarr"),
            inner => inside(&workdir.path("a.zarr"), inner),
        };
        if let Err(difference) = compare(&path, &expected) {
            failures.push(format!("{name}: {difference}"));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

fn compare(path: &Path, expected: &Input) -> Result<(), String> {
    let input = Input::open(path, None).map_err(|error| error.to_string())?;
    if input.array() != expected.array() {
        return Err(format!("{} instead of {}", input.array(), expected.array()));
    }
    let layout = input.layout();
    let bytes = whole(expected);
    let mut read = vec![0xaa; bytes.len()];
    input.read(0..layout.rows, &mut read).map_err(|error| error.to_string())?;
    if read != bytes {
        return Err(format!("{read:?} instead of {bytes:?}"));
    }
    let row_bytes = usize::try_from(layout.row_bytes).unwrap();
    for (row, bytes) in (0..layout.rows).zip(bytes.chunks(row_bytes)) {
        let mut read = vec![0xaa; row_bytes];
        input.read(row..row + 1, &mut read).map_err(|error| error.to_string())?;
        if read != bytes {
            return Err(format!("row {row}: {read:?} instead of {bytes:?}"));
        }
    }
    Ok(())
}

#[test]
fn arrays_of_zarr_python_3_are_read() {
    check(include_str!("../golden/zarr/golden-v3.json"));
}

#[test]
fn arrays_of_zarr_python_2_are_read() {
    check(include_str!("../golden/zarr/golden-v2.json"));
}
