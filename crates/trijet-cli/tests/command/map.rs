//! `trijet map`: the output equals a reference, for every format and chunk size.

use crate::held::Held;
use crate::reference::{affine, median, median_with};
use crate::workdir::{Images, Workdir, bytes_of, data_of, decode, noise, numbers_of, pixels_of};
use std::collections::HashSet;
use trijet::trace::Engine;
use trijet::trace::file::Reader;

#[test]
fn the_median_equals_that_of_a_sorted_window() {
    let workdir = Workdir::new();
    let (image, stack) = (noise(19 * 23, 1), noise(4 * 11 * 13 * 2, 2));
    workdir.npy("image.npy", "|u1", &[19, 23], &image);
    workdir.npy("stack.npy", "<u2", &[4, 11, 13], &stack);
    for radius in [1, 2, 7] {
        let text = radius.to_string();
        let (image_out, stack_out) = (format!("i{radius}.npy"), format!("s{radius}.npy"));
        workdir.map(&["image.npy", "-o", &image_out, "--op", "median", "--radius", &text]).done();
        let expected = median(&image, [1, 19, 23], radius);
        assert_eq!(data_of(&workdir.read(&image_out), "|u1", "(19, 23)"), expected);
        workdir.map(&["stack.npy", "-o", &stack_out, "--op", "median", "--radius", &text]).done();
        let expected = bytes_of(&median(&numbers_of(&stack), [4, 11, 13], radius));
        assert_eq!(data_of(&workdir.read(&stack_out), "<u2", "(4, 11, 13)"), expected);
    }
    assert!(workdir.names().iter().all(|name| name.ends_with(".npy")), "only outputs are left");
}

/// The chunks may have any size, and the images may be smaller than the window.
#[test]
fn the_edges_of_the_median_are_those_of_scipy() {
    let workdir = Workdir::new();
    let (stack, small) = (noise(4 * 12 * 13, 31), noise(3 * 2 * 5 * 2, 32));
    workdir.npy("stack.npy", "|u1", &[4, 12, 13], &stack);
    workdir.npy("small.npy", "<u2", &[3, 2, 5], &small);
    workdir.images("images", [13, 12], &Images::U8(&stack));
    for (n, edges) in ["nearest", "reflect", "mirror", "constant", "wrap"].into_iter().enumerate() {
        let expected = median_with(&stack, [4, 12, 13], 2, edges);
        for chunk in ["--chunk=13", "--chunk=100", "--chunk=64KiB"] {
            let out = format!("{edges}{chunk}.npy");
            let op = ["--op", "median", "--radius", "2", "--edges", edges, chunk];
            workdir.map(&[&["stack.npy", "-o", &out], &op[..]].concat()).done();
            assert_eq!(data_of(&workdir.read(&out), "|u1", "(4, 12, 13)"), expected, "{out}");
        }
        let folder = format!("images-{edges}");
        let op = format!("median:2,{edges}");
        workdir.map(&["images", "-o", &folder, "--op", &op, "--chunk=1"]).done();
        let pixels: Vec<u16> = expected.into_iter().map(u16::from).collect();
        assert_eq!(pixels_of(&workdir.path(&folder)), pixels, "{folder}");
        let (out, radius) = (format!("small-{edges}.npy"), [3, 7][n % 2]);
        let op = format!("--op=median:{radius}");
        workdir.map(&["small.npy", "-o", &out, &op, "--edges", edges, "--chunk=10"]).done();
        let expected = bytes_of(&median_with(&numbers_of(&small), [3, 2, 5], radius, edges));
        assert_eq!(data_of(&workdir.read(&out), "<u2", "(3, 2, 5)"), expected, "{out}");
    }
}

/// A partial result with other edges belongs to another job.
#[test]
fn edges_are_a_part_of_the_job() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[9, 7], &noise(63, 3));
    let report = workdir.map(&["in.npy", "-o", "a.npy", "--op=median", "--edges=mirror"]).done();
    assert!(report.contains("median radius=1 edges=mirror"), "{report}");
    let report = workdir.map(&["in.npy", "-o", "b.npy", "--op=median", "--edges=nearest"]).done();
    assert!(report.contains("median radius=1") && !report.contains("edges="), "{report}");
    let resumed = ["in.npy", "-o", "a.npy", "--op=median", "--edges=wrap", "--resume"];
    workdir.map(&resumed).refused(1, &["a.npy"]);
}

