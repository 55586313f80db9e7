//! Wrong usage is refused before anything is written.

use crate::workdir::{Workdir, noise};
use std::fs;

/// A folder with one small image.
fn workdir() -> Workdir {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[8, 8], &noise(64, 1));
    workdir
}

/// Runs `map in.npy -o out.npy` with these arguments, which must fail and leave no file behind.
#[track_caller]
fn refused(workdir: &Workdir, code: i32, args: &[&str], words: &[&str]) {
    let before = workdir.names();
    workdir.map(&[&["in.npy", "-o", "out.npy"], args].concat()).refused(code, words);
    assert_eq!(workdir.names(), before, "{args:?} left a file");
}

#[test]
fn an_operation_is_needed() {
    let workdir = workdir();
    refused(&workdir, 2, &[], &["--op <OP>", "--kernel <FILE>", "Usage: trijet map"]);
    refused(&workdir, 2, &["--op", "mean"], &["mean", "median", "affine"]);
    refused(&workdir, 2, &["--kernel", "k.cu"], &["--entry"]);
    workdir.trijet(&["map", "in.npy", "--op", "median"]).refused(2, &["--output"]);
    workdir.trijet(&[]).refused(2, &["Usage"]);
}

/// The message about a missing operation once did not explain what the options had to do with it.
#[test]
fn an_option_of_a_missing_operation_names_the_operation() {
    for (option, operation) in [
        ("--radius=3", "--radius belongs to --op median"),
        ("--scale=2", "--scale belongs to --op affine"),
        ("--halo=2", "--halo belongs to --kernel FILE"),
    ] {
        refused(&workdir(), 2, &[option], &["--op <OP>", operation]);
    }
}

/// Status 2 is for errors that the command line alone shows, and status 1 for errors that a file or
/// the machine shows. Some wrong names once had status 1.
#[test]
fn what_the_command_line_alone_shows_is_wrong_usage() {
    let workdir = workdir();
    workdir.file("in.raw", &[0; 64]);
    workdir.file("a.csv", b"Action,Pointer,Size,Stream\nallocate,1,4096,0\nfree,1,,0\n");
    workdir.file("a.trijet", b"");
    let before = workdir.names();
    let map = ["map", "in.raw", "-o", "out.npy", "--op", "affine"];
    for (args, words) in [
        (&map[..], "in.raw: a file of plain bytes needs --shape and --dtype"),
        (&["sample", "x.tif"], "x.tif: a sample is an .npy file"),
        (&["sample", "npy"], "npy: a sample is an .npy file"),
        (&["explain", "foo"], "no report has the word `foo`"),
        (&["replay", "a.csv", "-o", "a.txt"], "a.txt: the output is a page for a browser"),
        (&["what-if", "a.trijet", "-o", "a.txt"], "a.txt: the output is a page for a browser"),
        (&["overlap", "in.raw"], "in.raw: a file of plain bytes does not state its shape"),
        (&["trace", "--read", "a.trijet", "-o", "b.txt"], "b.txt: a saved trace can be written as"),
        (&["trace", "-o", "b.trijet", "--from=1s", "--", "true"], "b.trijet: --from and --to"),
    ] {
        workdir.trijet(args).refused(2, &[words]);
    }
    for args in [
        &["map", "no.npy", "-o", "out.npy", "--op", "affine"][..],
        &["map", "in.npy", "-o", "out.npy", "--op", "affine", "--slice=30:40"],
        &["replay", "no.csv"],
        &["check", "in.npy"],
        &["overlap", "in.npy.gz"],
    ] {
        workdir.trijet(args).refused(1, &[args[1]]);
    }
    assert_eq!(workdir.names(), before);
}

/// The messages about a missing file had three forms.
#[test]
fn a_missing_file_is_named_with_the_operation_and_the_cause() {
    let workdir = workdir();
    for (args, operation) in [
        (&["map", "no.npy", "-o", "out.npy", "--op", "affine"][..], "open"),
        (&["overlap", "no.npy"], "open"),
        (&["replay", "no.npy"], "replay"),
        (&["check", "no.npy"], "check"),
        (&["trace", "--read", "no.npy"], "trace"),
    ] {
        let words = format!("error: {operation}: no.npy: no such file or folder\n");
        workdir.trijet(args).refused(1, &[&words]);
    }
}

