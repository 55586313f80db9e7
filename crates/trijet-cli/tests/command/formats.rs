//! File formats of `trijet map`, from end to end. The golden files of the crate trijet-io were
//! written by the formats' own libraries.

use crate::workdir::{Workdir, data_of, noise};
use std::path::PathBuf;

/// A golden file of the crate trijet-io.
fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../trijet-io/tests/golden").join(name)
}

fn text(path: &std::path::Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Formats that can be written, and the name of an output in each.
const WRITTEN: [(&str, &str); 5] = [
    ("npy", "out.npy"),
    ("tiff", "out.tif"),
    ("hdf5", "out.h5"),
    ("mrc", "out.mrc"),
    ("zarr", "out.zarr"),
];

/// An array goes through every format and back, and keeps its bytes.
#[test]
fn an_array_goes_through_every_format_and_back() {
    let workdir = Workdir::new();
    let bytes = noise(2 * 4 * 6 * 5, 1);
    workdir.npy("in.npy", "<u2", &[4, 6, 5], &bytes);
    for (format, out) in WRITTEN {
        let name = format!("through-{out}");
        let json = workdir.map(&["in.npy", "-o", &name, "--op", "affine", "--json"]).json();
        assert_eq!(json["output_format"], format);
        let back = format!("{format}-back.npy");
        workdir.map(&[&name, "-o", &back, "--op", "affine", "--chunk=30"]).done();
        assert_eq!(data_of(&workdir.read(&back), "<u2", "(4, 6, 5)"), bytes, "{format}");
    }
}

/// A run that was stopped continues in every format, with the bytes of a run that was not.
#[test]
fn shards_of_every_format_are_the_whole() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "<f4", &[8, 6, 5], &noise(4 * 8 * 6 * 5, 2));
    for (format, out) in WRITTEN {
        let whole = format!("whole-{out}");
        workdir.map(&["in.npy", "-o", &whole, "--op", "affine:2"]).done();
        for shard in ["2/3", "0/3", "1/3"] {
            let call = ["in.npy", "-o", out, "--op", "affine:2", "--shard", shard, "--chunk=60"];
            let ran = workdir.map(&call);
            assert_eq!(ran.code, Some(0), "{format}: {ran:?}");
        }
        let files = |name: &str| match workdir.path(name).is_dir() {
            true => vec![
                workdir.read(&format!("{name}/zarr.json")),
                workdir.read(&format!("{name}/c/0/0/0")),
            ],
            false => vec![workdir.read(name)],
        };
        assert_eq!(files(out), files(&whole), "{format}");
    }
}

/// A window over rows of one pixel would mix colours with neighbours.
#[test]
fn colours_take_only_operations_on_single_elements() {
    let workdir = Workdir::new();
    let (input, expected) =
        (text(&golden("tiff/colours.tif")), std::fs::read(golden("tiff/colours.npy")).unwrap());
    workdir.map(&[&input, "-o", "same.npy", "--op", "affine"]).done();
    assert_eq!(workdir.read("same.npy"), expected);
    workdir.map(&[&input, "-o", "float.npy", "--to", "f32", "--op", "affine:0.5"]).done();
    for op in ["median:1", "bin:2", "crop:0:2", "project:max", "gaussian:1"] {
        let refused = workdir.map(&[&input, "-o", "x.npy", "--op", op]);
        refused.refused(1, &["colours.tif", "colours of a pixel", op.split(':').next().unwrap()]);
    }
}

/// Metadata that the output cannot hold, or that no longer holds, is named in one line.
#[test]
fn annotations_that_are_lost_are_named() {
    let workdir = Workdir::new();
    let input = text(&golden("mrc/extended.mrc"));
    let lost = |output: &str, op: &str| {
        let ran = workdir.map(&[&input, "-o", output, "--op", op]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.err
    };
    let words = "not in the output: the size of the pixels";
    assert!(lost("out.npy", "affine").contains(words));
    assert!(lost("small.mrc", "bin:2").contains(words));
    assert!(!lost("same.mrc", "affine").contains("the size of the pixels"));
}