/// A scientist who compares with SciPy's default has to find the difference here.
#[test]
fn the_help_defines_the_window_and_the_edges_of_the_median() {
    let help = Workdir::new().trijet(&["map", "--help"]).done();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "square of 2R+1 by 2R+1 pixels",
        "within the pixel's own image",
        "SciPy's median_filter with mode='nearest'",
        "cba|abcd|dcb",
        "dcb|abcd|cba",
        "[default: nearest]",
    ] {
        assert!(help.contains(words), "`{words}` is missing in {help}");
    }
}

#[test]
fn the_default_radius_of_the_median_is_1() {
    let workdir = Workdir::new();
    let image = noise(9 * 7, 3);
    workdir.npy("in.npy", "|u1", &[9, 7], &image);
    workdir.map(&["in.npy", "-o", "out.npy", "--op", "median"]).done();
    assert_eq!(data_of(&workdir.read("out.npy"), "|u1", "(9, 7)"), median(&image, [1, 9, 7], 1));
}

#[test]
fn affine_is_rounded_and_saturated_as_its_help_says() {
    let workdir = Workdir::new();
    let help = workdir.trijet(&["map", "--help"]).done();
    let help: Vec<&str> = help.split_whitespace().collect();
    for rule in ["a product and a sum, each rounded", "ties to even, and limited to the range"] {
        assert!(help.join(" ").contains(rule), "{rule}");
    }
    let bytes: Vec<u8> = (0..=255).collect();
    let numbers = numbers_of(&noise(600, 4));
    workdir.npy("u8.npy", "|u1", &[256], &bytes);
    workdir.npy("u16.npy", "<u2", &[5, 6, 10], &bytes_of(&numbers));
    for (n, (scale, offset)) in [(0.5, 0.0), (-1.5, 300.25), (3.0, -20_000.0)].iter().enumerate() {
        let (narrow, wide) = (format!("narrow{n}.npy"), format!("wide{n}.npy"));
        let (scale_text, offset_text) = (format!("--scale={scale}"), format!("--offset={offset}"));
        workdir.map(&["u8.npy", "-o", &narrow, "--op", "affine", &scale_text, &offset_text]).done();
        let widened: Vec<u16> = bytes.iter().copied().map(u16::from).collect();
        let got = data_of(&workdir.read(&narrow), "|u1", "(256,)");
        let got: Vec<u16> = got.into_iter().map(u16::from).collect();
        assert_eq!(got, affine(&widened, *scale, *offset, 255), "{scale} {offset}");
        workdir.map(&["u16.npy", "-o", &wide, "--op", "affine", &scale_text, &offset_text]).done();
        let got = numbers_of(&data_of(&workdir.read(&wide), "<u2", "(5, 6, 10)"));
        assert_eq!(got, affine(&numbers, *scale, *offset, 65_535), "{scale} {offset}");
    }
}

#[test]
fn affine_does_not_round_floats() {
    let workdir = Workdir::new();
    let numbers: Vec<f32> = (0..60_u8).map(|n| f32::from(n) * 0.37 - 9.5).collect();
    let bytes = |numbers: &[f32]| numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    workdir.npy("in.npy", "<f4", &[3, 4, 5], &bytes(&numbers));
    workdir
        .map(&["in.npy", "-o", "out.npy", "--op", "affine", "--scale", "-1.1", "--offset", "1e-3"])
        .done();
    let expected: Vec<f32> = numbers.iter().map(|x| -1.1 * x + 1e-3).collect();
    // The product is rounded before the sum, which makes a difference to some of the numbers.
    let fused = numbers.iter().map(|x| x.mul_add(-1.1, 1e-3));
    assert!(fused.zip(&expected).any(|(fused, twice)| fused != *twice));
    assert_eq!(data_of(&workdir.read("out.npy"), "<f4", "(3, 4, 5)"), bytes(&expected));
}

