//! Damaged and hostile arrays are refused with a message, without much memory and without a panic.

use crate::demand::demand;
use crate::workdir::{Workdir, inside, metadata, read, sharding, whole};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use trijet::ErrorKind::{InvalidValue, Io};
use trijet_io::Input;

#[test]
fn a_chunk_that_is_missing_has_the_fill_value() {
    let workdir = Workdir::new();
    let path = workdir.array("a.zarr", |_| {});
    fs::remove_file(path.join("c/0/0/0")).unwrap();
    let read = whole(&Input::open(&path, None).unwrap());
    assert_eq!((&read[..12], &read[12..14]), (&[9; 12][..], &[12, 13][..]));
}

#[test]
fn a_chunk_of_another_size_is_damaged() {
    let workdir = Workdir::new();
    for bytes in [0, 11, 13] {
        let path = workdir.array("a.zarr", |_| {});
        workdir.file("a.zarr/c/1/0/0", vec![1; bytes]);
        let input = Input::open(&path, None).unwrap();
        demand(read(&input), Io, "c/1/0/0", &[&format!("{bytes} bytes")]);
    }
}

#[test]
fn a_chunk_that_is_no_file_is_damaged_and_does_not_block() {
    let workdir = Workdir::new();
    let path = workdir.array("a.zarr", |_| {});
    let chunk = path.join("c/1/0/0");
    fs::remove_file(&chunk).unwrap();
    fs::create_dir(&chunk).unwrap();
    demand(read(&Input::open(&path, None).unwrap()), Io, "c/1/0/0", &["not a regular file"]);
    fs::remove_dir(&chunk).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &chunk,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    demand(read(&Input::open(&path, None).unwrap()), Io, "c/1/0/0", &["not a regular file"]);
}

#[test]
fn metadata_that_are_no_json_are_damaged() {
    let workdir = Workdir::new();
    for text in ["", "[", "7", "[]", "{}", "{\"node_type\": \"array\"", "\u{0}", "{\"a\": NaN"] {
        let path = workdir.file("a.zarr/zarr.json", text);
        demand(Input::open(path.parent().unwrap(), None), Io, "zarr.json", &[]);
    }
    // Deep lists must not overflow the stack.
    let deep = format!("{{\"node_type\": {}", "[".repeat(1 << 20));
    let path = workdir.file("a.zarr/zarr.json", deep);
    demand(Input::open(path.parent().unwrap(), None), Io, "zarr.json", &["JSON"]);
    let path = workdir.file("a.zarr/zarr.json", vec![b' '; (16 << 20) + 1]);
    demand(Input::open(path.parent().unwrap(), None), InvalidValue, "zarr.json", &["16777216"]);
}

/// Every key with values of every kind: an error or an array, and no panic.
#[test]
fn hostile_values_of_metadata_are_refused_or_read() {
    let workdir = Workdir::new();
    let path = workdir.array("a.zarr", |_| {});
    let large = json!([u64::MAX, u64::MAX, u64::MAX]);
    let values = [
        Value::Null,
        json!(true),
        json!(-1),
        json!(0),
        json!(u64::MAX),
        json!(1.5e300),
        json!(""),
        json!("uint16"),
        json!([]),
        json!([0, 0, 0]),
        json!([0, u64::MAX, u64::MAX]),
        json!([1_u64 << 40, 1_u64 << 40, 1]),
        json!([1 << 20, 1 << 20, 1]),
        large.clone(),
        json!({}),
        json!({"name": "regular"}),
        json!({"name": "regular", "configuration": {"chunk_shape": large}}),
        json!({"name": "regular", "configuration": {"chunk_shape": [1 << 20, 1 << 20, 1]}}),
        json!({"name": "default", "configuration": {"separator": "/../"}}),
        json!([sharding(&[1, 2, 3])]),
        json!([sharding(&[0, 1, 1])]),
        json!([sharding(&[1, 4])]),
        json!([[[[]]]]),
    ];
    let keys: Vec<String> = metadata().as_object().unwrap().keys().cloned().collect();
    for key in &keys {
        for value in &values {
            let mut metadata = metadata();
            metadata[key] = value.clone();
            workdir.file("a.zarr/zarr.json", metadata.to_string());
            match Input::open(&path, None) {
                Ok(input) if input.array().bytes() < 1 << 20 => drop(read(&input)),
                Ok(_) => {}
                Err(error) => {
                    assert!(matches!(error.kind(), Io | InvalidValue), "{error}");
                    assert!(error.to_string().contains("a.zarr"), "{error}");
                }
            }
        }
        let mut metadata = metadata();
        metadata.as_object_mut().unwrap().remove(key);
        workdir.file("a.zarr/zarr.json", metadata.to_string());
        assert!(Input::open(&path, None).is_err(), "{key}");
    }
}

/// An array of one shard with two chunks of 2 x 3 bytes in two images.
fn sharded(workdir: &Workdir, places: &[u64]) -> std::path::PathBuf {
    let path = workdir.array("a.zarr", |metadata| {
        metadata["shape"] = json!([1, 4, 3]);
        metadata["codecs"] = json!([sharding(&[1, 2, 3])]);
    });
    let mut shard: Vec<u8> = (0..12).collect();
    shard.extend(places.iter().flat_map(|place| place.to_le_bytes()));
    workdir.file("a.zarr/c/0/0/0", shard);
    path
}