/// `overlap` once named options that it does not have.
#[test]
fn an_error_names_only_options_of_its_command() {
    let workdir = workdir();
    for name in ["in.raw", "in.ledger", "in.tif", "in.bin", "in"] {
        workdir.file(name, &[0; 64]);
        let ran = workdir.trijet(&["overlap", name]);
        assert!(ran.code != Some(0) && ran.err.contains(name), "{}", ran.err);
        for option in ["--shape", "--raw", "--dtype", "--header"] {
            assert!(!ran.err.contains(option), "{}", ran.err);
        }
    }
}

/// The header of a TIFF is not the bytes before its pixels.
#[test]
fn the_size_of_another_format_is_no_reason_to_skip_bytes() {
    let workdir = workdir();
    workdir.file("in.tif", &[0; 100]);
    workdir.file("in.vol", &[0; 100]);
    let raw = ["--raw", "--shape=8x8", "--dtype=u8", "-o", "out.npy", "--op", "affine"];
    let tif = workdir.map(&[&["in.tif"], &raw[..]].concat());
    assert!(!tif.err.contains("--header"), "{}", tif.err);
    tif.refused(
        1,
        &[
            "needs 64 bytes, but the file has 100",
            "this line of Python converts it to an .npy file",
        ],
    );
    let vol = workdir.map(&[&["in.vol"], &raw[..]].concat());
    vol.refused(1, &["--header 36 skips it"]);
}

/// The consequence once came before the cause.
#[test]
fn the_cause_of_an_error_of_a_kernel_comes_first() {
    let workdir = workdir();
    workdir.file("gain.cu", b"extern \"C\" __global__ void gain(const unsigned char* x) {}\n");
    let call = ["in.npy", "-o", "out.npy", "--kernel", "gain.cu", "--entry", "gain"];
    let ran = workdir.map(&call);
    let at = |words| ran.err.find(words).unwrap_or_else(|| panic!("{words}: {}", ran.err));
    assert!(at("gain.cu") < at("trijet devices") && at("GPU") < at("Nothing was written"));
}

#[test]
fn a_folder_of_pages_with_the_name_of_a_file_is_refused_with_the_reason() {
    let workdir = workdir();
    for folder in ["in.npy", "in.npy/pages"] {
        let words = [folder, "a file is at this path", "give the path of a folder"];
        workdir.trijet(&["man", folder]).refused(1, &words);
    }
}

/// The least memory once differed between runs.
#[test]
fn a_limit_of_memory_that_is_too_little_is_refused_with_the_least_that_works() {
    let workdir = workdir();
    let op = ["--op", "affine"];
    let refused = |limit: &str| {
        let ran = workdir.map(&["in.npy", "-o", "out.npy", op[0], op[1], "--memory", limit]);
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        ran.err.split("--memory ").nth(2).expect("the least limit").to_owned()
    };
    let least = refused("12MiB");
    assert_eq!(least, refused("13MiB"));
    let least = least.lines().next().expect("a size");
    workdir.map(&["in.npy", "-o", "out.npy", op[0], op[1], "--memory", least]).done();
}

/// A name that shows no format is wrong usage, as any other wrong option.
#[test]
fn a_name_with_a_wrong_extension_is_wrong_usage() {
    let workdir = workdir();
    let op = ["--op", "affine"];
    for trace in ["x.xyz", "x", "x.ledger.gz"] {
        let call = [op[0], op[1], "--trace", trace];
        refused(&workdir, 2, &call, &[trace, ".html, .pftrace, .json or .ledger"]);
    }
    for out in ["a.svs", "a.mha", "scan_v1.0", "a.npy.partial", "one.png"] {
        let ran = workdir.map(&["in.npy", "-o", out, "--op", "affine"]);
        ran.refused(2, &[out, "slash", "Usage: trijet map"]);
    }
    refused(&workdir, 2, &[op[0], op[1], "--memory", "1"], &["--memory", "16GiB"]);
    assert_eq!(workdir.names(), ["in.npy"]);
}

