//! Outputs whose rows are not the rows of the input.

use crate::common::{GRAY16, demand, png};
use crate::workdir::{Workdir, only};
use std::fs::{self, File};
use std::path::PathBuf;
use trijet::{ErrorKind, Sink, Source};
use trijet_io::{Array, Dtype, Fingerprint, Input, Output, Start, Target};

/// A stack of four images of two rows with one pixel each.
fn stack(workdir: &Workdir) -> PathBuf {
    let folder = workdir.path("stack");
    fs::create_dir(&folder).unwrap();
    for n in 0..4 {
        png(&folder.join(format!("{n}.png")), [1, 2], GRAY16, &[0, n, 0, n]);
    }
    folder
}

/// The output `out.npy` with `height` rows of u8 for each image of the input.
fn target(workdir: &Workdir, input: &Input, height: u64) -> Target {
    let shape = vec![input.part().shape()[0], height, 1];
    let array = Array::new(Dtype::U8, shape).unwrap();
    Target::new(&workdir.path("out.npy"), array, input).unwrap()
}

/// The output has three rows for each image, so row 4 belongs to the second image.
#[test]
fn rows_depend_on_the_files_of_the_rows_that_they_need() {
    let workdir = Workdir::new();
    let folder = stack(&workdir);
    let open = |start| {
        let input = Input::open(&folder, None).unwrap();
        let target = target(&workdir, &input, 3);
        let run = Fingerprint::new(&input, "enlarge", &target);
        let run = run.input_rows(|rows| rows.start / 3 * 2..rows.end.div_ceil(3) * 2);
        Output::open(&target, &run, start)
    };
    let mut output = open(Start::New).unwrap();
    assert_eq!(output.missing(), only(0..12));
    output.write(4..6, &[1, 2]).unwrap();
    drop(output);
    let longer = |name: &str| {
        File::options().append(true).open(folder.join(name)).unwrap().set_len(99).unwrap();
    };
    for name in ["0.png", "2.png", "3.png"] {
        longer(name);
    }
    let output = open(Start::Resume).unwrap();
    assert_eq!(output.missing(), [0..4, 6..12]);
    drop(output);
    longer("1.png");
    demand(open(Start::Resume), ErrorKind::InvalidValue, "out.npy", &["changed", "1.png"]);
}

/// The rows of a slice have the numbers that they have among the results of the whole input.
#[test]
fn a_slice_of_results_begins_at_the_results_of_its_first_image() {
    let workdir = Workdir::new();
    let folder = stack(&workdir);
    let input = Input::open(&folder, None).unwrap().slice(1..3).unwrap();
    let target = target(&workdir, &input, 3);
    assert_eq!((target.rows(), target.rows_of_whole()), (0..6, 3..9));
    let run = Fingerprint::new(&input, "enlarge", &target);
    let mut output = Output::open(&target, &run, Start::New).unwrap();
    output.write(3..9, &[1, 2, 3, 4, 5, 6]).unwrap();
    output.finish().unwrap();
    assert!(fs::read(target.path()).unwrap().ends_with(&[1, 2, 3, 4, 5, 6]));
}

#[test]
fn the_results_of_a_damaged_image_are_left_out() {
    let workdir = Workdir::new();
    let folder = stack(&workdir);
    let mut damaged = fs::read(folder.join("2.png")).unwrap();
    damaged[45] ^= 0xff;
    fs::write(folder.join("2.png"), damaged).unwrap();
    let input = Input::skipping_damaged(&folder).unwrap();
    input.read(0..8, &mut [0; 16]).unwrap();
    assert_eq!(input.damaged().len(), 1);
    let target = target(&workdir, &input, 1);
    let run = Fingerprint::new(&input, "sum", &target);
    let mut output = Output::open(&target, &run, Start::New).unwrap().skipping(&input);
    output.write(0..4, &[11, 12, 13, 14]).unwrap();
    output.finish().unwrap();
    assert!(fs::read(target.path()).unwrap().ends_with(&[11, 12, 0, 14]));
}