#[test]
fn the_chunks_of_a_shard_are_where_its_index_states() {
    let workdir = Workdir::new();
    let input = |places: &[u64]| Input::open(&sharded(&workdir, places), None).unwrap();
    let all: Vec<u8> = (0..12).collect();
    assert_eq!(whole(&input(&[0, 6, 6, 6])), all);
    assert_eq!(whole(&input(&[6, 6, 0, 6])), [&all[6..], &all[..6]].concat());
    let empty = whole(&input(&[u64::MAX, u64::MAX, 0, 6]));
    assert_eq!(empty, [&[9; 6][..], &all[..6]].concat());
}

#[test]
fn a_hostile_index_of_a_shard_is_damaged() {
    let workdir = Workdir::new();
    for places in [
        &[0, 6, 6, u64::MAX][..],
        &[0, 6, u64::MAX, 6],
        &[0, 6, u64::MAX - 6, 6],
        &[0, 6, 39, 6],
        &[0, 6, 6, 7],
        &[0, 6, 6, 0],
    ] {
        let input = Input::open(&sharded(&workdir, places), None).unwrap();
        demand(read(&input), Io, "c/0/0/0", &[]);
    }
    let input = Input::open(&sharded(&workdir, &[0, 6]), None).unwrap();
    demand(read(&input), Io, "c/0/0/0", &["index"]);
}

#[test]
fn a_path_of_an_array_does_not_leave_the_input() {
    let workdir = Workdir::new();
    let path = workdir.array("a.zarr/raw", |_| {});
    let root = path.parent().unwrap();
    workdir.file("a.zarr/zarr.json", r#"{"zarr_format": 3, "node_type": "group"}"#);
    workdir.array("b.zarr", |_| {});
    for inner in ["../b.zarr", "raw/../../b.zarr", "./raw", "raw//c"] {
        demand(Input::open(&inside(root, inner), None), InvalidValue, "a.zarr", &[inner]);
    }
    demand(Input::open(&inside(root, "no"), None), Io, "no", &["no array"]);
    let level = json!({"multiscales": [{"datasets": [{"path": "../b.zarr"}]}]});
    let group = json!({"zarr_format": 3, "node_type": "group", "attributes": level});
    workdir.file("a.zarr/zarr.json", group.to_string());
    demand(Input::open(root, None), InvalidValue, "a.zarr", &["../b.zarr"]);
}

#[test]
fn groups_in_circles_are_refused() {
    let workdir = Workdir::new();
    let group = r#"{"zarr_format": 3, "node_type": "group"}"#;
    let path = workdir.file("a.zarr/zarr.json", group);
    let root = path.parent().unwrap();
    symlink(root, root.join("again")).unwrap();
    demand(Input::open(root, None), InvalidValue, "a.zarr", &["too many groups"]);
}

#[test]
fn a_group_with_several_arrays_names_them() {
    let workdir = Workdir::new();
    let group = r#"{"zarr_format": 3, "node_type": "group"}"#;
    workdir.file("a.zarr/zarr.json", group);
    demand(Input::open(&workdir.path("a.zarr"), None), InvalidValue, "a.zarr", &["no array"]);
    workdir.array("a.zarr/one", |_| {});
    assert_eq!(whole(&Input::open(&workdir.path("a.zarr"), None).unwrap())[23], 23);
    workdir.file("a.zarr/deep/zarr.json", group);
    workdir.array("a.zarr/deep/two", |_| {});
    let words = ["::/deep/two", "::/one"];
    demand(Input::open(&workdir.path("a.zarr"), None), InvalidValue, "a.zarr", &words);
    let two = inside(&workdir.path("a.zarr"), "deep/two");
    assert_eq!(Input::open(&two, None).unwrap().inner_path(), Some("deep/two"));
}

#[test]
fn a_folder_that_is_no_zarr_array_is_refused_by_its_name_only() {
    let workdir = Workdir::new();
    fs::create_dir(workdir.path("a.zarr")).unwrap();
    demand(Input::open(&workdir.path("a.zarr"), None), Io, "a.zarr", &["zarr.json"]);
    // An array needs no extension.
    let path = workdir.array("scan", |_| {});
    assert_eq!(Input::open(&path, None).unwrap().format().name(), "zarr");
}

#[test]
fn a_refusal_has_the_line_of_python_that_converts_the_array() {
    let workdir = Workdir::new();
    workdir.file("a.zarr/zarr.json", r#"{"zarr_format": 3, "node_type": "group"}"#);
    workdir.array("a.zarr/it's\n{}", |metadata| {
        metadata["codecs"] = json!([{"name": "bytes"}, {"name": "numcodecs.bz2"}]);
    });
    let words = ["numcodecs.bz2", "import numpy, zarr; numpy.save(", "path='it\\'s\\n{}')[:]"];
    demand(Input::open(&workdir.path("a.zarr"), None), InvalidValue, "a.zarr", &words);
}