#[test]
fn a_slice_or_a_header_that_is_none_is_refused() {
    let workdir = workdir();
    let op = ["--op", "affine"];
    for (slice, code, words) in [
        ("3", 2, "is not a slice"),
        ("a:b", 2, "is not a slice"),
        ("1:2:3", 2, "is not a slice"),
        ("+1:2", 2, "is not a slice"),
        ("2:2", 2, "is empty"),
        ("4:2", 2, "is empty"),
        ("0:9", 1, "is not a part of u8 [8, 8]"),
        ("8:", 1, "is not a part of u8 [8, 8]"),
    ] {
        let slice = format!("--slice={slice}");
        refused(&workdir, code, &[op[0], op[1], &slice], &[words]);
    }
    refused(&workdir, 2, &[op[0], op[1], "--header", "16"], &["--shape"]);
    let described = ["--shape=8x8", "--dtype=u8", "--header=128"];
    refused(&workdir, 1, &[&op[..], &described].concat(), &["in.npy", "remove --shape"]);
}

#[test]
fn the_radius_of_the_median_is_1_to_7() {
    for radius in ["0", "8", "4294967295"] {
        let words = [&format!("radius {radius}"), "1 to 7"];
        refused(&workdir(), 2, &["--op", "median", "--radius", radius], &words);
        workdir().trijet(&["overlap", "--radius", radius]).refused(2, &words);
    }
    refused(&workdir(), 2, &["--op", "median", "--radius", "x"], &["--radius"]);
}

#[test]
fn an_operation_refuses_complex_numbers() {
    let workdir = Workdir::new();
    workdir.file("in.raw", &[0; 64]);
    for op in ["affine:2", "median:1", "gaussian:1", "threshold:1", "project:max"] {
        let call = ["in.raw", "-o", "out.raw", "--shape=2x4", "--dtype", "c64", "--op", op];
        workdir.map(&call).refused(1, &["in.raw", "c64"]);
    }
    assert_eq!(workdir.names(), ["in.raw"]);
}

#[test]
fn a_chunk_size_that_is_not_a_positive_number_is_refused() {
    let op = ["--op", "median"];
    let wrong = [
        "0",
        "0MiB",
        "-1",
        "1XB",
        "1MBi",
        "many",
        "",
        "99999999999GiB",
        "0.4B",
        "1.5.5MiB",
        ".5MiB",
        "+1",
    ];
    for chunk in wrong {
        let chunk = format!("--chunk={chunk}");
        refused(&workdir(), 2, &[op[0], op[1], &chunk], &["--chunk"]);
    }
}

/// Sizes such as `1.50 MiB` were once printed and refused.
#[test]
fn a_size_that_is_printed_can_be_typed() {
    let workdir = workdir();
    for bytes in [1, 1023, 1024, 1536, 1 << 20, 3 << 19, 123_456_789, 5 << 40, u64::MAX / 3] {
        let printed = trijet::Bytes(bytes).to_string();
        let chunk = format!("--chunk={printed}");
        let unknown = ["--op", "affine", "--device", "no", &chunk];
        workdir
            .trijet(&[&["map", "in.npy", "-o", "out.npy"], &unknown[..]].concat())
            .refused(2, &["unknown device `no`"]);
    }
    let sizes = ["1.5KiB", "2TiB", "0.001MiB", "5MB", "5m", "5mb", "64k", "1 kib", "7b"];
    for (n, chunk) in sizes.into_iter().enumerate() {
        let out = format!("out{n}.npy");
        workdir.map(&["in.npy", "-o", &out, "--op", "affine", "--chunk", chunk]).done();
    }
}

#[test]
fn a_factor_that_is_not_a_finite_number_is_refused() {
    for number in ["nan", "inf", "-inf", "1e99", "two"] {
        for option in ["--scale", "--offset"] {
            let option = format!("{option}={number}");
            refused(&workdir(), 2, &["--op", "affine", &option], &[&option[..7], number]);
        }
    }
}