#[test]
fn a_raw_file_takes_its_shape_from_the_user() {
    let workdir = Workdir::new();
    let data = noise(3 * 8 * 9 * 2, 5);
    workdir.file("in.raw", &data);
    let expected = bytes_of(&median(&numbers_of(&data), [3, 8, 9], 2));
    let forms =
        [("3x8x9", "u16", "a.raw"), ("3,8,9", "u16", "b.bin"), ("3X8X9", "uint16", "c.dat")];
    for (shape, dtype, out) in forms {
        let described = ["--shape", shape, "--dtype", dtype, "--op", "median", "--radius", "2"];
        let report = workdir.map(&[&["in.raw", "-o", out], &described[..]].concat()).done();
        assert_eq!(workdir.read(out), expected, "{shape}");
        let first = format!("{out}: u16 [3, 8, 9] (plain bytes, no header), median");
        assert!(report.starts_with(&first), "{report}");
    }
}

#[test]
fn a_plan_has_the_space_of_the_disk_and_no_trace_that_the_run_does_not_keep() {
    let workdir = Workdir::new();
    std::fs::File::create(workdir.path("in.raw")).unwrap().set_len(64 << 20).unwrap();
    let call =
        ["in.raw", "-o", "out.npy", "--shape=16384x4096", "--dtype=u8", "--op=affine", "--plan"];
    let plan = |more: &[&str]| workdir.map(&[&call[..], more].concat());
    let whole = plan(&["--chunk=1MiB", "--json"]).json();
    assert_eq!(whole["disk_needed_bytes"], (64 << 20) + 128);
    assert!(whole["disk_free_bytes"].as_u64() > Some(0), "{whole}");
    assert!(whole["trace_bytes"].as_u64() > Some(0), "{whole}");
    // 16 384 chunks have a trace of 192 MiB.
    let little = plan(&["--chunk=4KiB", "--memory=100MiB", "--json"]).json();
    assert_eq!(little["trace_bytes"], 0, "{little}");
    let text = plan(&["--chunk=4KiB", "--memory=100MiB"]).done();
    assert!(text.contains("none for a trace, which does not fit"), "{text}");
    assert!(text.contains("disk of the output: 64.00 MiB needed"), "{text}");
    assert_eq!(workdir.names(), ["in.raw"]);
}

/// More slots than chunks are not made, but the report once counted them.
#[test]
fn a_report_has_the_slots_that_the_run_needs() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[6, 8], &noise(48, 16));
    let call = ["in.npy", "--op=affine", "--depth=100000000", "--chunk=8"];
    let text = workdir.map(&[&call[..], &["-o", "a.npy", "--report=full"]].concat()).done();
    assert!(text.contains("slots: 6\n"), "{text}");
    let json = workdir.map(&[&call[..], &["-o", "b.npy", "--json"]].concat()).json();
    assert_eq!(json["slots"], 6);
}

/// The report of a good run once had fourteen lines, which only its authors understood.
#[test]
fn a_report_has_at_most_five_lines_and_every_figure_only_if_it_is_asked_for() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[64, 64], &noise(4096, 3));
    let call = |out, more: &[&str]| {
        workdir.map(&[&["in.npy", "-o", out, "--op=median"], more].concat()).done()
    };
    let figures = ["cold:", "ordering:", "critical path:", "engine ", "slots:"];
    for (out, more) in [("a.npy", &[][..]), ("b.npy", &["--report=short"])] {
        let text = call(out, more);
        assert!((1..=5).contains(&text.lines().count()), "{text}");
        assert!(!figures.iter().any(|figure| text.contains(figure)), "{text}");
    }
    let full = call("c.npy", &["--report=full"]);
    assert!(figures.iter().all(|figure| full.contains(figure)), "{full}");
}

