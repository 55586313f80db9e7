//! Runs with inputs and outputs of Zarr: outputs are complete, and inputs that change are noticed.

use crate::demand::demand;
use crate::workdir::{Workdir, inside, whole};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use trijet::{ErrorKind, Sink, Source};
use trijet_io::format::{FORMATS, Format};
use trijet_io::{Annotations, Array, Dtype, Fingerprint, Input, Output, Start, Target};

fn begin(workdir: &Workdir, input: &Input, start: Start) -> trijet::Result<Output> {
    let target = Target::new(&workdir.path("out.zarr"), input.array().clone(), input)?;
    Output::open(&target, &Fingerprint::new(input, "copy", &target), start)
}

#[test]
fn a_stopped_copy_is_resumed() {
    let workdir = Workdir::new();
    let input = Input::open(&workdir.array("a.zarr", |_| {}), None).unwrap();
    let data = whole(&input);
    let mut output = begin(&workdir, &input, Start::New).unwrap();
    output.write(0..3, &data[..9]).unwrap();
    drop(output);
    assert!(!workdir.path("out.zarr").exists());
    let mut output = begin(&workdir, &input, Start::Resume).unwrap();
    assert_eq!(output.missing(), std::slice::from_ref(&(3..8)));
    output.write(3..8, &data[9..]).unwrap();
    output.finish().unwrap();
    let copy = Input::open(&workdir.path("out.zarr"), None).unwrap();
    assert_eq!((copy.array(), whole(&copy)), (input.array(), data));
    let target = Target::new(&workdir.path("out.zarr"), input.array().clone(), &input).unwrap();
    let run = Fingerprint::new(&input, "copy", &target);
    assert!(target.is_finished(&run).unwrap(), "a repeated run has nothing to do");
    let shard = File::options().write(true).open(workdir.path("out.zarr/c/0/0/0")).unwrap();
    shard.write_all_at(b"changed", 4096).unwrap();
    drop(shard);
    assert!(target.is_finished(&run).is_err(), "a file deep in the folder has changed");
}

#[test]
fn an_existing_output_is_written_over() {
    let workdir = Workdir::new();
    let input = Input::open(&workdir.array("a.zarr", |_| {}), None).unwrap();
    let data = whole(&input);
    let out = workdir.path("out.zarr");
    let write = |target: &Target, data: &[u8]| {
        let run = Fingerprint::new(&input, "copy", target);
        let mut output = Output::open(target, &run, Start::New)?;
        output.write(0..8, data)?;
        output.finish()
    };
    let target = || Target::new(&out, input.array().clone(), &input).unwrap();
    write(&target(), &[7; 24]).unwrap();
    // The run restores the metadata and the index.
    fs::write(out.join("zarr.json"), "damaged").unwrap();
    let shard = File::options().write(true).open(out.join("c/0/0/0")).unwrap();
    shard.write_all_at(&[1; 20], 0).unwrap();
    write(&target().overwrite(), &data).unwrap();
    assert_eq!(whole(&Input::open(&out, None).unwrap()), data);
    fs::write(out.join("c/0/notes.txt"), "mine").unwrap();
    let refused = write(&target().overwrite(), &data);
    demand(refused, ErrorKind::InvalidValue, "notes.txt", &["move it elsewhere"]);
    assert_eq!(whole(&Input::open(&out, None).unwrap()), data);
}

#[test]
fn a_chunk_that_changes_during_a_run_fails_the_run() {
    let workdir = Workdir::new();
    let path = workdir.array("a.zarr", |_| {});
    let changes: [fn(&Path); 4] = [
        |path| fs::write(path.join("c/1/0/0"), [1; 12]).unwrap(),
        |path| fs::remove_file(path.join("c/1/0/0")).unwrap(),
        |path| fs::write(path.join("c/1/0/0"), [2; 12]).unwrap(),
        |path| {
            fs::write(path.join("c/new"), [3; 12]).unwrap();
            fs::rename(path.join("c/new"), path.join("c/0/0/0")).unwrap();
        },
    ];
    for change in changes {
        let input = Input::open(&path, None).unwrap();
        let mut output = begin(&workdir, &input, Start::New).unwrap();
        output.write(0..8, &[0; 24]).unwrap();
        change(&path);
        demand(output.finish(), ErrorKind::Io, "a.zarr", &["changed"]);
        assert!(!workdir.path("out.zarr").exists());
        drop(output.stop());
    }
}