#[test]
fn a_kernel_file_has_a_known_extension() {
    let workdir = workdir();
    workdir.file("gain.txt", b"__global__ void gain() {}");
    workdir.file("binary.cu", &[0xff, 0xfe, 0x00]);
    let kernel = |name, words: &[&str]| {
        refused(&workdir, 1, &["--kernel", name, "--entry", "gain"], words);
    };
    kernel("missing.cu", &["missing.cu", "No such file"]);
    let other = ["--kernel", "gain.txt", "--entry", "gain"];
    refused(&workdir, 2, &other, &["gain.txt", ".cu, .ptx or .cubin", "Usage: trijet map"]);
    kernel("binary.cu", &["binary.cu", "not UTF-8 text"]);
    for arg in ["factor", "=", "factor=", "factor=two", "n=1.5u32", "n=300u8", "n=5000000000"] {
        let call = ["--kernel", "gain.cu", "--entry", "gain", "--arg", arg];
        refused(&workdir, 2, &call, &["--arg", "is not an argument"]);
    }
}

#[test]
fn a_kernel_of_the_user_does_not_run_on_the_host() {
    let workdir = workdir();
    workdir.file("gain.cu", b"extern \"C\" __global__ void gain(const unsigned char* x) {}\n");
    let call = ["--kernel", "gain.cu", "--entry", "gain"];
    refused(&workdir, 1, &call, &["gain.cu", "a GPU is needed"]);
}

#[test]
fn shape_and_dtype_are_given_together_and_for_raw_files_only() {
    let workdir = workdir();
    let op = ["--op", "affine"];
    refused(&workdir, 1, &[&op[..], &["--shape", "8x8", "--dtype", "u8"]].concat(), &["in.npy"]);
    refused(&workdir, 2, &[&op[..], &["--shape", "8x8"]].concat(), &["--dtype"]);
    refused(&workdir, 2, &[&op[..], &["--dtype", "u8"]].concat(), &["--shape"]);
    for shape in ["8x", "x", "8x-8", "eight", ""] {
        let shape = format!("--shape={shape}");
        refused(
            &workdir,
            2,
            &[op[0], op[1], &shape, "--dtype", "u8"],
            &["--shape", "is not a shape"],
        );
    }
    let odd = [&op[..], &["--shape", "8x8", "--dtype", "i24"]].concat();
    refused(&workdir, 2, &odd, &["--dtype", "u8", "u16", "f32", "c128"]);
}

#[test]
fn requested_help_is_not_an_error() {
    let workdir = Workdir::new();
    for command in ["devices", "map", "overlap", "doctor", "trace", "check", "bench"] {
        let help = workdir.trijet(&[command, "--help"]).done();
        assert!(help.contains("Usage: trijet"), "{help}");
        // The options of `devices` need no examples.
        let has_examples = command != "devices";
        assert_eq!(help.contains("\nExamples:\n"), has_examples, "{help}");
    }
    for args in [&["help"][..], &["help", "--help"], &["help", "-h"]] {
        let help = workdir.trijet(args).done();
        assert!(help.contains("Usage: trijet <COMMAND>"), "{help}");
    }
    let map = workdir.trijet(&["help", "map", "--help"]).done();
    assert!(map.contains("Usage: trijet map"), "{map}");
    assert!(workdir.trijet(&["--version"]).done().starts_with("trijet "));
    assert_eq!(fs::read_dir(workdir.path(".")).unwrap().count(), 0);
}

/// Such options were once ignored silently.
#[test]
fn an_option_of_another_operation_is_refused() {
    let workdir = workdir();
    for option in [&["--entry", "k"][..], &["--arg", "x=1"], &["--halo", "1"]] {
        let words = [option[0], "requires --kernel", "Usage: trijet map"];
        refused(&workdir, 2, &[&["--op", "median"], option].concat(), &words);
    }
    let words = ["--radius", "--op median", "Usage: trijet map"];
    refused(&workdir, 2, &["--op", "affine", "--radius", "1"], &words);
    refused(&workdir, 2, &["--op", "median", "--scale", "1"], &["--scale", "--op affine"]);
    refused(&workdir, 2, &["--op", "median", "--offset=-1"], &["--offset", "--op affine"]);
    let kernel = ["--kernel", "k.cu", "--entry", "k"];
    refused(&workdir, 2, &[&kernel[..], &["--scale", "2"]].concat(), &["--scale", "--op affine"]);
    refused(&workdir, 2, &[&kernel[..], &["--radius", "2"]].concat(), &["--radius", "--op median"]);
}