/// Scripts once got a report of each run, and no option left it out.
#[test]
fn a_good_run_prints_no_report_if_none_is_asked_for() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[4, 64], &noise(256, 4));
    let call = |out, more: &[&str]| {
        workdir.map(&[&["in.npy", "-o", out, "--op=affine", "--report=none"], more].concat())
    };
    let all_is_well = |out, more: &[&str]| assert_eq!(call(out, more).done(), "", "{more:?}");
    all_is_well("a.npy", &[]);
    all_is_well("a.npy", &["--resume"]);
    all_is_well("a.npy", &["--overwrite", "--check"]);
    all_is_well("b.npy", &["--no-sync", "--trace=b.html"]);
    assert!(workdir.exists("b.html"));
    assert_eq!(workdir.read("a.npy"), workdir.read("b.npy"));
    call("a.npy", &[]).refused(1, &["a.npy", "already exists"]);
    for option in ["--json", "--plan"] {
        call("c.npy", &[option]).refused(2, &["--report none", option]);
    }
    assert_eq!(workdir.names(), ["a.npy", "b.html", "b.npy", "in.npy"]);
}

#[test]
fn warnings_and_the_parts_of_a_job_are_said_as_with_a_report() {
    let workdir = Workdir::new();
    workdir.images("in", [4, 4], &Images::U8(&noise(32, 5)));
    workdir.file("in/5.gif", b"");
    let call = |report| {
        let args = ["in", "-o", "out.npy", "--op=affine", "--overwrite", report];
        workdir.map(&args)
    };
    let (none, short) = (call("--report=none"), call("--report=short"));
    assert_eq!((none.code, none.out.as_str()), (Some(0), ""));
    assert_eq!(none.err, short.err);
    assert!(none.err.starts_with("not in the output: "), "{}", none.err);
    let part = ["in", "-o", "part.npy", "--op=affine", "--report=none", "--shard=0/2"];
    let part = workdir.map(&part);
    assert_eq!((part.code, part.out.as_str()), (Some(0), ""), "{}", part.err);
    assert!(part.err.contains("rows 0..4 of 8"), "{}", part.err);
}

/// `scans.d/` once was a file without a header.
#[test]
fn a_slash_at_the_end_names_a_folder() {
    let workdir = Workdir::new();
    let stack = noise(3 * 4 * 5, 14);
    workdir.npy("in.npy", "|u1", &[3, 4, 5], &stack);
    let pixels: Vec<u16> = stack.into_iter().map(u16::from).collect();
    for out in ["scans.d/", "scan_v1.0/", "x.npy/"] {
        workdir.map(&["in.npy", "-o", out, "--op", "affine"]).done();
        assert_eq!(pixels_of(&workdir.path(out)), pixels, "{out}");
    }
}

#[test]
fn a_report_says_what_of_the_input_is_not_in_the_output() {
    let workdir = Workdir::new();
    workdir.images("in", [4, 4], &Images::U8(&noise(5 * 16, 15)));
    std::fs::remove_file(workdir.path("in/2.png")).unwrap();
    workdir.file("in/5.gif", b"");
    let line = "not in the output: images of other formats (5.gif); images whose numbers are missing in the sequence (2.png)\n";
    let call =
        |out, more: &[&str]| workdir.map(&[&["in", "-o", out, "--op", "affine"], more].concat());
    for (out, more) in [("a", &[][..]), ("b", &["--report=full"]), ("c", &["--plan"])] {
        let ran = call(out, more);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), line), "{}", ran.out);
    }
    let json = call("d", &["--json"]).json();
    assert_eq!(json["left_out"][1], "images whose numbers are missing in the sequence (2.png)");
    let whole = workdir.map(&["a", "-o", "e.npy", "--op", "affine", "--json"]).json();
    assert_eq!(whole["left_out"].as_array().map(Vec::len), Some(1), "{whole}");
}

#[test]
fn the_option_raw_takes_files_for_plain_bytes() {
    let workdir = Workdir::new();
    let data = noise(12, 12);
    workdir.file("in.svs", &data);
    workdir.npy("in.npy", "|u1", &[12], &data);
    let described = ["--shape", "12", "--dtype", "u8", "--op", "affine"];
    let both = [&["in.svs", "-o", "out.nc"], &described[..]].concat();
    workdir.map(&both).refused(2, &["out.nc", "NetCDF", "--raw"]);
    let input = [&["in.svs", "-o", "out.npy"], &described[..]].concat();
    workdir.map(&input).refused(1, &["in.svs", "TIFF", "tifffile.imread('in.svs')"]);
    workdir.map(&[&both[..], &["--raw"]].concat()).done();
    assert_eq!(workdir.read("out.nc"), data);
    let output = ["in.npy", "-o", "out.svs", "--op", "affine"];
    workdir.map(&output).refused(2, &["out.svs", "TIFF", "--raw"]);
    workdir.map(&[&output[..], &["--raw"]].concat()).done();
    assert_eq!(workdir.read("out.svs"), data);
    assert_eq!(workdir.names(), ["in.npy", "in.svs", "out.nc", "out.svs"]);
}

