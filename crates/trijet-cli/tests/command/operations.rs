//! Operations that change the type or the shape of an array, and the other axis.

use crate::workdir::{Images, Workdir, bytes_of, data_of, noise, numbers_of, pixels_of};

/// The bytes of these floats.
fn floats(numbers: impl IntoIterator<Item = f32>) -> Vec<u8> {
    numbers.into_iter().flat_map(f32::to_le_bytes).collect()
}

#[test]
fn a_conversion_changes_the_type_of_the_output() {
    let workdir = Workdir::new();
    let numbers = numbers_of(&noise(2 * 3 * 5 * 7, 1));
    workdir.npy("in.npy", "<u2", &[3, 5, 7], &bytes_of(&numbers));
    let call = ["in.npy", "-o", "out.npy", "--to", "f32", "--op", "affine:0.5", "--chunk=30"];
    workdir.map(&call).done();
    let expected = floats(numbers.iter().map(|&n| f32::from(n) * 0.5));
    assert_eq!(data_of(&workdir.read("out.npy"), "<f4", "(3, 5, 7)"), expected);
    // The order of the options is the order of the operations.
    let call = ["in.npy", "-o", "floor.npy", "--op", "affine:0.5", "--to", "f32"];
    workdir.map(&call).done();
    let even = |n: u16| f32::from(n / 2 + u16::from(n % 4 == 3));
    let expected = floats(numbers.iter().map(|&n| even(n)));
    assert_eq!(data_of(&workdir.read("floor.npy"), "<f4", "(3, 5, 7)"), expected);
}

/// Floats are no pixels of PNG images, but the threshold of floats is.
#[test]
fn the_output_format_is_asked_about_the_array_of_the_last_operation() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "<f4", &[2, 1, 3], &floats([1.5, -2.0, 8.0, 7.5, 7.75, 0.0]));
    let call = ["in.npy", "-o", "mask", "--op", "threshold:7.5,255"];
    workdir.map(&call).done();
    assert_eq!(pixels_of(&workdir.path("mask")), [0, 0, 255, 0, 255, 0]);
    let refused = workdir.map(&["in.npy", "-o", "same", "--op", "affine:2"]);
    refused.refused(1, &["PNG images cannot hold f32"]);
    workdir.images("images", [2, 2], &Images::U8(&[1, 2, 3, 4, 5, 6, 7, 8]));
    workdir.map(&["images", "-o", "wide.npy", "--op", "rescale:0,8,0,65535,u16"]).done();
    // n * 65535 / 8, rounded to the nearest, ties to even.
    let wide = [8192, 16_384, 24_576, 32_768, 40_959, 49_151, 57_343, 65_535];
    assert_eq!(data_of(&workdir.read("wide.npy"), "<u2", "(2, 2, 2)"), bytes_of(&wide));
}

#[test]
fn images_of_an_operation_are_read_from_files() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[2, 1, 3], &[60, 110, 99, 10, 60, 10]);
    workdir.npy("dark.npy", "|u1", &[1, 3], &[10, 10, 10]);
    workdir.npy("flat.npy", "<u2", &[1, 1, 3], &bytes_of(&[110, 210, 10]));
    let call = ["in.npy", "-o", "out.npy", "--op", "flatfield:dark.npy,flat.npy"];
    let out = workdir.map(&call).done();
    assert!(out.contains("flatfield dark=dark.npy flat=flat.npy"), "{out}");
    let expected = floats([0.5, 0.5, 0.0, 0.0, 0.25, 0.0]);
    assert_eq!(data_of(&workdir.read("out.npy"), "<f4", "(2, 1, 3)"), expected);
    // Another image is another job, also under the same name.
    let call = ["in.npy", "-o", "less.npy", "--op", "subtract:dark.npy"];
    workdir.map(&call).done();
    let again = workdir.map(&[&call[..], &["--resume"]].concat()).done();
    assert!(again.contains("an earlier run of this job has finished it"), "{again}");
    workdir.npy("dark.npy", "|u1", &[1, 3], &[10, 10, 11]);
    let other = workdir.map(&[&call[..], &["--resume"]].concat());
    other.refused(1, &["less.npy", "already exists"]);
    let refuse = |op: &str, words: &[&str]| {
        workdir.map(&["in.npy", "-o", "bad.npy", "--op", op]).refused(1, words);
    };
    refuse("subtract:gone.npy", &["gone.npy", "no such file"]);
    refuse("subtract:in.npy", &["in.npy", "not one image"]);
    workdir.npy("wide.npy", "|u1", &[1, 4], &[1, 2, 3, 4]);
    refuse("divide:wide.npy", &["in.npy", "1 x 4"]);
    // The images are inputs, and an output replaces no input.
    let call = ["in.npy", "-o", "dark.npy", "--op", "subtract:dark.npy", "--overwrite"];
    workdir.map(&call).refused(1, &["dark.npy", "input"]);
}