#[test]
fn values_of_an_operation_that_are_wrong_are_refused_with_the_right_form() {
    let forms = [
        ("median:", "median:RADIUS"),
        ("median:0", "`radius` is `0`, which is not at least 1; write median:RADIUS,EDGES,Z"),
        ("median:8", "write median:RADIUS,EDGES,Z"),
        (
            "median:2,2",
            "`edges` is `2`, which is not one of nearest, reflect, mirror, constant and wrap; write median",
        ),
        ("median:2,", "`edges` is ``"),
        ("median:2,wrap,x", "`z` is `x`, which is not a whole number"),
        ("affine:", "affine:SCALE,OFFSET"),
        ("affine:,2", "affine:SCALE,OFFSET"),
        ("affine:1,", "affine:SCALE,OFFSET"),
        ("affine:1,2,3", "affine:SCALE,OFFSET"),
        ("affine:nan", "`scale` is `nan`, which is not a finite number; write affine"),
        ("affine:1,inf", "`offset` is `inf`, which is not a finite number"),
        ("Median", "there is no operation `Median`; use one of median, percentile"),
        ("", "there is no operation ``; use one of median, percentile"),
        ("median=3", "there is no operation `median=3`; use one of median"),
    ];
    let workdir = workdir();
    for (op, words) in forms {
        refused(&workdir, 2, &[&format!("--op={op}")], &["--op", words]);
        refused(&workdir, 2, &["--op=affine", &format!("--op={op}")], &["--op", words]);
    }
}

#[test]
fn options_that_contradict_a_chain_are_refused() {
    let workdir = workdir();
    let usage = "Usage: trijet map";
    let contradictions: [(&[&str], &str); 17] = [
        (&["--op=median", "--op=median", "--radius=2"], "--radius is for a single operation"),
        (&["--op=median", "--op=affine", "--radius=2"], "write --op median:RADIUS"),
        (&["--op=median", "--op=affine", "--scale=2"], "write --op affine:SCALE,OFFSET"),
        (&["--op=affine:2", "--op=affine", "--offset=2"], "--offset is for a single operation"),
        (&["--op=median", "--kernel=k.cu", "--entry=k", "--radius=2"], "--radius is for a single"),
        (&["--op=affine", "--kernel=k.cu", "--entry=k", "--radius=2"], "requires --op median"),
        (
            &["--op=median:2", "--radius=2"],
            "--radius is given in addition to --op median with values",
        ),
        (&["--op=median", "--op=affine", "--edges=wrap"], "write --op median:RADIUS,EDGES"),
        (
            &["--op=median:2,wrap", "--edges=wrap"],
            "--edges is given in addition to --op median with values",
        ),
        (&["--op=affine", "--edges=wrap"], "--edges requires --op median"),
        (
            &["--op=affine:2", "--offset=2"],
            "--offset is given in addition to --op affine with values",
        ),
        (&["--kernel=k.cu", "--entry=k", "--kernel=l.cu"], "--kernel l.cu requires --entry"),
        (&["--kernel=k.cu", "--entry=k", "--entry=l"], "--entry is given twice for --kernel k.cu"),
        (&["--kernel=k.cu", "--entry=k", "--halo=1", "--halo=1"], "--halo is given twice"),
        (&["--entry=k", "--kernel=k.cu", "--kernel=l.cu", "--entry=l"], "before the first"),
        (&["--arg=a=1", "--kernel=k.cu", "--entry=k", "--kernel=l.cu"], "--arg is before"),
        (&["--kernel=k.cu", "--op=median", "--kernel=l.cu", "--entry=l"], "--kernel k.cu requires"),
    ];
    for (args, words) in contradictions {
        refused(&workdir, 2, args, &[words, usage]);
    }
}

/// Such a depth was once refused only after a partial output and a journal had been created.
#[test]
fn a_depth_that_is_not_a_positive_number_is_refused() {
    for depth in ["--depth=0", "--depth=-1", "--depth=many"] {
        refused(&workdir(), 2, &["--op", "median", depth], &["--depth"]);
        workdir().trijet(&["overlap", "--device", "host", depth]).refused(2, &["--depth"]);
    }
}