#[test]
fn a_folder_of_images_gives_a_folder_of_images() {
    let workdir = Workdir::new();
    let narrow = noise(5 * 12 * 10, 6);
    let wide = numbers_of(&noise(3 * 6 * 7 * 2, 7));
    workdir.images("narrow", [10, 12], &Images::U8(&narrow));
    workdir.images("wide", [7, 6], &Images::U16(&wide));
    workdir.map(&["narrow", "-o", "narrow-clean", "--op", "median", "--radius", "3"]).done();
    workdir.map(&["wide/", "-o", "wide-clean/", "--op", "median", "--chunk", "1"]).done();
    let expected: Vec<u16> = median(&narrow, [5, 12, 10], 3).into_iter().map(u16::from).collect();
    assert_eq!(pixels_of(&workdir.path("narrow-clean")), expected);
    assert_eq!(pixels_of(&workdir.path("wide-clean")), median(&wide, [3, 6, 7], 1));
    assert_eq!(workdir.names(), ["narrow", "narrow-clean", "wide", "wide-clean"]);
    assert!(workdir.exists("narrow-clean/4.png"), "images keep their names");
}

/// The stack has more than ten images. The order of their numbers differs from the order of their
/// texts.
#[test]
fn the_images_of_a_folder_are_in_the_order_of_their_numbers() {
    let workdir = Workdir::new();
    let stack = noise(12 * 4 * 5, 13);
    workdir.images("in", [5, 4], &Images::U8(&stack));
    workdir.map(&["in", "-o", "out.raw", "--op", "affine"]).done();
    assert_eq!(workdir.read("out.raw"), stack);
    workdir.map(&["in", "-o", "out", "--op", "affine"]).done();
    for n in 0..12 {
        let image = decode(&workdir.path("out").join(format!("{n}.png")));
        let expected: Vec<u16> = stack[n * 20..][..20].iter().copied().map(u16::from).collect();
        assert_eq!(image, expected, "{n}.png");
    }
}

#[test]
fn input_and_output_may_have_different_formats() {
    let workdir = Workdir::new();
    let data = noise(2 * 5 * 6 * 2, 8);
    let expected = median(&numbers_of(&data), [2, 5, 6], 1);
    workdir.npy("in.npy", "<u2", &[2, 5, 6], &data);
    workdir.map(&["in.npy", "-o", "out.raw", "--op", "median"]).done();
    assert_eq!(workdir.read("out.raw"), bytes_of(&expected));
    workdir.map(&["in.npy", "-o", "images", "--op", "median"]).done();
    assert_eq!(pixels_of(&workdir.path("images")), expected);
    workdir.map(&["images", "-o", "back.npy", "--op", "affine"]).done();
    assert_eq!(data_of(&workdir.read("back.npy"), "<u2", "(2, 5, 6)"), bytes_of(&expected));
}

#[test]
fn the_result_does_not_depend_on_chunks_and_slots() {
    let workdir = Workdir::new();
    let stack = noise(3 * 17 * 29, 9);
    let expected = median(&stack, [3, 17, 29], 3);
    workdir.npy("in.npy", "|u1", &[3, 17, 29], &stack);
    for (n, (chunk, depth)) in
        [("1", "1"), ("29", "2"), ("100B", "3"), ("150", "8"), ("1KiB", "64"), ("1GiB", "1")]
            .into_iter()
            .enumerate()
    {
        let out = format!("out{n}.npy");
        let size = ["--radius", "3", "--chunk", chunk, "--depth", depth];
        workdir.map(&[&["in.npy", "-o", &out, "--op", "median"], &size[..]].concat()).done();
        let got = data_of(&workdir.read(&out), "|u1", "(3, 17, 29)");
        assert_eq!(got, expected, "chunks of {chunk}, {depth} slots");
    }
}