/// The bytes are swapped on the device, also for a slice, for the other axis and for complex numbers.
#[test]
fn big_endian_elements_give_the_results_of_little_endian_ones() {
    let workdir = Workdir::new();
    let bytes = noise(4 * 6 * 5 * 8, 6);
    let swapped = |size: usize| -> Vec<u8> {
        bytes.chunks(size).flat_map(|one| one.iter().rev().copied().collect::<Vec<_>>()).collect()
    };
    let cases = [("u2", 2, 20), ("i4", 4, 10), ("f8", 8, 5), ("c8", 4, 5)];
    let calls: [&[&str]; 4] = [
        &["--op", "crop:1:5,1:4"],
        &["--op", "crop::,1:", "--slice", "1:3"],
        &["--axis=1", "--op", "crop::,:3"],
        &["--op", "crop:2:3", "--chunk=1"],
    ];
    for (code, size, width) in cases {
        workdir.npy("little.npy", &format!("<{code}"), &[4, 6, width], &bytes);
        workdir.npy("big.npy", &format!(">{code}"), &[4, 6, width], &swapped(size));
        for (number, args) in calls.into_iter().enumerate() {
            let out = |name: &str| format!("{name}-{code}-{number}.npy");
            for name in ["little", "big"] {
                let input = format!("{name}.npy");
                let words = workdir.map(&[&[&input, "-o", &out(name)], args].concat()).done();
                assert!(!words.contains("swap"), "{words}");
            }
            assert_eq!(workdir.read(&out("big")), workdir.read(&out("little")), "{code} {args:?}");
        }
    }
}

#[test]
fn axis_1_makes_sinograms_of_projections() {
    let workdir = Workdir::new();
    let numbers = numbers_of(&noise(2 * 4 * 5 * 3, 2));
    workdir.npy("in.npy", "<u2", &[4, 5, 3], &bytes_of(&numbers));
    let mut expected = Vec::new();
    for row in 0..5 {
        for image in 0..4 {
            expected.extend_from_slice(&numbers[(image * 5 + row) * 3..][..3]);
        }
    }
    for chunk in ["--chunk=6", "--chunk=24", "--chunk=1MiB"] {
        let out = format!("out{chunk}.npy");
        workdir.map(&["in.npy", "-o", &out, "--axis", "1", "--op", "affine", chunk]).done();
        let found = data_of(&workdir.read(&out), "<u2", "(5, 4, 3)");
        assert_eq!(numbers_of(&found), expected, "{chunk}");
    }
    // A slice has indices of the new first axis.
    let call = ["in.npy", "-o", "part.npy", "--axis=1", "--slice", "1:3", "--op", "affine"];
    workdir.map(&call).done();
    let found = data_of(&workdir.read("part.npy"), "<u2", "(2, 4, 3)");
    assert_eq!(numbers_of(&found), expected[12..36]);
    workdir.map(&["out--chunk=6.npy", "-o", "back.npy", "--axis=1", "--op", "affine"]).done();
    let found = data_of(&workdir.read("back.npy"), "<u2", "(4, 5, 3)");
    assert_eq!(numbers_of(&found), numbers);
    workdir.images("images", [2, 2], &Images::U8(&[1, 2, 3, 4]));
    workdir
        .map(&["images", "-o", "x.npy", "--axis=1", "--op", "affine"])
        .refused(1, &["images", "read by whole images"]);
    workdir.npy("flat.npy", "|u1", &[2, 2], &[1, 2, 3, 4]);
    workdir
        .map(&["flat.npy", "-o", "x.npy", "--axis=1", "--op", "affine"])
        .refused(1, &["flat.npy", "three are needed"]);
}