/// The arrays of a group have states of their own, and are different inputs of a job.
#[test]
fn another_array_of_the_group_may_change() {
    let workdir = Workdir::new();
    workdir.file("a.zarr/zarr.json", r#"{"zarr_format": 3, "node_type": "group"}"#);
    workdir.array("a.zarr/one", |_| {});
    workdir.array("a.zarr/two", |_| {});
    let open = |inner| Input::open(&inside(&workdir.path("a.zarr"), inner), None).unwrap();
    let one = open("one");
    let mut output = begin(&workdir, &one, Start::New).unwrap();
    output.write(0..4, &[0; 12]).unwrap();
    drop(output);
    workdir.file("a.zarr/two/c/1/0/0", [1; 12]);
    let other = begin(&workdir, &open("two"), Start::Resume);
    demand(other, ErrorKind::InvalidValue, "out.zarr", &["::/one", "::/two"]);
    let mut output = begin(&workdir, &one, Start::Resume).unwrap();
    output.write(4..8, &[0; 12]).unwrap();
    output.finish().unwrap();
}

fn zarr() -> &'static dyn Format {
    *FORMATS.iter().find(|format| format.name() == "zarr").unwrap()
}

#[test]
fn annotations_are_written_and_read_again() {
    let workdir = Workdir::new();
    let mut annotations = Annotations::default();
    annotations.attributes.insert("exposure".to_owned(), json!(0.25));
    annotations.attributes.insert("multiscales".to_owned(), json!([{"datasets": []}]));
    let array = Array::new(Dtype::U16, vec![3, 4, 5]).unwrap();
    for (name, spacing) in [("plain", [None; 3]), ("ome", [None, Some(6.5e-7), Some(6.5e-7)])] {
        annotations.spacing = spacing;
        let path = workdir.path(name);
        let plan = zarr().plan(&path, &array, &[], &annotations).unwrap();
        assert!(plan.left_out().is_empty());
        plan.create(&path, None).unwrap().write(0..12, &[7; 120]).unwrap();
        let opened = Input::open(&path, None).unwrap();
        assert_eq!(opened.array(), &array);
        assert_eq!(opened.annotations().attributes.len(), 1);
        assert_eq!(opened.annotations().attributes["exposure"], 0.25);
        let found = opened.annotations().spacing;
        let is_near = |(found, written): (&Option<f64>, &Option<f64>)| match (found, written) {
            (Some(found), Some(written)) => (found / written - 1.0).abs() < 1e-9,
            (found, written) => found == written,
        };
        assert!(found.iter().zip(&spacing).all(is_near), "{found:?}");
        assert_eq!(path.join("0").exists(), name == "ome");
        plan.discard(&path).unwrap();
        assert!(!path.exists());
    }
    let line = Array::new(Dtype::U16, vec![3]).unwrap();
    let plan = zarr().plan(&workdir.path("line"), &line, &[], &annotations).unwrap();
    assert_eq!(plan.left_out(), ["the pixel size"]);
}

#[test]
fn the_shard_is_an_index_and_the_rows() {
    let workdir = Workdir::new();
    let array = Array::new(Dtype::U16, vec![3, 4, 5]).unwrap();
    let path = workdir.path("a");
    let plan = zarr().plan(&path, &array, &[], &Annotations::default()).unwrap();
    let writer = plan.create(&path, None).unwrap();
    writer.write(0..12, &[7; 120]).unwrap();
    let shard = fs::read(path.join("c/0/0/0")).unwrap();
    assert_eq!(shard.len(), 4096 + 120);
    assert_eq!(shard[..8], 4096_u64.to_le_bytes());
    assert_eq!(shard[8..16], 120_u64.to_le_bytes());
    assert!(shard[4096..].iter().all(|byte| *byte == 7));
    let text = fs::read_to_string(path.join("zarr.json")).unwrap();
    let metadata: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(metadata["codecs"][0]["configuration"]["chunk_shape"], json!([3, 4, 5]));
    let files: u64 = text.len() as u64 + shard.len() as u64;
    assert_eq!(plan.bytes(), Some(files));
}

#[test]
fn a_partial_output_behind_a_link_is_not_continued() {
    let workdir = Workdir::new();
    let array = Array::new(Dtype::U8, vec![2, 4, 3]).unwrap();
    let path = workdir.path("a");
    let plan = zarr().plan(&path, &array, &[], &Annotations::default()).unwrap();
    drop(plan.create(&path, None).unwrap());
    fs::rename(path.join("c"), workdir.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(workdir.path("elsewhere"), path.join("c")).unwrap();
    let done = trijet_io::Rows::default();
    assert!(plan.reopen(&path, &done).is_err());
    assert!(plan.reuse(&path).is_err());
    assert!(plan.discard(&path).is_err());
    assert!(workdir.path("elsewhere/0/0/0").exists());
}

#[test]
fn rows_are_read_by_the_granule_of_the_chunks() {
    let workdir = Workdir::new();
    let input = Input::open(&workdir.array("a.zarr", |_| {}), None).unwrap();
    assert_eq!(input.layout().rows, 8);
    let mut row = [0; 3];
    input.read(5..6, &mut row).unwrap();
    assert_eq!(row, [15, 16, 17]);
}