#[test]
fn an_array_without_elements_gives_an_output_without_elements() {
    let workdir = Workdir::new();
    // Images without rows or columns once left a partial output that could not be continued.
    for (n, shape) in [[0, 4, 5], [4, 0, 5], [4, 5, 0], [0, 0, 0]].iter().enumerate() {
        let (input, output) = (format!("in{n}.npy"), format!("median{n}.npy"));
        workdir.npy(&input, "<u2", shape, &[]);
        workdir.map(&[&input, "-o", &output, "--op", "median"]).done();
        let [count, rows, columns] = shape;
        let shape = format!("({count}, {rows}, {columns})");
        assert_eq!(data_of(&workdir.read(&output), "<u2", &shape), [0; 0]);
        let images = format!("images{n}");
        let written = workdir.map(&[&input, "-o", &images, "--op", "median"]);
        if *rows == 0 || *columns == 0 {
            written.refused(1, &[&images, "cannot have"]);
        } else {
            written.done();
        }
    }
    workdir.npy("flat.npy", "|u1", &[0], &[]);
    workdir.map(&["flat.npy", "-o", "affine.npy", "--op", "affine", "--chunk", "1"]).done();
    assert_eq!(data_of(&workdir.read("affine.npy"), "|u1", "(0,)"), [0; 0]);
    assert!(!workdir.names().iter().any(|name| name.contains("partial")), "nothing is left");
}

#[test]
fn the_report_names_the_output_the_device_and_the_operation() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[8, 8], &noise(64, 10));
    let printed =
        workdir.map(&["in.npy", "-o", "out.npy", "--op", "median", "--radius", "2"]).done();
    for words in ["out.npy", "u8 [8, 8]", "median radius=2", "host device (CPU threads)"] {
        assert!(printed.contains(words), "`{printed}` does not contain `{words}`");
    }
}

#[test]
fn a_run_is_traced_in_every_format() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "<u2", &[4, 16, 8], &noise(1024, 14));
    let run = |name: &str, more: &[&str]| {
        let (out, trace) = (format!("{name}.npy"), name.to_owned());
        let job = ["in.npy", "-o", &out, "--op", "median", "--chunk", "256", "--trace", &trace];
        workdir.map(&[&job[..], more].concat()).done()
    };
    assert!(run("run.ledger", &[]).contains("timeline: run.ledger"));
    let ledger = workdir.read("run.ledger");
    let ops: Vec<_> = Reader::new(&ledger[..]).unwrap().map(Result::unwrap).collect();
    // A host device on CPU threads has the memory of the host, so nothing is copied.
    for (engine, wanted) in [(Engine::Upload, 0), (Engine::Compute, 4), (Engine::Download, 0)] {
        let of = ops.iter().filter(|op| op.engine == engine);
        let chunks: HashSet<_> = of.filter_map(|op| op.chunk).collect();
        assert_eq!(chunks.len(), wanted, "{engine:?}");
    }
    workdir.trijet(&["check", "run.ledger"]).done();
    run("run.html", &[]);
    run("checked.html", &["--check"]);
    let page = |name: &str| String::from_utf8(workdir.read(name)).unwrap();
    assert!(page("run.html").contains("median radius=1"));
    assert!(page("run.html").contains("This run was not checked for hazards."));
    assert!(!page("checked.html").contains("This run was not checked for hazards."));
    let trace: serde_json::Value = {
        run("run.json", &["--json"]);
        serde_json::from_slice(&workdir.read("run.json")).unwrap()
    };
    assert!(!trace["traceEvents"].as_array().unwrap().is_empty());
    run("run.pftrace", &[]);
    assert!(workdir.read("run.pftrace").len() > 100);
}

#[test]
fn a_timeline_that_cannot_be_written_is_refused_before_the_run() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[8, 8], &noise(64, 15));
    workdir.npy("empty.npy", "|u1", &[0, 8], &[]);
    workdir.file("taken.html", b"mine");
    for (input, out, trace, words) in [
        ("in.npy", "out.npy", "taken.html", "already exists"),
        ("in.npy", "out.npy", "nowhere/out.html", "folder does not exist"),
        ("empty.npy", "out.npy", "out.html", "nothing to trace"),
    ] {
        let run = [input, "-o", out, "--op", "median", "--trace", trace];
        workdir.map(&run).refused(1, &[trace, words]);
    }
    let both = ["in.npy", "-o", "out.ledger", "--raw", "--op", "median", "--trace", "./out.ledger"];
    workdir.map(&both).refused(1, &["./out.ledger", "is the output"]);
    assert_eq!(workdir.names(), ["empty.npy", "in.npy", "taken.html"]);
}