/// A window that reaches into other images gives the same bytes in chunks of any size, from a file
/// and from a folder of images.
#[test]
fn windows_of_volumes_reach_into_neighbouring_images() {
    let workdir = Workdir::new();
    let bytes = noise(5 * 6 * 7, 4);
    workdir.npy("in.npy", "|u1", &[5, 6, 7], &bytes);
    workdir.images("images", [7, 6], &Images::U8(&bytes));
    let at = |image: usize, row: usize, column: usize| bytes[(image * 6 + row) * 7 + column];
    let mut expected = Vec::new();
    for (image, row, column) in (0..5 * 6 * 7).map(|n| (n / 42, n / 7 % 6, n % 7)) {
        let around = |at: usize, end: usize| [at.saturating_sub(1), at, (at + 1).min(end - 1)];
        let mut window: Vec<u8> = Vec::new();
        for z in around(image, 5) {
            for y in around(row, 6) {
                window.extend(around(column, 7).map(|x| at(z, y, x)));
            }
        }
        window.sort_unstable();
        expected.push(window[13]);
    }
    for (n, input) in ["in.npy", "images"].into_iter().enumerate() {
        for chunk in ["--chunk=7", "--chunk=60", "--chunk=1MiB"] {
            let out = format!("out{n}{chunk}.npy");
            workdir.map(&[input, "-o", &out, "--op", "median:1,z=1", chunk]).done();
            let found = data_of(&workdir.read(&out), "|u1", "(5, 6, 7)");
            assert_eq!(found, expected, "{input} {chunk}");
        }
    }
    // Damage would spread into the neighbouring images.
    let call = ["images", "-o", "x.npy", "--op", "median:1,z=1", "--skip-bad"];
    workdir.map(&call).refused(1, &["--skip-bad cannot be used"]);
}

