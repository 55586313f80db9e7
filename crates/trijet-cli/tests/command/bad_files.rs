//! Bad inputs: the error names the file and the cause, the exit status is 1, and no output appears.

use crate::files::{GRAY8, dictionary, npy, png};
use crate::workdir::{Images, Workdir, noise};
use png::{BitDepth, ColorType};
use std::fs;

const DATA: [u8; 16] = [7; 16];

/// Runs `map IN -o OUT`, which must fail with an error that contains `IN` and `words`, and leave no
/// file behind.
#[track_caller]
fn refused(workdir: &Workdir, input: &str, more: &[&str], words: &[&str]) {
    let before = workdir.names();
    let args = [&[input, "-o", "out.npy", "--op", "affine"], more].concat();
    workdir.map(&args).refused(1, &[&[input], words].concat());
    assert_eq!(workdir.names(), before, "{input} left a file");
}

/// Does the same with an `.npy` file of these bytes.
#[track_caller]
fn npy_refused(file: &[u8], words: &[&str]) {
    let workdir = Workdir::new();
    workdir.file("in.npy", file);
    refused(&workdir, "in.npy", &[], words);
}

fn with(descr: &str, fortran: &str, shape: &str) -> Vec<u8> {
    npy(&dictionary(descr, fortran, shape), &DATA)
}

#[test]
fn an_npy_file_without_its_magic_bytes_is_refused() {
    npy_refused(b"", &["magic"]);
    npy_refused(b"PK\x03\x04 an archive, as numpy.savez makes it", &["magic"]);
    npy_refused(b"\x93NUMPX\x01\x00\x10\x00", &["magic"]);
}

#[test]
fn an_npy_file_with_an_incomplete_header_is_refused() {
    let whole = with("|u1", "False", "(4, 4)");
    for length in [7, 9, 11, 30, whole.len() - DATA.len() - 1] {
        npy_refused(&whole[..length], &["cut off"]);
    }
}

#[test]
fn an_npy_file_whose_data_do_not_fit_is_refused() {
    let whole = with("|u1", "False", "(4, 4)");
    npy_refused(&whole[..whole.len() - 1], &["cut off", "16 bytes", "found 15"]);
    let longer = [&whole[..], &[0]].concat();
    npy_refused(&longer, &["longer", "16 bytes", "found 17"]);
}

/// The message has a line of Python that converts the file, if there is one.
#[test]
fn an_npy_file_of_an_unsupported_type_is_refused() {
    let read = "supported are bool, integers of 8 to 64 bits, float16, bfloat16, float32, float64";
    let load = "import numpy; numpy.save('in-new.npy', numpy.load('in.npy')";
    npy_refused(&with("|O", "False", "(2,)"), &["Python objects"]);
    npy_refused(&with("<f16", "True", "(1,)"), &["'<f16'", read, load, ".astype('<f8'))"]);
    npy_refused(&with(">c32", "False", "(1,)"), &["'>c32'", read, load, ".astype('<c16'))"]);
    npy_refused(&with("<M8[s]", "False", "(2,)"), &["'<M8[s]'", read]);
    let fields = "{'descr': [('a', '<u2')], 'fortran_order': False, 'shape': (8,), }";
    npy_refused(&npy(fields, &DATA), &["structured dtype", "numpy.load('in.npy')['FIELD'])"]);
}

#[test]
fn an_npy_file_whose_size_overflows_is_refused() {
    npy_refused(&with("<u2", "False", "(4294967296, 4294967296)"), &["overflows"]);
    npy_refused(&with("<u2", "False", "(9223372036854775807,)"), &["overflows"]);
    npy_refused(&with("<u2", "False", "(18446744073709551616,)"), &["axis"]);
    npy_refused(&with("|u1", "False", "()"), &["no axes"]);
}

#[test]
fn a_raw_file_must_have_the_size_of_its_shape() {
    let workdir = Workdir::new();
    workdir.file("in.raw", &DATA);
    let words = ["in.raw", "needs --shape and --dtype"];
    workdir.map(&["in.raw", "-o", "out.npy", "--op", "affine"]).refused(2, &words);
    let shape = |shape| ["--shape", shape, "--dtype", "u16"];
    refused(&workdir, "in.raw", &shape("3x3"), &["u16 [3, 3] needs 18 bytes", "16"]);
    refused(&workdir, "in.raw", &shape("7"), &["u16 [7] needs 14 bytes", "16"]);
    workdir
        .map(
            &[&["in.raw", "-o", "o.raw", "--op", "affine"], &shape("4294967296x4294967296")[..]]
                .concat(),
        )
        .refused(1, &["overflows"]);
}

