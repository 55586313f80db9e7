//! Wrong calls: what cannot be meant is refused before anything is written.

use crate::desk::{Desk, noise};
use std::fs;

/// A folder with one small image.
fn desk() -> Desk {
    let desk = Desk::new();
    desk.npy("in.npy", "|u1", &[8, 8], &noise(64, 1));
    desk
}

/// Runs `map in.npy -o out.npy` with these arguments, which must be refused without a trace.
#[track_caller]
fn refused(desk: &Desk, code: i32, args: &[&str], words: &[&str]) {
    let before = desk.names();
    desk.map(&[&["in.npy", "-o", "out.npy"], args].concat()).refused(code, words);
    assert_eq!(desk.names(), before, "{args:?} left something");
}

#[test]
fn an_operation_is_needed_and_one_only() {
    let desk = desk();
    refused(&desk, 2, &[], &["--op"]);
    refused(&desk, 2, &["--op", "mean"], &["mean", "median", "affine"]);
    refused(&desk, 2, &["--kernel", "k.cu"], &["--entry"]);
    let both = ["--op", "median", "--kernel", "k.cu", "--entry", "k"];
    refused(&desk, 2, &both, &["--op", "--kernel", "cannot be used"]);
    desk.trijet(&["map", "in.npy", "--op", "median"]).refused(2, &["--output"]);
    desk.trijet(&[]).refused(2, &["Usage"]);
}

#[test]
fn the_radius_of_the_median_is_1_to_7() {
    for radius in ["0", "8", "4294967295"] {
        let words = [&format!("radius {radius}"), "1 to 7"];
        refused(&desk(), 1, &["--op", "median", "--radius", radius], &words);
    }
    refused(&desk(), 2, &["--op", "median", "--radius", "x"], &["--radius"]);
}

#[test]
fn the_median_takes_images_of_u8_and_u16() {
    let desk = Desk::new();
    let op = ["--op", "median"];
    desk.npy("in.npy", "<f4", &[2, 2], &[0; 16]);
    refused(&desk, 1, &op, &["in.npy", "u8 and u16", "f32"]);
    desk.npy("in.npy", "|u1", &[12], &[0; 12]);
    refused(&desk, 1, &op, &["in.npy", "u8 [12] is no image"]);
    desk.npy("in.npy", "|u1", &[1, 2, 3, 2], &[0; 12]);
    refused(&desk, 1, &op, &["in.npy", "u8 [1, 2, 3, 2] is no image"]);
}

#[test]
fn a_chunk_of_no_size_is_refused() {
    let op = ["--op", "median"];
    for chunk in ["0", "0MiB", "-1", "1TB", "many", "", "99999999999GiB"] {
        let chunk = format!("--chunk={chunk}");
        refused(&desk(), 2, &[op[0], op[1], &chunk], &["--chunk"]);
    }
}

#[test]
fn a_kernel_is_a_file_of_a_known_kind() {
    let desk = desk();
    desk.file("gain.txt", b"__global__ void gain() {}");
    desk.file("binary.cu", &[0xff, 0xfe, 0x00]);
    let kernel = |name, words: &[&str]| {
        refused(&desk, 1, &["--kernel", name, "--entry", "gain"], words);
    };
    kernel("missing.cu", &["missing.cu", "No such file"]);
    kernel("gain.txt", &["gain.txt", ".cu, .ptx or .cubin"]);
    kernel("binary.cu", &["binary.cu", "no text"]);
    for arg in ["factor", "=", "factor=", "factor=two", "n=1.5u32", "n=300u8", "n=5000000000"] {
        let call = ["--kernel", "gain.cu", "--entry", "gain", "--arg", arg];
        refused(&desk, 2, &call, &["--arg", "no argument"]);
    }
}

#[test]
fn a_kernel_of_the_user_does_not_run_on_the_host() {
    let desk = desk();
    desk.file("gain.cu", b"extern \"C\" __global__ void gain(const unsigned char* x) {}\n");
    let call = ["--kernel", "gain.cu", "--entry", "gain"];
    refused(&desk, 1, &call, &["gain", "no host twin"]);
}

#[test]
fn shape_and_dtype_belong_to_raw_files_and_together() {
    let desk = desk();
    let op = ["--op", "affine"];
    refused(&desk, 1, &[&op[..], &["--shape", "8x8", "--dtype", "u8"]].concat(), &["in.npy"]);
    refused(&desk, 2, &[&op[..], &["--shape", "8x8"]].concat(), &["--dtype"]);
    refused(&desk, 2, &[&op[..], &["--dtype", "u8"]].concat(), &["--shape"]);
    for shape in ["8x", "x", "8x-8", "eight", ""] {
        let shape = format!("--shape={shape}");
        refused(&desk, 2, &[op[0], op[1], &shape, "--dtype", "u8"], &["--shape", "no shape"]);
    }
    let odd = [&op[..], &["--shape", "8x8", "--dtype", "i16"]].concat();
    refused(&desk, 2, &odd, &["--dtype", "u8", "u16", "f32"]);
}

#[test]
fn a_help_that_was_asked_for_is_no_error() {
    let desk = Desk::new();
    for command in ["devices", "map", "overlap", "trace", "bench"] {
        assert!(desk.trijet(&[command, "--help"]).done().contains("Usage: trijet"));
    }
    assert!(desk.trijet(&["--version"]).done().starts_with("trijet "));
    assert_eq!(fs::read_dir(desk.path(".")).unwrap().count(), 0);
}

/// Options that no part of the run reads were once ignored without a word.
#[test]
fn an_option_of_another_operation_is_refused() {
    let desk = desk();
    for option in [&["--entry", "k"][..], &["--arg", "x=1"], &["--halo", "1"]] {
        refused(&desk, 2, &[&["--op", "median"], option].concat(), &[option[0], "--op"]);
    }
    refused(&desk, 2, &["--op", "affine", "--radius", "1"], &["--radius", "--op median"]);
    refused(&desk, 2, &["--op", "median", "--scale", "1"], &["--scale", "--op affine"]);
    refused(&desk, 2, &["--op", "median", "--offset=-1"], &["--offset", "--op affine"]);
    let kernel = ["--kernel", "k.cu", "--entry", "k"];
    refused(&desk, 2, &[&kernel[..], &["--scale", "2"]].concat(), &["--scale", "--op affine"]);
    refused(&desk, 2, &[&kernel[..], &["--radius", "2"]].concat(), &["--radius", "--op median"]);
}

/// The plan refused it, but only after a partial output and a journal were there.
#[test]
fn a_depth_of_nothing_is_refused() {
    for depth in ["--depth=0", "--depth=-1", "--depth=many"] {
        refused(&desk(), 2, &["--op", "median", depth], &["--depth"]);
        desk().trijet(&["overlap", "--device", "host", depth]).refused(2, &["--depth"]);
    }
}
