//! HDF5 files of h5py, and files that are refused or damaged.

use super::{assert_equals, golden, names};
use std::fs;
use std::path::PathBuf;
use trijet::{ErrorKind, Source};
use trijet_io::Input;

fn of(name: &str) -> PathBuf {
    golden("hdf5", name)
}

fn open(name: &str) -> Input {
    Input::open(&of(&format!("{name}.h5")), None).unwrap()
}

#[test]
fn files_of_h5py_have_its_arrays() {
    let names = names("hdf5");
    assert!(names.len() > 40);
    for name in names {
        assert_equals(&open(&name), "hdf5", &name);
    }
}

#[test]
fn a_data_set_is_opened_by_its_path() {
    for (path, array) in [
        ("nexus.h5::/entry/instrument/detector/data", "nexus"),
        ("nexus.h5::entry/data/data", "nexus"),
        ("stack.h5::/a/b/up/b/stack", "stack"),
        ("userblock.h5::data", "userblock"),
        ("soft.h5::entry/link", "soft"),
        ("soft.h5::/entry/data", "soft"),
    ] {
        let input = Input::open(&of(path), None).unwrap();
        assert_equals(&input, "hdf5", array);
        assert!(input.path().ends_with(path.split("::").next().unwrap()));
    }
}

#[test]
fn numbers_and_strings_are_attributes() {
    let input = open("attributes");
    let annotations = input.annotations();
    let expected = serde_json::json!({
        "exposure": 0.25, "fixed": "abc", "number": 5, "offsets": [1, 2, 3], "unit": "counts",
    });
    assert_eq!(serde_json::Value::from(annotations.attributes.clone()), expected);
    assert_eq!(annotations.spacing, [Some(3.0 * 1e-6), Some(2.0 * 1e-6), Some(1.0 * 1e-6)]);
}

#[track_caller]
fn refused(path: &str, words: &[&str]) {
    let error = Input::open(&of(path), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "`{error}` has no `{word}`");
    }
}

#[test]
fn a_data_set_that_is_not_read_is_refused_with_what_helps() {
    let line = |name: &str| format!("several.h5')['{name}'][:])");
    for (name, words) in [
        ("text", &["the elements are strings", &*line("text")][..]),
        ("records", &["records with several members", &line("records")]),
        ("scalar", &["has one element"]),
        ("lzf", &["the filter LZF (32000)", "import numpy, hdf5plugin, h5py;", &line("lzf")]),
        ("offset", &["the filter scale-offset (6)", &line("offset")]),
        ("blosc2", &["the filter blosc2 (32026)", &line("blosc2")]),
        ("never", &["never written"]),
        ("outside", &["H5Pset_external"]),
        ("virtual", &["is a virtual data set", "use the file of the data"]),
        ("away", &["/away cannot be opened", "external link to /data in the file other.h5"]),
        ("away", &["external links are not followed", &line("away")]),
        ("missing", &["/missing cannot be opened", "/entry/one, /entry/two"]),
        ("entry", &["/entry is a group"]),
    ] {
        refused(&format!("several.h5::/{name}"), words);
    }
    refused("several.h5", &["name one of them, for example", "several.h5::/blosc2"]);
}

/// The largest damaged array that is read.
const READ_BYTES_MAX: u64 = 1 << 16;

/// In these files, the structure has no checksums.
#[test]
fn a_damaged_structure_is_an_error_or_another_array() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.h5");
    let read = |bytes: &[u8]| {
        // Some file systems sync a file that is written again.
        let _ = fs::remove_file(&bad);
        fs::write(&bad, bytes).unwrap();
        let input = Input::open(&bad, None)?;
        let bytes = input.array().bytes();
        let mut rows = vec![0; usize::try_from(bytes.min(READ_BYTES_MAX)).unwrap()];
        match bytes {
            0..=READ_BYTES_MAX => input.read(0..input.layout().rows, &mut rows),
            _ => Ok(()),
        }
    };
    for (name, step, bits) in [("plain-uint16.h5", 1, 0x20), ("sparse.h5", 3, 0xff)] {
        let good = fs::read(of(name)).unwrap();
        read(&good).unwrap();
        for at in (0..good.len()).step_by(step) {
            let mut bytes = good.clone();
            bytes[at] ^= bits;
            if let Err(error) = read(&bytes) {
                assert!(error.to_string().contains("bad.h5"), "{name} {at}: {error}");
            }
        }
        for length in (0..good.len()).step_by(61) {
            assert!(read(&good[..length]).is_err(), "{name}: {length} bytes");
        }
    }
}