#[test]
fn an_input_that_is_not_a_file_is_refused() {
    let workdir = Workdir::new();
    fs::create_dir(workdir.path("empty")).unwrap();
    fs::create_dir(workdir.path("folder.npy")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(workdir.path("pipe.npy")).status().unwrap();
    assert!(made.success());
    refused(&workdir, "missing.npy", &[], &["no such file"]);
    refused(&workdir, "missing", &[], &["no such file"]);
    refused(&workdir, "empty", &[], &["no .png file"]);
    refused(&workdir, "folder.npy", &[], &["no .png file"]);
    refused(&workdir, "pipe.npy", &[], &["not a regular file"]);
    refused(&workdir, "pipe.npy/in.npy", &[], &["pipe.npy"]);
}

/// A folder `in` of three images of 4 x 4 pixels.
fn images() -> Workdir {
    let workdir = Workdir::new();
    workdir.images("in", [4, 4], &Images::U8(&noise(48, 1)));
    workdir
}

#[test]
fn images_of_different_sizes_or_depths_are_refused() {
    let workdir = images();
    png(&workdir.path("in/1.png"), [4, 5], GRAY8, &[0; 20]);
    refused(&workdir, "in", &[], &["in/1.png", "4x5", "4x4", "0.png"]);
    png(&workdir.path("in/1.png"), [4, 4], (ColorType::Grayscale, BitDepth::Sixteen), &[0; 32]);
    refused(&workdir, "in", &[], &["in/1.png", "u16", "u8"]);
}

#[test]
fn an_image_that_is_not_gray_is_refused() {
    let workdir = images();
    png(&workdir.path("in/2.png"), [4, 4], (ColorType::Rgb, BitDepth::Eight), &[0; 48]);
    refused(&workdir, "in", &[], &["in/2.png", "colour"]);
    png(&workdir.path("in/2.png"), [8, 4], (ColorType::Grayscale, BitDepth::One), &[0; 4]);
    refused(&workdir, "in", &[], &["in/2.png", "1 bit"]);
}

#[test]
fn an_unreadable_image_is_named() {
    let workdir = images();
    let whole = fs::read(workdir.path("in/1.png")).unwrap();
    for (bytes, words) in
        [(&b"not an image"[..], "damaged PNG"), (&[], "ends early"), (&whole[..20], "ends early")]
    {
        workdir.file("in/1.png", bytes);
        refused(&workdir, "in", &[], &["in/1.png", words]);
    }
    fs::remove_file(workdir.path("in/1.png")).unwrap();
    std::os::unix::fs::symlink("nowhere", workdir.path("in/1.png")).unwrap();
    refused(&workdir, "in", &[], &["in/1.png", "no such file"]);
}

/// The headers are intact, so the run starts; the images before the damaged one are kept.
#[test]
fn an_image_with_damaged_data_ends_the_run() {
    for output in ["out.npy", "out"] {
        let workdir = Workdir::new();
        workdir.images("in", [64, 64], &Images::U8(&noise(4 * 4096, 2)));
        let mut image = fs::read(workdir.path("in/2.png")).unwrap();
        let middle = image.len() / 2;
        image[middle] ^= 0x55;
        workdir.file("in/2.png", &image);
        let args = ["in", "-o", output, "--op", "median", "--chunk", "1", "--depth", "1"];
        workdir.map(&args).refused(1, &["in/2.png", "damaged PNG", output, "not finished"]);
        assert!(!workdir.exists(output), "{output}");
        let truncated = &fs::read(workdir.path("in/3.png")).unwrap()[..image.len() / 2];
        workdir.images("short", [64, 64], &Images::U8(&noise(2 * 4096, 3)));
        workdir.file("short/1.png", truncated);
        let second = format!("second-{output}");
        let args = ["short", "-o", &second, "--op", "median", "--chunk", "1", "--depth", "1"];
        workdir.map(&args).refused(1, &["short/1.png", &second, "not finished"]);
        assert!(!workdir.exists(&second), "{second}");
    }
}
