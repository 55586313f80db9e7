//! Several operations in one run of `trijet map`: the output is the same as after a run for each
//! operation.

use crate::built::empty_driver;
use crate::own_kernel::GAIN;
use crate::reference::{affine, median};
use crate::workdir::{Images, Ran, Workdir, bytes_of, data_of, noise, numbers_of, pixels_of};
use trijet::trace::Engine;
use trijet::trace::file::Reader;

/// Applies the operations in one run with these options, and then in a run for each. Both outputs
/// must be equal.
#[track_caller]
fn equal(workdir: &Workdir, input: &[&str], output: &str, operations: &[&str], more: &[&str]) {
    let ops: Vec<&str> = operations.iter().flat_map(|operation| ["--op", operation]).collect();
    workdir.map(&[input, &["-o", output], &ops, more].concat()).done();
    let mut last = String::new();
    for (n, operation) in operations.iter().enumerate() {
        let next = format!("{n}-of-{output}");
        let from = [last.as_str()];
        let from = if n == 0 { input } else { &from[..] };
        workdir.map(&[from, &["-o", &next, "--op", operation]].concat()).done();
        last = next;
    }
    let same = match workdir.path(output).is_dir() {
        true => pixels_of(&workdir.path(output)) == pixels_of(&workdir.path(&last)),
        false => workdir.read(output) == workdir.read(&last),
    };
    assert!(same, "{input:?} to {output}, {operations:?}, {more:?}");
}

/// A row, chunks that cut images, and a chunk with the whole input.
const CHUNKS: [&str; 3] = ["--chunk=1", "--chunk=416", "--chunk=64KiB"];

#[test]
fn one_run_of_several_operations_equals_a_run_for_each() {
    let workdir = Workdir::new();
    let bytes = noise(3 * 20 * 16 * 2, 21);
    workdir.npy("u8.npy", "|u1", &[3, 20, 16], &bytes[..960]);
    workdir.npy("u16.npy", "<u2", &[3, 20, 16], &bytes);
    workdir.images("images", [16, 20], &Images::U16(&numbers_of(&bytes)));
    workdir.file("u16.raw", &bytes);
    let raw = ["u16.raw", "--shape", "3x20x16", "--dtype", "u16"];
    let inputs: [&[&str]; 4] = [&["u8.npy"], &["u16.npy"], &["images"], &raw];
    let chains: [&[&str]; 3] = [
        &["median:2", "affine:0.5,3"],
        &["affine:2,-7", "median:1", "median:3"],
        &["median:7", "median:7"],
    ];
    for (n, operations) in chains.into_iter().enumerate() {
        for (m, input) in inputs.into_iter().enumerate() {
            for kind in [".npy", ""] {
                let output = format!("out-{n}-{m}{kind}");
                equal(&workdir, input, &output, operations, &[CHUNKS[(n + m) % 3], "--depth=2"]);
            }
        }
    }
}

#[test]
fn one_run_of_several_operations_over_floats_equals_a_run_for_each() {
    let workdir = Workdir::new();
    let floats = (0..960_u16).flat_map(|n| (f32::from(n) * 0.37 - 99.5).to_le_bytes());
    workdir.npy("f32.npy", "<f4", &[3, 20, 16], &floats.collect::<Vec<u8>>());
    for (n, chunk) in CHUNKS.into_iter().enumerate() {
        let operations = ["affine:-1.1,1e-3", "affine:0.3", "affine:3,-2.5", "affine"];
        equal(&workdir, &["f32.npy"], &format!("out{n}.npy"), &operations, &[chunk]);
    }
}

#[test]
fn a_chain_equals_the_references_one_after_another() {
    let workdir = Workdir::new();
    let numbers = numbers_of(&noise(4 * 11 * 13 * 2, 22));
    workdir.npy("in.npy", "<u2", &[4, 11, 13], &bytes_of(&numbers));
    let shape = [4, 11, 13];
    let expected = affine(&median(&numbers, shape, 2), 0.75, -1000.5, 65_535);
    let expected = median(&median(&expected, shape, 1), shape, 3);
    for (n, rows) in [1, 3, 7, 11, 12, 44].into_iter().enumerate() {
        let (output, chunk) = (format!("out{n}.npy"), format!("--chunk={}", rows * 26));
        let ops = ["--op=median:2", "--op=affine:0.75,-1000.5", "--op=median:1", "--op=median:3"];
        workdir.map(&[&["in.npy", "-o", &output, &chunk][..], &ops].concat()).done();
        let found = numbers_of(&data_of(&workdir.read(&output), "<u2", "(4, 11, 13)"));
        assert!(found == expected, "{rows} rows in a chunk");
    }
}

#[test]
fn both_ways_to_write_an_operation_are_the_same_job() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[9, 7], &noise(63, 23));
    let forms: [(&[&str], &str, &str); 5] = [
        (&["--op", "median", "--radius", "2"], "median:2", "median radius=2"),
        (&["--op", "median"], "median:1", "median radius=1"),
        (&["--op", "affine", "--scale", "0.5"], "affine:0.5", "affine scale=0.5 offset=0"),
        (&["--op", "affine", "--scale", "-2", "--offset", "9"], "affine:-2,9", "scale=-2 offset=9"),
        (&["--op", "affine"], "affine:1,0", "affine scale=1 offset=0"),
    ];
    for (n, (options, operation, words)) in forms.into_iter().enumerate() {
        let (one, other) = (format!("a{n}.npy"), format!("b{n}.npy"));
        let report = workdir.map(&[&["in.npy", "-o", &one, "--json"], options].concat()).json();
        let same = workdir.map(&["in.npy", "-o", &other, "--json", "--op", operation]).json();
        assert_eq!(report["operation"], same["operation"]);
        assert!(report["operation"].as_str().unwrap().contains(words), "{report:#}");
        assert_eq!(workdir.read(&one), workdir.read(&other), "{operation}");
    }
}