/// Once, the number of bits of such an integer overflowed.
#[test]
fn an_integer_of_too_many_bytes_is_refused() {
    let mut bytes = fs::read(of("plain-uint16.h5")).unwrap();
    // The message of the type: class and version, and the size of an element.
    let found = bytes.windows(8).position(|part| part == [0x10, 0, 0, 0, 2, 0, 0, 0]);
    let at = found.unwrap() + 4;
    bytes[at..at + 4].copy_from_slice(&[0, 0, 0, 0x20]);
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.h5");
    fs::write(&bad, bytes).unwrap();
    let error = Input::open(&bad, None).unwrap_err().to_string();
    assert!(error.contains("integers of 16 bits in 536870912 bytes"), "{error}");
}

/// The bits of such a number mean other values.
#[test]
fn a_number_whose_first_bit_of_the_fraction_is_stored_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, class) in [
        ("plain-float32", [0x11, 0x20, 31, 0, 4]),
        ("plain-float64", [0x11, 0x20, 63, 0, 8]),
        ("plain-float16", [0x11, 0x20, 15, 0, 2]),
    ] {
        let good = fs::read(of(&format!("{name}.h5"))).unwrap();
        let at = good.windows(5).position(|part| part == class).unwrap() + 1;
        for flags in [0, 0x10, 0x30] {
            let mut bytes = good.clone();
            bytes[at] = flags;
            let bad = folder.path().join(format!("{name}-{flags}.h5"));
            fs::write(&bad, bytes).unwrap();
            let error = Input::open(&bad, None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
            let words = format!("{} bytes whose fraction has no implied first bit", class[4]);
            assert!(error.to_string().contains(&words), "{error}");
        }
    }
}

/// Each thread needs memory for a chunk.
#[test]
fn chunks_that_are_much_larger_than_their_data_set_are_refused() {
    let mut bytes = fs::read(of("chunked.h5")).unwrap();
    let shape: Vec<u8> = [2_u32, 4, 4, 2].into_iter().flat_map(u32::to_le_bytes).collect();
    let at = bytes.windows(shape.len()).position(|part| part == shape).unwrap();
    bytes[at + 3] = 0x10;
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.h5");
    fs::write(&bad, bytes).unwrap();
    let error = Input::open(&bad, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
    assert!(error.to_string().contains("a chunk has 8589934656 bytes"), "{error}");
}

/// Such a chunk has few bytes in its file, and each thread needs memory for all of its elements.
#[test]
fn chunks_that_are_decoded_and_much_larger_than_their_file_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.h5");
    let no_filters = |bytes: &mut [u8]| {
        // The type of the message, which becomes a gap.
        let at = bytes.windows(4).position(|part| part == [11, 0, 56, 0]).unwrap();
        bytes[at] = 0;
    };
    for (name, shape, chunk) in [
        ("gzip", [3, 6, 7], [2, 4, 4, 2]),
        // Only the byte order changes.
        ("big-chunked", [2, 3, 4], [2, 2, 4, 8]),
    ] {
        let mut good = fs::read(of(&format!("{name}.h5"))).unwrap();
        if name == "big-chunked" {
            no_filters(&mut good);
        }
        let shape: Vec<u8> = shape.into_iter().flat_map(u64::to_le_bytes).collect();
        let chunk: Vec<u8> = chunk.into_iter().flat_map(u32::to_le_bytes).collect();
        let place = |part: &[u8]| good.windows(part.len()).position(|one| one == part).unwrap();
        let (shape_at, chunk_at) = (place(&shape), place(&chunk));
        let cause = |rows: u32| {
            let mut bytes = good.clone();
            bytes[shape_at..shape_at + 8].copy_from_slice(&u64::from(rows).to_le_bytes());
            bytes[chunk_at..chunk_at + 4].copy_from_slice(&rows.to_le_bytes());
            let _ = fs::remove_file(&bad);
            fs::write(&bad, bytes).unwrap();
            Input::open(&bad, None).map_or_else(|error| error.to_string(), |_| String::new())
        };
        // The chunks in the file do not fit to the shape, but they may be as large.
        assert!(!cause(1 << 20).contains("bytes, and the file"), "{name}");
        for rows in [1 << 23, 1 << 31] {
            let cause = cause(rows);
            assert!(cause.contains("bytes, and the file"), "{cause}");
        }
    }
}

/// The header of the array has a right checksum.
#[test]
fn a_fixed_array_with_pages_of_too_many_entries_is_damaged() {
    let error = Input::open(&of("pages.h5"), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(error.to_string().contains("a page has 2^200 entries"), "{error}");
}