#[test]
fn the_report_as_json_counts_rows_and_bytes() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "<u2", &[2, 8, 8], &noise(256, 11));
    let args = ["in.npy", "-o", "out.npy", "--op", "affine", "--chunk", "32", "--depth", "2"];
    let report = workdir.map(&[&args[..], &["--json"]].concat()).json();
    for (field, number) in
        [("chunks", 8), ("chunk_rows", 2), ("slots", 2), ("rows", 16), ("bytes_in", 256)]
    {
        assert_eq!(report[field].as_u64(), Some(number), "{field} of {report:#}");
    }
    assert_eq!(report["bytes_out"].as_u64(), Some(256));
    for (field, words) in
        [("input", "in.npy"), ("output", "out.npy"), ("operation", "affine scale=1 offset=0")]
    {
        assert_eq!(report[field], words, "{report:#}");
    }
    assert!(report["device"].as_str().unwrap().contains("host device"));
    assert!(report["elapsed_ns"].as_u64().unwrap() > 0);
    let engines: Vec<_> =
        report["engines"].as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap()).collect();
    for engine in ["upload", "compute", "download"] {
        assert!(engines.contains(&engine), "{engine} is not among {engines:?}");
    }
    for field in ["clock", "schedule", "limits", "efficiency", "limit", "summary", "waits"] {
        assert!(report.get(field).is_some(), "{field} is missing");
    }
}

/// A user of the command can change its options, and neither the library nor the tuner.
#[test]
fn the_report_advises_nothing_but_options_of_the_command() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "<u2", &[2, 64, 64], &noise(16_384, 11));
    for (number, chunk) in [&["--chunk", "1024"][..], &[]].into_iter().enumerate() {
        let out = format!("out{number}.npy");
        let args = ["in.npy", "-o", &out, "--op", "affine", "--json"];
        let report = workdir.map(&[&args[..], chunk].concat()).json();
        let summary = &report["summary"];
        for loss in summary["losses"].as_array().unwrap() {
            assert!(loss["fix"].is_null() && loss["cause"] != "unknown", "{loss}");
        }
        for advice in report["advice"].as_array().unwrap() {
            let text = advice["text"].as_str().unwrap();
            assert!(text.contains(" --") || text.contains("faster disk"), "{advice}");
            assert!(!text.contains("--chunk") || !chunk.is_empty(), "the command chose: {advice}");
        }
        assert!(!summary["losses"].as_array().unwrap().is_empty(), "fill and drain at least");
        for warning in summary["warnings"].as_array().unwrap() {
            assert!(warning["fix"].is_null(), "{warning}");
            assert!(!warning["text"].as_str().unwrap().contains(".rs:"), "{warning}");
        }
        assert_eq!(summary["contradictions"], 0, "the clocks of one machine");
    }
}

#[test]
fn a_plan_says_what_a_job_needs_and_creates_nothing() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[4, 64, 64], &noise(4 * 64 * 64, 31));
    let call =
        ["in.npy", "-o", "out.npy", "--op", "median:2", "--chunk=1KiB", "--depth=2", "--plan"];
    let words = workdir.map(&call).done();
    assert!(words.contains("chunks: 16 of 1 KiB, 2 in flight"), "{words}");
    assert!(words.contains("for the copies of a modelled H200"), "{words}");
    let plan = workdir.map(&[&call[..], &["--json"]].concat()).json();
    // 16 rows and two more on both sides, except at the ends of each of the four images.
    assert_eq!(plan["bytes_in"].as_u64(), Some(64 * (16 * 20 - 4 * 4)));
    assert_eq!(plan["bytes_out"].as_u64(), Some(64 * 256));
    // Three buffers for the source and three for the sink.
    assert_eq!(plan["pinned_bytes"].as_u64(), Some(3 * 64 * 20 + 3 * 64 * 16));
    assert_eq!(plan["device_bytes"].as_u64(), Some(2 * 64 * (20 + 16)));
    let less = workdir.map(&[&call[..], &["--shard=0/2", "--json"]].concat()).json();
    assert_eq!((less["rows"].as_u64(), less["chunks"].as_u64()), (Some(128), Some(8)));
    assert_eq!(workdir.names(), ["in.npy"]);
}

