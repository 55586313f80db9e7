//! Folders of TIFF files with one page each.

use super::demand::demand;
use super::{golden, whole};
use std::fs;
use std::path::Path;
use trijet::{ErrorKind, Sink, Source};
use trijet_io::{Fingerprint, Input, Output, Start, Target};

fn copy(from: &str, folder: &Path, name: &str) {
    fs::copy(golden(from), folder.join(name)).unwrap();
}

#[test]
fn files_with_one_page_are_a_stack_in_natural_order() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["s1.tif", "s2.TIFF", "s10.tif", ".s3.tif"] {
        copy("image.tif", folder.path(), name);
    }
    // The first image differs from the others in its pixels.
    let first = folder.path().join("s1.tif");
    let mut bytes = fs::read(&first).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&first, bytes).unwrap();
    fs::write(folder.path().join("notes.txt"), "").unwrap();
    fs::write(folder.path().join("s1.gif"), "").unwrap();
    let input = Input::open(folder.path(), None).unwrap();
    assert_eq!((input.format().name(), input.array().shape()), ("tiff", &[3, 9, 7][..]));
    let one = whole(&Input::open(&golden("image.npy"), None).unwrap());
    let all = whole(&input);
    assert_eq!(all[one.len()..], [one.clone(), one.clone()].concat());
    assert_ne!(all[..one.len()], one);
    assert_eq!(input.names(), ["s1.tif", "s2.TIFF", "s10.tif"]);
    assert_eq!(input.left_out()[0], "images of other formats (s1.gif)");
}

#[test]
fn files_unlike_the_first_one_are_refused() {
    for (other, words) in [
        ("stack.tif", "more than one page"),
        ("imagej-one-directory.tif", "more than one page"),
        ("levels.tif", "is not like a.tif with 9 x 7 pixels"),
        ("line.tif", "is not like a.tif"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        copy("image.tif", folder.path(), "a.tif");
        copy(other, folder.path(), "b.tif");
        demand(Input::open(folder.path(), None), ErrorKind::InvalidValue, "b.tif", &[words]);
    }
}

#[test]
fn a_folder_has_images_of_one_format() {
    let folder = tempfile::tempdir().unwrap();
    copy("image.tif", folder.path(), "b.tif");
    fs::write(folder.path().join("a.png"), "").unwrap();
    let words = ["b.tif", "a TIFF file in a folder of PNG images"];
    demand(Input::open(folder.path(), None), ErrorKind::InvalidValue, "b.tif", &words);
}

#[test]
fn an_image_that_changes_after_it_was_opened_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    copy("lzw.tif", folder.path(), "x");
    fs::remove_file(folder.path().join("x")).unwrap();
    copy("image.tif", folder.path(), "a.tif");
    let input = Input::open(folder.path(), None).unwrap();
    fs::remove_file(folder.path().join("a.tif")).unwrap();
    copy("image.tif", folder.path(), "a.tif");
    let mut bytes = vec![0; 9 * 7 * 2];
    let read = input.read(0..9, &mut bytes);
    demand(read, ErrorKind::Io, "a.tif", &["changed since the run began"]);
}

#[test]
fn images_of_a_tiff_folder_are_written_as_png_files() {
    let folder = tempfile::tempdir().unwrap();
    let scans = folder.path().join("scans");
    fs::create_dir(&scans).unwrap();
    copy("image.tif", &scans, "a.tif");
    copy("image.tif", &scans, "b.tiff");
    let input = Input::open(&scans, None).unwrap();
    let target = Target::new(&folder.path().join("out"), input.array().clone(), &input).unwrap();
    let run = Fingerprint::new(&input, "copy", &target);
    let mut output = Output::open(&target, &run, Start::New).unwrap();
    output.write(0..18, &whole(&input)).unwrap();
    output.finish().unwrap();
    let written = Input::open(&folder.path().join("out"), None).unwrap();
    assert_eq!(written.names(), ["a.png", "b.png"]);
    assert_eq!(whole(&written), whole(&input));
}