#[test]
fn the_report_and_the_timeline_name_every_operation() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "<u2", &[2, 32, 32], &noise(4096, 24));
    let words = "median radius=3, then affine scale=0.5 offset=3";
    let ops = ["--op", "median:3", "--op", "affine:0.5,3", "--chunk=512"];
    let run = |output: &str, more: &[&str]| {
        workdir.map(&[&["in.npy", "-o", output], &ops[..], more].concat())
    };
    let printed = run("a.npy", &["--trace", "run.ledger"]).done();
    assert!(printed.starts_with(&format!("a.npy: u16 [2, 32, 32], {words}\n")), "{printed}");
    let report = run("b.npy", &["--json", "--trace", "run.html"]).json();
    assert_eq!(report["operation"], words);
    let chunks = report["chunks"].as_u64().unwrap();
    assert_eq!(chunks, 8);
    let ledger = workdir.read("run.ledger");
    let reader = Reader::new(&ledger[..]).unwrap();
    assert!(reader.about().program.contains(words), "{}", reader.about().program);
    let ops: Vec<_> = reader.map(Result::unwrap).collect();
    let count =
        |is: &dyn Fn(&trijet::trace::Op) -> bool| ops.iter().filter(|op| is(op)).count() as u64;
    // Data between two operations is not copied, and a host device copies nothing at all.
    assert_eq!(count(&|op| [Engine::Upload, Engine::Download].contains(&op.engine)), 0);
    for kernel in ["median_r3_u16", "affine"] {
        assert_eq!(count(&|op| op.label.contains(kernel)), chunks, "{kernel}");
    }
    let page = String::from_utf8(workdir.read("run.html")).unwrap();
    assert!(page.contains(words), "the title of the page");
}

/// The driver with empty functions runs the kernel, so the kernel computes nothing.
#[test]
fn kernels_of_the_user_have_their_places_in_the_order() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[8, 8], &noise(64, 1));
    workdir.file("gain.cu", GAIN.as_bytes());
    workdir.file("loss.cu", GAIN.replace("gain", "loss").as_bytes());
    let run = |output: &str, args: &[&str]| {
        let call = ["map", "in.npy", "-o", output, "--device", "cuda:0"];
        let mut command = workdir.command(&[&call[..], args].concat());
        command.env("TRIJET_LIBNVRTC", empty_driver()).env("TRIJET_LIBCUDA", empty_driver());
        Ran::from(command.output().unwrap())
    };
    let kernel = |file, entry, factor| ["--kernel", file, "--entry", entry, "--arg", factor];
    let (gain, loss) =
        (kernel("gain.cu", "gain", "factor=2.5"), kernel("loss.cu", "loss", "factor=0.5"));
    let (median, affine) = (["--op", "median:2"], ["--op", "affine:0.5"]);
    let order = |output: &str, args: &[&[&str]]| {
        let out = run(output, &args.concat()).done();
        let line = out.lines().next().unwrap().split_once("], ").unwrap().1;
        let name = |part: &str| part.split(' ').take(2).collect::<Vec<_>>().join(" ");
        line.split(", then ").map(name).collect::<Vec<_>>()
    };
    let found = order("a.npy", &[&median, &gain, &affine]);
    assert_eq!(found, ["median radius=2", "kernel gain", "affine scale=0.5"]);
    let found = order("b.npy", &[&loss, &affine, &gain, &loss]);
    assert_eq!(found, ["kernel loss", "affine scale=0.5", "kernel gain", "kernel loss"]);
    // The options of a single kernel may stand before it.
    let options = ["--entry", "gain", "--arg", "factor=2.5"];
    let found = order("c.npy", &[&options, &median, &["--kernel", "gain.cu"]]);
    assert_eq!(found, ["median radius=2", "kernel gain"]);
    // The second kernel lacks its argument.
    let wrong = [&gain[..], &["--kernel", "loss.cu", "--entry", "loss"]].concat();
    run("d.npy", &wrong).refused(1, &["loss.cu", "expected `loss(", "which has 4 parameters"]);
    assert!(!workdir.exists("d.npy.partial") && !workdir.exists("d.npy"));
}

#[test]
fn an_operation_that_does_not_fit_is_refused_at_any_place() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "<f4", &[2, 2], &[0; 16]);
    workdir.npy("wide.npy", "<f4", &[1, 3], &[0; 12]);
    let call = ["in.npy", "-o", "out.npy", "--op", "affine:2", "--op", "subtract:wide.npy"];
    workdir.map(&call).refused(1, &["in.npy", "1 x 3"]);
    workdir.file("gain.cu", GAIN.as_bytes());
    let kernel = ["--kernel", "gain.cu", "--entry", "gain"];
    let call = [&["in.npy", "-o", "out.npy", "--op", "affine:2"], &kernel[..]].concat();
    workdir.map(&call).refused(1, &["gain.cu", "a GPU is needed"]);
    assert_eq!(workdir.names(), ["gain.cu", "in.npy", "wide.npy"]);
}