#[test]
fn too_little_memory_is_refused_before_anything_is_created() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[64, 64], &noise(64 * 64, 32));
    let call = ["in.npy", "-o", "out.npy", "--op", "affine", "--memory=1MiB"];
    workdir.map(&call).refused(1, &["--memory 1 MiB leaves no memory for chunks"]);
    assert_eq!(workdir.names(), ["in.npy"]);
}

/// The plan of a run that is refused once looked like the plan of any other run.
#[test]
fn a_plan_says_that_the_run_will_be_refused_because_its_output_exists() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[64, 64], &noise(64 * 64, 32));
    workdir.npy("out.npy", "|u1", &[64, 64], &noise(64 * 64, 33));
    let plan = |more: &[&str]| {
        let call = ["in.npy", "-o", "out.npy", "--op", "affine", "--plan"];
        workdir.map(&[&call[..], more].concat())
    };
    let words = "the run will be refused: create: out.npy: already exists; use --overwrite";
    let text = plan(&[]).done();
    assert!(text.contains(words), "{text}");
    let refused = &plan(&["--json"]).json()["refused"];
    assert!(refused.as_str().is_some_and(|cause| cause.contains("already exists")), "{refused}");
    assert!(!plan(&["--overwrite"]).done().contains("refused"));
    assert!(plan(&["--overwrite", "--json"]).json()["refused"].is_null());
}

/// The peak of the physical memory of a run until it renames its whole output, in KiB.
fn peak_kb(workdir: &Workdir, out: &str, args: &[&str]) -> u64 {
    let command = workdir.command(&[&["map", "--device=host"], args].concat());
    let run = Held::start(command, &workdir.path(&format!("{out}.partial")));
    let status = format!("/proc/{}/status", run.process());
    let mut peak = 0;
    while run.goes_on() {
        let text = std::fs::read_to_string(&status).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak = line.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    }
    assert_eq!(run.end().code, Some(0));
    peak
}

/// Mapped parts of the output count, too.
#[test]
fn a_run_keeps_within_its_memory() {
    let workdir = Workdir::new();
    std::fs::File::create(workdir.path("in.raw")).unwrap().set_len(384 << 20).unwrap();
    let shape = ["--shape=384x1024x1024", "--dtype=u8"];
    for out in ["out.raw", "out.npy"] {
        let args = ["in.raw", "-o", out, "--op=affine:1,3", "--memory=100MiB", "--no-sync"];
        let peak = peak_kb(&workdir, out, &[&args[..], &shape].concat());
        assert!((1 << 10..=100 << 10).contains(&peak), "{out}: {peak} KiB");
        std::fs::remove_file(workdir.path(out)).unwrap();
    }
}

/// The advice was once given for a choice that the run had made already, with the time of the last
/// renaming.
#[test]
fn a_run_without_synchronisation_is_not_told_to_leave_it_out() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[64, 64], &noise(4096, 1));
    let sync = |report: &serde_json::Value| {
        let engines = report["engines"].as_array().expect("engines").iter();
        let named: Vec<_> = engines.filter(|engine| engine["name"] == "sync").collect();
        named.iter().map(|engine| engine["busy_ns"].as_u64().expect("a time")).sum::<u64>()
    };
    let call = |out, more: &[&str]| {
        workdir.map(&[&["in.npy", "-o", out, "--op", "affine", "--json"], more].concat()).json()
    };
    assert!(sync(&call("a.npy", &[])) > 0, "the disk takes time");
    let without = call("b.npy", &["--no-sync"]);
    assert_eq!(sync(&without), 0, "{without:#}");
    let advice = without["advice"].as_array().expect("a list");
    assert!(advice.iter().all(|one| one["change"] != "no_sync"), "{without:#}");
}