/// Chunks of any size give the same bytes, for images of a folder too.
#[test]
fn operations_may_change_the_shape() {
    let workdir = Workdir::new();
    let bytes = noise(4 * 6 * 10, 5);
    workdir.npy("in.npy", "|u1", &[4, 6, 10], &bytes);
    workdir.images("images", [10, 6], &Images::U8(&bytes));
    let at = |image: usize, row: usize, column: usize| bytes[(image * 6 + row) * 10 + column];
    let indices =
        |[a, b, c]: [usize; 3]| (0..a * b * c).map(move |n| (n / (b * c), n / c % b, n % c));
    let cropped: Vec<u8> = indices([4, 3, 8]).map(|(z, y, x)| at(z, y + 2, x + 1)).collect();
    let binned: Vec<u8> = indices([4, 3, 5])
        .map(|(z, y, x)| {
            let sum: u32 = (0..4).map(|n| u32::from(at(z, 2 * y + n / 2, 2 * x + n % 2))).sum();
            // Rounded to the nearest, ties to even.
            let (low, rest) = (sum / 4, sum % 4);
            u8::try_from(low + u32::from(rest == 3 || rest == 2 && low % 2 == 1)).unwrap()
        })
        .collect();
    let most: Vec<u8> =
        indices([1, 6, 10]).map(|(_, y, x)| (0..4).map(|z| at(z, y, x)).max().unwrap()).collect();
    let cases: [(&[&str], &str, &[u8]); 3] = [
        (&["--op", "crop:2:5,1:9"], "(4, 3, 8)", &cropped),
        (&["--op", "bin:2"], "(4, 3, 5)", &binned),
        (&["--axis", "1", "--op", "project:max"], "(6, 10)", &most),
    ];
    for (number, (args, shape, expected)) in cases.into_iter().enumerate() {
        for chunk in ["--chunk=1", "--chunk=33", "--chunk=1MiB"] {
            let out = format!("out{number}{chunk}.npy");
            workdir.map(&[&["in.npy", "-o", &out, chunk], args].concat()).done();
            assert_eq!(data_of(&workdir.read(&out), "|u1", shape), expected, "{args:?} {chunk}");
        }
    }
    workdir.map(&["images", "-o", "small", "--op", "bin:2", "--chunk=1"]).done();
    let pixels: Vec<u16> = binned.iter().copied().map(u16::from).collect();
    assert_eq!(pixels_of(&workdir.path("small")), pixels);
    let names = |folder: &str| workdir.path(folder).read_dir().unwrap().count();
    assert!(workdir.exists("small/3.png") && names("small") == 4, "the names of the input");
    // A slice has the results of its images.
    workdir.map(&["in.npy", "-o", "part.npy", "--op", "bin:2", "--slice", "1:3"]).done();
    assert_eq!(data_of(&workdir.read("part.npy"), "|u1", "(2, 3, 5)"), binned[15..45]);
    let call = ["in.npy", "-o", "x.npy", "--op", "bin:2,z=2", "--slice", "1:3"];
    workdir.map(&call).refused(1, &["--slice cannot be used"]);
    workdir
        .map(&["in.npy", "-o", "x.npy", "--op", "project:max,0"])
        .refused(1, &["in.npy", "--axis"]);
}

/// The rows of a run that was stopped stay, although they have another type than the input.
#[test]
fn shards_and_resumed_runs_change_the_type_too() {
    let workdir = Workdir::new();
    let numbers = numbers_of(&noise(2 * 8 * 6 * 5, 3));
    workdir.npy("in.npy", "<u2", &[8, 6, 5], &bytes_of(&numbers));
    let op = ["--op", "rescale:0,65535,0,1,f64"];
    workdir.map(&[&["in.npy", "-o", "whole.npy"], &op[..]].concat()).done();
    for shard in ["0/3", "2/3", "1/3"] {
        let call = ["in.npy", "-o", "out.npy", "--shard", shard, "--chunk=60"];
        let ran = workdir.map(&[&call[..], &op].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    assert_eq!(workdir.read("out.npy"), workdir.read("whole.npy"));
    let json = workdir.map(&[&["in.npy", "-o", "plan.npy", "--plan", "--json"], &op[..]].concat());
    let plan: serde_json::Value = serde_json::from_str(&json.done()).unwrap();
    assert_eq!((&plan["bytes_in"], &plan["bytes_out"]), (&480.into(), &1920.into()));
}

#[test]
fn a_wrong_operation_is_answered_with_its_form() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[2, 2], &[1, 2, 3, 4]);
    let refuse = |args: &[&str], words: &[&str]| {
        workdir.map(&[&["in.npy", "-o", "out.npy"], args].concat()).refused(2, words);
    };
    refuse(&["--op", "clip:1"], &["`high` is missing", "clip:LOW,HIGH"]);
    refuse(&["--op", "clip:1,2,3"], &["`3` is one parameter too many"]);
    refuse(&["--op", "blur"], &["there is no operation `blur`", "affine"]);
    refuse(&["--to", "i128"], &["--to", "f32"]);
    let kernel = ["--kernel", "k.cu", "--entry", "k"];
    refuse(&[&kernel[..], &["--out-rows", "0/2"]].concat(), &["is not a ratio of rows"]);
    refuse(&["--op", "affine", "--out-dtype", "f32"], &["--out-dtype requires --kernel"]);
}
